#pragma once
// What the memories of [check.expected] should hold after each call, from the payload alone.

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/cases/case_file.hpp"
#include "emulator/cases/payload.hpp"
#include "verify/summation.hpp"
#include "verify/values.hpp"

namespace ringfence::cases {

class Expectations {
 public:
  // Throws CaseError, at the line of the entry that is wrong.
  Expectations(const CaseFile& file, std::uint32_t calls, const Payload& payload,
               verify::Summation summation);

  // Of entry `index` of check.expected; nullptr where it is not judged.
  const verify::Expectation* of(std::size_t index, std::uint32_t call, std::uint32_t rank) const {
    return all_[(index * calls_ + call) * ranks_ + rank].get();
  }

 private:
  using Shared = std::shared_ptr<const verify::Expectation>;

  std::uint32_t calls_;
  std::uint32_t ranks_;
  std::vector<Shared> all_;  // by entry, call and rank
};

}  // namespace ringfence::cases
