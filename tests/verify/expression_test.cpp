// Expressions of the inputs: what each function gives, and what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "tests/verify/throws.hpp"
#include "verify/error.hpp"
#include "verify/expression.hpp"

namespace ringfence::verify {
namespace {

// Two ranks with four elements each, and names that all have.
ExpressionContext context() {
  ExpressionContext c;
  c.ranks = 2;
  c.columns = 2;
  c.input = [](const std::string& name, std::uint32_t rank) -> Values {
    const std::map<std::string, std::vector<float>> same = {{"gamma", {2, -1}},
                                                            {"w", {1, 0, 0, 1, 1, 1}}};
    std::vector<float> x;
    if (name == "data") {
      x = rank == 0 ? std::vector<float>{1, 2, 3, 4} : std::vector<float>{10, 20, 30, 40};
    } else if (same.count(name) != 0) {
      x = same.at(name);
    } else {
      throw InputError("no input '" + name + "'");
    }
    return values_of(Dtype::f32, reinterpret_cast<const std::byte*>(x.data()), x.size());
  };
  return c;
}

std::vector<double> value(const std::string& text, std::uint32_t rank = 0) {
  Evaluator e(context());
  return e.of(Expression::parse(text), rank).value;
}

using Numbers = std::vector<double>;

TEST_CASE("operators bind as in arithmetic") {
  CHECK(value("1 + 2 * 3 - 4 / 2") == Numbers{5});
  CHECK(value("(1 + 2) * -3") == Numbers{-9});
  CHECK(value("10 - 3 - 2") == Numbers{5});
  CHECK(value("data * gamma") == Numbers{2, -2, 6, -4});
  CHECK(value("data * (1 + gamma)") == Numbers{3, 0, 9, 0});
  CHECK(value("'data' + 0.5e1", 1) == Numbers{15, 25, 35, 45});
}

TEST_CASE("functions over the ranks") {
  CHECK(value("sum(data)", 1) == Numbers{11, 22, 33, 44});
  CHECK(value("product(data)") == Numbers{10, 40, 90, 160});
  CHECK(value("max(data)") == Numbers{10, 20, 30, 40});
  CHECK(value("min(data)") == Numbers{1, 2, 3, 4});
  CHECK(value("concat(data)") == Numbers{1, 2, 3, 4, 10, 20, 30, 40});
  CHECK(value("scatter(data, root = 1)", 0) == Numbers{10, 20});
  CHECK(value("scatter(data, root = 1)", 1) == Numbers{30, 40});
  CHECK(value("broadcast(data)", 1) == Numbers{1, 2, 3, 4});
  CHECK(value("all_to_all(data)", 0) == Numbers{1, 2, 10, 20});
  CHECK(value("all_to_all(data)", 1) == Numbers{3, 4, 30, 40});
  CHECK(value("peer(data, distance = 1)", 0) == Numbers{10, 20, 30, 40});
  CHECK(value("part(sum(data))", 1) == Numbers{33, 44});
  CHECK(value("sum(data * data)") == Numbers{101, 404, 909, 1616});
  CHECK(value("slice(data, first = 1, count = 2)") == Numbers{2, 3});
}

TEST_CASE("functions by rows") {
  CHECK(value("matmul(data, w, inner = 2)") == Numbers{1, 2, 3, 3, 4, 7});
  CHECK(value("row_sum(data)") == Numbers{3, 7});
  CHECK(value("amax(data, per = tensor)") == Numbers{4});
  CHECK(value("amax(-data, per = row)") == Numbers{2, 4});
  CHECK(value("cast(data / 3, to = s8)") == Numbers{0, 1, 1, 1});
  CHECK(value("quantise(data, 0.001, to = e4m3)") == Numbers{448, 448, 448, 448});
  CHECK(value("maximum(data, 3)") == Numbers{3, 3, 3, 4});
  CHECK(value("scale_of(data, to = s8, per = row)")[1] == doctest::Approx(4.0 / 127));
  CHECK(value("rms(data, eps = 0)")[1] == doctest::Approx(1 / std::sqrt(12.5)));
  CHECK(value("rmsnorm(data, gamma, eps = 0)")[3] == doctest::Approx(-4 / std::sqrt(12.5)));
  CHECK(value("layernorm(data, gamma, 1, eps = 0)")[0] == doctest::Approx(-1));
  CHECK(value("softmax(data)")[0] == doctest::Approx(1 / (1 + std::exp(1.0))));
  CHECK(value("silu(data)")[0] == doctest::Approx(1 / (1 + std::exp(-1.0))));
}

TEST_CASE("names that are listed are rounded, where they are used and nowhere else") {
  ExpressionContext c = context();
  c.named["third"] = Expression::parse("data / 3");
  c.rounded["third"] = Dtype::bf16;
  Evaluator rounded(c);
  c.rounded.clear();
  Evaluator plain(c);
  const Expression e = Expression::parse("third * 3");
  CHECK(rounded.of(e, 0).value[0] ==
        static_cast<double>(bf16_to_float(float_to_bf16(1.0f / 3))) * 3);
  CHECK(plain.of(e, 0).value[0] == doctest::Approx(1).epsilon(1e-6));
  CHECK(rounded.depends_on_rank(e));
  CHECK_FALSE(rounded.depends_on_rank(Expression::parse("sum(data) * 2")));
}

TEST_CASE("a text that is no expression is refused where it goes wrong") {
  const auto parse = [](const char* text) { return Expression::parse(text); };
  CHECK_ERROR(parse("sum(data"), "character 9", "expected ')'");
  CHECK_ERROR(parse("data +"), "a number, a name", "the end");
  CHECK_ERROR(parse("data data"), "an operator", "'d'");
  CHECK_ERROR(parse("nosuch(data)"), "no function 'nosuch'", "rmsnorm");
  CHECK_ERROR(parse("sum(data, 1)"), "takes 1", "not 2");
  CHECK_ERROR(parse("rms(data)"), "rms needs 'eps");
  CHECK_ERROR(parse("sum(data, eps = 1)"), "no option 'eps'");
  CHECK_ERROR(parse("'data"), "second quote");
  CHECK_ERROR(value("part(slice(data, first = 0, count = 3))"), "3 elements", "2 ranks");
  CHECK_ERROR(value("scatter(data, root = 2)"), "root 2");
  CHECK_ERROR(value("cast(data, to = f9)"), "unknown dtype");
  CHECK_ERROR(value("nothing + 1"), "no input");
  CHECK_ERROR(parse(std::string(200, '(').c_str()), "levels");
}

}  // namespace
}  // namespace ringfence::verify
