// The operator's description: sizes, dtype, eps, who owns which rows, and the block size rule.
//
//   partial_r = x_r · weight_rᵀ            z = Σ_r partial_r + residual
//   out = z / sqrt(mean(z²) + eps) ⊙ gamma (+ beta)          residual_out = z
//
// x is [T, K] and weight [H, K], both split by columns: rank r has columns r·K/R .. (r+1)·K/R.
// residual, out, residual_out are [T, H]; gamma and beta [H]. Row-major.
#pragma once

#include <cstdint>
#include <string>

#include "verify/dtype.hpp"

namespace ringfence::verify {

// The two protocols, which differ in where they round (verify/rows.hpp).
enum class Flavour : std::uint8_t { tokenweave, pypto };

const char* flavour_name(Flavour flavour);       // "tokenweave", "pypto"
Flavour parse_flavour(const std::string& name);  // throws InputError

constexpr int kMaxRanks = 72;
constexpr int kVectorElements = 8;  // 16 bytes: what one thread moves at once
constexpr int kVectorBytes = 16;
// Of fp32 they are 4.
constexpr int vector_elements(Dtype dtype) {
  return kVectorBytes / static_cast<int>(dtype_bytes(dtype));
}

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // one past the last
  std::int64_t count() const { return end - begin; }
};

struct Problem {
  Flavour flavour = Flavour::tokenweave;
  int ranks = 4;
  std::int64_t tokens = 256;   // T
  std::int64_t inner = 4096;   // K, over all ranks
  std::int64_t hidden = 4096;  // H
  Dtype dtype = Dtype::bf16;   // bf16, f16 or f32
  float eps = 1e-6f;           // what the kernels are handed: already rounded to fp32
  bool has_beta = false;
  // tokenweave: threads of a block, and elements that a thread moves at once: 8 (not of fp32), 4 or
  // 2. They decide the order of the sum of squares. 0 threads: tokenweave_block_threads.
  int threads = 0;
  int width = kVectorElements;
  // The emulator's product: its sum over K is made tile by tile of so many; 0: in one piece.
  std::int64_t tile_inner = 0;

  std::int64_t inner_per_rank() const { return inner / ranks; }

  // tokenweave: the token rows whose sum, norm and residual_out are rank r's,
  // r·ceil(T/R) .. min(T, (r+1)·ceil(T/R)); with R dividing T that is r·T/R .. (r+1)·T/R. Ranks at
  // the end may own none. pypto: every rank owns all rows.
  RowRange rows_of(int rank) const;
};

// What validate() insists on beyond what makes the operator well defined.
struct Requirements {
  // The tokenweave program of the emulator wants R | T (its caller pads). The CUDA kernels accept
  // any T by the ceil rule of rows_of().
  bool ranks_divide_tokens = true;
  // The CUDA kernels have 16-bit types alone.
  bool halves = true;
};

// Throws InputError with one line that names the option and what would be right: ranks 1..64,
// positive sizes, H a multiple of 8, R | K, R | T where required, a dtype that is supported,
// eps finite and >= 0, and sizes whose bytes fit in 63 bits together.
void validate(const Problem& problem, const Requirements& requirements = {});

// Threads of a tokenweave block: min(1024, roundup32(H / 8)), or of another width than 8.
constexpr int tokenweave_block_threads(std::int64_t hidden, int width = kVectorElements) {
  const std::int64_t vectors = hidden / width;
  const std::int64_t rounded = (vectors + 31) / 32 * 32;
  return static_cast<int>(rounded < 1024 ? (rounded < 32 ? 32 : rounded) : 1024);
}

}  // namespace ringfence::verify
