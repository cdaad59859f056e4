#pragma once
// Operations that wait on streams, as a case: what lies between two points at which the program
// waits. What is run is the case, so what was captured is what was run.

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/exec/devices.hpp"

namespace ringfence::exec {

// Operations that no case holds. One line.
class TooMuch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Stretch {
  std::string toml;
  std::map<std::string, std::string> files;  // that it names, beside it
  std::uint32_t ranks = 1;
  // Memories of the case that the host reads at the end, and where to.
  struct ToHost {
    std::string memory;
    std::uint32_t rank = 0;
    std::uint64_t to = 0;
  };
  std::vector<ToHost> to_host;
  // Of the first device: the stream of the host's accesses, or one that is free for them. None: all
  // are taken.
  std::optional<std::uint32_t> host_stream;
};

// A host's access as a step of a case.
std::string access_step(const Devices& devices, const Operation& touch, std::uint32_t stream);

// `reach`: by device, the peers whose memories it was given access to. `batch`: pending operations,
// in order, with all that come before them; no callbacks. `name`: of the case, without a suffix.
// Throws TooMuch.
Stretch make_stretch(const Devices& devices, const std::vector<std::vector<std::uint32_t>>& reach,
                     const std::vector<const Operation*>& batch, const std::string& name,
                     const std::string& boundary);

}  // namespace ringfence::exec
