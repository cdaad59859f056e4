#include "verify/product.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

namespace ringfence::verify {
namespace {

template <typename Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows of weight that are widened at a time: a few MiB at the usual K/R, whatever H is.
constexpr std::int64_t kWeightRows = 256;

void widen(Dtype dtype, const std::byte* from, float* to, std::size_t count) {
  to_float(dtype, from, to, count);
}
void widen(Dtype dtype, const std::byte* from, double* to, std::size_t count) {
  to_double(dtype, from, to, count);
}

// Terms of a rank's sum that are added before the next ones are.
std::int64_t tile_of(const Problem& p) {
  return p.tile_inner > 0 ? std::min(p.tile_inner, p.inner_per_rank()) : p.inner_per_rank();
}

// Rank `rank`'s columns of some rows of a [*, K] tensor.
template <typename Scalar>
RowMajor<Scalar> columns_of(const Problem& p, const Tensor& tensor, int rank, RowRange rows) {
  const std::int64_t share = p.inner_per_rank();
  RowMajor<Scalar> block(rows.count(), share);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const std::size_t first = static_cast<std::size_t>(rank * share) * dtype_bytes(tensor.dtype);
    widen(tensor.dtype, tensor.row_bytes(rows.begin + i).data() + first, block.row(i).data(),
          static_cast<std::size_t>(share));
  }
  return block;
}

// Calls visit(columns begin, block) for blocks x_r · weight_rᵀ of the product, where both factors
// pass through `prepare` first.
template <typename Scalar, typename Prepare, typename Visit>
void multiply(const Problem& p, const Inputs& inputs, int rank, RowRange rows, Prepare prepare,
              Visit visit) {
  RowMajor<Scalar> x = columns_of<Scalar>(p, inputs.x, rank, rows);
  prepare(x);
  RowMajor<Scalar> block;
  for (std::int64_t begin = 0; begin < p.hidden; begin += kWeightRows) {
    const std::int64_t end = std::min(p.hidden, begin + kWeightRows);
    RowMajor<Scalar> weight = columns_of<Scalar>(p, inputs.weight, rank, {begin, end});
    prepare(weight);
    // Whole, or tile by tile of the inner size, in order.
    const std::int64_t share = p.inner_per_rank();
    const std::int64_t step = tile_of(p);
    block.noalias() = x.leftCols(step) * weight.leftCols(step).transpose();
    for (std::int64_t k = step; k < share; k += step) {
      const std::int64_t count = std::min(step, share - k);
      block += (x.middleCols(k, count) * weight.middleCols(k, count).transpose()).eval();
    }
    visit(begin, block);
  }
}

}  // namespace

void product(const Problem& p, const Inputs& inputs, int rank, RowRange rows, std::byte* partial) {
  multiply<float>(
      p, inputs, rank, rows, [](auto&) {},
      [&](std::int64_t begin, const RowMajor<float>& block) {
        for (std::int64_t i = 0; i < rows.count(); ++i) {
          const auto at = static_cast<std::size_t>(i * p.hidden + begin) * dtype_bytes(p.dtype);
          round_to(p.dtype, block.row(i).data(), partial + at,
                   static_cast<std::size_t>(block.cols()));
        }
      });
}

void product(const Problem& p, const Inputs& inputs, int rank, RowRange rows,
             std::uint16_t* partial) {
  product(p, inputs, rank, rows, reinterpret_cast<std::byte*>(partial));
}

Tensor product(const Problem& p, const Inputs& inputs, int rank) {
  Tensor partial(p.dtype, {p.tokens, p.hidden});
  product(p, inputs, rank, {0, p.tokens}, partial.bytes.data());
  return partial;
}

ProductReference product_reference(const Problem& p, const Inputs& inputs, int rank,
                                   RowRange rows) {
  const auto count = static_cast<std::size_t>(rows.count() * p.hidden);
  ProductReference reference{std::vector<double>(count), std::vector<double>(count)};
  multiply<double>(
      p, inputs, rank, rows, [](auto&) {},
      [&](std::int64_t begin, const RowMajor<double>& block) {
        for (std::int64_t i = 0; i < rows.count(); ++i) {
          std::copy_n(block.row(i).data(), block.cols(),
                      reference.value.data() + i * p.hidden + begin);
        }
      });
  // Σ|x·w| in fp32, which errs by γ itself; the factor covers that and the second order of γ.
  // The longest chain of roundings: those of a tile, and those that join the tiles.
  const std::int64_t tiles = (p.inner_per_rank() + tile_of(p) - 1) / tile_of(p);
  const double gamma = static_cast<double>(tile_of(p) + tiles - 1) * 0x1p-24;
  const double factor = gamma * (1 + 4 * gamma);
  const double u = unit_roundoff(p.dtype);
  const double floor =
      subnormal_floor(p.dtype) + static_cast<double>(p.inner_per_rank()) * 0x1p-149;
  multiply<float>(
      p, inputs, rank, rows, [](auto& matrix) { matrix = matrix.cwiseAbs(); },
      [&](std::int64_t begin, const RowMajor<float>& block) {
        for (std::int64_t i = 0; i < rows.count(); ++i) {
          const std::size_t at = static_cast<std::size_t>(i * p.hidden + begin);
          for (Eigen::Index j = 0; j < block.cols(); ++j) {
            const double accumulation = factor * static_cast<double>(block(i, j));
            const double value = std::abs(reference.value[at + static_cast<std::size_t>(j)]);
            reference.bound[at + static_cast<std::size_t>(j)] =
                accumulation + u * (value + accumulation) + floor;
          }
        }
      });
  return reference;
}

}  // namespace ringfence::verify
