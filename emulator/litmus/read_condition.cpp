// What follows the table: observed variables, filter, condition.
#include <utility>

#include "emulator/litmus/names.hpp"
#include "emulator/litmus/reader.hpp"

namespace ringfence::litmus {
namespace {

constexpr int kMaxDepth = 100;

// a /\ b /\ c is one node with three children, however it was parenthesised.
Formula join(Formula::Kind kind, Formula left, Formula right) {
  Formula formula;
  formula.kind = kind;
  for (Formula* side : {&left, &right}) {
    if (side->kind == kind) {
      for (Formula& child : side->children) formula.children.push_back(std::move(child));
    } else {
      formula.children.push_back(std::move(*side));
    }
  }
  return formula;
}

}  // namespace

void Reader::read_condition_part() {
  if (accept("locations")) read_observed();
  if (accept("filter")) {
    test_.filter = read_whole_formula();
    accept(";");
  }
  const Token token = lexer_.peek();
  if (accept("forall")) {
    test_.quantifier = Quantifier::Forall;
  } else {
    if (accept("~") || accept("not")) test_.quantifier = Quantifier::NotExists;
    if (!accept("exists")) {
      if (token.kind == TokenKind::End) {
        fail(token.at,
             "missing condition; end the test with exists, ~exists or forall and a formula");
      }
      fail(lexer_.peek().at, "exists, ~exists or forall expected, not " + describe(lexer_.peek()));
    }
  }
  test_.condition = read_whole_formula();
  accept(";");
  if (lexer_.peek().kind != TokenKind::End) {
    fail(lexer_.peek().at,
         "end of the file expected after the condition, not " + describe(lexer_.peek()));
  }
}

void Reader::read_observed() {
  expect("[", "after `locations`");
  while (!accept("]")) {
    test_.observed.push_back(read_variable());
    if (!next_is("]")) expect(";", "between observed variables");
  }
}

// Parentheses around the whole, which the printer adds, are no level of nesting.
Formula Reader::read_whole_formula() { return read_formula(next_is("(") ? -1 : 0); }

Formula Reader::read_formula(int depth) {
  if (depth > kMaxDepth) fail(lexer_.peek().at, "formula nested too deeply; at most 100 levels");
  Formula formula = read_conjunction(depth);
  while (accept("\\/")) {
    formula = join(Formula::Kind::Or, std::move(formula), read_conjunction(depth));
  }
  return formula;
}

Formula Reader::read_conjunction(int depth) {
  Formula formula = read_comparison(depth);
  while (accept("/\\")) {
    formula = join(Formula::Kind::And, std::move(formula), read_comparison(depth));
  }
  return formula;
}

Formula Reader::read_comparison(int depth) {
  if (depth > kMaxDepth) fail(lexer_.peek().at, "formula nested too deeply; at most 100 levels");
  Formula formula;
  if (accept("not") || accept("~")) {
    formula.kind = Formula::Kind::Not;
    formula.children.push_back(read_comparison(depth + 1));
    return formula;
  }
  if (accept("(")) {
    formula = read_formula(depth + 1);
    expect(")", "to close the parenthesis");
    return formula;
  }
  formula.left = read_term();
  const Token token = lexer_.peek();
  const auto comparison =
      token.text == "=" ? std::optional(Compare::eq) : find_name(kCompareNames, token.text);
  if (!comparison) fail(token.at, "==, !=, <, <=, > or >= expected, not " + describe(token));
  lexer_.take();
  formula.comparison = *comparison;
  formula.right = read_term();
  return formula;
}

Term Reader::read_term() {
  if (next_is("-")) return Constant{expect_integer("a number")};
  if (lexer_.peek().kind == TokenKind::Number) {
    const Token number = lexer_.take();
    if (next_is(":"))
      return read_register_variable(static_cast<std::int64_t>(number.value), number);
    return Constant{static_cast<std::int64_t>(number.value)};
  }
  if (accept("[")) {
    const Variable variable = read_variable();
    expect("]", "after the location");
    return variable;
  }
  return read_variable();
}

// thread:rN, with P0 or 0 for the thread; the colon comes next.
Variable Reader::read_register_variable(std::int64_t thread, const Token& token) {
  if (thread < 0 || thread >= static_cast<std::int64_t>(test_.threads.size())) {
    fail(token.at, "no thread " + describe(token) + "; the table has P0 to P" +
                       std::to_string(test_.threads.size() - 1));
  }
  expect(":", "after the thread");
  const Token name = expect_word("a register");
  if (!is_register_name(name.text)) {
    fail(name.at, describe(name) + " is no register; registers are r0, r1, …");
  }
  const int number = static_cast<int>(thread);
  return Variable{number, read_register(number, name), 0};
}

Variable Reader::read_variable() {
  if (lexer_.peek().kind == TokenKind::Number) {
    const Token number = lexer_.take();
    return read_register_variable(static_cast<std::int64_t>(number.value), number);
  }
  const Token name = expect_word("a location, a register such as P0:r0, or a number");
  if (next_is(":")) return read_register_variable(thread_number(name.text), name);
  if (is_register_name(name.text)) {
    fail(name.at, "whose register is " + describe(name) + "? write P0:" + std::string(name.text));
  }
  const LocationId id = use_location(name);
  const Location& location = test_.locations[static_cast<std::size_t>(id)];
  if (location.arrivals > 0) {
    fail(name.at, describe(name) + " is an mbarrier, whose bits say nothing; name a location");
  }
  if (!location.replicas.empty()) {
    fail(name.at, describe(name) + " is a multicast address; name the replica that is meant");
  }
  Variable variable{-1, id, 0};
  if (accept("[")) {
    variable.element = static_cast<int>(read_index(location));
  } else if (location.is_array) {
    fail(name.at, describe(name) + " is an array; name an element: " + location.name + "[0]");
  }
  return variable;
}

}  // namespace ringfence::litmus
