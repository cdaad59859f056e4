#include "verify/rows.hpp"

#include <cmath>

namespace ringfence::verify {

float rsqrt_rounded(float x, const void*) noexcept {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}

void add_residual(Dtype dtype, const std::uint16_t* v, const std::uint16_t* residual,
                  std::size_t count, std::uint16_t* z) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    z[i] = round_to(dtype, to_float(dtype, v[i]) + to_float(dtype, residual[i]));
  }
}

float vector_sum_squares(Dtype dtype, const std::uint16_t* vector, int width) noexcept {
  float sum = 0;
  for (int pair = 0; pair < width; pair += 2) {
    const float x = to_float(dtype, vector[pair]);
    const float y = to_float(dtype, vector[pair + 1]);
    sum += std::fma(x, x, y * y);
  }
  return sum;
}

float thread_sum_squares(Dtype dtype, const std::uint16_t* z, std::int64_t hidden, int thread,
                         int threads, int width) noexcept {
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

float block_sum_squares(Dtype dtype, const std::uint16_t* z, std::int64_t hidden, int threads,
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

void tokenweave_scale_elements(const Norm& norm, float s, const std::uint16_t* z, std::size_t first,
                               std::size_t count, std::uint16_t* out) noexcept {
  const Dtype dtype = norm.dtype;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t y = round_to(dtype, to_float(dtype, z[i]) * s);
    y = round_to(dtype, to_float(dtype, y) * to_float(dtype, norm.gamma[first + i]));
    if (norm.beta != nullptr) {
      y = round_to(dtype, to_float(dtype, y) + to_float(dtype, norm.beta[first + i]));
    }
    out[i] = y;
  }
}

void tokenweave_row(const Norm& norm, const std::uint16_t* v, const std::uint16_t* residual,
                    std::uint16_t* out, std::uint16_t* residual_out) noexcept {
  const auto count = static_cast<std::size_t>(norm.hidden);
  add_residual(norm.dtype, v, residual, count, residual_out);
  const int threads =
      norm.threads != 0 ? norm.threads : tokenweave_block_threads(norm.hidden, norm.width);
  const float sum = block_sum_squares(norm.dtype, residual_out, norm.hidden, threads, norm.width);
  const float s = tokenweave_scale(sum, norm.hidden, norm.eps, norm.rsqrt);
  tokenweave_scale_elements(norm, s, residual_out, 0, count, out);
}

void pypto_row(const Norm& norm, const std::uint16_t* sum, const std::uint16_t* residual,
               std::uint16_t* out, std::uint16_t* residual_out) noexcept {
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
    y *= to_float(dtype, norm.gamma[i]);
    if (norm.beta != nullptr) y += to_float(dtype, norm.beta[i]);
    if (residual_out != nullptr) residual_out[i] = round_to(dtype, z);
    out[i] = round_to(dtype, y);
  }
}

}  // namespace ringfence::verify
