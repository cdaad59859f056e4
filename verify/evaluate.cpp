// Evaluating expressions.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "verify/error.hpp"
#include "verify/expression.hpp"
#include "verify/expression_node.hpp"

namespace ringfence::verify {
namespace {

using Node = ExpressionNode;

const Node::Option* option(const Node& node, const char* name) {
  const auto found = node.options.find(name);
  return found == node.options.end() ? nullptr : &found->second;
}

double number_of(const Node& node, const char* name, double otherwise) {
  const Node::Option* const o = option(node, name);
  if (o == nullptr) return otherwise;
  if (o->numbers.size() != 1) {
    throw InputError(fmt::format("{}: {} is one number", node.text, name));
  }
  return o->numbers[0];
}

std::int64_t count_of(const Node& node, const char* name, std::int64_t otherwise) {
  const double n = number_of(node, name, static_cast<double>(otherwise));
  if (n != std::floor(n) || n < 0 || n > 0x1p40) {
    throw InputError(
        fmt::format("{}: {} is {}; expected a whole number from 0 on", node.text, name, n));
  }
  return static_cast<std::int64_t>(n);
}

double eps_of(const Node& node) {
  const double eps = number_of(node, "eps", 0);
  // What the kernels are handed is an fp32 number.
  if (!(eps >= 0) || !std::isfinite(eps)) {
    throw InputError(fmt::format("{}: eps is {}; expected 0 or more", node.text, eps));
  }
  return static_cast<double>(static_cast<float>(eps));
}

Dtype dtype_of(const Node& node, const char* name) {
  const Node::Option* const o = option(node, name);
  if (o->word.empty()) throw InputError(fmt::format("{}: {} is a dtype", node.text, name));
  return parse_dtype(o->word);
}

// Columns that share a scale: of per = tensor | row | N.
std::int64_t group_of(const Node& node) {
  const Node::Option* const o = option(node, "per");
  if (o == nullptr || o->word == "row") return 0;
  if (o->word == "tensor") return -1;
  const std::int64_t n = o->word.empty() ? count_of(node, "per", 0) : 0;
  if (n < 1)
    throw InputError(fmt::format("{}: per is tensor, row or a number of columns", node.text));
  return n;
}

// Elements first .. first + count of a flat tensor, in the shape that `columns` gives.
Values slice(const Values& v, std::int64_t first, std::int64_t count, std::int64_t columns) {
  if (first < 0 || count < 0 || first + count > static_cast<std::int64_t>(v.size())) {
    throw InputError(
        fmt::format("elements {} to {} of a tensor that has {}", first, first + count, v.size()));
  }
  Values out = v;
  const auto cut = [&](auto& all) {
    if (all.empty()) return;
    all = {all.begin() + first, all.begin() + first + count};
  };
  cut(out.value);
  cut(out.low);
  cut(out.high);
  cut(out.bits);
  out.rows = 1;
  out.columns = count;
  reshape(out, columns);
  return out;
}

Values part(const Values& v, std::uint32_t index, std::uint32_t parts, std::int64_t columns) {
  const auto all = static_cast<std::int64_t>(v.size());
  if (all % parts != 0) {
    throw InputError(fmt::format("{} elements do not divide by {} ranks", all, parts));
  }
  return slice(v, all / parts * index, all / parts, columns);
}

void append(Values& to, const Values& more) {
  const auto add = [](auto& a, const auto& b) { a.insert(a.end(), b.begin(), b.end()); };
  add(to.value, more.value);
  add(to.low, more.low);
  add(to.high, more.high);
  add(to.bits, more.bits);
  to.rows = 1;
  to.columns = static_cast<std::int64_t>(to.integer ? to.bits.size() : to.value.size());
}

// A whole number beside integers is one of their type.
Values beside(const Node& node, Values v, const Values& other) {
  if (node.kind != Node::Kind::number || !node.whole || !other.integer) return v;
  Values out;
  out.integer = true;
  out.dtype = other.dtype;
  out.bits = {encode(other.dtype, node.number)};
  return out;
}

}  // namespace

Values Evaluator::of(const Expression& expression, std::uint32_t rank) {
  return *of(expression.root(), rank);
}

bool Evaluator::depends_on_rank(const Expression& expression) {
  return depends_on_rank(expression.root());
}

bool Evaluator::depends_on_rank(const Node& node, unsigned depth) {
  if (node.kind == Node::Kind::name) {
    const auto named = context_.named.find(node.text);
    // A circle is told where it is evaluated.
    if (named == context_.named.end() || depth > context_.named.size()) return true;
    return depends_on_rank(named->second.root(), depth + 1);
  }
  if (node.kind == Node::Kind::call && find_function(node.text)->over_ranks) {
    return node.text == "scatter" || node.text == "all_to_all" || node.text == "peer";
  }
  if (node.text == "part") return true;
  return std::any_of(node.parts.begin(), node.parts.end(),
                     [&](const Node& n) { return depends_on_rank(n, depth); });
}

Evaluator::Shared Evaluator::of(const Node& node, std::uint32_t rank) {
  const std::pair<const Node*, std::uint32_t> key{&node, depends_on_rank(node) ? rank : ~0u};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  auto made = std::make_shared<const Values>(compute(node, rank));
  known_[key] = made;
  return made;
}

Values Evaluator::compute(const Node& node, std::uint32_t rank) {
  switch (node.kind) {
    case Node::Kind::number:
      return constant(node.number);
    case Node::Kind::name:
      return name(node, rank);
    case Node::Kind::negate:
      return apply(Unary::negate, *of(node.parts[0], rank));
    case Node::Kind::binary: {
      const Shared a = of(node.parts[0], rank), b = of(node.parts[1], rank);
      return combine(node.operation, beside(node.parts[0], *a, *b), beside(node.parts[1], *b, *a));
    }
    case Node::Kind::call:
      break;
  }
  return find_function(node.text)->over_ranks ? over_ranks(node, rank) : call(node, rank);
}

Values Evaluator::name(const Node& node, std::uint32_t rank) {
  const auto named = context_.named.find(node.text);
  if (named == context_.named.end()) {
    Values v = context_.input(node.text, rank);
    reshape(v, context_.columns);
    return v;
  }
  if (std::find(open_.begin(), open_.end(), node.text) != open_.end()) {
    throw InputError(fmt::format("'{}' is defined by itself", node.text));
  }
  open_.push_back(node.text);
  Values v = *of(named->second.root(), rank);
  open_.pop_back();
  const auto rounded = context_.rounded.find(node.text);
  return rounded == context_.rounded.end() ? v : cast(v, rounded->second);
}

Values Evaluator::over_ranks(const Node& node, std::uint32_t rank) {
  const std::string& f = node.text;
  const Node& from = node.parts[0];
  const std::int64_t columns = context_.columns;
  const auto shaped = [&](Values v) {
    reshape(v, columns);
    return v;
  };
  if (f == "peer") {
    const auto distance = static_cast<std::uint64_t>(count_of(node, "distance", 0));
    return *of(from, static_cast<std::uint32_t>((rank + distance) % context_.ranks));
  }
  if (f == "scatter" || f == "broadcast") {
    const std::int64_t root = count_of(node, "root", 0);
    if (root >= context_.ranks) {
      throw InputError(fmt::format("{}: root {} of {} ranks", f, root, context_.ranks));
    }
    const Values& v = *of(from, static_cast<std::uint32_t>(root));
    return f == "scatter" ? part(v, rank, context_.ranks, columns) : v;
  }
  std::vector<Shared> held;  // the argument on all ranks
  std::vector<const Values*> parts;
  for (std::uint32_t r = 0; r < context_.ranks; ++r) {
    held.push_back(of(from, r));
    parts.push_back(held.back().get());
    if (parts[r]->size() != parts[0]->size()) {
      throw InputError(fmt::format("{}: {} elements of rank 0, {} of rank {}", f, parts[0]->size(),
                                   parts[r]->size(), r));
    }
  }
  if (f == "concat" || f == "all_to_all") {
    Values out;
    for (std::uint32_t r = 0; r < context_.ranks; ++r) {
      const Values piece = f == "concat" ? *parts[r] : part(*parts[r], rank, context_.ranks, 0);
      if (r == 0) {
        out = piece;
      } else {
        append(out, piece);
      }
    }
    return shaped(out);
  }
  Accumulation how = context_.accumulation;
  if (parts[0]->dtype == Dtype::f64) how.dtype = Dtype::f64;
  if (option(node, "accumulate") != nullptr) how.dtype = dtype_of(node, "accumulate");
  const Reduction what = f == "sum"       ? Reduction::sum
                         : f == "product" ? Reduction::product
                         : f == "max"     ? Reduction::max
                                          : Reduction::min;
  return reduce(what, parts, how);
}

Values Evaluator::call(const Node& node, std::uint32_t rank) {
  const std::string& f = node.text;
  const auto argument = [&](std::size_t i) -> const Values& { return *of(node.parts[i], rank); };
  if (f == "part") return part(argument(0), rank, context_.ranks, context_.columns);
  if (f == "slice") {
    return slice(argument(0), count_of(node, "first", 0), count_of(node, "count", 0),
                 context_.columns);
  }
  if (f == "rows") {
    Values v = argument(0);
    const std::int64_t columns = count_of(node, "columns", 0);
    if (columns < 1 || static_cast<std::int64_t>(v.size()) % columns != 0) {
      throw InputError(fmt::format("rows of {} do not divide {} elements", columns, v.size()));
    }
    reshape(v, columns);
    return v;
  }
  if (f == "matmul") {
    const Node::Option* const tiles = option(node, "tiles");
    if (tiles != nullptr && (tiles->numbers.size() != 3 || !(tiles->numbers[1] >= 1))) {
      throw InputError("matmul: tiles is [M, K, N], each from 1 on");
    }
    // M and N say which elements a tile has; the order of a sum is K's.
    const std::int64_t tile = tiles == nullptr ? 0 : static_cast<std::int64_t>(tiles->numbers[1]);
    return matmul(argument(0), argument(1), count_of(node, "inner", 0), tile);
  }
  if (f == "cast") return cast(argument(0), dtype_of(node, "to"));
  if (f == "maximum" || f == "minimum") {
    return combine(f == "maximum" ? Binary::max : Binary::min,
                   beside(node.parts[0], argument(0), argument(1)),
                   beside(node.parts[1], argument(1), argument(0)));
  }
  if (f == "abs") return apply(Unary::absolute, argument(0));
  if (f == "exp") return apply(Unary::exponential, argument(0));
  if (f == "sqrt") return apply(Unary::root, argument(0));
  if (f == "rsqrt") return apply(Unary::reciprocal_root, argument(0));
  if (f == "silu") {
    const Values& x = argument(0);
    const Values below =
        combine(Binary::add, constant(1), apply(Unary::exponential, apply(Unary::negate, x)));
    return combine(Binary::divide, x, below);
  }
  if (f == "row_sum") return row_sum(argument(0));
  if (f == "rms") return reciprocal_rms(argument(0), eps_of(node));
  if (f == "rmsnorm") {
    const Values scaled =
        combine(Binary::multiply, argument(0), reciprocal_rms(argument(0), eps_of(node)));
    return combine(Binary::multiply, scaled, argument(1));
  }
  if (f == "layernorm") {
    Values y = normalise(argument(0), eps_of(node));
    if (node.parts.size() > 1) y = combine(Binary::multiply, y, argument(1));
    if (node.parts.size() > 2) y = combine(Binary::add, y, argument(2));
    return y;
  }
  if (f == "softmax") return softmax(argument(0));
  if (f == "amax") return largest_magnitude(argument(0), group_of(node));
  if (f == "scale_of") {
    const Dtype to = dtype_of(node, "to");
    const double largest = is_integer(to)
                               ? decode(to, encode(to, std::ldexp(1.0, 60)))  // saturates
                               : largest_finite(to);
    const Values most = combine(Binary::max, largest_magnitude(argument(0), group_of(node)),
                                constant(number_of(node, "least", 0)));
    return combine(Binary::divide, most, constant(largest));
  }
  // quantise
  return cast(combine(Binary::divide, argument(0), argument(1)), dtype_of(node, "to"));
}

}  // namespace ringfence::verify
