// replay: a recorded run once more, bit for bit, and its story.
#include "emulator/cli/replay.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "emulator/analysis/finding.hpp"
#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/nearest.hpp"
#include "emulator/analysis/replay.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/loss.hpp"
#include "emulator/cli/mode_results.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/sarif.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/token.hpp"

namespace ringfence::cli {

namespace {

void report(const ReplayOptions& o, const trace::Trace& recorded, const Replayed& r,
            Verdict verdict, const std::string& story) {
  const trace::Configuration& config = recorded.header.config;
  const trace::Trace& now = r.now;
  const std::string& difference = r.difference;
  Json j = result_head("replay", verdict, recorded.header.seed);
  j["trace"] = o.file;
  j["configuration"] = config_json(config);
  j["boundary"] = machine::name(recorded.header.policy.boundary);
  j["policy"] = policy_json(recorded.header.policy, config);
  j["executor"] = o.executor.executor;
  j["reproduced"] = difference.empty();
  j["divergence"] = difference;
  j["id"] = trace::finding_id(now);
  j["kind"] = now.verdict.finding ? Json(machine::name(now.verdict.finding->kind)) : Json(nullptr);
  j["message"] = now.verdict.message;
  j["cause"] = now.verdict.cause;
  j["fix"] = now.verdict.fix;
  j["story"] = plain(story);
  j["remedies"] = to_json(r.remedies);
  j["steps"] = r.run.steps;
  j["points"] = r.run.points;
  j["digest"] = fmt::format("{:016x}", r.run.digest);
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
}

}  // namespace

Exit run(const ReplayOptions& options) {
  ReplayOptions o = options;
  o.executor = chosen(o.executor, false);
  check_writable(o.reports);
  check_writable(o.pictures);
  const bool token = trace::is_token(o.file);
  trace::Trace recorded = token ? trace::parse_token(o.file) : trace::read_file(o.file);
  trace::Configuration& config = recorded.header.config;
  if (config.kernels() != nullptr) note_case();
  const SubjectPtr subject = find_subject(config, token ? "" : o.file);
  check_input(*subject, recorded.header.input_digest);
  check_memory(*subject, 1);

  ShownProgress shown("schedules");
  const Replayed r =
      replay(*subject, recorded, {o.executor, o.remedies, token, o.remedy_seconds, shown.watch()});
  if (!r.run.lost.empty()) {
    fmt::print("{}\nUNKNOWN: the run did not complete\n", loss_text(r.run.lost));
    return loss_exit(r.run.lost);
  }
  const schedule::Outcome& run = r.run;
  const schedule::Program& program = *r.instance.program;
  const trace::Trace& now = r.now;
  const std::string& difference = r.difference;
  const Remedies& remedies = r.remedies;
  if (o.steps) fmt::print("{}\n", trace::step_by_step(run, program));
  const std::string story = trace::story(now, run, program,
                                         {.replay = replay_command(o.file),
                                          .remedy = text(remedies),
                                          .color = wants_color(STDOUT_FILENO)});
  fmt::print("{}", story);
  std::optional<schedule::Outcome> passing;
  if (!o.pictures.html.empty() && now.verdict.finding) {
    passing = nearest_passing(*subject, now, run);
  }
  write_pictures(o.pictures, *subject, now, run, program, replay_command(o.file), text(remedies),
                 passing ? &*passing : nullptr);
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
  report(o, recorded, r, verdict, story);
  return verdict == Verdict::error ? Exit::diverged : exit_of(verdict);
}

}  // namespace ringfence::cli
