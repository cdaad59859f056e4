#include "verify/reference.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <numeric>

#include "verify/product.hpp"

namespace ringfence::verify {
namespace {

using RowVector = Eigen::Array<double, 1, Eigen::Dynamic>;

RowVector widened(const Tensor& tensor, std::int64_t offset, std::int64_t count) {
  RowVector values(count);
  to_double(tensor.dtype,
            tensor.bytes.data() + static_cast<std::size_t>(offset) * dtype_bytes(tensor.dtype),
            values.data(), static_cast<std::size_t>(count));
  return values;
}

FusedReference allocate(const Problem& p, RowRange rows) {
  const auto count = static_cast<std::size_t>(rows.count() * p.hidden);
  FusedReference reference;
  for (auto* part : {&reference.out, &reference.out_bound, &reference.residual_out,
                     &reference.residual_out_bound}) {
    part->resize(count);
  }
  return reference;
}

// What all rows share.
struct Vectors {
  RowVector gamma;
  RowVector beta;
  Vectors(const Problem& p, const Inputs& inputs) : gamma(widened(inputs.gamma, 0, p.hidden)) {
    if (inputs.has_beta()) beta = widened(inputs.beta, 0, p.hidden);
  }
};

void finish_row(const Problem& p, const Inputs& inputs, const Vectors& vectors, Summation policy,
                std::int64_t row, std::int64_t at, const double* sum, const double* magnitude,
                const double* error, FusedReference& reference) {
  const RowVector residual = widened(inputs.residual, row * p.hidden, p.hidden);
  const std::size_t offset = static_cast<std::size_t>(at * p.hidden);
  bound_row(p, policy,
            {sum, magnitude, error, residual.data(), vectors.gamma.data(),
             inputs.has_beta() ? vectors.beta.data() : nullptr, reference.out.data() + offset,
             reference.out_bound.data() + offset, reference.residual_out.data() + offset,
             reference.residual_out_bound.data() + offset, inputs.gamma.dtype != p.dtype});
}

// v of one row, rounding-exact: 16-byte vectors may each have an order of their own.
template <typename Bits>
class ExactSums {
 public:
  ExactSums(const Problem& p, const Partials& partials, Summation policy, const OrderOf& order)
      : p_(p), partials_(partials), policy_(policy), order_(order) {
    std::iota(order_of_ranks_, order_of_ranks_ + p.ranks, 0);
  }

  void row(std::int64_t row, Bits* v) {
    constexpr std::int64_t kElements = kVectorBytes / sizeof(Bits);
    const auto part = [&](int rank) {
      return static_cast<const Bits*>(partials_[static_cast<std::size_t>(rank)]);
    };
    for (std::int64_t first = 0; first < p_.hidden; first += kElements) {
      if (order_) order_(row, first / kElements, order_of_ranks_);
      const std::int64_t at = row * p_.hidden + first;
      if (p_.flavour == Flavour::pypto) {
        std::fill_n(v + first, kElements, Bits{0});
        for (int k = 0; k < p_.ranks; ++k) {
          atomic_add(p_.dtype, part(order_of_ranks_[k]) + at, kElements, v + first);
        }
      } else {
        const Bits* parts[kMaxRanks];
        for (int r = 0; r < p_.ranks; ++r) parts[r] = part(r) + at;
        reduce_vector(policy_, p_.dtype, parts, p_.ranks, order_of_ranks_, kElements, v + first);
      }
    }
  }

 private:
  const Problem& p_;
  const Partials& partials_;
  const Summation policy_;
  const OrderOf& order_;
  int order_of_ranks_[kMaxRanks];
};

template <typename Bits>
void exact_rows(const Problem& p, const Inputs& inputs, const Partials& partials, Summation policy,
                RowRange rows, Bits* out, Bits* residual_out, const OrderOf& order,
                const Rsqrt& rsqrt) {
  Norm norm;
  norm.dtype = p.dtype;
  norm.hidden = p.hidden;
  norm.eps = p.eps;
  norm.set_gamma(inputs.gamma);
  if (inputs.has_beta()) norm.set_beta(inputs.beta);
  norm.rsqrt = rsqrt;
  norm.threads = p.threads;
  norm.width = p.width;
  ExactSums<Bits> sums(p, partials, policy, order);
  std::vector<Bits> v(static_cast<std::size_t>(p.hidden));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    sums.row(row, v.data());
    const std::int64_t at = (row - rows.begin) * p.hidden;
    const Bits* const residual = inputs.residual.patterns<Bits>() + row * p.hidden;
    if (p.flavour == Flavour::pypto) {
      pypto_row(norm, v.data(), residual, out + at, residual_out + at);
    } else {
      tokenweave_row(norm, v.data(), residual, out + at, residual_out + at);
    }
  }
}

}  // namespace

void exact_fused(const Problem& p, const Inputs& inputs, const Partials& partials, Summation policy,
                 RowRange rows, void* out, void* residual_out, const OrderOf& order,
                 const Rsqrt& rsqrt) {
  with_patterns(p.dtype, [&](auto bits) {
    using Bits = decltype(bits);
    exact_rows(p, inputs, partials, policy, rows, static_cast<Bits*>(out),
               static_cast<Bits*>(residual_out), order, rsqrt);
  });
}

Outputs exact_fused(const Problem& p, const Inputs& inputs, const Partials& partials,
                    Summation policy, const OrderOf& order, const Rsqrt& rsqrt) {
  Outputs outputs{Tensor(p.dtype, {p.tokens, p.hidden}), Tensor(p.dtype, {p.tokens, p.hidden})};
  exact_fused(p, inputs, partials, policy, {0, p.tokens}, outputs.out.bytes.data(),
              outputs.residual_out.bytes.data(), order, rsqrt);
  return outputs;
}

FusedReference fused_reference(const Problem& p, const Inputs& inputs, const Partials& partials,
                               Summation policy, RowRange rows) {
  FusedReference reference = allocate(p, rows);
  const Vectors vectors(p, inputs);
  RowVector part(p.hidden), sum(p.hidden), magnitude(p.hidden);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    sum.setZero();
    magnitude.setZero();
    for (const void* partial : partials) {
      const auto at = static_cast<std::size_t>(row * p.hidden) * dtype_bytes(p.dtype);
      to_double(p.dtype, static_cast<const std::byte*>(partial) + at, part.data(),
                static_cast<std::size_t>(p.hidden));
      sum += part;
      magnitude += part.abs();
    }
    finish_row(p, inputs, vectors, policy, row, row - rows.begin, sum.data(), magnitude.data(),
               nullptr, reference);
  }
  return reference;
}

FusedReference operator_reference(const Problem& p, const Inputs& inputs, Summation policy,
                                  RowRange rows) {
  const auto count = static_cast<std::size_t>(rows.count() * p.hidden);
  std::vector<double> sum(count), magnitude(count), error(count);
  for (int rank = 0; rank < p.ranks; ++rank) {
    const ProductReference product = product_reference(p, inputs, rank, rows);
    const auto length = static_cast<Eigen::Index>(count);
    const Eigen::Map<const Eigen::ArrayXd> value(product.value.data(), length);
    Eigen::Map<Eigen::ArrayXd>(sum.data(), length) += value;
    Eigen::Map<Eigen::ArrayXd>(magnitude.data(), length) += value.abs();
    Eigen::Map<Eigen::ArrayXd>(error.data(), length) +=
        Eigen::Map<const Eigen::ArrayXd>(product.bound.data(), length);
  }
  FusedReference reference = allocate(p, rows);
  const Vectors vectors(p, inputs);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const std::int64_t at = i * p.hidden;
    finish_row(p, inputs, vectors, policy, rows.begin + i, i, sum.data() + at,
               magnitude.data() + at, error.data() + at, reference);
  }
  return reference;
}

}  // namespace ringfence::verify
