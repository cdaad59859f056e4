#pragma once
// What the calls of a run compute on, made ahead: inputs, partial products, expected results.
//
// Each call, and each group, has a payload of its own and a number of tokens of its own: T, 3T/4,
// T/2, T/4 in turn, so that what an earlier call left behind lies where a later one does not write.
// Generated inputs come from the payload seed; those of a file are its rows, shifted by one a call.

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/programs/config.hpp"
#include "emulator/programs/switches.hpp"
#include "verify/inputs.hpp"
#include "verify/problem.hpp"
#include "verify/random.hpp"
#include "verify/reference.hpp"
#include "verify/summation.hpp"

namespace ringfence::programs {

class Payload {
 public:
  struct Call {
    verify::Problem problem;  // `tokens` is this call's
    verify::Tensor x;         // pypto only: its kernels read it
    verify::Tensor residual, gamma, beta;
    std::vector<verify::Tensor> partials;  // by rank, [T, H]: as a matmul gives them, rounded once
    // Expected results. `exact`: bit for bit, in the tensors; else within bounds.
    bool exact = true;
    verify::Tensor out, residual_out;
    verify::FusedReference reference;

    const std::byte* partial(std::uint32_t rank) const { return partials[rank].bytes.data(); }
  };

  // Checks all and reads the input file; what takes long is left to prepare(). Throws
  // std::invalid_argument or verify::InputError.
  Payload(const Config& config, const Switches& switches);

  std::uint32_t calls() const { return calls_; }
  std::uint32_t groups() const { return groups_; }
  // Sizes over all calls: tokens and rows of a rank are the largest.
  const verify::Problem& problem() const { return problem_; }
  const Call& call(std::uint32_t group, std::uint32_t call) const {
    if (!prepared_) prepare();
    return all_[group * calls_ + call];
  }
  // Its sizes, and where its partial sums will be; nothing is prepared for that.
  const Call& shape(std::uint32_t group, std::uint32_t call) const {
    return all_[group * calls_ + call];
  }
  // Makes the inputs and the expected results, once: by the first call() at the latest. Whoever
  // needs much memory besides takes it before. Throws schedule::StopRequested.
  void prepare() const;
  verify::Summation summation() const { return summation_; }
  // A number for the order of one sum, for the policy of seeded orders.
  std::uint64_t order_seed(std::uint64_t sum) const {
    return verify::CounterRandom(seed_, 0, kOrders).bits(sum) >> 32;
  }
  // All inputs of a call, made anew: x and weight are not kept.
  verify::Inputs inputs(std::uint32_t group, std::uint32_t call) const;

 private:
  static constexpr std::uint64_t kOrders = 0x0bde5;  // a stream of random numbers

  verify::Problem problem_of(std::uint32_t call) const;
  Call make_shape(std::uint32_t call) const;
  void fill(Call& c, std::uint32_t group, std::uint32_t call) const;

  std::uint32_t calls_, groups_;
  std::uint64_t seed_;
  verify::Fill fill_ = verify::Fill::exact_rows;
  verify::Summation summation_;
  bool from_file_ = false;
  verify::Inputs file_;
  verify::Problem problem_;
  mutable std::vector<Call> all_;
  mutable bool prepared_ = false;
};

// In which of the two ways a protocol computes: all but pypto sum in fp32 and round as tokenweave.
verify::Flavour flavour_of(const std::string& protocol);

// The problem that a configuration describes, with sizes, dtype and eps of its input file if there
// is one (read into `inputs`). Checked; throws std::invalid_argument or verify::InputError.
verify::Problem read_problem(const Config& config, verify::Inputs* inputs);

// Config::payload: "exact", "integers", "normal"
verify::Fill parse_payload(const std::string& name);

}  // namespace ringfence::programs
