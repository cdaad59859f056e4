// run: the operator on rank processes that run freely, compared with the reference.
#include "emulator/cli/run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/pictures.hpp"
#include "emulator/analysis/run.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/loss.hpp"
#include "emulator/cli/notes.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/verdict.hpp"
#include "verify/report.hpp"
#include "verify/report_html.hpp"
#include "verify/report_json.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {

namespace {

// `message`: of the finding that ended the run.
void report(const RunOptions& o, const Task& c, machine::Boundary mode, const RunResult& r,
            const std::string& message, const std::string& story) {
  const bool finding = schedule::failure(r.outcome).has_value();
  Json j = result_head("run", r.verdict, c.config().payload_seed());
  j["configuration"] = config_json(c.config());
  j["boundary"] = machine::name(mode);
  j["policy"] = policy_json(c.policy, c.config());
  j["executor"] = o.executor.executor;
  j["kind"] = r.kind.empty() ? Json(nullptr) : Json(r.kind);
  j["message"] = finding                   ? message
                 : r.replicas_wrong        ? r.replicas.text
                 : !r.outcome.lost.empty() ? loss_text(r.outcome.lost)
                                           : "";
  j["story"] = plain(story);
  j["tensors"] = verify::to_json(r.comparisons);
  add_notes(j, r.notes);
  j["replicas_agree"] = r.complete ? Json(r.replicas.agree) : Json(nullptr);
  j["steps"] = r.outcome.steps;
  j["seconds"] = r.seconds;
  verify::JunitSuite suite = verify::junit_suite("run", r.comparisons);
  suite.properties = properties(c.config());
  verify::JunitCase whole;
  whole.classname = "run." + c.config().name();
  whole.name = "protocol";
  whole.seconds = r.seconds;
  if (finding || r.replicas_wrong || !r.complete) {
    whole.status = verify::JunitCase::Status::failed;
    whole.message = finding            ? r.kind + ": " + message
                    : r.replicas_wrong ? r.replicas.text
                                       : "no verdict";
  }
  suite.cases.push_back(whole);
  write_reports(o.reports, j, {suite});
}

}  // namespace

Exit run(const RunOptions& options) {
  RunOptions o = options;
  o.executor = chosen(o.executor, true);
  const Task c = resolve(o.c);
  check_writable(o.reports);
  check_writable("--numbers", o.numbers);
  check_writable(o.pictures);
  check_writable("--output", o.output);
  check_memory(*c.subject, 1);
  const machine::Boundary mode = mode_of(c);
  Watch watch;
  watch.begun = [&](const schedule::Program& program) {
    fmt::print("run {}\n", trace::case_text(c.config()));
    fmt::print("boundary mode {}, policies {}, executor {}{}\n", machine::name(mode),
               trace::policy_text(c.policy, c.config()), o.executor.executor,
               o.executor.executor == "inline" ? ", default schedule" : ", free-running");
    print_numerics(*c.subject, program);
    fmt::print("\n");
    std::fflush(stdout);
  };
  const RunResult r = analysis::run(c, mode, o.executor, o.pictures.any(), watch);
  const schedule::Outcome& outcome = r.outcome;
  const schedule::Program& program = *r.instance.program;
  const bool complete = r.complete;
  const std::string& kind = r.kind;
  const Verdict verdict = r.verdict;

  if (!outcome.lost.empty()) fmt::print("{}\n", loss_text(outcome.lost));
  if (complete) {
    if (!r.comparisons.empty()) fmt::print("{}\n", verify::comparison_table(r.comparisons));
    fmt::print("replicas of {} ranks: {}\n", c.config().ranks(), r.replicas.text);
  }
  const auto finding = schedule::failure(outcome);
  trace::Verdict told = trace::make_verdict(outcome, program);
  trace::Trace t;
  t.header.made_by = version();
  t.header.config = c.config();
  t.header.policy = r.spec.policy;
  t.verdict = told;
  write_pictures(o.pictures, *c.subject, t, outcome, program, "");
  if (finding || r.numbers_wrong || r.replicas_wrong) note_told();
  std::string story;
  if (finding) {
    story = trace::story(t, outcome, program,
                         {.replay = "", .color = wants_color(STDOUT_FILENO), .free_running = true});
    fmt::print("{}", story);
    fmt::print(
        "\na free run cannot be replayed; to search for it: ringfence fuzz {} --boundary {}\n",
        command_options(c.config()), machine::name(mode));
  }

  print_notes(r.notes);
  fmt::print("{} steps in {:.3f} s ({:.3f} s to prepare inputs and expected results)\n",
             outcome.steps, r.seconds, r.preparing);
  fmt::print("{}\n", verdict == Verdict::pass      ? "clean (except load buffering)"
                     : verdict == Verdict::finding ? "FINDING: " + kind
                                                   : "UNKNOWN: the run did not complete");

  if (!o.numbers.empty()) {
    trace::write_text_file(
        o.numbers, verify::comparison_html("run " + trace::case_text(c.config()), r.comparisons));
  }
  if (complete && !o.output.empty()) {
    const schedule::Unbroken whole;
    verify::write_safetensors(o.output, c.subject->tensors(program));
  }

  report(o, c, mode, r, told.message, story);
  if (!outcome.lost.empty()) return loss_exit(outcome.lost);
  return verdict == Verdict::pass      ? Exit::clean
         : verdict == Verdict::finding ? Exit::finding
                                       : Exit::unknown;
}

}  // namespace ringfence::cli
