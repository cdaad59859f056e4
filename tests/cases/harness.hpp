#pragma once
// Runs of case files on the inline executor, for the tests of this folder.

#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "emulator/cases/case_program.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/ranks/executors.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/search.hpp"
#include "tests/ptx/cksum.hpp"

namespace ringfence::cases::test {

inline std::unique_ptr<CaseProgram> open(const std::string& path, const Settings& settings = {}) {
  return std::make_unique<CaseProgram>(read_case(path), settings);
}

// `then` is called while the executor is there, whose memory a program's remarks are in.
inline schedule::SearchResult fuzz(schedule::Program& program, const machine::Policy& policy,
                                   std::uint64_t schedules,
                                   std::vector<machine::FindingKind> ignore = {},
                                   const std::function<void()>& then = {}) {
  const auto executor = ranks::make_inline(program);
  schedule::SearchSpec spec;
  spec.run.policy = policy;
  spec.run.ignore = std::move(ignore);
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  // Far more points than any of these programs has: a run that needs them is a loop.
  spec.run.point_limit = 1u << 16;
  spec.schedules = schedules;
  schedule::SearchResult result = schedule::search({executor.get()}, spec);
  if (then) then();
  return result;
}

inline schedule::SearchResult fuzz(schedule::Program& program, machine::Boundary mode,
                                   std::uint64_t schedules,
                                   std::vector<machine::FindingKind> ignore = {},
                                   const std::function<void()>& then = {}) {
  machine::Policy policy;
  policy.boundary = mode;
  return fuzz(program, policy, schedules, std::move(ignore), then);
}

// The kind of the finding, "clean", or "undecided" where a run met the limit of points.
inline std::string found(const schedule::SearchResult& r) {
  const auto f = r.found ? schedule::failure(r.outcome) : std::nullopt;
  if (!f) return r.undecided > 0 ? "undecided" : "clean";
  return std::string(machine::name(f->kind));
}

// PTX that the build makes where it finds nvcc (tests/cases/CMakeLists.txt).
inline std::string made_path(const std::string& name) { return "traces/ptx/made/" + name + ".ptx"; }

// Whether it is there; where the build had nvcc it has to be.
inline bool made(const std::string& name) {
  if (std::ifstream(made_path(name)).is_open()) return true;
#ifdef RINGFENCE_MAKES_PTX
  FAIL("the build has not made ", made_path(name));
#else
  MESSAGE("not run: no nvcc to make ", made_path(name));
#endif
  return false;
}

// That a PTX file of traces/record-ptx was made of the sources as they are.
inline void check_recorded_sources(const std::string& path) {
  std::ifstream ptx(path);
  REQUIRE(ptx.is_open());
  const std::string source = "// source ", checksum = "// cksum ";
  ptx::test::Cksum sum;
  int sources = 0;
  std::string line;
  while (std::getline(ptx, line) && line.rfind(source, 0) == 0) {
    std::ifstream file(line.substr(source.size()), std::ios::binary);
    CAPTURE(line);
    REQUIRE(file.is_open());
    sum.add(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
    ++sources;
  }
  CHECK(sources >= 10);
  INFO("made anew by ./dev ptx");
  CHECK(line == checksum + std::to_string(sum.value()));
}

}  // namespace ringfence::cases::test
