// The rounding-exact arithmetic of both flavours, row by row.
//
// These functions give the bits that the protocols' kernels give, rounding point by rounding point.
// The emulator's programs call them on a row or on a thread's vector; the exact reference
// (verify/reference.hpp) calls them on whole tensors. All take 16-bit patterns, allocate nothing
// and throw nothing; lengths are in elements. ringfence is compiled without contraction: a fused
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

#include "verify/dtype.hpp"
#include "verify/problem.hpp"

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
  Dtype dtype = Dtype::bf16;  // bf16 or f16
  std::int64_t hidden = 0;    // a multiple of 8
  float eps = 0;
  const std::uint16_t* gamma = nullptr;  // [hidden]
  const std::uint16_t* beta = nullptr;   // [hidden], null for none
  Rsqrt rsqrt;                           // tokenweave only
  int threads = 0;                       // tokenweave only, as in Problem
  int width = kVectorElements;
};

// --- tokenweave, piece by piece ------------------------------------------------------------------

// z[i] = dtype(v[i] + residual[i]). z may be v or residual.
void add_residual(Dtype dtype, const std::uint16_t* v, const std::uint16_t* residual,
                  std::size_t count, std::uint16_t* z) noexcept;

// Sum of squares of the elements of one vector, of `width` elements.
float vector_sum_squares(Dtype dtype, const std::uint16_t* vector,
                         int width = kVectorElements) noexcept;

// Sum of squares of thread `thread` of `threads`: vectors thread, thread + threads, ... of the row.
float thread_sum_squares(Dtype dtype, const std::uint16_t* z, std::int64_t hidden, int thread,
                         int threads, int width = kVectorElements) noexcept;

// What lane 0 (and every lane) of a warp has after butterfly shuffles over 16, 8, 4, 2, 1.
float butterfly_sum(const float lanes[32]) noexcept;

// Sum of squares of a row by a block of `threads` threads (a multiple of 32, at most 1024).
float block_sum_squares(Dtype dtype, const std::uint16_t* z, std::int64_t hidden, int threads,
                        int width = kVectorElements) noexcept;

// s = rsqrt(fl(fl(sum / hidden) + eps))
float tokenweave_scale(float sum_squares, std::int64_t hidden, float eps,
                       const Rsqrt& rsqrt) noexcept;

// out[i] = dtype(dtype(z[i]·s)·gamma[i]) (+ beta) for elements first .. first+count of a row; z and
// out point to element `first`, gamma and beta (in norm) to element 0. out may be z.
void tokenweave_scale_elements(const Norm& norm, float s, const std::uint16_t* z, std::size_t first,
                               std::size_t count, std::uint16_t* out) noexcept;

// A whole row: v is the reduced row. residual_out may be residual; out may be v. The block has
// norm.threads threads, or tokenweave_block_threads.
void tokenweave_row(const Norm& norm, const std::uint16_t* v, const std::uint16_t* residual,
                    std::uint16_t* out, std::uint16_t* residual_out) noexcept;

// --- pypto ---------------------------------------------------------------------------------------

// A whole row: sum is the row of the tile after all adds. residual_out may be residual; out may be
// sum. residual_out may be null.
void pypto_row(const Norm& norm, const std::uint16_t* sum, const std::uint16_t* residual,
               std::uint16_t* out, std::uint16_t* residual_out) noexcept;

}  // namespace ringfence::verify
