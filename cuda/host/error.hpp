// Errors of the host side: one line that says what, where, and what would be right.
#pragma once

#include <stdexcept>
#include <string>

namespace ringfence::cuda {

/// What kind of failure, for exit statuses and for callers that recover.
enum class ErrorCode {
  invalid_argument,  // shapes, dtypes, alignment, grids: the caller's to change
  not_supported,     // this device, driver or build cannot do it
  no_device,         // no GPU, or fewer than asked for
  driver,            // a CUDA call failed
  peer_lost,         // a peer did not come to a barrier within the time limit, or its process ended
  communication,     // the bootstrap between processes failed
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace ringfence::cuda
