// The time limit's report: a page that waiting threads write to, and the text that explains it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

/// Owns the page, in host memory that all devices of the process can write.
class WaitReport {
 public:
  WaitReport();
  ~WaitReport();
  WaitReport(const WaitReport&) = delete;
  WaitReport& operator=(const WaitReport&) = delete;

  SpinReport* page() const { return page_; }
  bool timed_out() const { return page_->count != 0; }
  std::vector<SpinTimeout> entries() const;
  void clear() { page_->count = 0; }

 private:
  SpinReport* page_ = nullptr;
};

const char* signal_kind_name(SignalKind kind);

/// One line: "rank 1 block 0 gave up waiting for rank 3 at slot 3 (start wait, value 0)".
std::string timeout_text(const SpinTimeout& timeout);

/// Who waits for whom: a table over ranks, from the reports, with how many blocks do, and which
/// ranks nobody heard of though others wait for them: those are missing.
std::string wait_table(const std::vector<SpinTimeout>& timeouts, int world);

/// The non-zero slots of all ranks' pads, one line each: "pad of rank 0: slot 12 (block 3, rank 0)
/// is 1". pads[r] holds words_used words; a slot belongs to block slot / world, rank slot % world.
std::string pad_dump(const std::vector<std::vector<uint32_t>>& pads, int world);

}  // namespace ringfence::cuda
