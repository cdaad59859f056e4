// litmus: PTX litmus tests, every execution of each, and what was expected.
#include "emulator/cli/litmus.hpp"

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

// Those of the options, and over them those of a test's line.
machine::Policy policy_of(const LitmusOptions& o,
                          const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::string> policies;
  for (const std::string& p : o.policy) {
    // A later one holds, but each has to be right.
    machine::Policy policy;
    std::string summation;
    apply_policy(p, policy, summation);
    const auto [name, value] = key_value("--policy", p);
    policies[name] = value;
  }
  for (const auto& [name, value] : settings) policies[name] = value;
  return litmus_policy(o.boundary, policies);
}

// What --expect names: a file of lines, or one answer for all tests.
std::vector<litmus::Expectation> expectations_of(const LitmusOptions& o) {
  if (o.expect.empty() || o.expect == "hang" || o.expect == "no-hang") return {};
  if (!std::filesystem::is_regular_file(o.expect)) {
    throw UsageError(
        fmt::format("--expect {}: expected the file of expectations, hang or no-hang", o.expect));
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
      "{}: {} has no line for {}; expected '{} Never', 'Sometimes' or 'Always', or '{},1'", file,
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
          fmt::format("{}: a folder without *.litmus and *.test files; expected a test", given));
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
    if (r.error.empty()) {
      const LitmusSpec spec{r.policy, o.bound, o.executions, o.seconds, o.jobs};
      static_cast<LitmusOutcome&>(r) = explore_litmus(*r.test, r.file, spec);
      r.bound = o.bound;
    }
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
