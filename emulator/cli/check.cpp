// check: every execution of a case within bounds, in each boundary mode.
#include "emulator/cli/check.hpp"

#include "emulator/check/explorer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/cli/budget.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/memory.hpp"
#include "emulator/cli/mode_results.hpp"
#include "emulator/cli/notes.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/resume_file.hpp"
#include "emulator/cli/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

struct ModeResult {
  machine::Boundary mode;
  bool claimed, judged;
  check::CheckResult result;
  std::optional<Settled> settled;  // a finding, until it is told
  std::optional<Recorded> recorded;

  Verdict verdict() const {
    return result.verdict == check::Verdict::pass   ? Verdict::pass
           : result.verdict == check::Verdict::fail ? Verdict::finding
                                                    : Verdict::unknown;
  }
};

const char* word(const ModeResult& m, bool whole) {
  return m.verdict() == Verdict::pass      ? whole ? "PASS" : "NO FINDING"
         : m.verdict() == Verdict::finding ? "FAIL"
                                           : "UNKNOWN";
}

void print_head(const CheckOptions& o, const Case& c) {
  fmt::print("check {}\n", trace::case_text(c.config));
  fmt::print("policies {}\n", trace::policy_text(c.policy, c.config));
  std::string bounds;
  if (o.executions > 0) bounds += fmt::format(", at most {} executions a mode", o.executions);
  if (o.seconds > 0) bounds += fmt::format(", at most {} s", o.seconds);
  fmt::print("every schedule and every read of these sizes{}; arrivals as {}\n\n", bounds,
             o.arrivals == "set" ? "sets where nothing can tell their order" : "they come");
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
                       : fmt::format("{:.2g} %", 100 * m.result.explored),
               m.result.seconds,
               m.verdict() == Verdict::finding && f ? machine::name(f->kind) : "");
  }
}

// The orders that a mode's search left out.
void print_left_out(const Case& c, const std::vector<ModeResult>& modes) {
  constexpr std::size_t kMost = 4;
  const auto program = build_program(c.config);
  for (const ModeResult& m : modes) {
    if (m.verdict() != Verdict::unknown) continue;
    const auto& orders = m.result.left_out;
    for (std::size_t i = 0; i < std::min(orders.size(), kMost); ++i) {
      const std::string first = program->site_name(orders[i].first);
      const std::string second = program->site_name(orders[i].second);
      const std::string warp = schedule::text(schedule::unpack(orders[i].label));
      fmt::print(
          "mode {}, not explored: {}\n", machine::name(m.mode),
          first == second
              ? fmt::format("the warp of {}, or another lane of it, first at {}", warp, first)
              : fmt::format("of the lanes of the warp of {}, one at {} behind another one's {}",
                            warp, first, second));
    }
    if (orders.size() > kMost) fmt::print("... and {} more\n", orders.size() - kMost);
  }
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
  out.search = Json{{"complete", r.complete},       {"blocked", r.blocked},
                    {"abandoned", r.abandoned},     {"bounded", r.bounded},
                    {"explored", r.explored},       {"events", r.events},
                    {"sum_orders", r.sum_orders},   {"ordered_cells", r.ordered_cells},
                    {"left_out", r.left_out.size()}};
  if (m.recorded) out.recorded = &*m.recorded;
  return out;
}

Json result_json(const CheckOptions& o, const Case& c, const std::vector<ModeReport>& modes,
                 const Notes& notes) {
  Json j = result_head("check", overall(modes), 0);
  j["configuration"] = config_json(c.config);
  j["policy"] = policy_json(c.policy, c.config);
  j["arrivals"] = o.arrivals;
  j["jobs"] = o.jobs;
  add_notes(j, notes);
  add_modes(j, modes);
  return j;
}

ModeResult check_mode(const CheckOptions& o, const Case& c, machine::Boundary mode, double seconds,
                      const check::Left* left) {
  ModeResult m{mode, c.claims(mode), c.judges(mode), {}, {}, {}};
  check::CheckSpec spec;
  spec.run = run_spec(c, mode);
  spec.sets = o.arrivals == "set";
  spec.executions = o.executions;
  spec.seconds = seconds;
  spec.left = left;
  const schedule::TimeLimit limit(seconds);
  Progress progress(std::string(machine::name(mode)), "executions", 0);
  m.result =
      check::check_sums([&] { return build_program(c.config); }, spec, o.jobs,
                        [&](const check::CheckResult& r) {
                          progress.at(r.complete + r.blocked, r.seconds,
                                      fmt::format("about {:.2g} % explored", 100 * r.explored));
                        });
  return m;
}

}  // namespace

Exit run(const CheckOptions& o) {
  const Case c = resolve(o.c);
  check_writable(o.reports);
  check_writable("--trace", o.trace);
  check_memory(c.config, o.jobs);
  const Budget budget(o.seconds);
  SearchOf search{fmt::format("{} {} arrivals={}", trace::case_text(c.config),
                              trace::policy_text(c.policy, c.config), o.arrivals),
                  {},
                  version()};
  search.content = !c.config.case_digest.empty() ? c.config.case_digest
                   : !c.input_digest.empty()     ? c.input_digest
                                                 : "generated";
  check_writable("--resume", o.resume.empty() ? "" : o.resume + ".new");
  LeftByMode earlier = read_resume(o.resume, search);
  const std::string& sums = c.config.summation;
  if (!o.resume.empty() && sums != "rank-order" && sums != "exact") {
    throw UsageError(fmt::format(
        "--resume: not with --policy summation={}, whose orders are searched one after the other; "
        "rank-order or exact is due",
        sums));
  }
  build_program(c.config);  // what cannot be launched is refused before anything is printed
  print_head(o, c);
  RecordOptions record;
  record.executor = o.executor;
  record.until = budget.end();
  record.shrink = o.shrink;
  record.color = wants_color(STDOUT_FILENO);
  std::vector<ModeResult> modes;
  for (std::size_t i = 0; i < c.modes.size(); ++i) {
    const auto before = earlier.find(c.modes[i]);
    modes.push_back(check_mode(o, c, c.modes[i], budget.share(c.modes.size() - i),
                               before != earlier.end() ? &before->second : nullptr));
    ModeResult& m = modes.back();
    if (m.verdict() != Verdict::finding) {
      earlier[m.mode] = std::move(m.result.left);
      if (m.result.interrupted) break;
      continue;
    }
    schedule::SearchResult found;
    found.found = true;
    found.outcome = m.result.outcome;
    found.strategy.kind = schedule::StrategySpec::Kind::first;
    record.remedies = o.remedies && m.judged;
    m.settled = settle_finding(c, m.mode, found, record);
  }
  if (!o.resume.empty()) write_resume(o.resume, search, earlier);
  Notes notes;
  const auto passes = [](const ModeResult& m) { return m.verdict() == Verdict::pass; };
  if (std::any_of(modes.begin(), modes.end(), passes)) {
    notes = notes_of_default_schedule(c, c.judged.front());
  }
  for (ModeResult& m : modes) {
    if (passes(m) && !notes.unexplored.empty()) m.result.verdict = check::Verdict::unknown;
  }
  print_table(modes, !notes.left_out.empty());
  std::uint32_t orders = 1;
  for (const ModeResult& m : modes) orders = std::max(orders, m.result.sum_orders);
  if (orders > 1) {
    fmt::print("sums{}: {} orders, a search for each\n",
               is_case(c.config) ? ", and launches that may overlap" : "", orders);
  }
  std::fflush(stdout);

  bool taken = false, disagree = false;
  for (const bool judged : {true, false}) {
    for (ModeResult& m : modes) {
      if (m.judged != judged || m.verdict() != Verdict::finding) continue;
      record.path = trace_path(o.trace, m.mode, taken);
      m.recorded = write_finding(std::move(*m.settled), record);
      m.settled.reset();
      taken = true;
      disagree |= m.recorded->disagree;
      print_finding(report_of(m));
    }
  }

  std::vector<ModeReport> reports;
  for (const ModeResult& m : modes) reports.push_back(report_of(m));
  const Verdict verdict = overall(reports);
  const bool left_out = std::any_of(modes.begin(), modes.end(), [](const ModeResult& m) {
    return m.judged && m.verdict() == Verdict::unknown && !m.result.left_out.empty();
  });
  const bool none_ends = std::any_of(modes.begin(), modes.end(), [](const ModeResult& m) {
    return m.judged && m.verdict() == Verdict::unknown && m.result.explored == 1 &&
           m.result.bounded == 0;
  });
  if (verdict != Verdict::pass && notes.unexplored.empty()) notes = {};
  if (left_out) print_left_out(c, modes);
  if (notes.any()) fmt::print("\n");
  print_notes(notes);
  fmt::print("\n{} in {}\n",
             verdict == Verdict::pass && !notes.left_out.empty()
                 ? "NO FINDING: no execution of these sizes fails, but for what was left out"
             : verdict == Verdict::pass    ? "PASS: no execution of these sizes fails (except load "
                                             "buffering)"
             : verdict == Verdict::finding ? "FAIL"
             : left_out ? "UNKNOWN: threads acted in one order, and another one could end otherwise"
             : !notes.unexplored.empty() ? "UNKNOWN: an order that decides was not explored"
             : none_ends                 ? "UNKNOWN: no execution comes to its end, as what stops "
                                           "them is passed over"
                                         : "UNKNOWN: a bound ended the search first",
             judged_modes(reports));
  write_reports(o.reports, result_json(o, c, reports, notes),
                {junit_of("check", c.config, reports, "a bound ended the search")});
  if (schedule::interrupted()) return Exit::interrupted;
  if (disagree) return Exit::internal;
  return exit_of(verdict);
}

}  // namespace ringfence::cli
