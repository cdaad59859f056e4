#include "cuda/host/verification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "verify/product.hpp"
#include "verify/reference.hpp"
#include "verify/summation.hpp"

namespace ringfence::cuda {
namespace {

using verify::Comparison;
using verify::Fill;
using verify::Flavour;
using verify::Inputs;
using verify::Problem;
using verify::RowRange;
using verify::Tensor;

constexpr double kProductBudget = 4e9;   // multiplications in double, a call
constexpr double kFusedBudget = 1.6e7;   // elements, a call

/// Rows to judge so that about `most` are.
std::vector<int64_t> choose_rows(const Problem& p, int64_t most) {
  std::set<int64_t> rows;
  if (p.tokens <= most) {
    for (int64_t i = 0; i < p.tokens; ++i) rows.insert(i);
    return {rows.begin(), rows.end()};
  }
  for (int r = 0; r < p.ranks; ++r) {
    const RowRange own = p.rows_of(r);
    if (own.count() > 0) {
      rows.insert(own.begin);
      rows.insert(own.end - 1);
    }
  }
  for (int64_t i = 0; i < most; ++i) rows.insert(i * p.tokens / most);
  return {rows.begin(), rows.end()};
}

int64_t rows_within(double budget, double cost_of_a_row) {
  return std::max<int64_t>(8, static_cast<int64_t>(budget / cost_of_a_row));
}

void add(Comparison& total, bool& first, Comparison part) {
  if (first) {
    total = std::move(part);
    first = false;
  } else {
    total.merge(part);
  }
}

Comparison judge_product(const Problem& p, Fill fill, const Inputs& inputs,
                         const CallResult& result) {
  Comparison total;
  bool first = true;
  const double cost = static_cast<double>(p.hidden) * static_cast<double>(p.inner);
  const std::vector<int64_t> rows = choose_rows(p, rows_within(kProductBudget, cost));
  const size_t h = static_cast<size_t>(p.hidden);
  for (int r = 0; r < p.ranks; ++r) {
    const std::string name = fmt::format("product[{}]", r);
    for (int64_t row : rows) {
      const verify::ProductReference reference =
          verify::product_reference(p, inputs, r, {row, row + 1});
      const uint16_t* actual = result.partial[static_cast<size_t>(r)].data() +
                               static_cast<size_t>(row) * h;
      const size_t at = static_cast<size_t>(row) * h;
      if (verify::residual_out_is_exact(fill)) {
        std::vector<uint16_t> expected(h);
        for (size_t i = 0; i < h; ++i) {
          expected[i] = verify::round_double_to(p.dtype, reference.value[i]);
        }
        add(total, first, verify::compare_bits(name, p.dtype, {p.tokens, p.hidden}, actual,
                                               expected.data(), h, at));
      } else {
        add(total, first, verify::compare(name, p.dtype, {p.tokens, p.hidden}, actual,
                                          reference.value.data(), reference.bound.data(), h, at));
      }
    }
  }
  total.name = "product";
  return total;
}

/// Rows that belong together, so that the reference runs over blocks instead of rows.
std::vector<RowRange> ranges_of(const std::vector<int64_t>& rows) {
  std::vector<RowRange> ranges;
  for (int64_t row : rows) {
    if (!ranges.empty() && ranges.back().end == row && ranges.back().count() < 64) {
      ++ranges.back().end;
    } else {
      ranges.push_back({row, row + 1});
    }
  }
  return ranges;
}

/// The rank whose residual_out holds a row.
int owner_of(const Problem& p, int64_t row) {
  for (int r = 0; r < p.ranks; ++r) {
    const RowRange own = p.rows_of(r);
    if (row >= own.begin && row < own.end) return r;
  }
  return 0;
}

void judge_fused(const Problem& p, Fill fill, const Inputs& inputs, const CallResult& result,
                 CallVerdict& verdict) {
  const bool pypto = p.flavour == Flavour::pypto;
  const verify::Summation policy =
      pypto ? verify::Summation::each_step : verify::Summation::fp32_rank_order;
  const double cost_of_a_row = static_cast<double>(p.hidden) *
                               (pypto ? static_cast<double>(p.inner) * kFusedBudget / kProductBudget
                                      : 1.0);
  const std::vector<int64_t> rows =
      choose_rows(p, rows_within(kFusedBudget, std::max(1.0, cost_of_a_row)));
  verify::Partials partials;
  for (const auto& partial : result.partial) partials.push_back(partial.data());
  Comparison out, residual_out;
  bool first_out = true, first_residual = true;
  const verify::Shape shape{p.tokens, p.hidden};
  const size_t h = static_cast<size_t>(p.hidden);
  const bool whole_vectors = p.hidden % verify::kVectorElements == 0;
  for (const RowRange& range : ranges_of(rows)) {
    const verify::FusedReference reference =
        pypto ? verify::operator_reference(p, inputs, policy, range)
              : verify::fused_reference(p, inputs, partials, policy, range);
    std::vector<uint16_t> exact_out, exact_residual;
    const bool out_exact = verify::out_is_exact(p, fill) && whole_vectors && !pypto;
    if (out_exact) {
      exact_out.resize(static_cast<size_t>(range.count()) * h);
      exact_residual.resize(exact_out.size());
      verify::exact_fused(p, inputs, partials, policy, range, exact_out.data(),
                          exact_residual.data());
    }
    for (int64_t row = range.begin; row < range.end; ++row) {
      // tokenweave's replicas are compared whole, so rank 0's out stands for all; pypto's ranks add
      // in orders of their own, so each is judged.
      for (int rank = 0; rank < (pypto ? p.ranks : 1); ++rank) {
        const int owner = pypto ? rank : owner_of(p, row);
        const size_t at = static_cast<size_t>(row) * h;
        const size_t in_range = static_cast<size_t>(row - range.begin) * h;
        const uint16_t* actual_out = result.out[static_cast<size_t>(rank)].data() + at;
        const uint16_t* actual_residual =
            result.residual_out[static_cast<size_t>(owner)].data() + at;
        if (out_exact) {
          add(out, first_out,
              verify::compare_bits("out", p.dtype, shape, actual_out, exact_out.data() + in_range,
                                   h, at));
        } else {
          add(out, first_out,
              verify::compare("out", p.dtype, shape, actual_out, reference.out.data() + in_range,
                              reference.out_bound.data() + in_range, h, at));
        }
        if (verify::residual_out_is_exact(fill)) {
          std::vector<uint16_t> expected(h);
          for (size_t i = 0; i < h; ++i) {
            expected[i] = verify::round_double_to(p.dtype, reference.residual_out[in_range + i]);
          }
          add(residual_out, first_residual,
              verify::compare_bits("residual_out", p.dtype, shape, actual_residual,
                                   expected.data(), h, at));
        } else {
          add(residual_out, first_residual,
              verify::compare("residual_out", p.dtype, shape, actual_residual,
                              reference.residual_out.data() + in_range,
                              reference.residual_out_bound.data() + in_range, h, at));
        }
      }
    }
  }
  verdict.comparisons.push_back(out);
  verdict.comparisons.push_back(residual_out);
}

void check_replicas(const Problem& p, const CallResult& result, CallVerdict& verdict) {
  const size_t elements = static_cast<size_t>(p.tokens) * static_cast<size_t>(p.hidden);
  const bool pypto = p.flavour == Flavour::pypto;
  for (size_t r = 1; r < result.out.size(); ++r) {
    const auto differs = [&](const std::vector<std::vector<uint16_t>>& replicas, const char* name) {
      if (std::memcmp(replicas[0].data(), replicas[r].data(), elements * 2) == 0) return;
      size_t i = 0;
      while (replicas[0][i] == replicas[r][i]) ++i;
      verdict.faults.push_back(fmt::format(
          "replica-mismatch: {} of rank 0 and rank {} differ first at [{}, {}]: 0x{:04x}, 0x{:04x}",
          name, r, i / static_cast<size_t>(p.hidden), i % static_cast<size_t>(p.hidden),
          replicas[0][i], replicas[r][i]));
    };
    // pypto's ranks add in orders of their own, and round at each step: judge_fused has each.
    if (!pypto) differs(result.out, "out");
  }
}

void check_poison(const Problem& p, const CallResult& result, CallVerdict& verdict) {
  const size_t h = static_cast<size_t>(p.hidden);
  const auto untouched = [&](const std::vector<uint16_t>& tensor, size_t row, const char* name,
                             size_t rank) {
    for (size_t i = 0; i < h; ++i) {
      if (tensor[row * h + i] != kPoison) {
        verdict.faults.push_back(
            fmt::format("out-of-bounds: rank {} wrote {}[{}, {}], which is not its row", rank, name,
                        row, i));
        return false;
      }
    }
    return true;
  };
  for (size_t r = 0; r < result.out.size(); ++r) {
    const size_t rows = result.out[r].size() / h;
    for (size_t row = static_cast<size_t>(p.tokens); row < rows; ++row) {
      if (!untouched(result.out[r], row, "out", r)) break;
    }
    const RowRange own = p.rows_of(static_cast<int>(r));
    for (size_t row = 0; row < result.residual_out[r].size() / h; ++row) {
      const bool mine = static_cast<int64_t>(row) >= own.begin && static_cast<int64_t>(row) < own.end;
      if (!mine && !untouched(result.residual_out[r], row, "residual_out", r)) break;
    }
  }
}

Tensor cut_columns(const Tensor& from, int64_t columns) {
  const int64_t rows = from.shape.size() == 2 ? from.shape[0] : 1;
  Tensor to(from.dtype, from.shape.size() == 2 ? verify::Shape{rows, columns}
                                               : verify::Shape{columns});
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(from.bits() + i * from.shape.back(), columns, to.bits() + i * columns);
  }
  return to;
}

}  // namespace

bool CallVerdict::passed() const {
  return faults.empty() && !comparisons.empty() &&
         std::all_of(comparisons.begin(), comparisons.end(),
                     [](const Comparison& c) { return c.passed(); });
}

CallVerdict judge(const Problem& problem, Fill fill, const Inputs& inputs,
                  const CallResult& result) {
  CallVerdict verdict;
  if (!result.partial.empty()) {
    verdict.comparisons.push_back(judge_product(problem, fill, inputs, result));
  }
  judge_fused(problem, fill, inputs, result, verdict);
  check_replicas(problem, result, verdict);
  check_poison(problem, result, verdict);
  return verdict;
}

Inputs make_inputs(const Problem& problem, Fill fill, uint64_t seed, uint64_t call) {
  constexpr int64_t kUnit = verify::kVectorElements;
  if (problem.hidden % kUnit == 0) return verify::generate(problem, fill, seed, call);
  Problem wider = problem;
  wider.hidden = (problem.hidden + kUnit - 1) / kUnit * kUnit;
  Inputs inputs = verify::generate(wider, fill, seed, call);
  Tensor weight(problem.dtype, {problem.hidden, problem.inner});
  std::copy_n(inputs.weight.bits(), weight.elements(), weight.bits());
  inputs.weight = std::move(weight);
  inputs.residual = cut_columns(inputs.residual, problem.hidden);
  inputs.gamma = cut_columns(inputs.gamma, problem.hidden);
  if (inputs.has_beta()) inputs.beta = cut_columns(inputs.beta, problem.hidden);
  return inputs;
}

Tensor whole_out(const Problem& problem, const CallResult& result) {
  Tensor tensor(problem.dtype, {problem.tokens, problem.hidden});
  std::copy_n(result.out[0].data(), tensor.elements(), tensor.bits());
  return tensor;
}

Tensor whole_residual_out(const Problem& problem, const CallResult& result) {
  Tensor tensor(problem.dtype, {problem.tokens, problem.hidden});
  const size_t h = static_cast<size_t>(problem.hidden);
  for (int64_t row = 0; row < problem.tokens; ++row) {
    const auto& from = result.residual_out[static_cast<size_t>(owner_of(problem, row))];
    std::copy_n(from.data() + static_cast<size_t>(row) * h, h, tensor.row(row));
  }
  return tensor;
}

}  // namespace ringfence::cuda
