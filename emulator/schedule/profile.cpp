#include "emulator/schedule/profile.hpp"

#include <algorithm>
#include <tuple>

namespace ringfence::schedule {

Profile::Profile(std::vector<SeenAccess> seen) {
  // By label, not by id: the order does not depend on the run.
  std::sort(seen.begin(), seen.end(), [](const SeenAccess& a, const SeenAccess& b) {
    return std::tuple(place_key(a.at), a.label) < std::tuple(place_key(b.at), b.label);
  });
  for (std::size_t i = 0; i < seen.size();) {
    Place place{place_key(seen[i].at), static_cast<std::uint32_t>(counts_.size()), 0};
    bool written = false;
    for (; i < seen.size() && place_key(seen[i].at) == place.key; ++i) {
      written |= seen[i].writes;
      if (place.agents == 0 || counts_.back().label != seen[i].label) {
        counts_.push_back({seen[i].label, 0});
        ++place.agents;
      }
      ++counts_.back().accesses;
    }
    if (written && place.agents > 1) {
      places_.push_back(place);
    } else {
      counts_.resize(place.first);
    }
  }
}

}  // namespace ringfence::schedule
