// replay: a recorded run once more, bit for bit, and its story.
#include "emulator/cli/replay.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/instance.hpp"
#include "emulator/cli/loss.hpp"
#include "emulator/cli/memory.hpp"
#include "emulator/cli/mode_results.hpp"
#include "emulator/cli/pictures.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/sarif.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/shrink.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/token.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::cli {

namespace {

std::string verdict_text(const trace::Verdict& v) {
  return v.finding ? std::string(machine::name(v.finding->kind)) : std::string(trace::name(v.end));
}

// Where the run differs from the recorded one; empty if nowhere.
// A token has no accesses and no counts: its digest stands for them.
std::string divergence(const trace::Trace& t, bool token, const schedule::Outcome& run,
                       const trace::Verdict& now) {
  const trace::Verdict& then = t.verdict;
  if (run.decisions.size() != t.decisions.size()) {
    return fmt::format("{} of the {} recorded choices took effect", run.decisions.size(),
                       t.decisions.size());
  }
  for (std::size_t i = 0; i < t.decisions.size(); ++i) {
    if (run.decisions[i] != t.decisions[i]) {
      return fmt::format("the choice of line {} did not take effect", i + 2);
    }
  }
  if (verdict_text(now) != verdict_text(then)) {
    return fmt::format("the verdict is {} and was {}", verdict_text(now), verdict_text(then));
  }
  if (!token && now.finding && !schedule::same_finding(*now.finding, *then.finding)) {
    return fmt::format("the {} is another one: {}", verdict_text(now), now.message);
  }
  if (!token && (now.steps != then.steps || now.points != then.points)) {
    return fmt::format("it took {} steps at {} points, and took {} at {}", now.steps, now.points,
                       then.steps, then.points);
  }
  if (now.digest != then.digest) {
    return fmt::format("the values read differ (digest {:016x}, was {:016x})", now.digest,
                       then.digest);
  }
  return "";
}

}  // namespace

Exit run(const ReplayOptions& o) {
  check_writable(o.reports);
  check_writable(o.pictures);
  const bool token = trace::is_token(o.file);
  trace::Trace recorded = token ? trace::parse_token(o.file) : trace::read_file(o.file);
  if (is_case(recorded.header.config)) find_case(recorded.header.config, token ? "" : o.file);
  const programs::Config& config = recorded.header.config;
  check_config(config);
  check_input(config, recorded.header.input_digest);
  check_memory(config, 1);

  schedule::RunSpec base;
  base.policy = recorded.header.policy;
  base.ignore = recorded.header.ignore;
  base.survive = recorded.header.survive;
  if (!recorded.header.faults.empty()) {
    base.strategy.faults = schedule::parse_faults(recorded.header.faults);
  }
  schedule::RunSpec spec = schedule::replay_spec(base, recorded.decisions);
  spec.history = true;
  const Instance instance = make_instance(config, o.executor);
  const schedule::Outcome run = schedule::run_to_its_end(*instance.executor, spec);
  if (schedule::interrupted()) throw Interrupted();
  if (!run.lost.empty()) {
    fmt::print("{}\nUNKNOWN: the run did not complete\n", loss_text(run.lost));
    return loss_exit(run.lost);
  }

  trace::Trace now = recorded;
  now.decisions = run.decisions;
  now.verdict = trace::make_verdict(run, *instance.program);
  const std::string difference = divergence(recorded, token, run, now.verdict);

  Remedies remedies;
  if (o.remedies && difference.empty() && now.verdict.finding) {
    remedies = find_remedies(config, base, run.decisions);
  }
  if (o.steps) fmt::print("{}\n", trace::step_by_step(run, *instance.program));
  fmt::print("{}", trace::story(now, run, *instance.program,
                                {.replay = replay_command(o.file),
                                 .remedy = text(remedies),
                                 .color = wants_color(STDOUT_FILENO)}));
  write_pictures(o.pictures, now, run, *instance.program, replay_command(o.file), text(remedies));
  if (difference.empty()) {
    fmt::print("\nthe recorded run, bit for bit (digest {:016x})\n", now.verdict.digest);
  } else {
    fmt::print("\nDIVERGED from the recorded run: {} (recorded by {})\n", difference,
               recorded.header.made_by);
  }

  const Verdict verdict = !difference.empty()        ? Verdict::error
                          : now.verdict.finding      ? Verdict::finding
                          : schedule::undecided(run) ? Verdict::unknown
                                                     : Verdict::pass;
  Json j = result_head("replay", verdict, recorded.header.seed);
  j["trace"] = o.file;
  j["configuration"] = config_json(config);
  j["boundary"] = machine::name(recorded.header.policy.boundary);
  j["policy"] = policy_json(recorded.header.policy, config);
  j["executor"] = o.executor.executor;
  j["reproduced"] = difference.empty();
  j["divergence"] = difference;
  j["kind"] = now.verdict.finding ? Json(machine::name(now.verdict.finding->kind)) : Json(nullptr);
  j["message"] = now.verdict.message;
  j["remedies"] = to_json(remedies);
  j["steps"] = run.steps;
  j["points"] = run.points;
  j["digest"] = fmt::format("{:016x}", run.digest);
  verify::JunitCase one;
  one.classname = "replay";
  one.name = o.file;
  one.status =
      difference.empty() ? verify::JunitCase::Status::passed : verify::JunitCase::Status::failed;
  one.message = difference;
  verify::JunitSuite suite;
  suite.name = "replay";
  suite.cases = {one};
  suite.properties = properties(config);
  if (!o.reports.sarif.empty()) {
    trace::write_text_file(o.reports.sarif, sarif({{&now, replay_command(o.file), true}}));
  }
  write_reports(o.reports, j, {suite});

  return verdict == Verdict::error ? Exit::diverged : exit_of(verdict);
}

}  // namespace ringfence::cli
