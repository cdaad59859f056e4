// Servers: what is booked around what, against a server that counts single units of time.
#include <doctest/doctest.h>

#include <vector>

#include "emulator/schedule/random.hpp"
#include "emulator/timing/server.hpp"

namespace ringfence::timing {
namespace {

TEST_CASE("a free server serves at once, a busy one afterwards") {
  Server s;
  CHECK(s.book(10, 5, 0) == 15);
  CHECK(s.book(10, 5, 0) == 20);
  CHECK(s.book(100, 5, 0) == 105);
  CHECK(s.book(7, 0, 0) == 7);
  CHECK(s.booked() == 15);
}

TEST_CASE("a late request for an earlier time takes the gaps, in pieces") {
  Server s;
  s.book(10, 10, 0);  // 10 to 20
  s.book(30, 10, 0);  // 30 to 40
  // 5 before 10, 10 between the two, 1 behind them.
  CHECK(s.book(5, 16, 0) == 41);
  CHECK(s.book(0, 5, 0) == 5);
  CHECK(s.book(0, 1, 0) == 42);
}

TEST_CASE("no unit of time is sold twice and none is left free before one that is taken") {
  schedule::Random random(7);
  for (int round = 0; round < 200; ++round) {
    Server s;
    std::vector<bool> taken(5000);
    for (int i = 0; i < 60; ++i) {
      const auto from = static_cast<Time>(random.below(600));
      const auto busy = static_cast<Time>(1 + random.below(40));
      Time at = from;
      for (Time left = busy; left > 0; ++at) {
        if (taken[static_cast<std::size_t>(at)]) continue;
        taken[static_cast<std::size_t>(at)] = true;
        --left;
      }
      REQUIRE(s.book(from, busy, 0) == at);
    }
  }
}

}  // namespace
}  // namespace ringfence::timing
