#include "emulator/ptx/calls.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "emulator/ptx/call_graph.hpp"
#include "emulator/ptx/call_slots.hpp"
#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {
namespace {

// Compiled kernels with all that they call have a tenth of it.
constexpr std::size_t kMostInstructions = 1U << 16;
// Calls inside calls: what keeps a hostile text from taking the stack.
constexpr unsigned kDeepestCalls = 512;

class TooLarge {};

class Inliner {
 public:
  // share_all: a function is there once and its calls go there, in place of once a call.
  Inliner(const Module& module, const Function& kernel, bool share_all)
      : module_(module), kernel_(kernel), graph_(module, kernel), share_all_(share_all) {}

  Function run() {
    out_ = kernel_;
    out_.instructions.clear();
    out_.labels.clear();
    Frame frame;
    frame.function = &kernel_;
    for (std::uint32_t v = 0; v < kernel_.variables.size(); ++v) frame.variables.push_back(v);
    body(frame);
    slots_to_registers(out_);
    return std::move(out_);
  }

 private:
  // A function that is there once for several calls.
  struct Shared {
    std::uint32_t entry = 0;                         // label
    std::uint32_t back = 0;                          // register: which of the calls it returns to
    std::uint32_t returns = 0;                       // label: its branches are where they go on
    std::vector<std::uint32_t> parameters, results;  // variables of out_
  };

  // One copy of a function.
  struct Frame {
    const Function* function = nullptr;
    std::uint32_t registers = 0;  // the first one
    std::uint32_t labels = 0;
    std::vector<std::uint32_t> variables;   // of out_
    std::vector<std::uint32_t> parameters;  // the same; not of the kernel
    std::vector<std::uint32_t> results;
    const Shared* shared = nullptr;  // it returns by its list; else to ...
    std::uint32_t after = 0;         // ... this label
    std::uint32_t cycle = 0;
    std::uint32_t depth = 0;
    bool is_callee = false;
  };

  // -- what is made -------------------------------------------------------------------------------

  std::uint32_t add_register(Type type) {
    Register fresh;
    fresh.name = "%call";
    fresh.ranged = true;
    fresh.number = static_cast<std::uint32_t>(out_.registers.size());
    fresh.type = type;
    out_.registers.push_back(fresh);
    return fresh.number;
  }

  std::uint32_t add_label() {
    out_.labels.emplace_back();
    return static_cast<std::uint32_t>(out_.labels.size() - 1);
  }

  void place_label(std::uint32_t label) {
    out_.labels[label].target = static_cast<std::uint32_t>(out_.instructions.size());
  }

  std::uint32_t add_variable(Variable variable) {
    out_.variables.push_back(std::move(variable));
    return static_cast<std::uint32_t>(out_.variables.size() - 1);
  }

  static Operand operand(Operand::Kind kind, std::uint32_t index) {
    Operand out;
    out.kind = kind;
    out.index = index;
    return out;
  }
  static Operand integer(std::uint64_t value) {
    Operand out;
    out.kind = Operand::Kind::integer;
    out.value = value;
    return out;
  }
  static Operand slot(std::uint32_t variable) {
    Operand base = operand(Operand::Kind::variable, variable);
    base.owner = Operand::Owner::function;
    Operand out;
    out.kind = Operand::Kind::address;
    out.elements.push_back(std::move(base));
    return out;
  }

  // An instruction that stands for the call, or for a part of it.
  void emit(const Instruction& call, std::string_view opcode, std::vector<std::string_view> words,
            std::vector<Operand> operands, std::int32_t guard = -1, bool negated = false) {
    Instruction i;
    i.opcode = opcode;
    i.modifiers = std::move(words);
    i.operands = std::move(operands);
    i.guard = guard;
    i.guard_negated = negated;
    i.unit = call.unit;
    i.line = call.line;
    i.location = call.location;
    i.text = call.text;
    push(std::move(i));
  }

  void push(Instruction i) {
    if (out_.instructions.size() == kMostInstructions) throw TooLarge();
    out_.instructions.push_back(std::move(i));
  }

  [[noreturn]] void fail(const Instruction& at, const std::string& reason) const {
    throw Error(module_.file_of(at.unit), at.line, reason, at.text);
  }

  // -- a body -------------------------------------------------------------------------------------

  void remap(const Frame& frame, Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::reg:
        o.index += frame.registers;
        break;
      case Operand::Kind::label:
        o.index += frame.labels;
        break;
      case Operand::Kind::variable:
        if (o.owner == Operand::Owner::module) break;
        if (o.owner == Operand::Owner::function) {
          o.index = frame.variables[o.index];
        } else if (frame.is_callee) {
          o.index = (o.owner == Operand::Owner::result ? frame.results : frame.parameters)[o.index];
          o.owner = Operand::Owner::function;
        }
        break;
      default:
        break;
    }
    for (Operand& e : o.elements) remap(frame, e);
  }

  void body(Frame& frame) {
    const Function& f = *frame.function;
    frame.labels = static_cast<std::uint32_t>(out_.labels.size());
    for (const Label& label : f.labels) {
      out_.labels.push_back(label);
      for (std::uint32_t& branch : out_.labels.back().branches) branch += frame.labels;
    }
    std::vector<std::uint32_t> moved;
    for (const Instruction& i : f.instructions) {
      moved.push_back(static_cast<std::uint32_t>(out_.instructions.size()));
      Instruction copy = i;
      for (Operand& o : copy.operands) remap(frame, o);
      if (copy.guard >= 0) copy.guard += static_cast<std::int32_t>(frame.registers);
      if (i.opcode == "call" && is_followed(f, i)) {
        call(frame, i, copy);
      } else if (i.opcode == "ret" && frame.is_callee) {
        leave(frame, copy);
      } else {
        push(std::move(copy));
      }
    }
    moved.push_back(static_cast<std::uint32_t>(out_.instructions.size()));
    for (std::size_t l = 0; l < f.labels.size(); ++l) {
      out_.labels[frame.labels + l].target = moved[f.labels[l].target];
    }
    // The end of the text returns, too.
    if (frame.is_callee && (f.instructions.empty() || f.instructions.back().opcode != "ret" ||
                            f.instructions.back().guard >= 0)) {
      Instruction end;
      end.line = f.line;
      end.unit = f.unit;
      end.text = f.name;
      leave(frame, end);
    }
  }

  void leave(const Frame& frame, const Instruction& at) {
    if (frame.shared == nullptr) {
      emit(at, "bra", {}, {operand(Operand::Kind::label, frame.after)}, at.guard, at.guard_negated);
    } else {
      emit(at, "brx", {"idx"},
           {operand(Operand::Kind::reg, frame.shared->back),
            operand(Operand::Kind::label, frame.shared->returns)},
           at.guard, at.guard_negated);
    }
  }

  // -- a call -------------------------------------------------------------------------------------

  bool is_followed(const Function& caller, const Instruction& call) const {
    const CallSite site = call_site(call);
    if (site.callee == nullptr) return false;
    return site.callee->kind == Operand::Kind::reg || !graph_.targets(caller, call).empty();
  }

  void call(const Frame& frame, const Instruction& written, const Instruction& call) {
    const std::vector<std::uint32_t> targets = graph_.targets(*frame.function, written);
    const CallSite site = call_site(call);
    if (nested_ == kDeepestCalls) {
      fail(call,
           "functions call one another deeper than " + std::to_string(kDeepestCalls) + " times");
    }
    ++nested_;
    const std::uint32_t after = add_label();
    if (call.guard >= 0) {
      emit(call, "bra", {}, {operand(Operand::Kind::label, after)}, call.guard,
           !call.guard_negated);
    }
    if (site.callee->kind == Operand::Kind::function) {
      enter(frame, call, site, targets.front(), after);
    } else {
      const std::uint32_t other = add_register(Type::pred);
      for (const std::uint32_t target : targets) {
        const std::uint32_t next = add_label();
        emit(call, "setp", {"ne", "b64"},
             {operand(Operand::Kind::reg, other), *site.callee, integer(function_address(target))});
        emit(call, "bra", {}, {operand(Operand::Kind::label, next)},
             static_cast<std::int32_t>(other));
        enter(frame, call, site, target, after);
        place_label(next);
      }
      emit(call, kNoTarget, {}, {*site.callee});
    }
    --nested_;
    place_label(after);
  }

  // The variables of the caller in which what `declared` says is handed over.
  std::vector<std::uint32_t> handed_over(const Instruction& call, const Operand* list,
                                         const std::vector<Variable>& declared,
                                         const Function& callee, bool results) {
    const std::string name(callee.name);
    const std::string what = results ? "result" : "argument";
    const std::size_t count = list == nullptr ? 0 : list->elements.size();
    if (count != declared.size()) {
      fail(call, "'" + name + "' has " + std::to_string(declared.size()) + " " + what +
                     "s, the call " + std::to_string(count));
    }
    std::vector<std::uint32_t> out;
    for (std::size_t i = 0; i < count; ++i) {
      const Operand& one = list->elements[i];
      if (declared[i].in_register) {
        fail(call, "unsupported " + what + " in a register of '" + name + "'");
      }
      if (one.kind == Operand::Kind::sink && results) {
        out.push_back(add_variable(declared[i]));
        continue;
      }
      if (one.kind != Operand::Kind::variable || one.owner != Operand::Owner::function) {
        fail(call, "unsupported " + what + " " + std::to_string(i + 1) + " of '" + name +
                       "': no .param variable of the body");
      }
      const std::uint64_t bytes = out_.variables[one.index].bytes;
      if (bytes != declared[i].bytes) {
        fail(call, what + " " + std::to_string(i + 1) + " has " + std::to_string(bytes) +
                       " bytes, '" + name + "' declares " + std::to_string(declared[i].bytes));
      }
      out.push_back(one.index);
    }
    return out;
  }

  void enter(const Frame& caller, const Instruction& call, const CallSite& site,
             std::uint32_t number, std::uint32_t after) {
    const Function& callee = module_.functions[number];
    Frame frame;
    frame.function = &callee;
    frame.is_callee = true;
    frame.after = after;
    frame.parameters = handed_over(call, site.arguments, callee.parameters, callee, false);
    frame.results = handed_over(call, site.results, callee.results, callee, true);
    frame.cycle = graph_.cycle(number);
    frame.depth = frame.cycle != 0 && frame.cycle == caller.cycle ? caller.depth + 1 : 1;
    if (frame.cycle != 0 && frame.depth > deepest(frame.cycle)) {
      Operand name = operand(Operand::Kind::function, number);
      name.name = callee.name;
      name.value = deepest(frame.cycle);
      return emit(call, kTooDeep, {}, {name});
    }
    if (frame.cycle == 0 && !share_all_) {
      own_variables(frame, number);
      return body(frame);
    }
    const auto [it, fresh] = shared_.try_emplace({number, frame.depth});
    Shared& shared = it->second;
    if (fresh) {
      shared.entry = add_label();
      shared.returns = add_label();
      shared.back = add_register(Type::b32);
      for (const Variable& v : callee.parameters) shared.parameters.push_back(add_variable(v));
      for (const Variable& v : callee.results) shared.results.push_back(add_variable(v));
    }
    hand_over(call, callee.parameters, frame.parameters, shared.parameters);
    const std::uint32_t back = add_label();
    auto& returns = out_.labels[shared.returns].branches;
    emit(call, "mov", {"u32"}, {operand(Operand::Kind::reg, shared.back), integer(returns.size())});
    returns.push_back(back);
    if (fresh) {
      place_label(shared.entry);
      const std::vector<std::uint32_t> results = frame.results;
      frame.parameters = shared.parameters;
      frame.results = shared.results;
      frame.shared = &shared;
      own_variables(frame, number);
      body(frame);
      frame.results = results;
    } else {
      emit(call, "bra", {}, {operand(Operand::Kind::label, shared.entry)});
    }
    place_label(back);
    hand_over(call, callee.results, shared.results, frame.results);
    emit(call, "bra", {}, {operand(Operand::Kind::label, after)});
  }

  // Copies what one variable holds to another one, by the largest parts that its alignment allows.
  void hand_over(const Instruction& call, const std::vector<Variable>& declared,
                 const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      for (const auto& [offset, type] : parts_of(declared[i])) {
        const std::uint32_t through = add_register(size_of(type) == 1 ? Type::b16 : type);
        Operand source = slot(from[i]), target = slot(to[i]);
        source.offset = target.offset = static_cast<std::int64_t>(offset);
        emit(call, "ld", {"param", name_of(type)}, {operand(Operand::Kind::reg, through), source});
        emit(call, "st", {"param", name_of(type)}, {target, operand(Operand::Kind::reg, through)});
      }
    }
  }

  static std::vector<std::pair<std::uint64_t, Type>> parts_of(const Variable& declared) {
    std::vector<std::pair<std::uint64_t, Type>> out;
    for (std::uint64_t at = 0; at < declared.bytes;) {
      std::uint64_t bytes = 8;
      while (bytes > declared.alignment || at + bytes > declared.bytes) bytes /= 2;
      out.emplace_back(at, bytes == 8   ? Type::b64
                           : bytes == 4 ? Type::b32
                           : bytes == 2 ? Type::b16
                                        : Type::b8);
      at += bytes;
    }
    return out;
  }

  std::uint32_t deepest(std::uint32_t cycle) const {
    constexpr std::size_t kForOneCycle = kMostInstructions / 2;
    const std::size_t fit = kForOneCycle / std::max<std::size_t>(1, graph_.size_of_cycle(cycle));
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(fit, 2, kDeepestRecursion));
  }

  // Registers and local memory are each copy's; shared memory that a function declares is the
  // block's, whoever calls it.
  void own_variables(Frame& frame, std::uint32_t number) {
    const Function& f = *frame.function;
    frame.registers = static_cast<std::uint32_t>(out_.registers.size());
    out_.registers.insert(out_.registers.end(), f.registers.begin(), f.registers.end());
    for (std::uint32_t v = 0; v < f.variables.size(); ++v) {
      if (f.variables[v].space != Space::shared) {
        frame.variables.push_back(add_variable(f.variables[v]));
        continue;
      }
      const auto [it, fresh] = statics_.try_emplace({number, v}, 0);
      if (fresh) it->second = add_variable(f.variables[v]);
      frame.variables.push_back(it->second);
    }
  }

  const Module& module_;
  const Function& kernel_;
  CallGraph graph_;
  bool share_all_;
  unsigned nested_ = 0;
  Function out_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Shared> shared_;  // by function and depth
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> statics_;
};

}  // namespace

bool has_calls(const Function& kernel, const Module& module) {
  return std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                     [&](const Instruction& i) {
                       if (i.opcode != "call") return false;
                       const CallSite site = call_site(i);
                       if (site.callee == nullptr) return false;
                       return site.callee->kind == Operand::Kind::reg ||
                              (site.callee->index < module.functions.size() &&
                               module.functions[site.callee->index].has_body);
                     });
}

Function with_functions(const Module& module, const Function& kernel) {
  try {
    return Inliner(module, kernel, false).run();
  } catch (const TooLarge&) {
  }
  try {
    return Inliner(module, kernel, true).run();
  } catch (const TooLarge&) {
  }
  throw Error(module.file_of(kernel.unit), kernel.line,
              "with the functions that it calls the kernel has more than " +
                  std::to_string(kMostInstructions) + " instructions",
              kernel.name);
}

}  // namespace ringfence::ptx
