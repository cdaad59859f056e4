#include "emulator/ptx/variables.hpp"

#include <bit>

namespace ringfence::ptx {
namespace {

constexpr std::uint64_t kLargestVariable = 1ULL << 30;
constexpr unsigned kDeepestInitializer = 16;

class Initializer {
 public:
  Initializer(Cursor& cursor, Variable& variable, unsigned element)
      : cursor_(cursor), variable_(variable), element_(element) {}

  void parse(unsigned depth = 0) {
    if (cursor_.accept("{")) {
      if (depth == kDeepestInitializer) cursor_.fail("initial value is nested too deeply");
      if (cursor_.accept("}")) return;
      do parse(depth + 1);
      while (cursor_.accept(","));
      cursor_.expect("}");
      return;
    }
    value();
  }

  std::uint64_t offset() const { return offset_; }

 private:
  void put(std::uint64_t bits) {
    if (!variable_.unsized && offset_ + element_ > variable_.bytes) {
      cursor_.fail("more initial values than the variable holds");
    }
    for (unsigned i = 0; i < element_; ++i) {
      variable_.initial.push_back(i < 8 ? static_cast<std::uint8_t>(bits >> (8 * i)) : 0);
    }
    offset_ += element_;
  }

  // NAME, NAME + offset, generic(NAME), generic(NAME) + offset.
  void address(std::string_view name, bool generic) {
    if (generic) {
      cursor_.expect("(");
      name = cursor_.expect_word("variable in generic()");
    }
    Relocation relocation{offset_, element_, name, 0, false, 0};
    const auto offset = [&] {
      if (!cursor_.is("+") && !cursor_.is("-")) return;
      relocation.addend += static_cast<std::int64_t>(cursor_.integer_expression());
    };
    offset();
    if (generic) {
      cursor_.expect(")");
      offset();
    }
    variable_.relocations.push_back(relocation);
    put(0);
  }

  void value() {
    const bool negative = cursor_.is("-") && (cursor_.peek(1).kind == Token::float32 ||
                                              cursor_.peek(1).kind == Token::float64);
    if (negative) cursor_.take();
    const Lexeme& lexeme = cursor_.peek();
    if (lexeme.kind == Token::float32 || lexeme.kind == Token::float64) {
      cursor_.take();
      put(float_bits(lexeme, negative));
    } else if (lexeme.kind == Token::word) {
      cursor_.take();
      address(lexeme.text, lexeme.text == "generic");
    } else if (cursor_.starts_integer()) {
      put(cursor_.integer_expression());
    } else {
      cursor_.fail("no initial value");
    }
  }

  std::uint64_t float_bits(const Lexeme& lexeme, bool negative) const {
    if (lexeme.kind == Token::float32) return lexeme.bits ^ (negative ? 0x80000000ULL : 0);
    double value = std::bit_cast<double>(lexeme.bits);
    if (negative) value = -value;
    if (element_ == 4) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return std::bit_cast<std::uint64_t>(value);
  }

  Cursor& cursor_;
  Variable& variable_;
  unsigned element_;
  std::uint64_t offset_ = 0;
};

}  // namespace

Variable parse_variable(Cursor& cursor, Space space, bool external) {
  Variable variable;
  variable.space = space;
  variable.external = external;
  variable.line = cursor.statement_line();
  std::uint64_t lanes = 1;
  bool aligned = false;
  for (;;) {
    if (cursor.peek().kind != Token::directive) break;
    const std::string_view word = cursor.take().text.substr(1);
    if (word == "align") {
      variable.alignment = cursor.expect_count(".align");
      aligned = true;
      if (!std::has_single_bit(variable.alignment)) cursor.fail(".align is no power of two");
    } else if (word == "ptr" || word == "global" || word == "const" || word == "shared" ||
               word == "local") {
      // .ptr .global on a parameter: a hint about what the pointer addresses.
    } else if (word == "v2" || word == "v4") {
      lanes = word == "v2" ? 2 : 4;
    } else if (word == "attribute") {
      cursor.expect("(");
      while (!cursor.at_end() && !cursor.is(")")) cursor.take();
      cursor.expect(")");
    } else if (const auto type = type_of(word); type && *type != Type::pred) {
      variable.type = *type;
    } else {
      cursor.fail("'." + std::string(word) + "' is no type of a variable");
    }
  }
  variable.name = cursor.expect_word("variable name");
  const unsigned element = size_of(variable.type);
  if (element == 0) cursor.fail("the variable has no type");
  std::uint64_t count = lanes;
  while (cursor.accept("[")) {
    if (cursor.accept("]")) {
      variable.unsized = true;
      continue;
    }
    const std::uint64_t bound = cursor.integer_expression();
    cursor.expect("]");
    if (bound > kLargestVariable || count * bound > kLargestVariable) {
      cursor.fail("the variable is larger than 1 GiB");
    }
    count *= bound;
  }
  if (count * element > kLargestVariable) cursor.fail("the variable is larger than 1 GiB");
  if (!variable.unsized) variable.bytes = count * element;
  if (!aligned) variable.alignment = static_cast<std::uint32_t>(element * lanes);
  if (cursor.accept("=")) {
    if (space != Space::global && space != Space::constant) {
      cursor.fail("only .global and .const variables have an initial value");
    }
    Initializer initializer(cursor, variable, element);
    initializer.parse();
    if (variable.unsized) {
      variable.bytes = initializer.offset();
      variable.unsized = false;
    }
  }
  return variable;
}

}  // namespace ringfence::ptx
