#include "verify/rows.hpp"

#include <cmath>

namespace ringfence::verify {

float rsqrt_rounded(float x, const void*) noexcept {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}

template <typename Bits>
void add_residual(Dtype dtype, const Bits* v, const Bits* residual, std::size_t count,
                  Bits* z) noexcept {
  with_constant<Bits>(dtype, [&](auto d) {
    for (std::size_t i = 0; i < count; ++i) {
      z[i] = rounded_to<Bits>(d, to_float(d, v[i]) + to_float(d, residual[i]));
    }
  });
}

template <typename Bits>
float vector_sum_squares(Dtype dtype, const Bits* vector, int width) noexcept {
  float sum = 0;
  for (int pair = 0; pair < width; pair += 2) {
    const float x = to_float(dtype, vector[pair]);
    const float y = to_float(dtype, vector[pair + 1]);
    sum += std::fma(x, x, y * y);
  }
  return sum;
}

template <typename Bits>
float thread_sum_squares(Dtype dtype, const Bits* z, std::int64_t hidden, int thread, int threads,
                         int width) noexcept {
  float sum = 0;
  for (std::int64_t vector = thread; vector < hidden / width; vector += threads) {
    sum += vector_sum_squares(dtype, z + vector * width, width);
  }
  return sum;
}

float butterfly_sum(const float lanes[32]) noexcept {
  // After the shuffle over `mask` lanes i and i ^ mask hold the same sum, addition being
  // commutative, so half as many distinct values remain each time.
  float values[32];
  std::memcpy(values, lanes, sizeof values);
  for (int mask = 16; mask > 0; mask /= 2) {
    for (int i = 0; i < mask; ++i) values[i] += values[i + mask];
  }
  return values[0];
}

template <typename Bits>
float block_sum_squares(Dtype dtype, const Bits* z, std::int64_t hidden, int threads,
                        int width) noexcept {
  float warps[32] = {};
  for (int warp = 0; warp < threads / 32; ++warp) {
    float lanes[32];
    for (int lane = 0; lane < 32; ++lane) {
      lanes[lane] = thread_sum_squares(dtype, z, hidden, warp * 32 + lane, threads, width);
    }
    warps[warp] = butterfly_sum(lanes);
  }
  return butterfly_sum(warps);
}

float tokenweave_scale(float sum_squares, std::int64_t hidden, float eps,
                       const Rsqrt& rsqrt) noexcept {
  return rsqrt(sum_squares / static_cast<float>(hidden) + eps);
}

template <typename Bits>
void tokenweave_scale_elements(const Norm& norm, float s, const Bits* z, std::size_t first,
                               std::size_t count, Bits* out) noexcept {
  with_constant<Bits>(norm.dtype, [&](auto d) {
    // What is asked of the norm is not asked for each element.
    const auto scale = [&](auto&& gamma_at, auto&& add_beta) {
      for (std::size_t i = 0; i < count; ++i) {
        const Bits y = rounded_to<Bits>(d, to_float(d, z[i]) * s);
        out[i] = add_beta(rounded_to<Bits>(d, to_float(d, y) * gamma_at(first + i)), first + i);
      }
    };
    const auto no_beta = [](Bits y, std::size_t) { return y; };
    const auto beta = [&](Bits y, std::size_t i) {
      return rounded_to<Bits>(d, to_float(d, y) + norm.beta_at(i));
    };
    const auto any_gamma = [&](std::size_t i) { return norm.gamma_at(i); };
    if (norm.has_beta()) return scale(any_gamma, beta);
    if (norm.gamma_fp32 != nullptr) return scale(any_gamma, no_beta);
    scale([&](std::size_t i) { return to_float(d, norm.gamma[i]); }, no_beta);
  });
}

template <typename Bits>
void tokenweave_row(const Norm& norm, const Bits* v, const Bits* residual, Bits* out,
                    Bits* residual_out) noexcept {
  const auto count = static_cast<std::size_t>(norm.hidden);
  add_residual(norm.dtype, v, residual, count, residual_out);
  const int threads =
      norm.threads != 0 ? norm.threads : tokenweave_block_threads(norm.hidden, norm.width);
  const float sum = block_sum_squares(norm.dtype, residual_out, norm.hidden, threads, norm.width);
  const float s = tokenweave_scale(sum, norm.hidden, norm.eps, norm.rsqrt);
  tokenweave_scale_elements(norm, s, residual_out, 0, count, out);
}

template <typename Bits>
void pypto_row(const Norm& norm, const Bits* sum, const Bits* residual, Bits* out,
               std::type_identity_t<Bits>* residual_out) noexcept {
  const Dtype dtype = norm.dtype;
  const auto count = static_cast<std::size_t>(norm.hidden);
  const float inverse = 1.0f / static_cast<float>(norm.hidden);
  // z is made twice instead of kept: it is one addition, and a row needs no memory of its own.
  const auto z_at = [&](std::size_t i) {
    return to_float(dtype, sum[i]) + to_float(dtype, residual[i]);
  };
  float mean = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float z = z_at(i);
    mean += z * z * inverse;
  }
  const float divisor = std::sqrt(mean + norm.eps);
  for (std::size_t i = 0; i < count; ++i) {
    const float z = z_at(i);
    float y = z / divisor;
    y *= norm.gamma_at(i);
    if (norm.has_beta()) y += norm.beta_at(i);
    if (residual_out != nullptr) residual_out[i] = rounded_to<Bits>(dtype, z);
    out[i] = rounded_to<Bits>(dtype, y);
  }
}

#define RINGFENCE_ROWS(Bits)                                                                   \
  template void add_residual(Dtype, const Bits*, const Bits*, std::size_t, Bits*) noexcept;    \
  template float vector_sum_squares(Dtype, const Bits*, int) noexcept;                         \
  template float thread_sum_squares(Dtype, const Bits*, std::int64_t, int, int, int) noexcept; \
  template float block_sum_squares(Dtype, const Bits*, std::int64_t, int, int) noexcept;       \
  template void tokenweave_scale_elements(const Norm&, float, const Bits*, std::size_t,        \
                                          std::size_t, Bits*) noexcept;                        \
  template void tokenweave_row(const Norm&, const Bits*, const Bits*, Bits*, Bits*) noexcept;  \
  template void pypto_row(const Norm&, const Bits*, const Bits*, Bits*, Bits*) noexcept;
RINGFENCE_ROWS(std::uint16_t)
RINGFENCE_ROWS(std::uint32_t)
#undef RINGFENCE_ROWS

}  // namespace ringfence::verify
