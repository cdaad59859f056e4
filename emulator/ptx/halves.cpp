#include "emulator/ptx/halves.hpp"

#include <algorithm>
#include <utility>

#include "emulator/ptx/call_slots.hpp"

namespace ringfence::ptx {
namespace {

Operand half_of(std::uint32_t number) {
  Operand out;
  out.kind = Operand::Kind::reg;
  out.index = number;
  return out;
}

class Halves {
 public:
  explicit Halves(Function& function) : function_(function), low_(function.registers.size(), 0) {}

  void run() {
    for (std::size_t r = 0; r < low_.size(); ++r) {
      if (function_.registers[r].type != Type::b128) continue;
      low_[r] = static_cast<std::uint32_t>(function_.registers.size());
      for (int half = 0; half < 2; ++half) {
        Register fresh = function_.registers[r];
        fresh.type = Type::b64;
        function_.registers.push_back(fresh);
      }
    }
    std::vector<Instruction> old = std::move(function_.instructions);
    function_.instructions.clear();
    std::vector<std::uint32_t> moved;
    for (Instruction& i : old) {
      moved.push_back(static_cast<std::uint32_t>(function_.instructions.size()));
      for (Operand& o : i.operands) widen(o);
      const bool moves = i.opcode == "mov" && i.modifiers.size() == 1 && i.modifiers[0] == "b128" &&
                         i.operands.size() == 2 && is_pair(i.operands[0]) && is_pair(i.operands[1]);
      if (moves) {
        move(i);
      } else {
        function_.instructions.push_back(std::move(i));
      }
    }
    moved.push_back(static_cast<std::uint32_t>(function_.instructions.size()));
    move_labels(function_, moved);
  }

 private:
  static bool is_pair(const Operand& o) {
    return o.kind == Operand::Kind::vector && o.elements.size() == 2;
  }

  void widen(Operand& o) const {
    if (o.kind == Operand::Kind::reg && o.index < low_.size() && low_[o.index] != 0) {
      const std::uint32_t low = low_[o.index];
      o.kind = Operand::Kind::vector;
      o.elements = {half_of(low), half_of(low + 1)};
      return;
    }
    for (Operand& e : o.elements) widen(e);
  }

  // Through registers of its own, as one half's target may be the other's source.
  void move(const Instruction& i) {
    const auto between = static_cast<std::uint32_t>(function_.registers.size());
    for (int half = 0; half < 2; ++half) {
      Register fresh;
      fresh.name = "%half";
      fresh.ranged = true;
      fresh.number = static_cast<std::uint32_t>(function_.registers.size());
      fresh.type = Type::b64;
      function_.registers.push_back(fresh);
    }
    for (std::uint32_t half = 0; half < 2; ++half) {
      emit(i, half_of(between + half), i.operands[1].elements[half]);
    }
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (i.operands[0].elements[half].kind == Operand::Kind::sink) continue;
      emit(i, i.operands[0].elements[half], half_of(between + half));
    }
  }

  void emit(const Instruction& like, Operand to, Operand from) {
    Instruction out = like;
    out.modifiers = {"b64"};
    out.operands = {std::move(to), std::move(from)};
    function_.instructions.push_back(std::move(out));
  }

  Function& function_;
  std::vector<std::uint32_t> low_;  // by register of 128 bits: that of its low half; 0: it is none
};

}  // namespace

bool has_wide_registers(const Function& function) {
  return std::any_of(function.registers.begin(), function.registers.end(),
                     [](const Register& r) { return r.type == Type::b128; });
}

void split_wide_registers(Function& function) { Halves(function).run(); }

}  // namespace ringfence::ptx
