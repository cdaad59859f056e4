// The protocols of emulator/programs/protocols as compiled kernels (tests/ptx/kernels/protocols.cu
// and put_add.cu), each with what breaks it: the verdicts of docs/barriers.md also with more ranks,
// and in how many executions. tests/cli/check_test.cpp plays the table there, with two ranks.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emulator/check/explorer.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using check::Verdict;
using machine::Boundary;

namespace {

const std::string kFolder = "tests/cases/protocols/";

struct Row {
  const char* name;
  std::string strict, stream, coherent;
};

const std::string kPass = "pass", kRace = "data-race", kDeadlock = "deadlock";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The case with so many ranks, its pads long enough for them.
std::string with_ranks(const std::string& path, int ranks) {
  std::ifstream in(path);
  REQUIRE(in.is_open());
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  REQUIRE(text.find("ranks = 2\n") != std::string::npos);
  const std::string more = replaced(text, "ranks = 2\n", "ranks = " + std::to_string(ranks) + "\n");
  return replaced(replaced(more, "bytes = 16\n", "bytes = 64\n"), "bytes = 32\n", "bytes = 64\n");
}

check::CheckResult checked_text(const std::string& text, const std::string& path, Boundary mode,
                                std::uint64_t executions, bool by_stream = true) {
  check::CheckSpec spec;
  spec.run.policy.boundary = mode;
  spec.executions = executions;
  const auto make = [&] {
    return std::make_unique<cases::CaseProgram>(cases::parse_case(text, path), cases::Settings{});
  };
  if (by_stream) {
    if (auto result = check::check_by_stream(make, spec)) return *std::move(result);
  }
  spec.fingerprints = true;
  return check::check(make, spec);
}

check::CheckResult checked(const std::string& name, int ranks, Boundary mode,
                           std::uint64_t executions) {
  const std::string path = kFolder + name + ".toml";
  return checked_text(with_ranks(path, ranks), path, mode, executions);
}

std::string verdict(const check::CheckResult& r) {
  if (r.verdict == Verdict::pass) return kPass;
  if (r.verdict == Verdict::unknown) return "unknown";
  return std::string(machine::name(schedule::failure(r.outcome)->kind));
}

void check_row(const Row& row, int ranks) {
  const std::pair<Boundary, std::string> modes[] = {{Boundary::strict, row.strict},
                                                    {Boundary::stream, row.stream},
                                                    {Boundary::coherent, row.coherent}};
  for (const auto& [mode, expected] : modes) {
    CAPTURE(row.name);
    CAPTURE(ranks);
    CAPTURE(machine::name(mode));
    const check::CheckResult r = checked(row.name, ranks, mode, 200);
    CHECK(verdict(r) == expected);
    CHECK(r.of_stream == (mode == Boundary::coherent && row.stream == kPass));
    if (expected != kPass) continue;
    // Nothing multiplies: neither ranks nor calls, nor the lanes that carry the data.
    CHECK(r.complete == 1);
    // At the point of coherence a run may come to a flag when a later value is there already.
    if (mode != Boundary::coherent) CHECK(r.abandoned == 0);
  }
}

}  // namespace

TEST_CASE("each barrier, compiled, costs one execution in the modes in which it holds") {
  const std::vector<Row> rows = {
      {"cas-slots", kRace, kPass, kPass},
      {"epoch-inbox", kPass, kPass, kPass},
      {"flag-two-shot", kRace, kRace, kPass},
      {"flag-two-shot-ordered", kPass, kPass, kPass},
      {"counter-two-shot", kRace, kRace, kPass},
      {"counter-two-shot-ordered", kPass, kPass, kPass},
      {"mod3-flag", kPass, kPass, kPass},
      {"lamport", kDeadlock, kPass, kPass},
      {"put-notify", kPass, kPass, kPass},
      {"pypto", kPass, kPass, kPass},
      {"two-shot-all-reduce", kPass, kPass, kPass},
  };
  for (const Row& row : rows) {
    for (const int ranks : {2, 3, 4}) check_row(row, ranks);
  }
}

TEST_CASE("and so it does where mode coherent is searched itself") {
  for (const std::string name : {"epoch-inbox", "mod3-flag", "counter-two-shot-ordered"}) {
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(name);
      CAPTURE(ranks);
      const std::string path = kFolder + name + ".toml";
      const check::CheckResult r =
          checked_text(with_ranks(path, ranks), path, Boundary::coherent, 200, false);
      CHECK(verdict(r) == kPass);
      CHECK(r.complete == 1);
      CHECK_FALSE(r.of_stream);
    }
  }
}

TEST_CASE("calls and a second block do not multiply the executions of compiled barriers") {
  for (const std::string name : {"epoch-inbox", "mod3-flag", "counter-two-shot-ordered"}) {
    const std::string path = kFolder + name + ".toml";
    std::string text = replaced(with_ranks(path, 2), "grid = [1]", "grid = [2]");
    for (const char* calls : {"calls = 2\n", "calls = 3\n"}) {
      text = replaced(text, "calls = 2\n", calls);
      for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
        CAPTURE(name);
        CAPTURE(calls);
        CAPTURE(machine::name(mode));
        const check::CheckResult r = checked_text(text, path, mode, 200, false);
        CHECK(verdict(r) == kPass);
        CHECK(r.complete == 1);
      }
    }
  }
}

TEST_CASE("a counter of all ranks, compiled, costs an execution for what its waits have seen") {
  for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
    CAPTURE(machine::name(mode));
    const check::CheckResult r = checked("multimem-counter", 3, mode, 0);
    CHECK(verdict(r) == kPass);
    CHECK(r.complete == 91);
    CHECK(r.repeated == 0);
    CHECK(r.left_out.empty());
    CHECK(r.of_stream == (mode == Boundary::coherent));
    const check::CheckResult two = checked("multimem-counter", 2, mode, 0);
    CHECK(verdict(two) == kPass);
    CHECK(two.complete == 1);
  }
}

TEST_CASE("what breaks it is found in the compiled barrier as well") {
  const std::vector<Row> rows = {
      {"cas-slots-start-wait-relaxed", kRace, kRace, kPass},
      {"cas-slots-end-put-relaxed", kRace, kRace, kRace},
      {"epoch-inbox-restarts", kRace, kRace, kRace},
      {"multimem-counter-exactly", kDeadlock, kDeadlock, kDeadlock},
      {"flag-two-shot-shared", kRace, kRace, "lost-signal"},
      {"counter-two-shot-one-set", kRace, kRace, kDeadlock},
      {"counter-two-shot-weak", kRace, kRace, kRace},
      {"mod3-flag-mod-2", kDeadlock, kDeadlock, kDeadlock},
      {"put-notify-signal-relaxed", kRace, kRace, kRace},
      {"pypto-signal-relaxed", kRace, kRace, kRace},
      {"pypto-no-barrier-all", kRace, kRace, kRace},
      {"two-shot-all-reduce-middle-relaxed", kRace, kRace, kRace},
      {"two-shot-all-reduce-no-middle", kRace, kRace, kRace},
      {"two-shot-all-reduce-no-last", kRace, kRace, kRace},
  };
  for (const Row& row : rows) {
    for (const int ranks : {2, 3, 4}) check_row(row, ranks);
  }
  check_row({"lamport-two-buffers", kDeadlock, kDeadlock, kDeadlock}, 2);
  check_row({"lamport-two-buffers", kDeadlock, kDeadlock, kDeadlock}, 3);
}

TEST_CASE("the compiled counter's two proxies race by the letter, with two to four ranks") {
  const std::string path = kFolder + "multimem-counter.toml";
  for (const int ranks : {2, 3, 4}) {
    for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
      CAPTURE(ranks);
      CAPTURE(machine::name(mode));
      check::CheckSpec spec;
      spec.run.policy.boundary = mode;
      spec.run.policy.multicast_flag = machine::MulticastFlag::strict;
      spec.executions = 200;
      const std::string text = with_ranks(path, ranks);
      const auto make = [&] {
        return std::make_unique<cases::CaseProgram>(cases::parse_case(text, path),
                                                    cases::Settings{});
      };
      CHECK(verdict(check::check(make, spec)) == kRace);
    }
  }
}
