// The trace's checker, and the file. Each rule has a history that keeps it and a twin that breaks
// it.
#include "cuda/host/trace_file.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cuda/host/trace_check.hpp"

using namespace ringfence::cuda;

namespace {

SignalEvent event(SignalKind kind, uint32_t rank, uint32_t peer, uint32_t slot, uint64_t begin,
                  uint64_t end) {
  return {begin, end, rank, 0, peer, slot, kind, 0};
}

/// Rank 0 puts at rank 1's slot 0, twice; rank 1 waits there twice.
std::vector<SignalEvent> two_rounds() {
  return {
      event(SignalKind::start_put, 0, 1, 0, 10, 20), event(SignalKind::start_wait, 1, 0, 0, 5, 25),
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
  events[3].begin_ns = 36;
  CHECK(check_signal_events(events, 2).size() == 1);
}

TEST_CASE("trace check: a put without its wait is a lost signal") {
  std::vector<SignalEvent> events = two_rounds();
  events.pop_back();
  const std::vector<std::string> faults = check_signal_events(events, 2);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("lost-signal") == 0);
}

TEST_CASE("trace check: a wait takes the signal of the rank that the slot is for") {
  std::vector<SignalEvent> events = two_rounds();
  events[0].rank = 1;  // rank 1 put where only rank 0 may
  const std::vector<std::string> faults = check_signal_events(events, 2);
  REQUIRE(!faults.empty());
  CHECK(faults[0].find("pairing") == 0);
}

TEST_CASE("trace check: a thread's operations follow one another") {
  std::vector<SignalEvent> events = two_rounds();
  CHECK(check_signal_events(events, 2, false).empty());
  events[2].begin_ns = 15;  // the end put began before the start put had ended
  const std::vector<std::string> faults = check_signal_events(events, 2, false);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("program-order") == 0);
}

TEST_CASE("trace check: times of different clocks are not compared") {
  std::vector<SignalEvent> events = two_rounds();
  for (SignalEvent& e : events) {
    if (e.rank == 1) e.begin_ns += 1000, e.end_ns += 1000;
  }
  CHECK(!check_signal_events(events, 2, true).empty());
  CHECK(check_signal_events(events, 2, false).empty());
}

namespace {

/// Two ranks, one block each, three tiles, two of them in flight: barriers at 10, 20, 40, signals
/// at 30, 50, 60.
std::vector<SignalEvent> three_tiles() {
  std::vector<SignalEvent> events;
  for (uint32_t rank : {0u, 1u}) {
    for (uint64_t t : {10, 20, 40}) {
      events.push_back(event(SignalKind::tile_barrier, rank, 0, 0, t - 5, t + rank));
    }
    for (uint64_t t : {30, 50, 60}) {
      events.push_back(event(SignalKind::tile_signal, rank, 0, 1, t - 5, t + rank));
    }
  }
  return events;
}

}  // namespace

TEST_CASE("trace check: tiles pass with the lag that they ran with, and not with a shorter one") {
  CHECK(check_tile_events(three_tiles(), 2).empty());
  const std::vector<std::string> faults = check_tile_events(three_tiles(), 1);
  REQUIRE(!faults.empty());
  CHECK(faults[0].find("barrier: tile 1") == 0);
}

TEST_CASE("trace check: a tile complete before all blocks passed its barrier is found") {
  std::vector<SignalEvent> events = three_tiles();
  events[3].end_ns = 9;  // rank 0 had tile 0's signals before anybody passed its barrier
  const std::vector<std::string> faults = check_tile_events(events, 2);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].find("barrier: tile 0") == 0);
}

TEST_CASE("trace check: a tile that a block never waited for is a lost signal") {
  std::vector<SignalEvent> events = three_tiles();
  events.pop_back();
  const std::vector<std::string> faults = check_tile_events(events, 2);
  REQUIRE(!faults.empty());
  CHECK(faults[0].find("lost-signal: tile 2") == 0);
}

TEST_CASE("trace file: a header, an event a line with what it read from, the verdict") {
  RunOptions o;
  o.blocks = 1;
  std::istringstream text(trace_text(o, 2, true, two_rounds(), {}));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 6);
  CHECK(lines[0]["ringfence-gpu-trace"] == 1);
  CHECK(!lines[0].contains("ringfence-trace"));  // no list of choices: replay must refuse it
  CHECK(lines[0]["config"]["protocol"] == "tokenweave");
  CHECK(lines[0]["config"]["ranks"] == 2);
  // By the time of their begin: wait, put, put, wait.
  CHECK(lines[1]["agent"] == "r1.c0.b0.t0");
  CHECK(lines[1]["op"] == "start wait");
  CHECK(lines[1]["from"] == 1);
  CHECK(lines[1]["pad"] == 1);
  CHECK(lines[2]["op"] == "start put");
  CHECK(lines[2]["pad"] == 1);
  CHECK(lines[2]["begin_ns"] == 5);
  CHECK(lines[2]["value"] == nlohmann::json{0, 1});
  CHECK(lines[3]["order"] == "release");
  CHECK(lines[4]["from"] == 2);
  CHECK(lines[4]["order"] == "acquire");
  CHECK(lines[5]["verdict"] == "pass");
  CHECK(lines[5]["events"] == 4);
}
