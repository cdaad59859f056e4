// litmus: PTX litmus tests, every execution of each, and what was expected.
#include "emulator/cli/litmus.hpp"

#include "emulator/check/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/litmus_result.hpp"
#include "emulator/cli/mode_results.hpp"
#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::cli {

namespace {

// Without options all is as the manual's letter has it.
machine::Policy policy_of(const LitmusOptions& o,
                          const std::map<std::string, std::string>& settings) {
  machine::Policy policy;
  policy.load_buffering = machine::LoadBuffering::on;
  policy.multicast_flag = machine::MulticastFlag::strict;
  policy.alias_data = machine::AliasData::fence_required;
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
  refuse_kernel_policies(policy);
  return policy;
}

void explore(const LitmusOptions& o, TestResult& r) {
  check::CheckSpec spec;
  spec.run.policy = r.policy;
  for (int k = 0; k < machine::kFindingKinds; ++k) {
    const auto kind = static_cast<machine::FindingKind>(k);
    if (kind != machine::FindingKind::deadlock) spec.run.ignore.push_back(kind);
  }
  spec.all = true;
  spec.executions = o.executions;
  spec.seconds = o.seconds;
  spec.straight = litmus::straight;
  const schedule::TimeLimit limit(o.seconds);
  r.bound = o.bound;
  r.searched = true;
  r.load_buffering = r.policy.load_buffering == machine::LoadBuffering::on &&
                     r.policy.boundary != machine::Boundary::coherent;
  const auto visit = [&](const check::Execution& e) {
    const auto& run = dynamic_cast<const litmus::LitmusProgram&>(e.program);
    const auto final_values = [&](machine::Address at, std::uint32_t bytes) {
      return e.final_values(at, bytes);
    };
    for (const litmus::Waiting& loop : run.given_up()) ++r.given_up[loop];
    if (e.outcome.end != schedule::RunEnd::complete) {
      const std::vector<litmus::Waiting> who = run.hanging(final_values);
      if (!who.empty()) ++r.hangs[who];
      return;
    }
    r.race = r.race || e.race();
    for (const litmus::State& s : run.final_states(final_values)) ++r.states[s];
  };
  try {
    // Accesses of one instruction are in no order: both directions, where it can show.
    const std::uint32_t directions = 1u << litmus::LitmusProgram::unordered(*r.test);
    for (std::uint32_t reversed = 0; reversed < directions; ++reversed) {
      const check::CheckResult one = check::check(
          [&] { return std::make_unique<litmus::LitmusProgram>(*r.test, reversed, o.bound); }, spec,
          o.jobs, visit);
      r.complete += one.complete;
      r.blocked += one.blocked;
      r.seconds += one.seconds;
      r.out_of_order += one.out_of_order;
      r.load_buffering = r.load_buffering && one.unjudged == 0;
      r.searched = r.searched && one.explored == 1 && one.bounded == 0;
    }
  } catch (const litmus::NotModelled& e) {
    r.not_modelled = fmt::format("{}: {}", r.file, e.what());
    return;
  } catch (const schedule::ProgramError& e) {
    // Behind the label of the thread that ran into it.
    const std::string what = e.what();
    r.error = fmt::format("{}:{}", r.file, what.substr(what.find(": ") + 2));
    return;
  }
  r.verdict = litmus::judge(*r.test, r.states, !r.hangs.empty());
}

// What --expect names: a file of lines, or one answer for all tests.
std::vector<litmus::Expectation> expectations_of(const LitmusOptions& o) {
  if (o.expect.empty() || o.expect == "hang" || o.expect == "no-hang") return {};
  if (!std::filesystem::is_regular_file(o.expect)) {
    throw UsageError(
        fmt::format("--expect {}: the file of expectations, hang or no-hang is due", o.expect));
  }
  return litmus::parse_expectation_file(o.expect);
}

// The tests to run: one for each line of the expectations that is about it.
void add_results(const LitmusOptions& o, const std::string& file, const litmus::Test& test,
                 const std::vector<litmus::Expectation>& expectations,
                 std::vector<TestResult>& results) {
  const auto add = [&](const std::optional<litmus::Expectation>& expected) {
    TestResult r;
    r.file = file;
    r.test = &test;
    r.expected = expected;
    r.question = o.ask == "termination" ? LitmusQuestion::termination : LitmusQuestion::condition;
    if (expected) r.settings = expected->settings;
    r.policy = policy_of(o, r.settings);
    results.push_back(std::move(r));
  };
  if (o.expect.empty()) return add(std::nullopt);
  if (o.expect == "hang" || o.expect == "no-hang") {
    litmus::Expectation all;
    all.name = test.name;
    all.hang = o.expect == "hang";
    return add(all);
  }
  bool any = false;
  for (const litmus::Expectation& e : expectations) {
    if (!e.is_of(test.name, file)) continue;
    any = true;
    add(e);
  }
  if (any) return;
  TestResult r;
  r.file = file;
  r.error = fmt::format(
      "{}: {} has no line for {}; '{} Never', 'Sometimes' or 'Always' is due, or '{},1'", file,
      o.expect, test.name, test.name, file);
  results.push_back(std::move(r));
}

// The files given; of a folder all tests in it and below, by name. Throws UsageError for a folder
// without any.
std::vector<std::string> files_of(const LitmusOptions& o) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& given : o.files) {
    std::error_code unreadable;
    if (!fs::is_directory(given, unreadable)) {
      files.push_back(given);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator at(given, unreadable), end; !unreadable && at != end;
         at.increment(unreadable)) {
      const fs::path& path = at->path();
      if (path.extension() != ".litmus" && path.extension() != ".test") continue;
      if (at->is_regular_file(unreadable)) found.push_back(path.string());
    }
    if (found.empty()) {
      throw UsageError(
          fmt::format("{}: a folder without *.litmus and *.test files; a test is due", given));
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

Exit run(const LitmusOptions& o) {
  check_writable(o.reports);
  policy_of(o, {});
  const std::vector<litmus::Expectation> expectations = expectations_of(o);
  std::deque<litmus::Test> tests;  // they stay where they are
  std::vector<TestResult> results;
  for (const std::string& file : files_of(o)) {
    std::vector<litmus::Test> read;
    try {
      read = litmus::parse_tests(file);
    } catch (const litmus::ParseError& e) {
      results.push_back({});
      results.back().file = file;
      results.back().error = e.what();
      continue;
    }
    for (litmus::Test& test : read) {
      tests.push_back(std::move(test));
      add_results(o, file, tests.back(), expectations, results);
    }
  }
  std::map<Verdict, std::size_t> count;
  std::size_t bad = 0;
  for (TestResult& r : results) {
    if (r.error.empty()) explore(o, r);
    if (schedule::interrupted()) throw Interrupted();
    print(r);
    std::fflush(stdout);
    if (!r.error.empty()) {
      ++bad;
      fmt::print(stderr, "ringfence: {}\n", r.error);
      continue;
    }
    ++count[r.outcome()];
  }
  if (bad == results.size()) return Exit::bad_input;
  const auto without = std::count_if(results.begin(), results.end(), [](const TestResult& r) {
    return r.error.empty() && !r.load_buffering;
  });
  fmt::print("{} tests: {} {}, {} not, {} undecided{}{}\n", results.size() - bad,
             count[Verdict::pass], o.expect.empty() ? "Ok" : "as expected", count[Verdict::finding],
             count[Verdict::unknown],
             without > 0 ? fmt::format(" ({} without load buffering)", without) : "",
             bad > 0 ? fmt::format("; {} could not be judged", bad) : "");
  const Verdict verdict = bad > 0                       ? Verdict::error
                          : count[Verdict::finding] > 0 ? Verdict::finding
                          : count[Verdict::unknown] > 0 ? Verdict::unknown
                                                        : Verdict::pass;
  write_reports(o.reports, result_json(results, verdict), {junit_of(results)});
  return verdict == Verdict::error ? Exit::bad_input : exit_of(verdict);
}

}  // namespace ringfence::cli
