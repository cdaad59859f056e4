#include "cuda/host/trace_file.hpp"

#include <doctest/doctest.h>

using namespace ringfence::cuda;

namespace {

SignalEvent event(SignalKind kind, uint32_t rank, uint32_t peer, uint32_t slot, uint64_t begin,
                  uint64_t end) {
  return {begin, end, rank, 0, peer, slot, kind, 0};
}

/// Rank 0 puts at rank 1's slot 0, twice; rank 1 waits there twice.
std::vector<SignalEvent> two_rounds() {
  return {event(SignalKind::start_put, 0, 1, 0, 10, 20), event(SignalKind::start_wait, 1, 0, 0, 5, 25),
          event(SignalKind::end_put, 0, 1, 0, 24, 32), event(SignalKind::end_wait, 1, 0, 0, 30, 40)};
}

}  // namespace

TEST_CASE("trace check: a put and its wait in order pass") {
  CHECK(check_signal_events(two_rounds(), 2).empty());
}

TEST_CASE("trace check: a wait that ends before its put began is found") {
  std::vector<SignalEvent> events = two_rounds();
  events[1].end_ns = 8;
  CHECK(check_signal_events(events, 2).size() == 1);
}

TEST_CASE("trace check: a put into a slot that was not free is found") {
  std::vector<SignalEvent> events = two_rounds();
  events[1].begin_ns = 33;  // the first wait begins after the second put has ended
  events[1].end_ns = 35;
  CHECK(check_signal_events(events, 2).size() == 1);
}

TEST_CASE("trace check: a put without its wait is a lost signal") {
  std::vector<SignalEvent> events = two_rounds();
  events.pop_back();
  const std::vector<std::string> faults = check_signal_events(events, 2);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("lost-signal") == 0);
}
