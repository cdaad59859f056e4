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
  to_double(tensor.dtype, tensor.bits() + offset, values.data(), static_cast<std::size_t>(count));
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
             reference.residual_out_bound.data() + offset});
}

// v of one row, rounding-exact: 16-byte vectors may each have an order of their own.
class ExactSums {
 public:
  ExactSums(const Problem& p, const Partials& partials, Summation policy, const OrderOf& order)
      : p_(p), partials_(partials), policy_(policy), order_(order) {
    std::iota(order_of_ranks_, order_of_ranks_ + p.ranks, 0);
  }

  void row(std::int64_t row, std::uint16_t* v) {
    for (std::int64_t first = 0; first < p_.hidden; first += kVectorElements) {
      if (order_) order_(row, first / kVectorElements, order_of_ranks_);
      const std::int64_t at = row * p_.hidden + first;
      if (p_.flavour == Flavour::pypto) {
        std::fill_n(v + first, kVectorElements, std::uint16_t{0});
        for (int k = 0; k < p_.ranks; ++k) {
          atomic_add(p_.dtype, partials_[static_cast<std::size_t>(order_of_ranks_[k])] + at,
                     kVectorElements, v + first);
        }
      } else {
        const std::uint16_t* parts[kMaxRanks];
        for (int r = 0; r < p_.ranks; ++r) parts[r] = partials_[static_cast<std::size_t>(r)] + at;
        reduce_vector(policy_, p_.dtype, parts, p_.ranks, order_of_ranks_, kVectorElements,
                      v + first);
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

}  // namespace

void exact_fused(const Problem& p, const Inputs& inputs, const Partials& partials, Summation policy,
                 RowRange rows, std::uint16_t* out, std::uint16_t* residual_out,
                 const OrderOf& order, const Rsqrt& rsqrt) {
  Norm norm;
  norm.dtype = p.dtype;
  norm.hidden = p.hidden;
  norm.eps = p.eps;
  norm.gamma = inputs.gamma.bits();
  norm.beta = inputs.has_beta() ? inputs.beta.bits() : nullptr;
  norm.rsqrt = rsqrt;
  norm.threads = p.threads;
  norm.width = p.width;
  ExactSums sums(p, partials, policy, order);
  std::vector<std::uint16_t> v(static_cast<std::size_t>(p.hidden));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    sums.row(row, v.data());
    const std::int64_t at = (row - rows.begin) * p.hidden;
    const auto one_row = p.flavour == Flavour::pypto ? pypto_row : tokenweave_row;
    one_row(norm, v.data(), inputs.residual.row(row), out + at, residual_out + at);
  }
}

Outputs exact_fused(const Problem& p, const Inputs& inputs, const Partials& partials,
                    Summation policy, const OrderOf& order, const Rsqrt& rsqrt) {
  Outputs outputs{Tensor(p.dtype, {p.tokens, p.hidden}), Tensor(p.dtype, {p.tokens, p.hidden})};
  exact_fused(p, inputs, partials, policy, {0, p.tokens}, outputs.out.bits(),
              outputs.residual_out.bits(), order, rsqrt);
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
    for (const std::uint16_t* partial : partials) {
      to_double(p.dtype, partial + row * p.hidden, part.data(), static_cast<std::size_t>(p.hidden));
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
