// What the text of a loop that waits compares with what it reads.

#include <algorithm>
#include <string_view>
#include <vector>

#include "emulator/ptx/looks.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::uint32_t kMostSteps = 64;

struct Word {
  std::string_view word;
  LookTest::Compare compare;
};
constexpr Word kWords[] = {
    {"eq", LookTest::Compare::eq}, {"ne", LookTest::Compare::ne}, {"lt", LookTest::Compare::lt},
    {"lo", LookTest::Compare::lt}, {"le", LookTest::Compare::le}, {"ls", LookTest::Compare::le},
    {"gt", LookTest::Compare::gt}, {"hi", LookTest::Compare::gt}, {"ge", LookTest::Compare::ge},
    {"hs", LookTest::Compare::ge},
};

std::optional<LookTest::Compare> compare_of(const Instruction& i) {
  const auto word = std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& w) {
    return !i.modifiers.empty() && w.word == i.modifiers.front();
  });
  if (i.opcode != "setp" || word == std::end(kWords)) return {};
  const Type type = type_of(i.modifiers.back()).value_or(Type::none);
  if (is_float(type) || type == Type::none) return {};
  return word->compare;
}

bool is_register(const Operand& o, const std::vector<std::uint32_t>& among) {
  return o.kind == Operand::Kind::reg && !o.negated &&
         std::find(among.begin(), among.end(), o.index) != among.end();
}

}  // namespace

bool LookTest::holds(std::uint64_t value) const {
  const unsigned shift = 64 - 8 * bytes;
  const std::uint64_t a = value << shift, b = with << shift;
  const bool less = is_signed ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  switch (compare) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a != b;
    case Compare::lt:
      return less;
    case Compare::le:
      return less || a == b;
    case Compare::gt:
      return !less && a != b;
    case Compare::ge:
      return !less;
  }
  return false;
}

bool Looks::compares(const Program& program, std::uint32_t op) {
  return compare_of(program.function->instructions[op]).has_value();
}

std::optional<Looks::Test> Looks::test_of(const Program& program, std::uint32_t look) {
  const std::vector<Instruction>& text = program.function->instructions;
  const auto& operands = text[look].operands;
  if (operands.empty() || operands[0].kind != Operand::Kind::reg) return {};
  std::vector<std::uint32_t> holds = {operands[0].index};
  std::uint32_t at = look + 1;
  for (std::uint32_t steps = 0; steps < kMostSteps && at < text.size() && at != look; ++steps) {
    const Instruction& i = text[at];
    const Op& op = program.ops[at];
    if (op.kind == Kind::branch && i.guard < 0) {
      at = op.detail;
      continue;
    }
    if (i.opcode == "setp" && i.operands.size() == 3) {
      const bool left = is_register(i.operands[1], holds),
                 right = is_register(i.operands[2], holds);
      if (left != right) {
        const auto compare = compare_of(i);
        if (!compare) return {};
        const Type type = *type_of(i.modifiers.back());
        Test t;
        t.op = at;
        t.compare = left ? *compare : machine::mirrored(*compare);
        t.bytes = static_cast<unsigned>(size_of(type));
        t.is_signed = is_signed(type);
        t.swapped = right;
        return t;
      }
    }
    if (!i.operands.empty() && i.operands[0].kind == Operand::Kind::reg) {
      const std::uint32_t to = i.operands[0].index;
      const bool moves = (i.opcode == "mov" || i.opcode == "cvt") && i.guard < 0 &&
                         i.operands.size() == 2 && is_register(i.operands[1], holds);
      if (!moves) {
        std::erase(holds, to);
      } else if (!is_register(i.operands[0], holds)) {
        holds.push_back(to);
      }
    }
    if (holds.empty()) return {};
    ++at;
  }
  return {};
}

}  // namespace ringfence::ptx
