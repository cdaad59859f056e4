#pragma once
// Timings as one SVG file that loads nothing: time over the size that varies, and where it goes.

#include <string>
#include <vector>

#include "emulator/timing/simulate.hpp"

namespace ringfence::timing {

struct Case {
  Sizes sizes;
  Timing timing;
};

// Left: time over tokens, blocks, ranks or waves, whichever has the most values, a line for each
// combination of the others, both axes logarithmic. Right: a bar for each case, cut by where the
// time went. Cases with a finding have no time and are left out. Light and dark by the viewer.
std::string plot(const std::vector<Case>& cases, const std::string& title);

}  // namespace ringfence::timing
