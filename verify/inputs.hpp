// The operator's inputs: generated from a seed, or read from a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verify/problem.hpp"
#include "verify/tensor.hpp"

namespace ringfence::verify {

// How inputs are generated.
//
// normal: x ~ N(0, 1), weight ~ N(0, 1/K), residual ~ N(0, 1), gamma ~ 1 + N(0, 0.01),
//   beta ~ N(0, 0.01), rounded to the dtype (sums of uniform numbers; tails end at 4.9 sigma).
//
// integers: every value an integer, with Σ_r|partial_r| + |residual| <= 256 and Σ_k|x·w| <= 2^24,
//   so that partials, sum and residual_out are equal bit for bit in every order of summation and
//   under every policy. Where the ranks leave room for it H·max z² <= 2^24 too, so that Σz² is also
//   exact in any order. No partial is 0 throughout a 16-byte vector. out then differs only by the
//   GPU's rsqrt.
//
// exact_rows: as integers, and each 16-byte vector of z is a signed permutation of integers whose
//   squares sum to 8·256; residual = z − Σ partials. The mean is 256, an eps of up to 1e-5 is
//   absorbed, 1/sqrt is exactly 1/16 (for pypto where H is a power of two): out is exact as well,
//   and any difference is a fault of the protocol. Needs H <= 65536 (Σz² = 256·H <= 2^24), eps <=
//   1e-5, and ranks <= 64.
enum class Fill : std::uint8_t { normal, integers, exact_rows };

const char* fill_name(Fill fill);          // "normal", "integers", "exact-rows"
Fill parse_fill(const std::string& name);  // throws InputError

// Whether residual_out, and out, must then equal the rounding-exact reference bit for bit whatever
// the order and policy of the sum, and the rsqrt.
bool residual_out_is_exact(Fill fill);
bool out_is_exact(const Problem& problem, Fill fill);

struct Inputs {
  Tensor x;         // [T, K]
  Tensor weight;    // [H, K]
  Tensor residual;  // [T, H]
  Tensor gamma;     // [H]; f32, or the data's dtype
  Tensor beta;      // likewise; without a shape for none
  bool has_beta() const { return !beta.shape.empty(); }
};

// Deterministic: each element is a function of (seed, call, tensor, index) alone, so it is the same
// on every machine and for every rank that makes its own part. Every tensor differs at every call,
// and every rank's columns differ. Throws InputError where the fill's conditions cannot be met.
Inputs generate(const Problem& problem, Fill fill, std::uint64_t seed, std::uint64_t call);

// What a file says about the operator.
struct LoadedInputs {
  Inputs inputs;
  std::int64_t tokens = 0;
  std::int64_t inner = 0;
  std::int64_t hidden = 0;
  Dtype dtype = Dtype::bf16;
  bool has_eps = false;
  float eps = 0;  // from __metadata__.eps, where has_eps
  std::map<std::string, std::string> metadata;
  // What whoever gave the file should be told, a line each: tensors that are not used, and what
  // becomes of an fp32 gamma or beta beside 16-bit data.
  std::vector<std::string> notes;
};

// The operator's tensors by other names: "gamma" -> "model.layers.0.input_layernorm.weight".
using InputNames = std::map<std::string, std::string>;
// "gamma=NAME,beta=NAME" of option `option`; empty for none. Throws InputError for a name that the
// operator does not have, or that comes twice.
InputNames parse_input_names(const std::string& text, const std::string& option);

// Reads `attn` (alias `x`), `weight`, `residual`, `gamma` and the optional `beta` (alias `bias`),
// or what `names` says, and checks that they have one dtype (bf16, f16, f32) and shapes that fit
// together. gamma and beta may be [1, H], and may be F32 beside 16-bit data. `halves`: for the CUDA
// kernels, whose data has 16-bit types alone; gamma and beta are then both F32 if one of them is.
// Throws InputError naming the file and the tensor.
LoadedInputs load_inputs(const std::string& path, const InputNames& names = {},
                         bool halves = false);

// Takes sizes, dtype, has_beta and (unless keep_eps) eps from a file into a problem.
void adopt(Problem& problem, const LoadedInputs& loaded, bool keep_eps = false);

}  // namespace ringfence::verify
