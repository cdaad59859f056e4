// fuzz: many schedules under weak memory, in each boundary mode until it finds something.
#include "emulator/cli/fuzz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/analysis/corpus.hpp"
#include "emulator/analysis/fuzz.hpp"
#include "emulator/analysis/json.hpp"
#include "emulator/analysis/memory.hpp"
#include "emulator/cli/campaign.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/loss.hpp"
#include "emulator/cli/mode_results.hpp"
#include "emulator/cli/notes.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/sarif.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

// A mode's search, and its finding once that was written.
struct ModeResult : FuzzMode {
  std::optional<Finding> written;
  std::vector<Finding> others;  // behind it, with --all
};

FuzzSpec fuzz_spec(const FuzzOptions& o) {
  FuzzSpec s;
  s.strategy.kind = schedule::parse_strategy(o.strategy);
  s.strategy.seed = o.seed;
  s.strategy.depth = o.depth;
  s.strategy.stale = o.stale;
  // Time alone bounds the search if only time is given.
  const bool unlimited = o.seconds > 0 && !given(o.schedules_given);
  s.schedules = unlimited ? 0 : o.schedules;
  s.jobs = o.jobs;
  s.executor = o.executor;
  s.shrink = o.shrink;
  s.remedies = o.remedies;
  s.remedy_seconds = o.remedy_seconds;
  s.corpus = o.corpus;
  constexpr std::size_t kMostFindings = 20;
  s.all = o.all ? kMostFindings : 1;
  return s;
}

void print_head(const FuzzOptions& o, const Task& c, const schedule::Program& program) {
  fmt::print("fuzz {}\n", trace::case_text(c.config()));
  fmt::print("policies {}\n", trace::policy_text(c.policy, c.config()));
  print_numerics(*c.subject, program);
  std::string budget;
  if (o.seconds == 0 || given(o.schedules_given)) {
    budget += fmt::format(", {} schedules a mode", o.schedules);
  }
  if (o.seconds > 0) budget += fmt::format(", {} s", o.seconds);
  fmt::print("strategy {}{}, seed {}{}, executor {}\n\n", o.strategy,
             o.strategy == "pct" ? fmt::format(" of depth {}", o.depth) : "", o.seed, budget,
             o.executor.executor);
  if (c.faults.any()) {
    fmt::print("faults {}{}\n\n", schedule::text(c.faults),
               c.survive ? ", a hang after them is a finding" : "");
  }
  std::fflush(stdout);
}

// What came of the runs that faults befell, over all modes.
void add(schedule::FaultCount& a, const schedule::FaultCount& b) {
  a.runs += b.runs;
  a.right += b.right;
  a.stopped += b.stopped;
  a.failed += b.failed;
}

struct FaultTotals {
  std::array<schedule::FaultCount, schedule::kFaultKinds> kinds;
  schedule::FaultCount all;
};

FaultTotals fault_totals(const std::vector<ModeResult>& modes) {
  FaultTotals t;
  for (const ModeResult& m : modes) {
    for (std::size_t k = 0; k < t.kinds.size(); ++k) add(t.kinds[k], m.search.faults[k]);
    add(t.all, m.search.faulted);
  }
  return t;
}

void print_faults(const Task& c, const FuzzResult& result, const std::vector<ModeResult>& modes) {
  if (!c.faults.any()) return;
  const FaultTotals totals = fault_totals(modes);
  fmt::print("\n{:<12} {:>8} {:>16} {:>22} {:>8}\n", "fault", "runs", "completed right",
             "stopped, waits named", "finding");
  for (int k = 0; k < schedule::kFaultKinds; ++k) {
    if (!c.faults[static_cast<schedule::FaultKind>(k)].any()) continue;
    const schedule::FaultCount& n = totals.kinds[static_cast<std::size_t>(k)];
    fmt::print("{:<12} {:>8} {:>16} {:>22} {:>8}\n",
               schedule::name(static_cast<schedule::FaultKind>(k)), n.runs, n.right, n.stopped,
               n.failed);
  }
  if (result.stopped_in) {
    constexpr std::size_t kMostRows = 8;
    fmt::print("\none that stopped, in {}: {}\n{}", machine::name(*result.stopped_in),
               result.stopped.message, trace::stuck_text(result.stopped.stuck, kMostRows));
  }
}

Json faults_json(const Task& c, const std::vector<ModeResult>& modes) {
  if (!c.faults.any()) return nullptr;
  const FaultTotals totals = fault_totals(modes);
  const auto counts = [](const schedule::FaultCount& n) {
    return Json{
        {"runs", n.runs}, {"right", n.right}, {"stopped", n.stopped}, {"findings", n.failed}};
  };
  Json kinds = Json::object();
  for (int k = 0; k < schedule::kFaultKinds; ++k) {
    const auto kind = static_cast<schedule::FaultKind>(k);
    if (c.faults[kind].any()) {
      kinds[std::string(schedule::name(kind))] = counts(totals.kinds[static_cast<std::size_t>(k)]);
    }
  }
  return Json{{"drawn", schedule::text(c.faults)},
              {"survive", c.survive},
              {"all", counts(totals.all)},
              {"kinds", kinds}};
}

// "pct of depth 3, schedule 14"; the default one has no number.
std::string found_by(const schedule::SearchResult& r) {
  using Kind = schedule::StrategySpec::Kind;
  if (r.strategy.kind == Kind::first) return "the default schedule";
  std::string who(schedule::name(r.strategy.kind));
  if (r.strategy.kind == Kind::pct) who += fmt::format(" of depth {}", r.strategy.depth);
  if (r.strategy.kind == Kind::replay) who = "the corpus";
  return fmt::format("{}, schedule {}", who, r.number + 1);
}

void print_table(const std::vector<ModeResult>& modes) {
  fmt::print("{:<9} {:<8} {:<9} {:>10} {:>10} {:>12}  {}\n", "mode", "claimed", "verdict",
             "schedules", "distinct", "schedules/s", "finding");
  for (const ModeResult& m : modes) {
    const auto f = m.search.found ? schedule::failure(m.search.outcome) : std::nullopt;
    fmt::print(
        "{:<9} {:<8} {:<9} {:>10} {:>10} {:>12.0f}  {}\n", machine::name(m.mode),
        m.claimed ? "yes" : "no", name(m.verdict), m.search.schedules, m.search.distinct,
        m.search.seconds > 0 ? static_cast<double>(m.search.schedules) / m.search.seconds : 0,
        f ? fmt::format("{} (by {})", machine::name(f->kind), found_by(m.search)) : "");
  }
}

// Of modes that have no finding and are not clean.
std::string why_unknown(const std::vector<ModeResult>& modes, const Notes& notes) {
  for (const ModeResult& m : modes) {
    if (!m.search.lost.empty()) return loss_text(m.search.lost) + "\nno verdict";
  }
  for (const ModeResult& m : modes) {
    if (m.judged && m.search.undecided > 0) return "some runs reached the limit of points";
  }
  for (const ModeResult& m : modes) {
    if (m.judged && m.search.stuck > 0) {
      return "every run got stuck at an ignored finding: nothing after it was checked";
    }
  }
  if (!notes.time_outs.empty())
    return "a time-out after which the kernel continues was not explored";
  return "the time ran out before one schedule had ended";
}

// Those behind the first: the most blatant ones first (analysis/fuzz.cpp).
void tell_others(std::vector<ModeResult>& modes) {
  RecordOptions record;
  record.folder = kFindingsFolder;
  for (ModeResult& m : modes) {
    if (m.more.empty()) continue;
    fmt::print("\nFurther findings in {}, found with the others ignored, the most blatant first:\n",
               machine::name(m.mode));
    for (Settled& s : m.more) {
      m.others.push_back(write_finding(std::move(s), record));
      const Finding& f = m.others.back();
      const trace::Verdict& v = f.trace.verdict;
      fmt::print("  {}: {}\n", machine::name(f.kind), v.message);
      if (!v.cause.empty()) fmt::print("    cause   {}\n", v.cause);
      if (!v.fix.empty()) fmt::print("    fix     {}\n", v.fix);
      fmt::print("    replay: {}\n", replay_command(f.path));
    }
    m.more.clear();
  }
}

ModeReport report_of(const ModeResult& m) {
  ModeReport r;
  r.mode = m.mode;
  r.claimed = m.claimed;
  r.judged = m.judged;
  r.verdict = m.verdict;
  r.executions = m.search.schedules;
  r.seconds = m.search.seconds;
  r.search = Json{{"executions", m.search.schedules},
                  {"distinct", m.search.distinct},
                  {"undecided", m.search.undecided},
                  {"stuck", m.search.stuck},
                  {"points", m.search.points}};
  for (const Finding& f : m.others) r.others.push_back(&f);
  if (m.written) {
    r.recorded = &*m.written;
    r.finding = Json{{"schedule_seed", m.search.strategy.seed},
                     {"strategy", schedule::name(m.search.strategy.kind)},
                     {"found_by", found_by(m.search)}};
  }
  return r;
}

Json result_json(const FuzzOptions& o, const Task& c, const std::vector<ModeResult>& modes,
                 const std::vector<ModeReport>& reports, const Notes& notes) {
  Json j = result_head("fuzz", overall(reports), o.seed);
  j["configuration"] = config_json(c.config());
  j["policy"] = policy_json(c.policy, c.config());
  j["strategy"] = o.strategy;
  j["depth"] = o.depth;
  j["stale"] = o.stale;
  j["executor"] = o.executor.executor;
  j["jobs"] = o.jobs;
  j["faults"] = faults_json(c, modes);
  add_notes(j, notes);
  add_modes(j, reports);
  return j;
}

Exit campaign(const FuzzOptions& o, const Task& c) {
  if (!o.trace.empty() || o.pictures.any() || !o.reports.sarif.empty()) {
    throw UsageError(
        "--campaign names its traces itself: --trace, --html and the like are for one "
        "search, or for replay of a trace");
  }
  CampaignSearch search;
  search.strategy = fuzz_spec(o).strategy;
  search.strategy.faults = c.faults;
  if (given(o.schedules_given)) search.schedules = o.schedules;
  search.seconds = o.seconds;
  search.executor = o.executor;
  search.jobs = o.jobs;
  search.shrink = o.shrink;
  search.corpus = o.corpus;
  if (given(o.schedules_given)) search.executions = o.schedules;
  search.draw_protocol = !given(o.protocol_given) && c.config().set().empty();
  std::vector<Task> cases;
  for (const std::string& file : o.campaign.cases) {
    if (!o.c.case_file.empty()) throw UsageError("--cases: not together with --case");
    CaseOptions of = o.c;
    of.case_file = file;
    cases.push_back(resolve(of));
    cases.back().faults = c.faults;
    cases.back().survive = c.survive;
  }
  if (cases.empty()) cases.push_back(c);
  return run_campaign(o.campaign, cases, search, o.reports);
}

}  // namespace

Exit run(const FuzzOptions& options) {
  FuzzOptions o = options;
  o.executor = chosen(o.executor, false);
  Task c = resolve(o.c);
  if (!o.faults.empty()) c.faults = schedule::parse_faults(o.faults);
  c.survive = o.survive;
  if (given(o.depth_given) && o.strategy != "pct") {
    throw UsageError(fmt::format("--depth {}: --strategy {} has no depth; expected --strategy pct",
                                 o.depth, o.strategy));
  }
  if (!o.corpus.empty()) {
    if (o.strategy != "portfolio") {
      throw UsageError(fmt::format(
          "--corpus: --strategy {} uses no corpus; expected --strategy portfolio", o.strategy));
    }
    open_corpus(o.corpus);
  }
  check_writable(o.reports);
  check_writable(o.pictures);
  check_writable("--trace", o.trace);
  if (!o.campaign.folder.empty()) return campaign(o, c);
  check_memory(*c.subject, o.jobs);
  const Budget budget(o.seconds);
  ShownProgress shown("schedules");
  Watch watch = shown.watch();
  watch.begun = [&](const schedule::Program& program) { print_head(o, c, program); };
  FuzzResult result = fuzz(c, fuzz_spec(o), budget, watch);
  const Notes& notes = result.notes;
  std::vector<ModeResult> modes;
  for (FuzzMode& m : result.modes) modes.push_back({std::move(m), {}, {}});
  print_table(modes);
  for (const ModeResult& m : modes) {
    if (m.search.stuck == 0) continue;
    fmt::print("mode {}: {} of {} runs got stuck, which is ignored\n", machine::name(m.mode),
               m.search.stuck, m.search.schedules);
  }
  print_faults(c, result, modes);
  std::fflush(stdout);

  const Told told = tell_findings(modes, o.trace, o.pictures, report_of);
  tell_others(modes);
  if (!told.any && o.pictures.any() && !schedule::must_stop())
    show_default_schedule(c, c.judged.front(), o.pictures);

  std::vector<ModeReport> reports;
  for (const ModeResult& m : modes) reports.push_back(report_of(m));
  const Verdict verdict = overall(reports);
  const std::string word = verdict == Verdict::pass      ? "clean (except load buffering)"
                           : verdict == Verdict::finding ? "FINDING"
                                                         : "UNKNOWN: " + why_unknown(modes, notes);
  if (notes.any()) fmt::print("\n");
  print_notes(notes);
  fmt::print("\n{} in {}\n", word, judged_modes(reports));
  if (!o.reports.sarif.empty()) {
    std::vector<SarifFinding> all;
    for (const ModeResult& m : modes) {
      if (m.written) {
        all.push_back({&m.written->trace, replay_command(m.written->path), m.judged});
      }
      for (const Finding& f : m.others) all.push_back({&f.trace, replay_command(f.path), m.judged});
    }
    trace::write_text_file(o.reports.sarif, sarif(all));
  }
  write_reports(o.reports, result_json(o, c, modes, reports, notes),
                {junit_of("fuzz", c.config(), reports, "ended without a verdict")});
  if (schedule::interrupted()) return Exit::interrupted;
  if (told.disagree) return Exit::internal;
  if (verdict == Verdict::unknown && !modes.back().search.lost.empty()) {
    return loss_exit(modes.back().search.lost);
  }
  return exit_of(verdict);
}

}  // namespace ringfence::cli
