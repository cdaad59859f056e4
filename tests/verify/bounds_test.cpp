// The bounds are tight: what a broken protocol does to one 16-byte vector is always seen.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/compare.hpp"
#include "verify/product.hpp"
#include "verify/random.hpp"
#include "verify/reference.hpp"

namespace ringfence::verify {
namespace {

constexpr std::int64_t kTokens = 8;
constexpr int kTrials = 1000;

// Two calls' partials and the reference of the second, for a few rows at a bench size.
struct Bench {
  Problem problem;
  Inputs inputs;
  std::vector<Tensor> previous;
  std::vector<Tensor> current;
  FusedReference reference;
  Outputs right;
  Outputs right_before;
  Summation policy;

  Bench(Flavour flavour, Dtype dtype, std::int64_t hidden, Summation policy) : policy(policy) {
    problem.flavour = flavour;
    problem.ranks = 8;
    problem.tokens = kTokens;
    problem.inner = 1024;
    problem.hidden = hidden;
    problem.dtype = dtype;
    const Inputs before = generate(problem, Fill::normal, 99, 0);
    inputs = generate(problem, Fill::normal, 99, 1);
    for (int r = 0; r < problem.ranks; ++r) previous.push_back(product(problem, before, r));
    for (int r = 0; r < problem.ranks; ++r) current.push_back(product(problem, inputs, r));
    right_before = exact_fused(problem, before, pointers(previous), policy);
    right = exact_fused(problem, inputs, pointers(current), policy);
    reference = fused_reference(problem, inputs, pointers(current), policy, {0, kTokens});
  }

  static Partials pointers(const std::vector<Tensor>& tensors) {
    Partials partials;
    for (const Tensor& tensor : tensors) partials.push_back(tensor.bits());
    return partials;
  }

  Comparison compare_row(const char* name, std::int64_t row, const std::uint16_t* actual,
                         const std::vector<double>& expected,
                         const std::vector<double>& bound) const {
    const auto at = static_cast<std::size_t>(row * problem.hidden);
    return compare(name, problem.dtype, {kTokens, problem.hidden}, actual, expected.data() + at,
                   bound.data() + at, static_cast<std::size_t>(problem.hidden), at);
  }
};

enum class Fault { lost, doubled, previous_call, wrong_rank };

// One trial: rank `rank`'s vector is summed wrongly. Whether out, and residual_out, show it.
struct Seen {
  bool out;
  bool residual_out;
};
Seen trial(const Bench& bench, Fault fault, std::uint64_t number) {
  const Problem& p = bench.problem;
  const CounterRandom random(3, static_cast<std::uint64_t>(fault), number);
  const auto row = static_cast<std::int64_t>(random.bits(0) % kTokens);
  const auto vector = random.bits(1) % static_cast<std::uint64_t>(p.hidden / kVectorElements);
  const std::size_t rank = random.bits(2) % 8;
  const std::size_t other = (rank + 1 + random.bits(3) % 7) % 8;
  // A row of every rank, one vector of one of them spoilt.
  std::vector<std::vector<std::uint16_t>> rows;
  for (const Tensor& partial : bench.current) {
    rows.emplace_back(partial.row(row), partial.row(row) + p.hidden);
  }
  const std::size_t first = vector * kVectorElements;
  for (std::size_t i = first; i < first + kVectorElements; ++i) {
    std::uint16_t& spoilt = rows[rank][i];
    if (fault == Fault::lost) spoilt = 0;
    if (fault == Fault::doubled) spoilt = round_to(p.dtype, 2 * to_float(p.dtype, spoilt));
    if (fault == Fault::previous_call) spoilt = bench.previous[rank].row(row)[i];
    if (fault == Fault::wrong_rank) spoilt = bench.current[other].row(row)[i];
  }
  std::vector<const std::uint16_t*> partials;
  for (const auto& values : rows) partials.push_back(values.data());
  std::vector<std::uint16_t> v(static_cast<std::size_t>(p.hidden), 0), out = v, residual_out = v;
  if (p.flavour == Flavour::tokenweave) {
    reduce_vector(bench.policy, p.dtype, partials.data(), p.ranks, nullptr, v.size(), v.data());
  } else {
    for (const std::uint16_t* partial : partials) atomic_add(p.dtype, partial, v.size(), v.data());
  }
  const Norm norm{p.dtype, p.hidden, p.eps, bench.inputs.gamma.bits(), nullptr, {}};
  const auto whole_row =
      p.flavour == Flavour::pypto ? pypto_row<std::uint16_t> : tokenweave_row<std::uint16_t>;
  whole_row(norm, v.data(), bench.inputs.residual.row(row), out.data(), residual_out.data());
  const FusedReference& expected = bench.reference;
  return {!bench.compare_row("out", row, out.data(), expected.out, expected.out_bound).passed(),
          !bench
               .compare_row("residual_out", row, residual_out.data(), expected.residual_out,
                            expected.residual_out_bound)
               .passed()};
}

void check_all_faults(const Bench& bench) {
  const Problem& p = bench.problem;
  // The right result passes, so that what is flagged is the fault.
  for (std::int64_t row = 0; row < kTokens; ++row) {
    CHECK(bench
              .compare_row("out", row, bench.right.out.row(row), bench.reference.out,
                           bench.reference.out_bound)
              .passed());
  }
  for (const Fault fault : {Fault::lost, Fault::doubled, Fault::previous_call, Fault::wrong_rank}) {
    CAPTURE(static_cast<int>(fault));
    int out = 0, residual_out = 0;
    for (std::uint64_t number = 0; number < kTrials; ++number) {
      const Seen seen = trial(bench, fault, number);
      out += seen.out;
      residual_out += seen.residual_out;
    }
    CHECK(out == kTrials);
    CHECK(residual_out == kTrials);
  }
  // A vector of out that was never stored: the buffer still has rank 0's partial there; or the
  // previous call's out; or another row's.
  int partial_left = 0, previous_left = 0, other_row = 0;
  for (std::uint64_t number = 0; number < kTrials; ++number) {
    const CounterRandom random(4, 0, number);
    const auto row = static_cast<std::int64_t>(random.bits(0) % kTokens);
    const auto first = static_cast<std::int64_t>(
        random.bits(1) % static_cast<std::uint64_t>(p.hidden / kVectorElements) * kVectorElements);
    const auto flagged = [&](const std::uint16_t* stale) {
      const auto at = static_cast<std::size_t>(row * p.hidden + first);
      return !compare("out", p.dtype, {kTokens, p.hidden}, stale, bench.reference.out.data() + at,
                      bench.reference.out_bound.data() + at, kVectorElements, at)
                  .passed();
    };
    partial_left += flagged(bench.current[0].row(row) + first);
    previous_left += flagged(bench.right_before.out.row(row) + first);
    other_row += flagged(bench.right.out.row((row + 1) % kTokens) + first);
  }
  CHECK(partial_left == kTrials);
  CHECK(previous_left == kTrials);
  CHECK(other_row == kTrials);
}

TEST_CASE("tokenweave, widest bound: each spoilt vector is flagged, H 5120") {
  check_all_faults(Bench(Flavour::tokenweave, Dtype::bf16, 5120, Summation::fp32_truncated));
}
TEST_CASE("tokenweave, widest bound: each spoilt vector is flagged, H 7168") {
  check_all_faults(Bench(Flavour::tokenweave, Dtype::bf16, 7168, Summation::fp32_truncated));
}
TEST_CASE("tokenweave, widest bound: each spoilt vector is flagged, H 8192") {
  check_all_faults(Bench(Flavour::tokenweave, Dtype::bf16, 8192, Summation::fp32_truncated));
}
TEST_CASE("tokenweave in fp16: each spoilt vector is flagged, H 5120") {
  check_all_faults(Bench(Flavour::tokenweave, Dtype::f16, 5120, Summation::fp32_rank_order));
}
TEST_CASE("tokenweave, rounding at each step: each spoilt vector is flagged, H 5120") {
  check_all_faults(Bench(Flavour::tokenweave, Dtype::bf16, 5120, Summation::each_step));
}
TEST_CASE("pypto: each spoilt vector is flagged, H 5120") {
  check_all_faults(Bench(Flavour::pypto, Dtype::bf16, 5120, Summation::each_step));
}
TEST_CASE("pypto: each spoilt vector is flagged, H 7168") {
  check_all_faults(Bench(Flavour::pypto, Dtype::bf16, 7168, Summation::each_step));
}
TEST_CASE("pypto: each spoilt vector is flagged, H 8192") {
  check_all_faults(Bench(Flavour::pypto, Dtype::bf16, 8192, Summation::each_step));
}

// A row of equal values through bound_row.
struct OneRow {
  Problem problem;
  std::vector<double> sum, magnitude, error, residual, gamma, beta;
  FusedReference result;

  explicit OneRow(std::size_t hidden)
      : sum(hidden, 0),
        magnitude(hidden, 0),
        error(hidden, 0),
        residual(hidden, 0),
        gamma(hidden, 1) {
    problem.ranks = 4;
    problem.hidden = static_cast<std::int64_t>(hidden);
    problem.eps = 0;
  }
  void run(Summation policy) {
    for (auto* part :
         {&result.out, &result.out_bound, &result.residual_out, &result.residual_out_bound}) {
      part->assign(sum.size(), 0);
    }
    bound_row(problem, policy,
              {sum.data(), magnitude.data(), error.data(), residual.data(), gamma.data(), nullptr,
               result.out.data(), result.out_bound.data(), result.residual_out.data(),
               result.residual_out_bound.data()});
  }
};

TEST_CASE("the bound is the formula's: equal elements, computed by hand") {
  // R = 4, p = 1 on each rank, residual 12: v = 4, z = 16, s = 1/16, out = 1.
  const double u = 0x1p-8;
  const double gamma_r = 3 * 0x1p-24;
  struct Expectation {
    Summation policy;
    double e;
    double u_v;
  };
  for (const Expectation& x : {Expectation{Summation::exact_once, 0, u},
                               Expectation{Summation::fp32_rank_order, gamma_r * 4, u},
                               Expectation{Summation::fp32_truncated, gamma_r * 4, 2 * u},
                               Expectation{Summation::each_step, 3 * u * 4, u}}) {
    CAPTURE(summation_name(x.policy));
    OneRow row(64);
    row.sum.assign(64, 4);
    row.magnitude.assign(64, 4);
    row.residual.assign(64, 12);
    row.error.assign(64, 0.001);
    row.run(x.policy);
    const double dv = 0.001 + x.e + x.u_v * 4;
    const double dz = dv + u * 16;
    const double rel = (2 * 16 * dz + dz * dz) / (2 * 256) + 68 * 0x1p-24 + 0x1p-22;
    const double dout = (dz + 16 * rel) / 16 + 2 * u;
    CHECK(row.result.residual_out[5] == 16);
    CHECK(row.result.out[5] == 1);
    // Not below the first-order formula, and above it by no more than its second order.
    CHECK(row.result.residual_out_bound[5] >= dz);
    CHECK(row.result.residual_out_bound[5] <= dz * 1.02);
    CHECK(row.result.out_bound[5] >= dout);
    CHECK(row.result.out_bound[5] <= dout * 1.03);
  }
}

TEST_CASE("pypto's bound rounds z only for residual_out, and out once") {
  OneRow row(64);
  row.problem.flavour = Flavour::pypto;
  row.sum.assign(64, 4);
  row.magnitude.assign(64, 4);
  row.residual.assign(64, 12);
  row.run(Summation::exact_once);  // each_step, whatever is asked
  const double u = 0x1p-8;
  const double dz = 3 * u * 4 + u * 4;
  const double rel = (2 * 16 * dz + dz * dz) / (2 * 256);
  const double dout = (dz + 16 * rel) / 16 + u;
  CHECK(row.result.residual_out_bound[0] >= dz + u * 16);
  CHECK(row.result.residual_out_bound[0] <= (dz + u * 16) * 1.02);
  CHECK(row.result.out_bound[0] >= dout);
  CHECK(row.result.out_bound[0] <= dout * 1.03);
}

TEST_CASE("an overflow is carried as the kernel has it") {
  const double infinity = std::numeric_limits<double>::infinity();
  OneRow row(64);
  row.problem.dtype = Dtype::f16;
  row.sum.assign(64, 1);
  row.magnitude.assign(64, 1);
  SUBCASE("a sum beyond fp16 is infinite, its out NaN and the others' 0") {
    row.sum[3] = row.magnitude[3] = 70000;
    row.run(Summation::fp32_rank_order);
    CHECK(row.result.residual_out[3] == infinity);
    CHECK(std::isnan(row.result.out[3]));
    CHECK(row.result.out[4] == 0);
    CHECK(row.result.out_bound[4] < 1e-6);
  }
  SUBCASE("truncated it is the largest number") {
    row.sum[3] = row.magnitude[3] = 70000;
    row.run(Summation::fp32_truncated);
    CHECK(row.result.residual_out[3] == 65504);
  }
  SUBCASE("near the threshold both are right") {
    row.sum[3] = row.magnitude[3] = 65519;
    row.error[3] = 2;
    row.run(Summation::fp32_rank_order);
    CHECK(row.result.residual_out_bound[3] == infinity);
    CHECK(row.result.out_bound[4] == infinity);
  }
  SUBCASE("an order that overflows on the way makes either right, where each step rounds") {
    row.magnitude[3] = 131000;
    row.run(Summation::each_step);
    CHECK(row.result.residual_out_bound[3] == infinity);
    row.run(Summation::fp32_rank_order);
    CHECK(row.result.residual_out_bound[3] < 1);
  }
}

TEST_CASE("squares that overflow fp32 make out 0, by the sum in tokenweave and singly in pypto") {
  OneRow row(64);
  row.residual.assign(64, 0x1p62);
  row.run(Summation::fp32_rank_order);  // Σz² = 2^130
  CHECK(row.result.out[0] == 0);
  CHECK(row.result.out_bound[0] < 1e-30);
  row.problem.flavour = Flavour::pypto;
  row.run(Summation::each_step);  // z² = 2^124, mean 2^124
  CHECK(row.result.out[0] == 1);
  row.residual.assign(64, 0x1p65);
  row.run(Summation::each_step);
  CHECK(row.result.out[0] == 0);
}

TEST_CASE("what a NaN reaches is NaN and nothing else") {
  OneRow row(64);
  row.sum.assign(64, 1);
  row.magnitude.assign(64, 1);
  row.sum[7] = row.magnitude[7] = std::nan("");
  row.run(Summation::fp32_rank_order);
  CHECK(std::isnan(row.result.residual_out[7]));
  CHECK(row.result.residual_out[8] == 1);
  CHECK(std::isfinite(row.result.residual_out_bound[8]));
  CHECK(std::isnan(row.result.out[8]));
}

}  // namespace
}  // namespace ringfence::verify
