#include "emulator/ptx/origin.hpp"

#include <algorithm>
#include <cstring>

namespace ringfence::ptx {
namespace {

// Follows a register back through all instructions that write it, whatever the paths are. Addresses
// have 64 bits, so what narrower registers hold is an index.
class Walk {
 public:
  Walk(const Program& program, const LaunchConfig& config)
      : program_(program), config_(config), function_(*program.function) {}

  void operand(const Operand& o) {
    switch (o.kind) {
      case Operand::Kind::reg:
        reg(o.index);
        return;
      case Operand::Kind::variable:
        if (o.owner != Operand::Owner::parameter) {
          const Placement& at = o.owner == Operand::Owner::module
                                    ? program_.module_placement[o.index]
                                    : program_.function_placement[o.index];
          if (at.space == Space::global) add(config_.globals + at.offset);
        }
        return;
      case Operand::Kind::address:
        if (!o.elements.empty()) operand(o.elements.front());
        return;
      default:
        return;
    }
  }

  Origin take() { return std::move(out_); }

 private:
  void reg(std::uint32_t index) {
    if (size_of(function_.registers[index].type) != 8) return;
    if (std::find(seen_.begin(), seen_.end(), index) != seen_.end()) return;
    seen_.push_back(index);
    for (const Instruction& i : function_.instructions) {
      if (!i.operands.empty() && writes(i.operands.front(), index)) from(i);
    }
  }

  static bool writes(const Operand& o, std::uint32_t index) {
    if (o.kind == Operand::Kind::reg) return o.index == index;
    return (o.kind == Operand::Kind::vector || o.kind == Operand::Kind::pair) &&
           std::any_of(o.elements.begin(), o.elements.end(),
                       [&](const Operand& e) { return writes(e, index); });
  }

  void from(const Instruction& i) {
    if (i.opcode == "ld") {
      const Operand* const at = i.operands.size() > 1 ? &i.operands[1] : nullptr;
      const bool parameter = at != nullptr && at->kind == Operand::Kind::address &&
                             !at->elements.empty() &&
                             at->elements.front().kind == Operand::Kind::variable &&
                             at->elements.front().owner == Operand::Owner::parameter;
      if (!parameter) {
        out_.loaded = true;
        return;
      }
      const Operand& name = at->elements.front();
      const std::uint64_t first = program_.parameter_offset[name.index] +
                                  static_cast<std::uint64_t>(name.offset + at->offset);
      std::uint64_t value = 0;
      if (first + sizeof value > config_.parameters.size()) return;
      std::memcpy(&value, &config_.parameters[first], sizeof value);
      add(value);
      return;
    }
    if (i.opcode == "atom" || i.opcode == "shfl" || i.opcode == "call") {
      out_.loaded = true;
      return;
    }
    for (std::size_t k = 1; k < i.operands.size(); ++k) operand(i.operands[k]);
  }

  void add(std::uint64_t address) {
    if (std::find(out_.addresses.begin(), out_.addresses.end(), address) == out_.addresses.end()) {
      out_.addresses.push_back(address);
    }
  }

  const Program& program_;
  const LaunchConfig& config_;
  const Function& function_;
  std::vector<std::uint32_t> seen_;
  Origin out_;
};

}  // namespace

Origin origin_of(const Program& program, const LaunchConfig& config, std::uint32_t instruction,
                 unsigned n) {
  Walk walk(program, config);
  if (instruction >= program.function->instructions.size()) return walk.take();
  for (const Operand& o : program.function->instructions[instruction].operands) {
    if (o.kind != Operand::Kind::address) continue;
    if (n-- == 0) walk.operand(o);
  }
  return walk.take();
}

}  // namespace ringfence::ptx
