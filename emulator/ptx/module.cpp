#include "emulator/ptx/module.hpp"

#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {

std::string Instruction::spelling() const {
  std::string out(opcode);
  for (const std::string_view modifier : modifiers) {
    out += '.';
    out += modifier;
  }
  return out;
}

const Function& Module::kernel(std::string_view part) const {
  std::vector<const Function*> mangled, others;
  std::string names;
  for (const Function& function : functions) {
    if (!function.entry || !function.has_body) continue;
    if (function.name == part) return function;
    names += names.empty() ? "" : ", ";
    names += function.name;
    if (function.name.find(part) != std::string_view::npos) {
      mangled.push_back(&function);
    } else if (demangle(function.name).find(part) != std::string::npos) {
      others.push_back(&function);
    }
  }
  const auto& found = mangled.empty() ? others : mangled;
  if (found.size() == 1) return *found[0];
  if (found.empty()) {
    throw Error(file, 0, "the kernel name '" + std::string(part) + "' matches none of: " + names);
  }
  std::string matched;
  for (const Function* f : found) {
    matched += matched.empty() ? "" : ", ";
    matched += f->name;
  }
  throw Error(file, 0,
              "the kernel name '" + std::string(part) + "' matches " +
                  std::to_string(found.size()) + ": " + matched + "; expected a part of one alone");
}

std::uint64_t function_address(std::uint32_t index) {
  // Code is no data: no memory of an emulated rank lies there.
  return (0xC0DEULL << 32) + 16ULL * index;
}

const Variable& variable_of(const Module& module, const Function& function,
                            const Operand& operand) {
  switch (operand.owner) {
    case Operand::Owner::module:
      return module.variables[operand.index];
    case Operand::Owner::function:
      return function.variables[operand.index];
    case Operand::Owner::result:
      return function.results[operand.index];
    case Operand::Owner::parameter:
      break;
  }
  return function.parameters[operand.index];
}

const SourceLocation* shown_location(const Module& module, const Instruction& instruction) {
  if (!instruction.location || instruction.location->line == 0 ||
      instruction.location->file >= module.files.size()) {
    return nullptr;
  }
  const auto folder = [](const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
  };
  const std::string beside = folder(module.file_of(instruction.unit));
  const SourceLocation* outside = nullptr;  // of headers
  const SourceLocation* at = &*instruction.location;
  for (std::size_t depth = 0; depth <= module.calls.size(); ++depth) {
    if (at->file < module.files.size()) {
      const std::string& file = module.files[at->file];
      if (!beside.empty() && folder(file) == beside) return at;
      const bool header = file.find("/include/") != std::string::npos ||
                          file.find("/site-packages/") != std::string::npos ||
                          file.find("/dist-packages/") != std::string::npos;
      if (!header && outside == nullptr) outside = at;
    }
    if (at->outer == 0 || at->outer > module.calls.size()) break;
    at = &module.calls[at->outer - 1];
  }
  return outside != nullptr ? outside : &*instruction.location;
}

}  // namespace ringfence::ptx
