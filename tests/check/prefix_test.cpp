// Prefixes share their counts (Prefix in graph.hpp): what one of them gets, no copy of it has.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "emulator/check/graph.hpp"

using namespace ringfence;

TEST_CASE("prefixes are sets of events whatever was copied and joined before") {
  // More agents than a piece of a join has, and a number that is no multiple of it.
  constexpr std::uint32_t kAgents = 39, kEvents = 4;
  using Model = std::set<check::Name>;
  std::mt19937 random(1);
  std::vector<check::Prefix> prefixes(6);
  std::vector<Model> models(6);
  const auto any = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  for (int step = 0; step < 4000; ++step) {
    const std::uint32_t a = any(6), b = any(6);
    switch (any(5)) {
      case 0:
        prefixes[a] = prefixes[b];
        models[a] = models[b];
        break;
      case 1:
      case 2:
        prefixes[a].join(prefixes[b]);
        models[a].insert(models[b].begin(), models[b].end());
        break;
      case 3:
        if (any(8) != 0) break;
        prefixes[a] = {};
        models[a].clear();
        break;
      default: {
        const check::Name name{any(kAgents), any(kEvents)};
        prefixes[a].add(name);
        for (std::uint32_t n = 0; n <= name.nth; ++n) models[a].insert({name.agent, n});
      }
    }
    for (std::uint32_t i = 0; i < 6; ++i) {
      for (std::uint32_t agent = 0; agent < kAgents; ++agent) {
        for (std::uint32_t n = 0; n < kEvents; ++n) {
          REQUIRE(prefixes[i].has(check::Name{agent, n}) == models[i].contains({agent, n}));
        }
      }
    }
    REQUIRE(prefixes[a].has(prefixes[b]) ==
            std::includes(models[a].begin(), models[a].end(), models[b].begin(), models[b].end()));
    if (prefixes[a].shares(prefixes[b])) REQUIRE(models[a] == models[b]);
  }
}
