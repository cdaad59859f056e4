// The rounding-exact arithmetic of both flavours, row by row.
//
// These functions give the bits that the protocols' kernels give, rounding point by rounding point.
// The emulator's programs call them on a row or on a thread's vector; the exact reference
// (verify/reference.hpp) calls them on whole tensors. All take patterns (Bits: std::uint16_t of
// bf16 and f16, std::uint32_t of f32, where rounding to the dtype is none), allocate nothing and
// throw nothing; lengths are in elements. ringfence is compiled without contraction: a fused
// multiply-add is where std::fma is written.
//
// tokenweave, where it rounds:
//   v = ld_reduce(row)                    by policy, verify/summation.hpp
//   z = dtype(v + residual)
//   thread t sums squares of z over the vectors t, t+B, ...: a vector's sum starts from 0 and takes
//     its four pairs in order, q = fl(y·y), q = fma(x, x, q), vector = fl(vector + q); then
//     thread = fl(thread + vector). That is what nvcc 13.0 makes for sm_90a, for bf16 and fp16, of
//         r = 0; for each pair  r += a.x * a.x + a.y * a.y;       sum += r;
//     namely, per pair and then per vector,
//         mul.f32 q, y, y;  fma.rn.f32 q, x, x, q;  add.f32 r, r, q;      add.f32 sum, sum, r;
//     (The square of an 8- or 11-bit significand is exact in fp32, so the contraction shows only
//     where a bf16 square is subnormal or overflows.)
//   butterfly over 16, 8, 4, 2, 1; lane 0 of each warp to shared; the same butterfly over the
//   warps'
//     sums with 0 for missing warps
//   s = rsqrt(fl(fl(sum / H) + eps))      div.rn, add, rsqrt.approx: see Rsqrt
//   y = dtype(fl(z·s));  y = dtype(y·gamma);  with beta (CUDA kernels only) y = dtype(y + beta)
//
// pypto, where it rounds:
//   v = the tile after R atomic adds in the dtype (atomic_add)
//   z = fl(v + residual) in fp32, not rounded further before the norm
//   mean = Σ fl(fl(z·z)·fl(1/H)), added in order of the index, each step rounded to fp32
//   d = fl(sqrt(fl(mean + eps)));  y = fl(z / d);  y = fl(y·gamma);  y = fl(y + beta)
//   out = dtype(y);  residual_out = dtype(z)
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "verify/dtype.hpp"
#include "verify/problem.hpp"
#include "verify/tensor.hpp"

namespace ringfence::verify {

// 1/sqrt(x) rounded to nearest (tests/verify proves it over [1, 4), which by scaling is all normal
// inputs). ±0 gives ±infinity, negative numbers NaN, infinity +0.
float rsqrt_rounded(float x, const void* context) noexcept;

// The reciprocal square root as a function object: a plain function and its data, so that a table
// read from a GPU can take its place without templates or allocation.
struct Rsqrt {
  float (*function)(float x, const void* context) = &rsqrt_rounded;
  const void* context = nullptr;
  float operator()(float x) const { return function(x, context); }
};

// What the norm of a row needs beside the row.
struct Norm {
  Dtype dtype = Dtype::bf16;  // bf16, f16 or f32
  std::int64_t hidden = 0;    // a multiple of 8
  float eps = 0;
  const std::uint16_t* gamma = nullptr;  // [hidden]
  const std::uint16_t* beta = nullptr;   // [hidden], null for none
  Rsqrt rsqrt;                           // tokenweave only
  int threads = 0;                       // tokenweave only, as in Problem
  int width = kVectorElements;
  // In place of gamma and beta: both in fp32, whatever the dtype of the data. They are not rounded.
  const float* gamma_fp32 = nullptr;
  const float* beta_fp32 = nullptr;

  // Of a tensor of the data's dtype, or of fp32. It has to outlive this.
  void set_gamma(const Tensor& row) { set(row, gamma, gamma_fp32); }
  void set_beta(const Tensor& row) { set(row, beta, beta_fp32); }

  float gamma_at(std::size_t i) const {
    return gamma_fp32 != nullptr ? gamma_fp32[i] : to_float(dtype, gamma[i]);
  }
  bool has_beta() const { return beta != nullptr || beta_fp32 != nullptr; }
  float beta_at(std::size_t i) const {
    return beta_fp32 != nullptr ? beta_fp32[i] : to_float(dtype, beta[i]);
  }

  static void set(const Tensor& row, const std::uint16_t*& halves, const float*& floats) {
    halves = row.dtype == Dtype::f32 ? nullptr : row.bits();
    floats = row.dtype == Dtype::f32 ? row.floats() : nullptr;
  }
};

// --- tokenweave, piece by piece ------------------------------------------------------------------

// z[i] = dtype(v[i] + residual[i]). z may be v or residual.
template <typename Bits>
void add_residual(Dtype dtype, const Bits* v, const Bits* residual, std::size_t count,
                  Bits* z) noexcept;

// Sum of squares of the elements of one vector, of `width` elements.
template <typename Bits>
float vector_sum_squares(Dtype dtype, const Bits* vector, int width = kVectorElements) noexcept;

// Sum of squares of thread `thread` of `threads`: vectors thread, thread + threads, ... of the row.
template <typename Bits>
float thread_sum_squares(Dtype dtype, const Bits* z, std::int64_t hidden, int thread, int threads,
                         int width = kVectorElements) noexcept;

// What lane 0 (and every lane) of a warp has after butterfly shuffles over 16, 8, 4, 2, 1.
float butterfly_sum(const float lanes[32]) noexcept;

// Sum of squares of a row by a block of `threads` threads (a multiple of 32, at most 1024).
template <typename Bits>
float block_sum_squares(Dtype dtype, const Bits* z, std::int64_t hidden, int threads,
                        int width = kVectorElements) noexcept;

// s = rsqrt(fl(fl(sum / hidden) + eps))
float tokenweave_scale(float sum_squares, std::int64_t hidden, float eps,
                       const Rsqrt& rsqrt) noexcept;

// out[i] = dtype(dtype(z[i]·s)·gamma[i]) (+ beta) for elements first .. first+count of a row; z and
// out point to element `first`, gamma and beta (in norm) to element 0. out may be z.
template <typename Bits>
void tokenweave_scale_elements(const Norm& norm, float s, const Bits* z, std::size_t first,
                               std::size_t count, Bits* out) noexcept;

// A whole row: v is the reduced row. residual_out may be residual; out may be v. The block has
// norm.threads threads, or tokenweave_block_threads.
template <typename Bits>
void tokenweave_row(const Norm& norm, const Bits* v, const Bits* residual, Bits* out,
                    Bits* residual_out) noexcept;

// --- pypto ---------------------------------------------------------------------------------------

// A whole row: sum is the row of the tile after all adds. residual_out may be residual; out may be
// sum. residual_out may be null.
template <typename Bits>
void pypto_row(const Norm& norm, const Bits* sum, const Bits* residual, Bits* out,
               std::type_identity_t<Bits>* residual_out) noexcept;

}  // namespace ringfence::verify
