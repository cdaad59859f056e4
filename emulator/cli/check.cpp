// check: every execution of a case within bounds, in each boundary mode.
#include "emulator/cli/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/analysis/check.hpp"
#include "emulator/analysis/json.hpp"
#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/unknown.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/mode_results.hpp"
#include "emulator/cli/notes.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/resume_file.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

// A mode's search, and its finding once that was written.
struct ModeResult : ExhaustiveMode {
  std::optional<Finding> written;
};

const char* word(const ModeResult& m, bool whole) {
  return m.verdict() == Verdict::pass      ? whole ? "PASS" : "NO FINDING"
         : m.verdict() == Verdict::finding ? "FAIL"
                                           : "UNKNOWN";
}

void print_head(const CheckOptions& o, const Task& c) {
  fmt::print("check {}\n", trace::case_text(c.config()));
  fmt::print("policies {}\n", trace::policy_text(c.policy, c.config()));
  std::string bounds;
  if (o.executions > 0) bounds += fmt::format(", at most {} executions a mode", o.executions);
  if (o.seconds > 0) bounds += fmt::format(", at most {} s", o.seconds);
  fmt::print("every schedule and every read of these sizes{}; arrivals as {}\n\n", bounds,
             o.arrivals == "set"
                 ? "sets where nothing but the rounding of sums distinguishes their orders"
                 : "they come");
  std::fflush(stdout);
}

// `left_out`: something that the kernels use is not followed, so nothing is proved.
void print_table(const std::vector<ModeResult>& modes, bool left_out) {
  fmt::print("{:<9} {:<8} {:<10} {:>10} {:>9} {:>9} {:>9}  {}\n", "mode", "claimed", "verdict",
             "complete", "blocked", "explored", "seconds", "finding");
  for (const ModeResult& m : modes) {
    const auto f = schedule::failure(m.result.outcome);
    const bool whole = m.verdict() != Verdict::unknown;
    fmt::print("{:<9} {:<8} {:<10} {:>10} {:>9} {:>9} {:>9.3f}  {}\n", machine::name(m.mode),
               m.claimed ? "yes" : "no", word(m, !left_out), m.result.complete, m.result.blocked,
               m.verdict() == Verdict::pass || (!whole && m.result.explored == 1) ? "all"
               : whole                                                            ? "-"
                       : percent(m.result.explored),
               m.result.seconds,
               m.verdict() == Verdict::finding && f ? machine::name(f->kind) : "");
  }
}

// The orders that a mode's search left out.
void print_left_out(const std::vector<ModeResult>& modes) {
  for (const ModeResult& m : modes) {
    for (const std::string& line : m.left_out) {
      fmt::print("mode {}, not explored: {}\n", machine::name(m.mode), line);
    }
    if (m.result.left_out.size() > m.left_out.size() && !m.left_out.empty()) {
      fmt::print("... and {} more\n", m.result.left_out.size() - m.left_out.size());
    }
  }
}

// Why a verdict is UNKNOWN.
std::string_view why_unknown(const std::vector<ModeResult>& modes, const Notes& notes) {
  const auto any = [&](auto&& of) {
    return std::any_of(modes.begin(), modes.end(),
                       [&](const ModeResult& m) { return m.judged && of(m); });
  };
  const auto left_out = [](const ModeResult& m) {
    return m.verdict() == Verdict::unknown && !m.result.left_out.empty();
  };
  const auto torn = [](const ModeResult& m) { return m.result.torn > 0; };
  const auto none_ends = [](const ModeResult& m) {
    return m.verdict() == Verdict::unknown && m.result.explored == 1 && m.result.bounded == 0;
  };
  return text(schedule::interrupted()     ? Unknown::interrupted
              : any(left_out)             ? Unknown::left_out
              : !notes.unexplored.empty() ? Unknown::order
              : !notes.time_outs.empty()  ? Unknown::time_out
              : any(torn)                 ? Unknown::torn
              : any(none_ends)            ? Unknown::none_completes
                                          : Unknown::limit);
}

void print_verdict(Verdict verdict, const std::vector<ModeResult>& modes, const Notes& notes,
                   const std::string& judged) {
  const bool left_out = std::any_of(modes.begin(), modes.end(), [](const ModeResult& m) {
    return m.judged && m.verdict() == Verdict::unknown && !m.result.left_out.empty();
  });
  for (const ModeResult& m : modes) {
    if (!m.result.of_stream || m.verdict() != Verdict::pass) continue;
    fmt::print("mode coherent: every execution there is one of mode stream, which passes\n");
  }
  if (left_out) print_left_out(modes);
  if (notes.any()) fmt::print("\n");
  print_notes(notes);
  fmt::print("\n{} in {}\n",
             verdict == Verdict::pass && !notes.left_out.empty()
                 ? "NO FINDING: no execution at these sizes fails, except for what was left out"
             : verdict == Verdict::pass
                 ? "PASS: no execution at these sizes fails (except load buffering)"
             : verdict == Verdict::finding ? "FAIL"
                                           : fmt::format("UNKNOWN: {}", why_unknown(modes, notes)),
             judged);
}

ModeReport report_of(const ModeResult& m) {
  const check::CheckResult& r = m.result;
  ModeReport out;
  out.mode = m.mode;
  out.claimed = m.claimed;
  out.judged = m.judged;
  out.verdict = m.verdict();
  out.executions = r.complete + r.blocked;
  out.seconds = r.seconds;
  out.search = Json{{"complete", r.complete},        {"blocked", r.blocked},
                    {"abandoned", r.abandoned},      {"bounded", r.bounded},
                    {"explored", r.explored},        {"events", r.events},
                    {"sum_orders", r.sum_orders},    {"ordered_cells", r.ordered_cells},
                    {"left_out", r.left_out.size()}, {"of_stream", r.of_stream}};
  if (m.written) out.recorded = &*m.written;
  return out;
}

Json result_json(const CheckOptions& o, const Task& c, const std::vector<ModeReport>& modes,
                 const Notes& notes) {
  Json j = result_head("check", overall(modes), 0);
  j["configuration"] = config_json(c.config());
  j["policy"] = policy_json(c.policy, c.config());
  j["arrivals"] = o.arrivals;
  j["jobs"] = o.jobs;
  add_notes(j, notes);
  add_modes(j, modes);
  return j;
}

}  // namespace

Exit run(const CheckOptions& options) {
  CheckOptions o = options;
  o.executor = chosen(o.executor, false);
  const Task c = resolve(o.c);
  check_writable(o.reports);
  check_writable("--trace", o.trace);
  check_memory(*c.subject, o.jobs);
  const Budget budget(o.seconds);
  SearchOf search{fmt::format("{} {} arrivals={}", trace::case_text(c.config()),
                              trace::policy_text(c.policy, c.config()), o.arrivals),
                  {},
                  version()};
  const trace::CaseConfig* const kernels = c.config().kernels();
  search.content = kernels != nullptr        ? kernels->digest
                   : !c.input_digest.empty() ? c.input_digest
                                             : "generated";
  check_writable("--resume", o.resume.empty() ? "" : o.resume + ".new");
  LeftByMode earlier = read_resume(o.resume, search);
  const std::string& sums = c.config().summation();
  if (!o.resume.empty() && sums != "rank-order" && sums != "exact") {
    throw UsageError(
        fmt::format("--resume: not with --policy summation={}, whose orders are searched one after "
                    "another; expected rank-order or exact",
                    sums));
  }
  ShownProgress shown("executions");
  Watch watch = shown.watch();
  watch.begun = [&](const schedule::Program&) { print_head(o, c); };
  const ExhaustiveSpec spec{.executions = o.executions,
                            .jobs = o.jobs,
                            .sets = o.arrivals == "set",
                            .executor = o.executor,
                            .shrink = o.shrink,
                            .remedies = o.remedies,
                            .remedy_seconds = o.remedy_seconds};
  ExhaustiveResult result = explore(c, spec, budget, earlier, watch);
  if (!o.resume.empty()) write_resume(o.resume, search, earlier);
  Notes notes = result.notes;
  std::vector<ModeResult> modes;
  for (ExhaustiveMode& m : result.modes) modes.push_back({std::move(m), {}});
  print_table(modes, !notes.left_out.empty());
  std::uint32_t orders = 1;
  for (const ModeResult& m : modes) orders = std::max(orders, m.result.sum_orders);
  if (orders > 1) {
    fmt::print("sums{}: {} orders, a search for each\n",
               c.subject->kernels() ? ", and launches that may overlap" : "", orders);
  }
  std::fflush(stdout);

  const Told told = tell_findings(modes, o.trace, {}, report_of);
  std::vector<ModeReport> reports;
  for (const ModeResult& m : modes) reports.push_back(report_of(m));
  const Verdict verdict = overall(reports);
  if (verdict != Verdict::pass && !notes.leave_out()) notes = {};
  print_verdict(verdict, modes, notes, judged_modes(reports));
  write_reports(o.reports, result_json(o, c, reports, notes),
                {junit_of("check", c.config(), reports, why_unknown(modes, notes))});
  if (schedule::interrupted()) return Exit::interrupted;
  if (told.disagree) return Exit::internal;
  return exit_of(verdict);
}

}  // namespace ringfence::cli
