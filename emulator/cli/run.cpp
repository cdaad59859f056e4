// run: the operator on rank processes that run freely, compared with the reference.
#include "emulator/cli/run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/instance.hpp"
#include "emulator/cli/loss.hpp"
#include "emulator/cli/memory.hpp"
#include "emulator/cli/notes.hpp"
#include "emulator/cli/pictures.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/results.hpp"
#include "emulator/cli/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/verdict.hpp"
#include "verify/report.hpp"
#include "verify/report_html.hpp"
#include "verify/report_json.hpp"

namespace ringfence::cli {

namespace {

using machine::FindingKind;

// One run has one mode: the one named, else the first that the case file claims, or the strictest
// that the protocol does.
machine::Boundary mode_of(const Case& c) {
  if (is_case(c.config)) return c.judged.front();
  return *std::min_element(c.judged.begin(), c.judged.end());
}

bool ignores(const Case& c, FindingKind kind) {
  return std::find(c.ignore.begin(), c.ignore.end(), kind) != c.ignore.end();
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Exit run(const RunOptions& o) {
  const Case c = resolve(o.c);
  check_writable(o.reports);
  check_writable("--numbers", o.numbers);
  check_writable(o.pictures);
  check_writable("--output", o.output);
  check_memory(c.config, 1);
  const machine::Boundary mode = mode_of(c);
  const auto prepared = std::chrono::steady_clock::now();
  const Instance instance = make_instance(c.config, o.executor);
  const double preparing = seconds_since(prepared);
  fmt::print("run {}\n", trace::case_text(c.config));
  fmt::print("boundary mode {}, policies {}, executor {}{}\n", machine::name(mode),
             trace::policy_text(c.policy, c.config), o.executor.executor,
             o.executor.executor == "inline" ? ", default schedule" : ", free-running");
  print_numerics(*instance.program);
  fmt::print("\n");
  std::fflush(stdout);

  schedule::RunSpec spec = run_spec(c, mode);
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  spec.free_running = true;
  spec.history = o.pictures.any();
  spec.point_limit = ~std::uint32_t{0};
  // Wrong numbers do not end the run: the table below shows all of them.
  spec.ignore.push_back(FindingKind::numeric_mismatch);
  spec.ignore.push_back(FindingKind::replica_mismatch);
  const auto began = std::chrono::steady_clock::now();
  schedule::Outcome outcome = instance.executor->run(spec);
  const double seconds = seconds_since(began);
  if (schedule::interrupted()) throw Interrupted();

  if (!outcome.lost.empty()) fmt::print("{}\n", loss_text(outcome.lost));
  const bool complete = outcome.end == schedule::RunEnd::complete;
  std::vector<verify::Comparison> comparisons;
  ReplicaCheck replicas;
  if (complete) {
    comparisons = compare_results(*instance.program);
    replicas = check_replicas(*instance.program);
    if (!comparisons.empty()) fmt::print("{}\n", verify::comparison_table(comparisons));
    fmt::print("replicas of {} ranks: {}\n", c.config.ranks, replicas.text);
  }
  const bool numbers_wrong = complete && !comparisons.empty() && !verify::all_passed(comparisons) &&
                             !ignores(c, FindingKind::numeric_mismatch);
  const bool replicas_wrong =
      complete && !replicas.agree && !ignores(c, FindingKind::replica_mismatch);
  const auto finding = schedule::failure(outcome);
  trace::Verdict told = trace::make_verdict(outcome, *instance.program);
  trace::Trace t;
  t.header.made_by = version();
  t.header.config = c.config;
  t.header.policy = spec.policy;
  t.verdict = told;
  write_pictures(o.pictures, t, outcome, *instance.program, "");
  if (finding || numbers_wrong || replicas_wrong) note_told();
  if (finding) {
    fmt::print(
        "{}",
        trace::story(t, outcome, *instance.program,
                     {.replay = "", .color = wants_color(STDOUT_FILENO), .free_running = true}));
    fmt::print(
        "\na free run cannot be replayed; to search for it: ringfence fuzz {} --boundary {}\n",
        command_options(c.config), machine::name(mode));
  }

  const Verdict verdict = finding || numbers_wrong || replicas_wrong ? Verdict::finding
                          : complete                                 ? Verdict::pass
                                                                     : Verdict::unknown;
  const std::string kind = finding          ? std::string(machine::name(finding->kind))
                           : numbers_wrong  ? "numeric-mismatch"
                           : replicas_wrong ? "replica-mismatch"
                                            : "";
  const Notes notes = notes_of(*instance.program);
  print_notes(notes);
  fmt::print("{} steps in {:.3f} s ({:.3f} s to prepare inputs and expected results)\n",
             outcome.steps, seconds, preparing);
  fmt::print("{}\n", verdict == Verdict::pass      ? "clean (except load buffering)"
                     : verdict == Verdict::finding ? "FINDING: " + kind
                                                   : "UNKNOWN: the run did not complete");

  if (!o.numbers.empty()) {
    trace::write_text_file(
        o.numbers, verify::comparison_html("run " + trace::case_text(c.config), comparisons));
  }
  if (complete && !o.output.empty()) {
    const schedule::Unbroken whole;
    write_results(o.output, *instance.program, c.config);
  }

  Json j = result_head("run", verdict, c.config.payload_seed);
  j["configuration"] = config_json(c.config);
  j["boundary"] = machine::name(mode);
  j["policy"] = policy_json(c.policy, c.config);
  j["executor"] = o.executor.executor;
  j["kind"] = kind.empty() ? Json(nullptr) : Json(kind);
  j["message"] = finding                 ? told.message
                 : replicas_wrong        ? replicas.text
                 : !outcome.lost.empty() ? loss_text(outcome.lost)
                                         : "";
  j["tensors"] = verify::to_json(comparisons);
  add_notes(j, notes);
  j["replicas_agree"] = complete ? Json(replicas.agree) : Json(nullptr);
  j["steps"] = outcome.steps;
  j["seconds"] = seconds;
  verify::JunitSuite suite = verify::junit_suite("run", comparisons);
  suite.properties = properties(c.config);
  verify::JunitCase whole;
  whole.classname = "run." + c.config.protocol;
  whole.name = "protocol";
  whole.seconds = seconds;
  if (finding || replicas_wrong || !complete) {
    whole.status = verify::JunitCase::Status::failed;
    whole.message = finding          ? kind + ": " + told.message
                    : replicas_wrong ? replicas.text
                                     : "no verdict";
  }
  suite.cases.push_back(whole);
  write_reports(o.reports, j, {suite});
  if (!outcome.lost.empty()) return loss_exit(outcome.lost);
  return verdict == Verdict::pass      ? Exit::clean
         : verdict == Verdict::finding ? Exit::finding
                                       : Exit::unknown;
}

}  // namespace ringfence::cli
