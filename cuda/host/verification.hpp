// A GPU's result of one call, judged by the same comparison as the emulator's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verify/compare.hpp"
#include "verify/inputs.hpp"
#include "verify/problem.hpp"

namespace ringfence::cuda {

/// What came back of one call, as 16-bit patterns.
struct CallResult {
  std::vector<std::vector<uint16_t>> partial;       // by rank, [T, H]; none for pypto
  std::vector<std::vector<uint16_t>> out;           // by rank, [rows, H], rows >= T
  std::vector<std::vector<uint16_t>> residual_out;  // by rank, [rows, H]
};

struct CallVerdict {
  std::vector<verify::Comparison> comparisons;
  std::vector<std::string> faults;  // one line each: replicas that differ, stray writes
  bool passed() const;
};

/// The bit pattern that outputs are filled with before a call, a NaN in both types.
inline constexpr uint16_t kPoison = 0xffff;

/// Compares
///   product        each rank's partial with the double product and its bound (integer fills: bits)
///   residual_out   with the reference fed with the partials (integer fills: bits)
///   out            likewise (exact rows: bits where the fill says so)
/// and checks that the replicas of out are equal, that rows beyond T kept their poison, and that
/// rows of residual_out which are another rank's did. Large tensors are judged by rows: every rank's
/// first and last, and others spread evenly, within a budget of arithmetic; the equality of replicas
/// is always whole. pypto has no partials in memory: its reference is the whole operator.
CallVerdict judge(const verify::Problem& problem, verify::Fill fill, const verify::Inputs& inputs,
                  const CallResult& result);

/// Inputs as verify::generate makes them, also where hidden is not a multiple of 8: the columns
/// beyond are cut off.
verify::Inputs make_inputs(const verify::Problem& problem, verify::Fill fill, uint64_t seed,
                           uint64_t call);

/// out of rank 0, and residual_out put together from the ranks' own rows: [T, H] each.
verify::Tensor whole_out(const verify::Problem& problem, const CallResult& result);
verify::Tensor whole_residual_out(const verify::Problem& problem, const CallResult& result);

}  // namespace ringfence::cuda
