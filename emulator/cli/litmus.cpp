// litmus: PTX litmus tests, every execution of each, and what was expected.
#include "emulator/cli/litmus.hpp"

#include "emulator/check/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::cli {

namespace {

// One test under one set of policies.
struct TestResult {
  std::string file;
  const litmus::Test* test = nullptr;
  std::map<std::string, std::string> settings;  // of its line of the expectation file
  std::optional<litmus::Expectation> expected;
  std::uint64_t complete = 0, blocked = 0, out_of_order = 0;
  bool load_buffering = false;  // explored
  double seconds = 0;
  litmus::States states;
  litmus::Verdict verdict;
  bool race = false;
  bool whole = false;  // every execution was seen to its end
  std::string not_modelled;

  // Whether it is as expected: by its line, else by the test's own condition.
  Verdict outcome() const {
    if (!not_modelled.empty() || !whole) return Verdict::unknown;
    if (!expected) return verdict.ok ? Verdict::pass : Verdict::finding;
    const bool race_ok = !expected->race || *expected->race == race;
    return verdict.observation == expected->observation && race_ok ? Verdict::pass
                                                                   : Verdict::finding;
  }
};

machine::Policy policy_of(const LitmusOptions& o,
                          const std::map<std::string, std::string>& settings) {
  machine::Policy policy;
  policy.load_buffering = machine::LoadBuffering::on;
  std::string summation;
  const auto boundary = [&](const std::string& value) {
    const auto mode = machine::parse_boundary(value);
    if (!mode)
      throw UsageError(fmt::format("--boundary {}: strict, stream or coherent is due", value));
    policy.boundary = *mode;
  };
  boundary(o.boundary);
  for (const std::string& p : o.policy) apply_policy(p, policy, summation);
  for (const auto& [name, value] : settings) {
    if (name == "boundary") {
      boundary(value);
    } else {
      apply_policy(name + "=" + value, policy, summation);
    }
  }
  return policy;
}

void explore(const LitmusOptions& o, TestResult& r) {
  check::CheckSpec spec;
  spec.run.policy = policy_of(o, r.settings);
  for (int k = 0; k < machine::kFindingKinds; ++k) {
    const auto kind = static_cast<machine::FindingKind>(k);
    if (kind != machine::FindingKind::deadlock) spec.run.ignore.push_back(kind);
  }
  spec.weak_events = spec.all = true;
  spec.executions = o.executions;
  spec.seconds = o.seconds;
  spec.straight = litmus::straight;
  bool bounded = false;
  r.whole = true;
  r.load_buffering = spec.run.policy.load_buffering == machine::LoadBuffering::on &&
                     spec.run.policy.boundary != machine::Boundary::coherent;
  try {
    // Accesses of one instruction are in no order: both directions, where it can show.
    const std::uint32_t directions = 1u << litmus::LitmusProgram::unordered(*r.test);
    for (std::uint32_t reversed = 0; reversed < directions; ++reversed) {
      const check::CheckResult one = check::check(
          [&] { return std::make_unique<litmus::LitmusProgram>(*r.test, reversed); }, spec, o.jobs,
          [&](const check::Execution& e) {
            const auto& run = dynamic_cast<const litmus::LitmusProgram&>(e.program);
            bounded = bounded || run.bounded();
            if (e.outcome.end != schedule::RunEnd::complete) return;
            r.race = r.race || e.race();
            for (const litmus::State& s :
                 run.final_states([&](machine::Address at, std::uint32_t bytes) {
                   return e.final_values(at, bytes);
                 })) {
              ++r.states[s];
            }
          });
      r.complete += one.complete;
      r.blocked += one.blocked;
      r.seconds += one.seconds;
      r.out_of_order += one.out_of_order;
      r.load_buffering = r.load_buffering && one.unjudged == 0;
      r.whole = r.whole && one.explored == 1 && one.bounded == 0;
    }
  } catch (const litmus::NotModelled& e) {
    r.not_modelled = fmt::format("{}: {}", r.file, e.what());
    return;
  }
  r.whole = r.whole && !bounded;
  r.verdict = litmus::judge(*r.test, r.states);
}

void print(const TestResult& r) {
  if (!r.not_modelled.empty()) {
    fmt::print("Test {} not modelled\n{}\n\n", r.test->name, r.not_modelled);
    return;
  }
  fmt::print("{}", litmus::herd_block(*r.test, r.states));
  fmt::print("Executions {} complete, {} blocked{}{}{}{}\n", r.complete, r.blocked,
             r.out_of_order > 0 ? fmt::format(", of these {} out of order", r.out_of_order) : "",
             r.race ? ", with a data race" : "", r.load_buffering ? "" : ", except load buffering",
             r.whole ? "" : "; a bound ended the search, so there may be more");
  if (r.expected) {
    std::string settings;
    for (const auto& [name, value] : r.settings) settings += " " + name + "=" + value;
    fmt::print("Expected {}{}{}: {}\n", to_string(r.expected->observation),
               !r.expected->race   ? ""
               : *r.expected->race ? " race"
                                   : " no-race",
               settings,
               r.outcome() == Verdict::pass      ? "as found"
               : r.outcome() == Verdict::finding ? "DIFFERS"
                                                 : "not decided");
  }
  fmt::print("\n");
}

Json result_json(const std::vector<TestResult>& results, Verdict verdict) {
  Json j = result_head("litmus", verdict, 0);
  j["tests"] = Json::array();
  for (const TestResult& r : results) {
    Json one{{"name", r.test->name}, {"file", r.file}, {"verdict", name(r.outcome())}};
    if (r.not_modelled.empty()) {
      one["observation"] = to_string(r.verdict.observation);
      one["ok"] = r.verdict.ok;
      one["positive"] = r.verdict.satisfying;
      one["negative"] = r.verdict.others;
      one["states"] = r.states.size();
      one["race"] = r.race;
      one["complete"] = r.complete;
      one["blocked"] = r.blocked;
      one["out_of_order"] = r.out_of_order;
      one["load_buffering"] = r.load_buffering;
      one["seconds"] = r.seconds;
    } else {
      one["message"] = r.not_modelled;
    }
    if (r.expected) {
      one["expected"] = to_string(r.expected->observation);
      if (r.expected->race) one["expected_race"] = *r.expected->race;
      one["settings"] = r.settings;
    }
    j["tests"].push_back(one);
  }
  return j;
}

verify::JunitSuite junit_of(const std::vector<TestResult>& results) {
  using Status = verify::JunitCase::Status;
  verify::JunitSuite suite;
  suite.name = "litmus";
  for (const TestResult& r : results) {
    verify::JunitCase one;
    one.classname = "litmus";
    one.name = r.test->name;
    for (const auto& [name, value] : r.settings) one.name += " " + name + "=" + value;
    one.seconds = r.seconds;
    if (!r.not_modelled.empty()) {
      one.status = Status::skipped;
      one.message = r.not_modelled;
    } else if (r.outcome() != Verdict::pass) {
      one.status = r.outcome() == Verdict::finding ? Status::failed : Status::error;
      one.message = r.expected ? fmt::format("{}, expected {}", to_string(r.verdict.observation),
                                             to_string(r.expected->observation))
                               : "the condition does not hold";
      one.detail = litmus::herd_block(*r.test, r.states);
    }
    suite.cases.push_back(one);
  }
  return suite;
}

}  // namespace

Exit run(const LitmusOptions& o) {
  check_writable(o.reports);
  policy_of(o, {});
  std::vector<std::pair<std::string, litmus::Test>> tests;
  for (const std::string& file : o.files) tests.emplace_back(file, litmus::parse_file(file));
  std::vector<litmus::Expectation> expectations;
  if (!o.expect.empty()) expectations = litmus::parse_expectation_file(o.expect);

  std::vector<TestResult> results;
  for (const auto& [file, test] : tests) {
    bool any = false;
    for (const litmus::Expectation& e : expectations) {
      if (e.name != test.name) continue;
      any = true;
      results.push_back({});
      results.back().settings = e.settings;
      results.back().expected = e;
      results.back().file = file;
      results.back().test = &test;
    }
    if (any) continue;
    if (!o.expect.empty()) {
      throw UsageError(
          fmt::format("{}: {} has no line for {}; '{} Never', 'Sometimes' or 'Always' "
                      "is due",
                      file, o.expect, test.name, test.name));
    }
    results.push_back({});
    results.back().file = file;
    results.back().test = &test;
  }
  std::map<Verdict, std::size_t> count;
  for (TestResult& r : results) {
    explore(o, r);
    if (schedule::interrupted()) throw Interrupted();
    print(r);
    std::fflush(stdout);
    ++count[r.outcome()];
  }
  const auto without = std::count_if(results.begin(), results.end(),
                                     [](const TestResult& r) { return !r.load_buffering; });
  fmt::print("{} tests: {} {}, {} not, {} undecided{}\n", results.size(), count[Verdict::pass],
             o.expect.empty() ? "Ok" : "as expected", count[Verdict::finding],
             count[Verdict::unknown],
             without > 0 ? fmt::format(" ({} without load buffering)", without) : "");
  const Verdict verdict = count[Verdict::finding] > 0   ? Verdict::finding
                          : count[Verdict::unknown] > 0 ? Verdict::unknown
                                                        : Verdict::pass;
  write_reports(o.reports, result_json(results, verdict), {junit_of(results)});
  return verdict == Verdict::pass      ? Exit::clean
         : verdict == Verdict::finding ? Exit::finding
                                       : Exit::unknown;
}

}  // namespace ringfence::cli
