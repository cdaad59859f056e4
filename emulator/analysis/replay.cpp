#include "emulator/analysis/replay.hpp"

#include <fmt/format.h>

#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/finding.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/shrink.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::analysis {

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
    return fmt::format("the verdict is {}, but {} in the recording", verdict_text(now),
                       verdict_text(then));
  }
  if (!token && now.finding && !schedule::same_finding(*now.finding, *then.finding)) {
    return fmt::format("the {} is another one: {}", verdict_text(now), now.message);
  }
  if (!token && (now.steps != then.steps || now.points != then.points)) {
    return fmt::format("it took {} steps at {} points, but {} at {} in the recording", now.steps,
                       now.points, then.steps, then.points);
  }
  if (now.digest != then.digest) {
    return fmt::format("the values read differ (digest {:016x}, but {:016x} in the recording)",
                       now.digest, then.digest);
  }
  return "";
}

}  // namespace

Replayed replay(const Subject& subject, const trace::Trace& recorded, const ReplaySpec& options) {
  schedule::RunSpec base;
  base.policy = recorded.header.policy;
  base.ignore = recorded.header.ignore;
  base.survive = recorded.header.survive;
  if (!recorded.header.faults.empty()) {
    base.strategy.faults = schedule::parse_faults(recorded.header.faults);
  }
  schedule::RunSpec spec = schedule::replay_spec(base, recorded.decisions);
  spec.history = true;
  Replayed r;
  r.instance = make_instance(subject, options.executor);
  r.run = schedule::run_to_its_end(*r.instance.executor, spec);
  if (schedule::interrupted()) throw Interrupted();
  if (!r.run.lost.empty()) return r;
  r.now = recorded;
  r.now.decisions = r.run.decisions;
  r.now.verdict = trace::make_verdict(r.run, *r.instance.program);
  trace::explain(r.now.verdict, r.run, *r.instance.program, base.policy);
  r.difference = divergence(recorded, options.token, r.run, r.now.verdict);
  if (options.remedies && r.difference.empty() && r.now.verdict.finding) {
    r.remedies = find_remedies(
        subject, base, r.run.decisions, RemedyLimits{.seconds = options.remedy_seconds},
        clues_of(subject, r.run, *r.instance.program, r.now.verdict), options.watch);
    r.remedies.instead = r.now.verdict.fix;
  }
  return r;
}

void check_input(const Subject& subject, const std::string& recorded_digest) {
  const std::string input = subject.input_file();
  if (input.empty()) return;
  const std::string digest = trace::file_digest(input);
  if (digest != recorded_digest) {
    throw InputError(fmt::format("{}: its content (digest {}) is not that of the trace ({})", input,
                                 digest, recorded_digest));
  }
}

}  // namespace ringfence::analysis
