// The analyses of a subject, and their results as values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "emulator/analysis/check.hpp"
#include "emulator/analysis/fuzz.hpp"
#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/relax.hpp"
#include "emulator/analysis/replay.hpp"
#include "emulator/analysis/run.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/token.hpp"
#include "emulator/trace/verdict.hpp"
#include "ringfence/running.hpp"
#include "verify/report.hpp"

namespace ringfence {

namespace {

using analysis::Task;
using detail::analysed;
using detail::Held;
using detail::hold;
using detail::Tell;

machine::Boundary to_machine(Boundary mode) { return static_cast<machine::Boundary>(mode); }
Boundary from_machine(machine::Boundary mode) { return static_cast<Boundary>(mode); }
static_assert(static_cast<int>(Boundary::coherent) ==
              static_cast<int>(machine::Boundary::coherent));

Verdict from_analysis(analysis::Verdict verdict) {
  return verdict == analysis::Verdict::pass      ? Verdict::pass
         : verdict == analysis::Verdict::finding ? Verdict::finding
                                                 : Verdict::unknown;
}

// As the command line has it: every mode is tried unless some are asked for, and those that the
// subject claims are judged.
Task task_of(const Held& held, const Options& o) {
  Task task;
  task.subject = held.subject;
  task.input_digest = held.input_digest;
  task.claimed = held.subject->claims();
  if (o.modes.empty()) {
    task.modes = task.judged = task.claimed;
  } else {
    for (const Boundary mode : o.modes) {
      const machine::Boundary m = to_machine(mode);
      if (std::find(task.modes.begin(), task.modes.end(), m) == task.modes.end()) {
        task.modes.push_back(m);
      }
    }
    task.judged = task.modes;
  }
  std::string summation;
  for (const auto& [name, value] : o.policies) {
    analysis::apply_policy(name + "=" + value, task.policy, summation);
  }
  if (!summation.empty()) {
    throw analysis::InputError(
        "policies: summation is a setting of the subject: Protocol::summation, Case::summation");
  }
  task.policy.registers = o.registers;
  if (!held.subject->kernels()) analysis::refuse_kernel_policies(task.policy);
  task.ignore = analysis::parse_ignore(o.ignore);
  if (!o.faults.empty()) task.faults = schedule::parse_faults(o.faults);
  task.survive = o.survive;
  return task;
}

analysis::ExecutorOptions executor_of(const Held& held, const Options& o, bool free_running) {
  analysis::ExecutorOptions out;
  out.executor = o.executor == Executor::processes   ? "processes"
                 : o.executor == Executor::automatic ? "auto"
                                                     : "inline";
  out = analysis::chosen(out, free_running);
  out.stall_seconds = o.stall_seconds;
  if (!held.subject->forks()) out.executor = "inline";
  return out;
}

analysis::Watch watch_of(const detail::Tell& tell) {
  analysis::Watch watch;
  if (tell) {
    watch.progress = [&tell](const analysis::Progress& p) {
      tell({from_machine(p.mode), p.done, p.of, p.seconds});
    };
  }
  return watch;
}

std::vector<std::string> lines_of(const analysis::Remedies& remedies) {
  std::vector<std::string> out;
  for (const analysis::Remedy& r : remedies.found) out.push_back(analysis::text(r));
  return out;
}

Finding finding_of(analysis::Settled settled, machine::Boundary mode) {
  analysis::RecordOptions record;
  record.write = false;
  const analysis::Finding f = analysis::write_finding(std::move(settled), record);
  Finding out;
  out.kind = machine::name(f.kind);
  out.mode = from_machine(mode);
  out.id = trace::finding_id(f.trace);
  out.message = f.trace.verdict.message;
  out.cause = f.trace.verdict.cause;
  out.fix = f.trace.verdict.fix;
  out.story = f.story;
  out.trace = trace::to_text(f.trace);
  out.token = f.token;
  out.remedies = lines_of(f.remedies);
  out.confirmed = f.confirmed;
  out.unconfirmed = f.unconfirmed;
  return out;
}

std::vector<std::string> notes_of(const analysis::Notes& n) {
  std::vector<std::string> out;
  const auto add = [&](const char* what, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) out.push_back(what + line);
  };
  add("not judged: ", n.values_not_judged);
  add("read and never written: ", n.never_written);
  add("ignored nothing: ", n.unused_suppressions);
  add("", n.remarks);
  add("left out: ", n.left_out);
  add("not explored: ", n.unexplored);
  add("not explored: ", n.time_outs);
  return out;
}

Verdict overall(const std::vector<ModeResult>& modes) {
  Verdict v = Verdict::pass;
  for (const ModeResult& m : modes) {
    if (!m.judged) continue;
    if (m.verdict == Verdict::finding) return Verdict::finding;
    if (m.verdict == Verdict::unknown) v = Verdict::unknown;
  }
  return v;
}

// Of a mode of fuzz or check; what the two count differs.
template <class Mode>
ModeResult judged_mode(Mode& m, analysis::Verdict verdict) {
  ModeResult out;
  out.mode = from_machine(m.mode);
  out.claimed = m.claimed;
  out.judged = m.judged;
  out.verdict = from_analysis(verdict);
  if (m.settled) out.finding = finding_of(std::move(*m.settled), m.mode);
  return out;
}

Result result_of(std::vector<ModeResult> modes, const analysis::Notes& notes) {
  Result out;
  out.verdict = overall(modes);
  out.modes = std::move(modes);
  out.notes = notes_of(notes);
  return out;
}

// A run's findings come one by one, free-running ones without a schedule to write down.
Result result_of(const Task& task, machine::Boundary mode, const analysis::RunResult& r) {
  ModeResult m;
  m.mode = from_machine(mode);
  m.claimed = task.claims(mode);
  m.judged = true;
  m.verdict = from_analysis(r.verdict);
  m.executions = r.complete ? 1 : 0;
  m.seconds = r.seconds;
  if (!r.kind.empty()) {
    trace::Trace t;
    t.header.made_by = analysis::version();
    t.header.config = task.config();
    t.header.policy = r.spec.policy;
    t.verdict = trace::make_verdict(r.outcome, *r.instance.program);
    Finding f;
    f.kind = r.kind;
    f.mode = m.mode;
    f.message = t.verdict.finding ? t.verdict.message : r.replicas.text;
    for (const verify::Comparison& c : r.comparisons) {
      if (c.mismatches > 0) f.story += verify::comparison_table({c}) + "\n";
    }
    if (t.verdict.finding) {
      f.story = trace::story(t, r.outcome, *r.instance.program,
                             {.replay = "", .color = false, .free_running = true});
    }
    f.unconfirmed = "a free run cannot be repeated";
    m.finding = std::move(f);
  }
  std::vector<ModeResult> modes;
  modes.push_back(std::move(m));
  return result_of(std::move(modes), r.notes);
}

ReplayResult replay_of(const Held& held, const trace::Trace& recorded, bool token, const Options& o,
                       const detail::Tell& tell) {
  analysis::check_input(*held.subject, recorded.header.input_digest);
  const analysis::Replayed r = analysis::replay(
      *held.subject, recorded,
      {executor_of(held, o, false), o.remedies, token, o.remedy_seconds, watch_of(tell)});
  ReplayResult out;
  if (!r.run.lost.empty()) {
    out.divergence = "a rank process was lost";
    return out;
  }
  out.reproduced = r.difference.empty();
  out.divergence = r.difference;
  out.remedies = lines_of(r.remedies);
  if (r.now.verdict.finding) out.kind = machine::name(r.now.verdict.finding->kind);
  out.story = trace::story(r.now, r.run, *r.instance.program,
                           {.replay = "", .remedy = analysis::text(r.remedies)});
  return out;
}

}  // namespace

std::string_view name(Boundary mode) { return machine::name(to_machine(mode)); }

std::string_view name(Verdict verdict) {
  return verdict == Verdict::pass ? "pass" : verdict == Verdict::finding ? "finding" : "unknown";
}

const Finding* Result::finding() const {
  for (const ModeResult& m : modes) {
    if (m.judged && m.finding) return &*m.finding;
  }
  return nullptr;
}

void detail::check_options(const Options& o) {
  const auto expect = [](bool holds, const std::string& what, const char* expected) {
    if (!holds) throw analysis::InputError("Options: " + what + ": expected " + expected);
  };
  const auto number = [](const char* name, auto value) {
    return fmt::format("{} {}", name, value);
  };
  const char* const strategies[] = {"portfolio", "random", "pct", "pos", "surw"};
  expect(
      std::find(std::begin(strategies), std::end(strategies), o.strategy) != std::end(strategies),
      "strategy " + o.strategy, "portfolio, random, pct, pos or surw");
  expect(std::isfinite(o.seconds) && o.seconds >= 0, number("seconds", o.seconds),
         "a number of at least 0");
  expect(o.depth >= 1 && o.depth <= 100, number("depth", o.depth), "1 to 100");
  expect(o.stale >= 0 && o.stale <= 1, number("stale", o.stale), "0 to 1");
  expect(o.jobs <= 1024, number("jobs", o.jobs), "1 to 1024");
  expect(!o.survive || !o.faults.empty(), "survive", "faults that are to be survived");
  expect(o.registers <= 255, number("registers", o.registers), "1 to 255, or 0");
  expect(o.findings >= 1, number("findings", o.findings), "1 or more");
  expect(o.stall_seconds > 0, number("stall_seconds", o.stall_seconds), "more than 0");
  expect(o.remedy_seconds > 0, number("remedy_seconds", o.remedy_seconds), "more than 0");
}

Result Subject::run(const Options& o) const {
  return analysed(o, !held_->subject->forks(), [&](const Tell& tell) {
    const schedule::TimeLimit limit(o.seconds);
    const Task task = task_of(*held_, o);
    analysis::check_memory(*task.subject, 1);
    const machine::Boundary mode = analysis::mode_of(task);
    const analysis::RunResult r =
        analysis::run(task, mode, executor_of(*held_, o, true), false, watch_of(tell));
    Result out = result_of(task, mode, r);
    if (o.memories && r.complete) {
      for (const auto& [name, tensor] : held_->subject->tensors(*r.instance.program).tensors) {
        out.memories.emplace(name, detail::from_verify(tensor));
      }
    }
    return out;
  });
}

Result Subject::fuzz(const Options& o) const {
  return analysed(o, !held_->subject->forks(), [&](const Tell& tell) {
    const Task task = task_of(*held_, o);
    analysis::check_memory(*task.subject, o.jobs);
    analysis::FuzzSpec spec;
    spec.strategy.kind = schedule::parse_strategy(o.strategy);
    spec.strategy.seed = o.seed;
    spec.strategy.depth = o.depth;
    spec.strategy.stale = o.stale;
    spec.schedules = o.schedules;
    spec.all = o.findings;
    spec.jobs = std::max(o.jobs, 1u);
    spec.executor = executor_of(*held_, o, false);
    spec.shrink = o.shrink;
    spec.remedies = o.remedies;
    spec.remedy_seconds = o.remedy_seconds;
    if (spec.schedules == 0 && o.seconds <= 0) {
      throw analysis::InputError("fuzz: schedules 0 and no seconds: expected one of the two");
    }
    const analysis::Budget budget(o.seconds);
    analysis::FuzzResult r = analysis::fuzz(task, spec, budget, watch_of(tell));
    std::vector<ModeResult> modes;
    for (analysis::FuzzMode& m : r.modes) {
      modes.push_back(judged_mode(m, m.verdict));
      for (analysis::Settled& s : m.more) {
        modes.back().more.push_back(finding_of(std::move(s), m.mode));
      }
      modes.back().executions = m.search.schedules;
      modes.back().seconds = m.search.seconds;
    }
    return result_of(std::move(modes), r.notes);
  });
}

Result Subject::check(const Options& o) const {
  return analysed(o, !held_->subject->forks(), [&](const Tell& tell) {
    const Task task = task_of(*held_, o);
    analysis::check_memory(*task.subject, o.jobs);
    analysis::ExhaustiveSpec spec;
    spec.executions = o.executions;
    spec.sets = !o.arrival_orders;
    spec.jobs = std::max(o.jobs, 1u);
    spec.executor = executor_of(*held_, o, false);
    spec.shrink = o.shrink;
    spec.remedies = o.remedies;
    spec.remedy_seconds = o.remedy_seconds;
    const analysis::Budget budget(o.seconds);
    analysis::LeftByMode left;
    analysis::ExhaustiveResult r = analysis::explore(task, spec, budget, left, watch_of(tell));
    if (schedule::interrupted()) throw analysis::Interrupted();
    std::vector<ModeResult> modes;
    for (analysis::ExhaustiveMode& m : r.modes) {
      modes.push_back(judged_mode(m, m.verdict()));
      modes.back().executions = m.result.complete + m.result.blocked;
      modes.back().explored = m.verdict() == analysis::Verdict::pass ? 1 : m.result.explored;
      modes.back().seconds = m.result.seconds;
    }
    return result_of(std::move(modes), r.notes);
  });
}

std::vector<RelaxResult> Subject::relax(const Options& o) const {
  return analysed(o, !held_->subject->forks(), [&](const Tell& tell) {
    const Task task = task_of(*held_, o);
    analysis::check_memory(*task.subject, o.jobs);
    analysis::RelaxSpec spec;
    if (o.executions > 0) spec.executions = o.executions;
    spec.end = analysis::Budget(o.seconds).end();
    spec.jobs = std::max(o.jobs, 1u);
    std::vector<RelaxResult> out;
    for (const machine::Boundary mode : task.modes) {
      const analysis::RelaxResult r = analysis::relax(task, mode, spec, watch_of(tell));
      if (r.end == analysis::RelaxEnd::signal) throw analysis::Interrupted();
      RelaxResult table;
      table.mode = from_machine(mode);
      table.verdict = r.end == analysis::RelaxEnd::time    ? Verdict::unknown
                      : r.any()                            ? Verdict::pass
                      : r.start == analysis::Answer::fails ? Verdict::finding
                                                           : Verdict::unknown;
      for (const analysis::RelaxedSite& s : r.sites) {
        table.sites.push_back({s.key, s.where, s.present, s.alone, s.jointly, s.why, !s.searched});
      }
      out.push_back(std::move(table));
    }
    return out;
  });
}

ReplayResult Subject::replay(const std::string& text, const Options& o) const {
  return analysed(o, !held_->subject->forks(), [&](const Tell& tell) {
    const bool token = trace::is_token(text);
    const trace::Trace t = token ? trace::parse_token(text) : trace::parse("trace", text);
    const trace::Configuration& then = t.header.config;
    const trace::Configuration& mine = held_->subject->config();
    if (!then.is_of(mine)) {
      throw analysis::InputError("trace: it is of " + trace::case_text(then) + ", not of " +
                                 trace::case_text(mine));
    }
    // Shrunk, it has fewer calls, or is of a smaller size.
    return replay_of(*hold(held_->subject->like(then)), t, token, o, tell);
  });
}

ReplayResult replay_file(const std::string& path, const Options& o) {
  return analysed(o, false, [&](const Tell& tell) {
    const bool token = trace::is_token(path);
    trace::Trace t = token ? trace::parse_token(path) : trace::read_file(path);
    const auto held = hold(analysis::find_subject(t.header.config, token ? "" : path));
    return replay_of(*held, t, token, o, tell);
  });
}

}  // namespace ringfence
