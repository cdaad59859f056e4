#include "verify/inputs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "verify/error.hpp"
#include "verify/random.hpp"

namespace ringfence::verify {
namespace {

enum Stream : std::uint64_t { kX, kWeight, kResidual, kGamma, kBeta, kColumns, kRows };

void fill_normal(Tensor& tensor, const CounterRandom& random, float mean, float deviation) {
  const std::size_t count = tensor.elements();
  std::vector<float> block(std::min<std::size_t>(count, 4096));
  for (std::size_t begin = 0; begin < count; begin += block.size()) {
    const std::size_t n = std::min(block.size(), count - begin);
    for (std::size_t i = 0; i < n; ++i) block[i] = mean + deviation * random.normal(begin + i);
    round_to(tensor.dtype, block.data(), tensor.bytes.data() + begin * dtype_bytes(tensor.dtype),
             n);
  }
}

Inputs allocate(const Problem& p) {
  Inputs inputs;
  inputs.x = Tensor(p.dtype, {p.tokens, p.inner});
  inputs.weight = Tensor(p.dtype, {p.hidden, p.inner});
  inputs.residual = Tensor(p.dtype, {p.tokens, p.hidden});
  inputs.gamma = Tensor(p.dtype, {p.hidden});
  if (p.has_beta) inputs.beta = Tensor(p.dtype, {p.hidden});
  return inputs;
}

Inputs generate_normal(const Problem& p, std::uint64_t seed, std::uint64_t call) {
  Inputs inputs = allocate(p);
  const auto random = [&](Stream stream) { return CounterRandom(seed, call, stream); };
  fill_normal(inputs.x, random(kX), 0, 1);
  fill_normal(inputs.weight, random(kWeight), 0, 1 / std::sqrt(static_cast<float>(p.inner)));
  fill_normal(inputs.residual, random(kResidual), 0, 1);
  fill_normal(inputs.gamma, random(kGamma), 1, 0.1f);
  if (p.has_beta) fill_normal(inputs.beta, random(kBeta), 0, 0.1f);
  return inputs;
}

// The integer inputs. A row of x has one or two non-zero columns in each rank's share: ±1, and ±2
// if there is a second; every weight is odd. So each partial is odd, and none is 0.
class IntegerInputs {
 public:
  IntegerInputs(const Problem& p, bool exact_rows, std::uint64_t seed, std::uint64_t call)
      : p_(p),
        exact_rows_(exact_rows),
        seed_(seed),
        call_(call),
        weights_(seed, call, kWeight),
        columns_(seed, call, kColumns) {
    // Largest |partial_r|, from Σ_r|partial_r| + |residual| <= 256.
    std::int64_t partial_max = 0;
    if (exact_rows) {
      // |residual| = |z - Σ partial| <= 30 + Σ|partial|.
      partial_max = (256 - kTuple[0]) / 2 / p.ranks;
    } else {
      // With |z| <= limit, H·max z² <= 2^24; where that leaves nothing for a rank, 256 it is.
      const double root = std::floor(std::sqrt(0x1p24 / static_cast<double>(p.hidden)));
      std::int64_t limit = std::min<std::int64_t>(256, static_cast<std::int64_t>(root));
      if (limit - limit / 4 < p.ranks) limit = 256;
      residual_max_ = limit / 4;
      partial_max = (limit - residual_max_) / p.ranks;
    }
    terms_ = partial_max >= 3 && p.inner_per_rank() >= 2 ? 2 : 1;
    const std::int64_t weight_max = terms_ == 2 ? partial_max / 3 : partial_max;
    odd_weights_ = static_cast<std::uint32_t>((weight_max + 1) / 2);
  }

  Inputs make() const {
    Inputs inputs = allocate(p_);
    fill_weight(inputs.weight);
    const CounterRandom gamma(seed_, call_, kGamma);
    const CounterRandom beta(seed_, call_, kBeta);
    for (std::int64_t h = 0; h < p_.hidden; ++h) {
      put(inputs.gamma, h, signed_integer(gamma.bits(h), 3));
      if (p_.has_beta) put(inputs.beta, h, signed_integer(beta.bits(h), 3));
    }
    std::vector<Term> terms;
    for (std::int64_t t = 0; t < p_.tokens; ++t) {
      terms.clear();
      for (int rank = 0; rank < p_.ranks; ++rank) add_terms(t, rank, terms);
      for (const Term& term : terms) put(inputs.x, t * p_.inner + term.column, term.value);
      fill_residual(t, terms, inputs.residual);
    }
    return inputs;
  }

 private:
  struct Term {
    std::int64_t column;
    int value;
  };

  // Squares sum to 8·256; the largest comes first.
  static constexpr int kTuple[kVectorElements] = {30, 26, 18, 10, 6, 2, 2, 2};

  // Small enough to be exact in each dtype.
  static void put(Tensor& tensor, std::int64_t index, std::int64_t value) {
    const auto number = static_cast<float>(value);
    if (tensor.dtype == Dtype::f32) {
      tensor.floats()[index] = number;
    } else {
      tensor.bits()[index] = round_to(tensor.dtype, number);
    }
  }

  // ±1 .. ±largest
  static int signed_integer(std::uint64_t random, std::uint32_t largest) {
    const int magnitude =
        1 + static_cast<int>(CounterRandom::below(static_cast<std::uint32_t>(random), largest));
    return random >> 63 != 0 ? -magnitude : magnitude;
  }

  int weight(std::int64_t h, std::int64_t column) const {
    const std::uint64_t random = weights_.bits(static_cast<std::uint64_t>(h * p_.inner + column));
    const int odd = 1 + 2 * static_cast<int>(CounterRandom::below(
                                static_cast<std::uint32_t>(random), odd_weights_));
    return random >> 63 != 0 ? -odd : odd;
  }

  void fill_weight(Tensor& tensor) const {
    for (std::int64_t h = 0; h < p_.hidden; ++h) {
      for (std::int64_t k = 0; k < p_.inner; ++k) put(tensor, h * p_.inner + k, weight(h, k));
    }
  }

  void add_terms(std::int64_t t, int rank, std::vector<Term>& terms) const {
    const std::uint64_t random = columns_.bits(static_cast<std::uint64_t>(t * p_.ranks + rank));
    const std::int64_t share = p_.inner_per_rank();
    const std::int64_t begin = rank * share;
    const auto width = static_cast<std::uint64_t>(share);
    const std::uint64_t first = (random & 0x3fffffffu) % width;
    terms.push_back({begin + static_cast<std::int64_t>(first), random >> 62 & 1 ? -1 : 1});
    if (terms_ == 1) return;
    const std::uint64_t second = (first + 1 + (random >> 30 & 0x3fffffffu) % (width - 1)) % width;
    terms.push_back({begin + static_cast<std::int64_t>(second), random >> 63 & 1 ? -2 : 2});
  }

  void fill_residual(std::int64_t t, const std::vector<Term>& terms, Tensor& residual) const {
    const std::int64_t row = t * p_.hidden;
    if (!exact_rows_) {
      const CounterRandom random(seed_, call_, kResidual);
      const auto width = static_cast<std::uint32_t>(2 * residual_max_ + 1);
      for (std::int64_t h = 0; h < p_.hidden; ++h) {
        const std::uint64_t bits = random.bits(static_cast<std::uint64_t>(t * p_.hidden + h));
        put(residual, row + h,
            CounterRandom::below(static_cast<std::uint32_t>(bits >> 32), width) - residual_max_);
      }
      return;
    }
    for (std::int64_t first = 0; first < p_.hidden; first += kVectorElements) {
      int z[kVectorElements];
      make_vector(t * (p_.hidden / kVectorElements) + first / kVectorElements, z);
      for (int i = 0; i < kVectorElements; ++i) {
        int sum = 0;
        for (const Term& term : terms) sum += term.value * weight(first + i, term.column);
        put(residual, row + first + i, z[i] - sum);
      }
    }
  }

  // A signed permutation of the tuple, by exchanges from the back.
  void make_vector(std::int64_t vector, int (&z)[kVectorElements]) const {
    std::uint64_t random =
        CounterRandom(seed_, call_, kRows).bits(static_cast<std::uint64_t>(vector));
    for (int i = 0; i < kVectorElements; ++i) {
      z[i] = random & 1 ? -kTuple[i] : kTuple[i];
      random >>= 1;
    }
    for (int i = kVectorElements - 1; i > 0; --i) {
      std::swap(z[i], z[static_cast<int>(random % static_cast<std::uint64_t>(i + 1))]);
      random /= static_cast<std::uint64_t>(i + 1);
    }
  }

  const Problem p_;
  const bool exact_rows_;
  const std::uint64_t seed_;
  const std::uint64_t call_;
  const CounterRandom weights_;
  const CounterRandom columns_;
  std::int64_t residual_max_ = 0;
  int terms_ = 1;
  std::uint32_t odd_weights_ = 1;  // weights are ±1, ±3, .. ±(2·odd_weights_ - 1)
};

}  // namespace

const char* fill_name(Fill fill) {
  return fill == Fill::normal ? "normal" : fill == Fill::integers ? "integers" : "exact-rows";
}

Fill parse_fill(const std::string& name) {
  if (name == "normal") return Fill::normal;
  if (name == "integers") return Fill::integers;
  if (name == "exact-rows") return Fill::exact_rows;
  throw InputError(fmt::format("unknown fill '{}': use normal, integers or exact-rows", name));
}

bool residual_out_is_exact(Fill fill) { return fill != Fill::normal; }

bool out_is_exact(const Problem& problem, Fill fill) {
  // pypto multiplies by fl(1/H), which is exact for a power of two only.
  const bool power_of_two = (problem.hidden & (problem.hidden - 1)) == 0;
  return fill == Fill::exact_rows && (problem.flavour == Flavour::tokenweave || power_of_two);
}

Inputs generate(const Problem& problem, Fill fill, std::uint64_t seed, std::uint64_t call) {
  validate(problem, {false, false});
  if (fill == Fill::normal) return generate_normal(problem, seed, call);
  if (fill == Fill::exact_rows && problem.hidden > 65536) {
    throw InputError(
        fmt::format("--hidden {} is too large for exact rows: use 65536 or less", problem.hidden));
  }
  if (fill == Fill::exact_rows && problem.eps > 1e-5f) {
    throw InputError(
        fmt::format("--eps {} is not absorbed by exact rows: use 1e-5 or less", problem.eps));
  }
  return IntegerInputs(problem, fill == Fill::exact_rows, seed, call).make();
}

}  // namespace ringfence::verify
