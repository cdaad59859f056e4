#include "emulator/cli/litmus_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "emulator/litmus/printer.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"

namespace ringfence::cli {

namespace {

// The worse of two; what is not decided is better than what is not as expected.
Verdict worse(Verdict a, Verdict b) {
  for (const Verdict v : {Verdict::finding, Verdict::unknown}) {
    if (a == v || b == v) return v;
  }
  return Verdict::pass;
}

// Of something that is seen, or not seen so far.
Verdict judge_seen(bool seen, bool expected, bool whole) {
  if (seen) return expected ? Verdict::pass : Verdict::finding;
  if (!whole) return Verdict::unknown;
  return expected ? Verdict::finding : Verdict::pass;
}

std::map<std::string, std::string> policies(const machine::Policy& p) {
  std::map<std::string, std::string> out{{"boundary", std::string(machine::name(p.boundary))}};
  for (const machine::NamedPolicy& n : machine::named_policies()) {
    if (!n.of_kernels) out.emplace(n.name, n.word(p));
  }
  return out;
}

std::string policy_text(const machine::Policy& policy) {
  std::string text;
  for (const auto& [name, value] : policies(policy)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

std::string place(const litmus::Test& test, const litmus::Waiting& w) {
  const litmus::Thread& thread = test.threads[w.thread];
  const litmus::Instruction& i = thread.instructions[w.instruction];
  return fmt::format("P{} at line {} ({})", w.thread, i.at.line, litmus::print(test, thread, i));
}

std::string place(const litmus::Test& test, const std::vector<litmus::Waiting>& all) {
  std::string text;
  for (const litmus::Waiting& w : all) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", place(test, w));
  }
  return text;
}

std::string expected_text(const litmus::Expectation& e) {
  if (e.ok) return *e.ok ? "1" : "0";
  std::string text;
  const auto word = [&](const std::string& w) { text += (text.empty() ? "" : " ") + w; };
  if (e.observation) word(to_string(*e.observation));
  if (e.race) word(*e.race ? "race" : "no-race");
  if (e.hang) word(*e.hang ? "hang" : "no-hang");
  return text;
}

void print_states(const TestResult& r) {
  if (r.question == LitmusQuestion::condition) {
    fmt::print("{}", litmus::herd_block(*r.test, r.states, !r.hangs.empty()));
    return;
  }
  fmt::print("Test {} Termination\n{}\n", r.test->name, r.ok() ? "Ok" : "No");
}

}  // namespace

Verdict TestResult::outcome() const {
  if (!not_modelled.empty()) return Verdict::unknown;
  const bool hang = !hangs.empty();
  const auto answer = [&](bool yes) {
    const bool decided =
        whole() || (question == LitmusQuestion::condition ? verdict.decided : hang);
    return !decided ? Verdict::unknown : ok() == yes ? Verdict::pass : Verdict::finding;
  };
  if (!expected) return answer(true);
  Verdict out = expected->ok ? answer(*expected->ok) : Verdict::pass;
  const bool some = verdict.satisfying > 0, others = verdict.others > 0;
  if (expected->observation) {
    using litmus::Observation;
    const Observation o = *expected->observation;
    // Each is decided by what must be seen and what must not.
    out = worse(out, judge_seen(some, o != Observation::Never, whole()));
    if (o != Observation::Never) {
      out = worse(out, judge_seen(others, o == Observation::Sometimes, whole()));
    }
  }
  if (expected->race) out = worse(out, judge_seen(race, *expected->race, whole()));
  if (expected->hang) out = worse(out, judge_seen(hang, *expected->hang, whole()));
  return out;
}

void print(const TestResult& r) {
  if (!r.error.empty()) return;  // told when it was found
  if (!r.not_modelled.empty()) {
    fmt::print("Test {} not modelled\n{}\n\n", r.test->name, r.not_modelled);
    return;
  }
  print_states(r);
  for (const auto& [who, executions] : r.hangs) {
    fmt::print("Hang {} never ends: {}\n", who.size() == 1 ? "a thread" : "a set of threads",
               place(*r.test, who));
  }
  fmt::print("Executions {} complete, {} blocked{}{}{}{}\n", r.complete, r.blocked,
             r.out_of_order > 0 ? fmt::format(", of these {} out of order", r.out_of_order) : "",
             r.race ? ", with a data race" : "", r.load_buffering ? "" : ", except load buffering",
             r.searched ? "" : "; a limit ended the search, so there may be more");
  for (const std::string& line : r.left_out) {
    fmt::print("Not explored: {}; there may be more\n", line);
  }
  for (const auto& [loop, executions] : r.given_up) {
    fmt::print("Left after --bound {} turns: {}, in {} executions; there may be more\n", r.bound,
               place(*r.test, loop), executions);
  }
  fmt::print("Policy {}\n", policy_text(r.policy));
  if (!r.test->undeclared.empty()) {
    fmt::print("Undeclared, so 0 at first: {}\n", fmt::join(r.test->undeclared, ", "));
  }
  if (r.expected) {
    std::string settings;
    for (const auto& [name, value] : r.settings) settings += " " + name + "=" + value;
    fmt::print("Expected {}{}: {}\n", expected_text(*r.expected), settings,
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
    if (!r.error.empty()) {
      j["tests"].push_back(
          Json{{"file", r.file}, {"verdict", name(Verdict::error)}, {"message", r.error}});
      continue;
    }
    Json one{{"name", r.test->name}, {"file", r.file}, {"verdict", name(r.outcome())}};
    if (r.not_modelled.empty()) {
      one["observation"] = to_string(r.verdict.observation);
      one["ok"] = r.ok();
      one["positive"] = r.verdict.satisfying;
      one["negative"] = r.verdict.others;
      one["states"] = r.states.size();
      one["race"] = r.race;
      one["complete"] = r.complete;
      one["blocked"] = r.blocked;
      one["out_of_order"] = r.out_of_order;
      one["load_buffering"] = r.load_buffering;
      one["seconds"] = r.seconds;
      one["policy"] = policies(r.policy);
      one["hangs"] = Json::array();
      for (const auto& [who, executions] : r.hangs) {
        Json threads = Json::array();
        for (const litmus::Waiting& w : who) {
          threads.push_back(
              {{"thread", w.thread},
               {"line", r.test->threads[w.thread].instructions[w.instruction].at.line}});
        }
        one["hangs"].push_back({{"threads", threads}, {"executions", executions}});
      }
      one["whole"] = r.whole();
      if (!r.given_up.empty()) one["bound"] = r.bound;
      if (!r.left_out.empty()) one["left_out"] = r.left_out;
      if (!r.test->undeclared.empty()) one["undeclared"] = r.test->undeclared;
    } else {
      one["message"] = r.not_modelled;
    }
    if (r.expected) {
      one["expected"] = expected_text(*r.expected);
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
    one.name = r.test != nullptr ? r.test->name : r.file;
    for (const auto& [name, value] : r.settings) one.name += " " + name + "=" + value;
    one.seconds = r.seconds;
    if (!r.error.empty()) {
      one.status = Status::error;
      one.message = r.error;
    } else if (!r.not_modelled.empty()) {
      one.status = Status::skipped;
      one.message = r.not_modelled;
    } else if (r.outcome() != Verdict::pass) {
      one.status = r.outcome() == Verdict::finding ? Status::failed : Status::error;
      const char* const hang = r.hangs.empty() ? "" : ", some execution hangs";
      one.message = r.expected ? fmt::format("{}{}, expected {}", to_string(r.verdict.observation),
                                             hang, expected_text(*r.expected))
                               : fmt::format("the condition does not hold{}", hang);
      one.detail = litmus::herd_block(*r.test, r.states, !r.hangs.empty());
    }
    suite.cases.push_back(one);
  }
  return suite;
}

}  // namespace ringfence::cli
