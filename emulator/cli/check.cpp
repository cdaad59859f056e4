// check: every execution of a case within bounds, in each boundary mode.
#include "emulator/check/explorer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/commands.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/memory.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/cli/resume_file.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

struct CheckOptions {
  CaseOptions c;
  ExecutorOptions executor;
  ReportOptions reports;
  std::uint64_t executions = 0;
  double seconds = 0;
  unsigned jobs = 1;
  std::string arrivals = "set";
  std::string trace, resume;
  bool shrink = true;
};

struct ModeResult {
  machine::Boundary mode;
  bool claimed, judged;
  check::CheckResult result;
  std::optional<Recorded> recorded;

  Verdict verdict() const {
    return result.verdict == check::Verdict::pass   ? Verdict::pass
           : result.verdict == check::Verdict::fail ? Verdict::finding
                                                    : Verdict::unknown;
  }
};

const char* word(const ModeResult& m) {
  return m.verdict() == Verdict::pass      ? "PASS"
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

void print_table(const std::vector<ModeResult>& modes) {
  fmt::print("{:<9} {:<8} {:<8} {:>10} {:>9} {:>9} {:>9}  {}\n", "mode", "claimed", "verdict",
             "complete", "blocked", "explored", "seconds", "finding");
  for (const ModeResult& m : modes) {
    const auto f = schedule::failure(m.result.outcome);
    const bool whole = m.verdict() != Verdict::unknown;
    fmt::print("{:<9} {:<8} {:<8} {:>10} {:>9} {:>9} {:>9.3f}  {}\n", machine::name(m.mode),
               m.claimed ? "yes" : "no", word(m), m.result.complete, m.result.blocked,
               m.verdict() == Verdict::pass ? "all"
               : whole                      ? "-"
                                            : fmt::format("{:.2g} %", 100 * m.result.explored),
               m.result.seconds,
               m.verdict() == Verdict::finding && f ? machine::name(f->kind) : "");
  }
}

void print_finding(const ModeResult& m) {
  const Recorded& r = *m.recorded;
  if (m.judged) {
    fmt::print("\n{}", r.story);
    return;
  }
  fmt::print("\n{} in boundary mode {}, which is not claimed: {}\nreplay: {}\n",
             machine::name(r.kind), machine::name(m.mode), r.trace.verdict.message,
             replay_command(r.path));
}

Verdict overall(const std::vector<ModeResult>& modes) {
  Verdict v = Verdict::pass;
  for (const ModeResult& m : modes) {
    if (!m.judged) continue;
    if (m.verdict() == Verdict::finding) return Verdict::finding;
    if (m.verdict() == Verdict::unknown) v = Verdict::unknown;
  }
  return v;
}

Json result_json(const CheckOptions& o, const Case& c, const std::vector<ModeResult>& modes,
                 Verdict verdict) {
  Json j = result_head("check", verdict, 0);
  j["configuration"] = config_json(c.config);
  j["policy"] = policy_json(c.policy, c.config);
  j["arrivals"] = o.arrivals;
  j["jobs"] = o.jobs;
  std::uint64_t executions = 0;
  double seconds = 0;
  Json verdicts = Json::object(), findings = Json::array(), detail = Json::object();
  for (const ModeResult& m : modes) {
    const check::CheckResult& r = m.result;
    executions += r.complete + r.blocked;
    seconds += r.seconds;
    const std::string mode(machine::name(m.mode));
    verdicts[mode] = name(m.verdict());
    detail[mode] = Json{
        {"claimed", m.claimed},   {"judged", m.judged},       {"complete", r.complete},
        {"blocked", r.blocked},   {"abandoned", r.abandoned}, {"bounded", r.bounded},
        {"explored", r.explored}, {"events", r.events},       {"ordered_cells", r.ordered_cells},
        {"seconds", r.seconds}};
    if (m.recorded) {
      findings.push_back(Json{{"kind", machine::name(m.recorded->kind)},
                              {"mode", mode},
                              {"claimed", m.claimed},
                              {"message", m.recorded->trace.verdict.message},
                              {"trace", m.recorded->path},
                              {"confirmed", m.recorded->confirmed}});
    }
  }
  j["executions"] = executions;
  j["seconds"] = seconds;
  j["executions_per_second"] = seconds > 0 ? static_cast<double>(executions) / seconds : 0.0;
  j["modes"] = verdicts;
  j["searches"] = detail;
  j["findings"] = findings;
  return j;
}

verify::JunitSuite junit_of(const Case& c, const std::vector<ModeResult>& modes) {
  using Status = verify::JunitCase::Status;
  verify::JunitSuite suite;
  suite.name = "check";
  suite.properties = properties(c.config);
  for (const ModeResult& m : modes) {
    verify::JunitCase one;
    one.classname = "check." + c.config.protocol;
    one.name = std::string(machine::name(m.mode));
    one.seconds = m.result.seconds;
    if (m.recorded) {
      one.message =
          fmt::format("{}: {}", machine::name(m.recorded->kind), m.recorded->trace.verdict.message);
      one.detail = m.recorded->story;
    }
    if (!m.judged) {
      one.status = Status::skipped;
      if (!m.recorded) one.message = "not claimed; no finding";
    } else if (m.verdict() == Verdict::finding) {
      one.status = Status::failed;
    } else if (m.verdict() == Verdict::unknown) {
      one.status = Status::error;
      one.message = "a bound ended the search";
    }
    suite.cases.push_back(one);
  }
  return suite;
}

std::string trace_path(const CheckOptions& o, const ModeResult& m, bool taken) {
  if (o.trace.empty() || !taken) return o.trace;
  const std::string mode = "." + std::string(machine::name(m.mode));
  const std::string suffix(trace::kSuffix);
  if (o.trace.ends_with(suffix)) {
    return o.trace.substr(0, o.trace.size() - suffix.size()) + mode + suffix;
  }
  return o.trace + mode;
}

ModeResult check_mode(const CheckOptions& o, const Case& c, machine::Boundary mode, double seconds,
                      const check::Left* left) {
  ModeResult m{mode, c.claims(mode), c.judges(mode), {}, {}};
  check::CheckSpec spec;
  spec.run = run_spec(c, mode);
  spec.sets = o.arrivals == "set";
  spec.executions = o.executions;
  spec.seconds = seconds;
  spec.left = left;
  Progress progress(std::string(machine::name(mode)), "executions", 0);
  m.result = check::check([&] { return build_program(c.config); }, spec, o.jobs, {},
                          [&](const check::CheckResult& r) {
                            progress.at(r.complete + r.blocked, r.seconds,
                                        fmt::format("about {:.2g} % explored", 100 * r.explored));
                          });
  return m;
}

Exit run_check(const CheckOptions& o) {
  const Case c = resolve(o.c);
  check_writable(o.reports);
  check_writable("--trace", o.trace);
  check_memory(c.config, o.jobs);
  const std::string what = fmt::format("{} {} arrivals={}", trace::case_text(c.config),
                                       trace::policy_text(c.policy, c.config), o.arrivals);
  check_writable("--resume", o.resume.empty() ? "" : o.resume + ".new");
  LeftByMode earlier = read_resume(o.resume, what);
  print_head(o, c);
  std::vector<ModeResult> modes;
  double left = o.seconds;
  for (std::size_t i = 0; i < c.modes.size(); ++i) {
    const double share =
        o.seconds > 0 ? std::max(left, 0.001) / static_cast<double>(c.modes.size() - i) : 0;
    const auto before = earlier.find(c.modes[i]);
    const double already = before != earlier.end() ? before->second.seconds : 0;
    modes.push_back(
        check_mode(o, c, c.modes[i], share, before != earlier.end() ? &before->second : nullptr));
    left -= modes.back().result.seconds - already;
    if (modes.back().verdict() != Verdict::finding) {
      earlier[c.modes[i]] = std::move(modes.back().result.left);
    }
    if (modes.back().result.interrupted && modes.back().verdict() != Verdict::finding) break;
  }
  if (!o.resume.empty()) write_resume(o.resume, what, earlier);
  print_table(modes);
  std::fflush(stdout);

  bool taken = false, all_confirmed = true;
  for (const bool judged : {true, false}) {
    for (ModeResult& m : modes) {
      if (m.judged != judged || m.verdict() != Verdict::finding) continue;
      schedule::SearchResult found;
      found.found = true;
      found.outcome = m.result.outcome;
      found.strategy.kind = schedule::StrategySpec::Kind::first;
      RecordOptions record;
      record.executor = o.executor;
      record.path = trace_path(o, m, taken);
      record.shrink = o.shrink;
      record.color = wants_color(STDOUT_FILENO);
      m.recorded = record_finding(c, m.mode, found, record);
      taken = true;
      all_confirmed &= m.recorded->confirmed;
      print_finding(m);
    }
  }

  const Verdict verdict = overall(modes);
  std::string judged;
  for (const ModeResult& m : modes) {
    if (m.judged) judged += (judged.empty() ? "" : ", ") + std::string(machine::name(m.mode));
  }
  fmt::print("\n{} in {}\n",
             verdict == Verdict::pass      ? "PASS: no execution of these sizes fails (except load "
                                             "buffering)"
             : verdict == Verdict::finding ? "FAIL"
                                           : "UNKNOWN: a bound ended the search first",
             judged);
  write_reports(o.reports, result_json(o, c, modes, verdict), {junit_of(c, modes)});
  if (schedule::interrupted()) return Exit::interrupted;
  if (!all_confirmed) return Exit::internal;
  return verdict == Verdict::pass      ? Exit::clean
         : verdict == Verdict::finding ? Exit::finding
                                       : Exit::unknown;
}

}  // namespace

void add_check(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<CheckOptions>();
  CLI::App* sub = app.add_subcommand(
      "check", "Explores every schedule and every read of a case of given sizes");
  sub->footer(
      "Exit status: 0 no execution fails, 1 one does in a judged mode, 2 bad usage or input, "
      "3 a bound ended the search, 4 interrupted.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  const char* group = "Search";
  sub->add_option("--schedules", o->executions, "At most so many executions for each mode")
      ->check(CLI::PositiveNumber)
      ->group(group);
  sub->add_option("--time", o->seconds, "At most so many seconds for all modes together")
      ->check(CLI::PositiveNumber)
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Workers that share the search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--arrivals", o->arrivals,
                  "set: reductions whose order nothing can tell count as one; order: each order "
                  "is explored")
      ->check(CLI::IsMember({"set", "order"}))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--resume", o->resume,
                  "File for what a search leaves that a bound or Ctrl-C ended; if it is there, the "
                  "search goes on with it")
      ->group(group);
  sub->add_option("--stall", o->executor.stall_seconds,
                  "Seconds after which a rank that does not step is lost, when a finding is "
                  "confirmed over processes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  sub->add_option("--trace", o->trace,
                  "File for the trace of a finding (default: named by its content, here)")
      ->group("Reports");
  sub->add_flag("--shrink,!--no-shrink", o->shrink, "Make a finding small before it is recorded")
      ->group("Reports");
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run_check(*o); });
}

}  // namespace ringfence::cli
