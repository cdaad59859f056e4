#pragma once
// What a machine throws where it cannot say what an access does.

#include <stdexcept>

namespace ringfence::machine {

// what(): one line: the access, why not, and what would be right.
class NotModelled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ringfence::machine
