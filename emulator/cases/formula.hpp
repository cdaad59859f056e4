#pragma once
// A whole number of a case file that differs from rank to rank or from call to call: "call + 1",
// "rank * 512", "(rank + 1) % world".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringfence::cases {

// What the names in it stand for.
struct FormulaContext {
  std::int64_t rank = 0, world = 1, call = 0;
  std::int64_t index = 0;  // of an element of a memory
};

class Formula {
 public:
  Formula() = default;
  explicit Formula(std::int64_t number);
  // Numbers (0x too), rank, world, call, index, + - * / % and parentheses; / and % as in C. Throws
  // std::invalid_argument with what is wrong, in a few words.
  static Formula parse(std::string_view text);

  // Throws std::invalid_argument where it divides by zero or leaves 64 bits.
  std::int64_t of(const FormulaContext& context) const;
  bool uses_call() const { return uses(Kind::call); }
  bool uses_index() const { return uses(Kind::index); }

 private:
  enum class Kind : std::uint8_t { number, rank, world, call, index, add, sub, mul, div, rem, neg };
  struct Step {  // in postfix order
    Kind kind = Kind::number;
    std::int64_t number = 0;
  };
  class Parser;
  bool uses(Kind kind) const;

  std::vector<Step> steps_;
};

}  // namespace ringfence::cases
