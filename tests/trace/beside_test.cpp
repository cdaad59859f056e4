// A failing run beside one that passes: which steps are the same, and how they differ.
#include "emulator/trace/beside.hpp"

#include <doctest/doctest.h>

#include "tests/trace/samples.hpp"

namespace ringfence::trace {
namespace {

using machine::Event;
using Kind = Event::Kind;

struct Step {
  const char* agent;
  Kind kind;
  std::uint16_t site;
  std::uint64_t value;
  std::uint32_t from = 0;  // step
};

std::vector<Event> run(const std::vector<Step>& steps) {
  std::vector<Event> out;
  for (const Step& s : steps) {
    Event e;
    e.kind = s.kind;
    e.label = label(s.agent);
    e.site = s.site;
    e.step = static_cast<std::uint32_t>(out.size() + 1);
    e.value = s.value;
    e.from_step = s.from;
    e.bytes = 4;
    out.push_back(e);
  }
  return out;
}

constexpr const char* kWriter = "r0.c0.b0.t0";
constexpr const char* kReader = "r1.c0.b0.t0";
using Words = std::vector<std::string>;

TEST_CASE("a step is the other run's where the agent came there for the same time") {
  const auto here = run(
      {{kWriter, Kind::write, 1, 7}, {kReader, Kind::read, 2, 0}, {kReader, Kind::read, 2, 7, 1}});
  const auto there = run(
      {{kReader, Kind::read, 2, 0}, {kWriter, Kind::write, 1, 7}, {kReader, Kind::read, 2, 7, 2}});
  const Beside both(here, there);
  CHECK(both.counterpart(0) == 1);
  CHECK(both.counterpart(1) == 0);
  CHECK(both.counterpart(2) == 2);
  CHECK(both.first_difference() == 0);
  const std::size_t all[] = {0, 1, 2};
  const auto rows = both.rows(all);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].differs.empty());
  CHECK(rows[1].differs == Words{"order"});  // there it comes before the write
  CHECK(rows[2].differs.empty());            // the same write of the same value
}

TEST_CASE("other values, other writers and steps that do not happen are told") {
  const auto here = run({{kWriter, Kind::write, 1, 7},
                         {kWriter, Kind::write, 3, 7},
                         {kReader, Kind::read, 2, 0},
                         {kReader, Kind::read, 4, 7, 1},
                         {kReader, Kind::write, 5, 1}});
  const auto there = run({{kWriter, Kind::write, 1, 7},
                          {kWriter, Kind::write, 3, 7},
                          {kReader, Kind::read, 2, 7, 2},
                          {kReader, Kind::read, 4, 7, 2}});
  const Beside both(here, there);
  CHECK(both.first_difference() == 2);
  const std::size_t some[] = {1, 2, 3, 4};
  const auto rows = both.rows(some);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].differs.empty());
  CHECK(rows[1].differs == Words{"value", "writer"});
  CHECK(rows[2].differs == Words{"writer"});
  CHECK(rows[3].differs == Words{"missing"});
  CHECK(rows[3].there == kNoEvent);
}

TEST_CASE("equal runs differ nowhere") {
  const auto one = run({{kWriter, Kind::write, 1, 7}, {kReader, Kind::read, 2, 7, 1}});
  const Beside both(one, one);
  CHECK(both.first_difference() == kNoEvent);
  const std::size_t all[] = {0, 1};
  for (const BesideRow& row : both.rows(all)) CHECK(row.differs.empty());
}

}  // namespace
}  // namespace ringfence::trace
