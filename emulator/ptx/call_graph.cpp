#include "emulator/ptx/call_graph.hpp"

#include <algorithm>
#include <string>

#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::size_t kMostFunctions = 4096;

// What is handed over has the sizes that the function declares. An argument that is no .param
// variable says nothing.
bool fits(const Function& caller, const Operand* list, const std::vector<Variable>& declared) {
  const std::size_t count = list == nullptr ? 0 : list->elements.size();
  if (count != declared.size()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Operand& one = list->elements[i];
    if (one.kind != Operand::Kind::variable || one.owner != Operand::Owner::function) continue;
    if (caller.variables[one.index].bytes != declared[i].bytes) return false;
  }
  return true;
}

}  // namespace

CallSite call_site(const Instruction& call) {
  CallSite out;
  for (const Operand& o : call.operands) {
    if (o.kind == Operand::Kind::list) {
      (out.callee == nullptr ? out.results : out.arguments) = &o;
    } else if (o.kind == Operand::Kind::function || o.kind == Operand::Kind::reg) {
      out.callee = &o;
    } else if (o.kind == Operand::Kind::label) {
      out.targets = &o;
    }
  }
  return out;
}

CallGraph::CallGraph(const Module& module, const Function& kernel) : module_(module) {
  for (const Function& function : module.functions) note_addresses(function);
  for (const Variable& variable : module.variables) {
    for (const Relocation& r : variable.relocations) {
      if (r.of_function) addressed_.insert(r.index);
    }
  }
  std::vector<std::uint32_t> todo;
  const auto calls_of = [&](const Function& function) {
    std::vector<std::uint32_t> out;
    for (const Instruction& i : function.instructions) {
      if (i.opcode != "call") continue;
      for (const std::uint32_t t : targets(function, i)) out.push_back(t);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    todo.insert(todo.end(), out.begin(), out.end());
    return out;
  };
  calls_of(kernel);
  while (!todo.empty()) {
    const std::uint32_t f = todo.back();
    todo.pop_back();
    if (calls_.contains(f)) continue;
    if (calls_.size() == kMostFunctions) {
      throw Error(module.file_of(kernel.unit), kernel.line,
                  "the kernel calls more than " + std::to_string(kMostFunctions) + " functions",
                  kernel.name);
    }
    calls_[f] = calls_of(module.functions[f]);
  }
  std::map<std::uint32_t, std::set<std::uint32_t>> reached;
  for (const auto& [f, list] : calls_) reached[f] = reached_from(f);
  std::uint32_t cycles = 0;
  for (const auto& [f, list] : calls_) {
    cycle_.try_emplace(f, 0);
    if (cycle_[f] != 0 || !reached[f].contains(f)) continue;
    ++cycles;
    for (const std::uint32_t g : reached[f]) {
      if (!reached[g].contains(f)) continue;
      cycle_[g] = cycles;
      cycle_size_[cycles] += module.functions[g].instructions.size();
    }
  }
}

std::vector<std::uint32_t> CallGraph::targets(const Function& caller,
                                              const Instruction& call) const {
  const CallSite site = call_site(call);
  std::vector<std::uint32_t> out;
  if (site.callee == nullptr) return out;
  if (site.callee->kind == Operand::Kind::function) {
    out.push_back(site.callee->index);
  } else if (site.targets != nullptr && !caller.labels[site.targets->index].callees.empty()) {
    out = caller.labels[site.targets->index].callees;
  } else {
    for (const std::uint32_t f : addressed_) {
      const Function& function = module_.functions[f];
      if (fits(caller, site.results, function.results) &&
          fits(caller, site.arguments, function.parameters)) {
        out.push_back(f);
      }
    }
  }
  std::erase_if(out, [&](std::uint32_t f) {
    return f >= module_.functions.size() || module_.functions[f].entry ||
           !module_.functions[f].has_body;
  });
  return out;
}

std::vector<std::uint32_t> CallGraph::functions() const {
  std::vector<std::uint32_t> out;
  for (const auto& [f, list] : calls_) out.push_back(f);
  return out;
}

// A function's name anywhere but as the callee of a call gives its address.
void CallGraph::note_addresses(const Function& function) {
  for (const Instruction& i : function.instructions) {
    if (i.opcode == "call") continue;
    for (const Operand& o : i.operands) {
      if (o.kind == Operand::Kind::function) addressed_.insert(o.index);
      for (const Operand& e : o.elements) {
        if (e.kind == Operand::Kind::function) addressed_.insert(e.index);
      }
    }
  }
}

std::set<std::uint32_t> CallGraph::reached_from(std::uint32_t function) const {
  std::set<std::uint32_t> out;
  std::vector<std::uint32_t> todo = {function};
  while (!todo.empty()) {
    const std::uint32_t f = todo.back();
    todo.pop_back();
    for (const std::uint32_t g : calls_.at(f)) {
      if (out.insert(g).second) todo.push_back(g);
    }
  }
  return out;
}

}  // namespace ringfence::ptx
