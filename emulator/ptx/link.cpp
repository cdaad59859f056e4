#include "emulator/ptx/link.hpp"

#include <map>
#include <string>
#include <utility>

#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {
namespace {

bool is_defined(const Function& f) { return f.has_body; }
bool is_defined(const Variable& v) { return !v.external; }

class Linker {
 public:
  explicit Linker(std::vector<Module> modules) : modules_(std::move(modules)) {}

  Module run() {
    out_ = std::move(modules_.front());
    out_.units = {out_.file};
    for (std::uint32_t i = 0; i < out_.functions.size(); ++i) {
      if (out_.functions[i].linkage != Linkage::internal) {
        functions_.emplace(out_.functions[i].name, i);
      }
    }
    for (std::uint32_t i = 0; i < out_.variables.size(); ++i) {
      if (out_.variables[i].linkage != Linkage::internal) {
        variables_.emplace(out_.variables[i].name, i);
      }
    }
    for (std::size_t m = 1; m < modules_.size(); ++m) add(modules_[m]);
    return std::move(out_);
  }

 private:
  using Names = std::map<std::string_view, std::uint32_t>;

  void add(Module& module) {
    const auto unit = static_cast<std::uint16_t>(out_.units.size());
    out_.units.push_back(module.file);
    out_.sources.push_back(module.source);
    const auto files = static_cast<std::uint32_t>(out_.files.size());
    out_.files.insert(out_.files.end(), module.files.begin(), module.files.end());
    const auto calls = static_cast<std::uint32_t>(out_.calls.size());
    for (SourceLocation call : module.calls) {
      call.file += files;
      if (call.outer != 0) call.outer += calls;
      out_.calls.push_back(call);
    }
    std::vector<std::uint32_t> fresh_functions, fresh_variables;
    std::vector<std::uint32_t> function_at, variable_at;
    for (Variable& v : module.variables) {
      variable_at.push_back(merge(out_.variables, variables_, v, module.file, fresh_variables));
    }
    for (Function& f : module.functions) {
      function_at.push_back(merge(out_.functions, functions_, f, module.file, fresh_functions));
    }
    // What came from this module names that module's things.
    for (const std::uint32_t at : fresh_variables) {
      for (Relocation& r : out_.variables[at].relocations) {
        r.index = (r.of_function ? function_at : variable_at)[r.index];
      }
    }
    for (const std::uint32_t at : fresh_functions) {
      Function& f = out_.functions[at];
      f.unit = unit;
      for (Label& label : f.labels) {
        for (std::uint32_t& callee : label.callees) callee = function_at[callee];
      }
      for (Instruction& i : f.instructions) {
        i.unit = unit;
        if (i.location) i.location->file += files;
        if (i.location && i.location->outer != 0) i.location->outer += calls;
        for (Operand& o : i.operands) renumber(o, function_at, variable_at);
      }
    }
  }

  // Where it is in `all` from now on; `fresh` gets that place where it was not there as defined.
  template <class Thing>
  std::uint32_t merge(std::vector<Thing>& all, Names& names, Thing& one, const std::string& file,
                      std::vector<std::uint32_t>& fresh) {
    const auto end = static_cast<std::uint32_t>(all.size());
    if (one.linkage == Linkage::internal) {
      fresh.push_back(end);
      all.push_back(std::move(one));
      return end;
    }
    const auto [it, first] = names.try_emplace(one.name, end);
    const std::uint32_t at = it->second;
    if (first) {
      fresh.push_back(at);
      all.push_back(std::move(one));
      return at;
    }
    if (!is_defined(one)) return at;
    if (!is_defined(all[at])) {
      fresh.push_back(at);
      all[at] = std::move(one);
    } else if (one.linkage != Linkage::weak && all[at].linkage != Linkage::weak) {
      throw Error(file, one.line, "'" + std::string(one.name) + "' is defined in two modules");
    } else if (all[at].linkage == Linkage::weak && one.linkage != Linkage::weak) {
      fresh.push_back(at);
      all[at] = std::move(one);
    }
    return at;
  }

  static void renumber(Operand& o, const std::vector<std::uint32_t>& functions,
                       const std::vector<std::uint32_t>& variables) {
    if (o.kind == Operand::Kind::function) o.index = functions[o.index];
    if (o.kind == Operand::Kind::variable && o.owner == Operand::Owner::module) {
      o.index = variables[o.index];
    }
    for (Operand& e : o.elements) renumber(e, functions, variables);
  }

  Module out_;
  std::vector<Module> modules_;
  Names functions_, variables_;
};

}  // namespace

Module link(std::vector<Module> modules) {
  if (modules.size() == 1) return std::move(modules.front());
  return Linker(std::move(modules)).run();
}

std::vector<bool> with_what_they_name(const std::vector<Module>& modules, std::vector<bool> roots) {
  std::map<std::string_view, std::size_t> defined;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (const Function& f : modules[i].functions) {
      if (is_defined(f)) defined.emplace(f.name, i);
    }
    for (const Variable& v : modules[i].variables) {
      if (is_defined(v)) defined.emplace(v.name, i);
    }
  }
  for (bool more = true; more;) {
    more = false;
    const auto need = [&](std::string_view name) {
      const auto at = defined.find(name);
      if (at == defined.end() || roots[at->second]) return;
      roots[at->second] = more = true;
    };
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (!roots[i]) continue;
      for (const Function& f : modules[i].functions) {
        if (!is_defined(f)) need(f.name);
      }
      for (const Variable& v : modules[i].variables) {
        if (!is_defined(v)) need(v.name);
      }
    }
  }
  return roots;
}

}  // namespace ringfence::ptx
