#include "emulator/ptx/listing.hpp"

#include <algorithm>

#include "emulator/ptx/calls.hpp"
#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {
namespace {

std::string dimensions(const std::array<std::uint32_t, 3>& d) {
  return std::to_string(d[0]) + ", " + std::to_string(d[1]) + ", " + std::to_string(d[2]);
}

std::string limits_of(const Function& function) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "  ") + text; };
  if (function.max_threads) add(".maxntid " + dimensions(*function.max_threads));
  if (function.required_threads) add(".reqntid " + dimensions(*function.required_threads));
  if (function.cluster) add(".reqnctapercluster " + dimensions(*function.cluster));
  if (function.min_blocks) add(".minnctapersm " + std::to_string(*function.min_blocks));
  if (function.max_registers) add(".maxnreg " + std::to_string(*function.max_registers));
  return out;
}

std::string type_text(const Variable& variable) {
  std::string out(name_of(variable.type));
  const std::uint64_t count = variable.bytes / std::max(1U, size_of(variable.type));
  if (count != 1) out += "[" + std::to_string(count) + "]";
  return out;
}

KernelListing list_kernel(const Module& module, const Function& kernel) {
  Function whole;
  try {
    if (has_calls(kernel, module)) whole = with_functions(module, kernel);
  } catch (const Error&) {
    // unsupported_forms() says so.
  }
  const Function& function = whole.has_body ? whole : kernel;
  KernelListing out;
  out.name = function.name;
  out.demangled = demangle(function.name);
  out.line = function.line;
  for (const Variable& parameter : function.parameters) {
    out.parameters.push_back({type_text(parameter), parameter.bytes, parameter.alignment});
  }
  for (const Register& reg : function.registers) ++out.registers[std::string(name_of(reg.type))];
  const auto shared = [&](const Variable& variable) {
    if (variable.space != Space::shared) return;
    out.dynamic_shared = out.dynamic_shared || variable.unsized;
    out.static_shared =
        (out.static_shared + variable.alignment - 1) / variable.alignment * variable.alignment +
        variable.bytes;
  };
  for (const Variable& variable : module.variables) shared(variable);
  for (const Variable& variable : function.variables) {
    shared(variable);
    if (variable.space == Space::local) out.local += variable.bytes;
  }
  out.limits = limits_of(function);
  out.instructions = static_cast<std::uint32_t>(function.instructions.size());
  for (const Instruction& instruction : function.instructions) {
    ++out.histogram[instruction.spelling()];
  }
  out.unsupported = unsupported_forms(module, kernel);
  return out;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

}  // namespace

bool Listing::supported() const {
  return std::all_of(kernels.begin(), kernels.end(),
                     [](const KernelListing& kernel) { return kernel.unsupported.empty(); });
}

Listing list(const Module& module) {
  Listing out;
  out.file = module.file;
  out.version = module.version;
  out.target = module.target;
  for (const Function& function : module.functions) {
    if (function.entry && function.has_body) out.kernels.push_back(list_kernel(module, function));
  }
  return out;
}

std::string to_text(const Listing& listing) {
  std::string out = listing.file + ": PTX " + listing.version + " for " + listing.target + ", " +
                    std::to_string(listing.kernels.size()) +
                    (listing.kernels.size() == 1 ? " kernel\n" : " kernels\n");
  for (const KernelListing& kernel : listing.kernels) {
    out += "\nkernel " + kernel.name + "  (line " + std::to_string(kernel.line) + ")\n";
    if (kernel.demangled != kernel.name) out += "  " + kernel.demangled + "\n";
    out += "  parameters:";
    if (kernel.parameters.empty()) out += " none";
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      out += (i == 0 ? " " : ", ") + kernel.parameters[i].type;
    }
    out += "\n  registers:";
    for (const auto& [type, count] : kernel.registers) {
      out += " " + std::to_string(count) + " " + type;
    }
    out += "\n  shared: " + std::to_string(kernel.static_shared) + " bytes" +
           (kernel.dynamic_shared ? " and what the launch adds" : "") +
           "  local: " + std::to_string(kernel.local) + " bytes a thread\n";
    if (!kernel.limits.empty()) out += "  limits: " + kernel.limits + "\n";
    out += "  instructions: " + std::to_string(kernel.instructions) + ", " +
           std::to_string(kernel.histogram.size()) + " forms\n";
    std::size_t width = 0;
    for (const auto& [form, count] : kernel.histogram) width = std::max(width, form.size());
    for (const auto& [form, count] : kernel.histogram) {
      out += "    " + padded(form, width + 2) + std::to_string(count) + "\n";
    }
    if (kernel.unsupported.empty()) {
      out += "  unsupported: none\n";
      continue;
    }
    out += "  unsupported: " + std::to_string(kernel.unsupported.size()) + "\n";
    for (const Unsupported& form : kernel.unsupported) {
      out += "    " + form.file + ":" + std::to_string(form.line) + ": " + form.reason + ": '" +
             form.statement + "'\n";
    }
  }
  return out;
}

}  // namespace ringfence::ptx
