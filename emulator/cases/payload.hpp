#pragma once
// What the memories of a case hold: before all launches, and what each call's product writes anew.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "emulator/cases/case_file.hpp"
#include "verify/reference.hpp"

namespace ringfence::cases {

// What the operator's reference expects of one call.
struct Expected {
  verify::Problem problem;
  bool exact = true;  // bit for bit, in the tensors; else within bounds
  verify::Tensor out, residual_out;
  verify::FusedReference reference;
};

class Payload {
 public:
  // Throws CaseError, or verify::InputError where the reference's sizes do not fit.
  Payload(const CaseFile& file, std::uint32_t calls, std::uint64_t seed,
          verify::Summation summation);

  // Memories whose content a product launch writes before every call: those of generated or of
  // recorded content. Others keep what they have from call to call.
  bool renewed(std::size_t memory) const { return renewed_[memory]; }
  bool any_renewed() const;
  // Of one that is generated or recorded once it is the same for all calls, and there at the start.
  // Empty for memories of other content.
  std::span<const std::byte> content(std::uint32_t call, std::uint32_t rank,
                                     std::size_t memory) const;
  // Of one that is recorded once: its initialised bytes, [begin, end) in turn; else all.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> given(std::uint32_t rank,
                                                             std::size_t memory) const;
  // Of a renewed memory: what its elements are, and how many bytes of it the payload fills.
  verify::Dtype dtype(std::size_t memory) const { return dtype_[memory]; }
  std::size_t filled(std::size_t memory) const { return filled_[memory]; }
  const std::optional<Expected>& expected(std::uint32_t call) const { return expected_[call]; }

 private:
  void fill_operator(const CaseFile& file, std::uint32_t call, std::uint64_t seed,
                     verify::Summation summation);
  std::vector<std::byte>& at(std::uint32_t call, std::uint32_t rank, std::size_t memory) {
    return content_[(std::size_t{call} * ranks_ + rank) * renewed_.size() + memory];
  }

  std::uint32_t ranks_;
  std::vector<bool> renewed_;
  std::vector<verify::Dtype> dtype_;
  std::vector<std::size_t> filled_;
  std::vector<std::vector<std::byte>> content_;
  std::vector<std::optional<Expected>> expected_;
  // By memory and rank, where not all is initialised.
  std::map<std::pair<std::size_t, std::uint32_t>,
           std::vector<std::pair<std::uint64_t, std::uint64_t>>>
      given_;
};

}  // namespace ringfence::cases
