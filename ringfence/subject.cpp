#include "ringfence/subject.hpp"

#include <algorithm>

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
#include "ringfence/held.hpp"
#include "ringfence/running.hpp"
#include "verify/report.hpp"

namespace ringfence {

namespace {

using analysis::Task;
using detail::as_error;
using detail::Held;

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
    for (const Boundary mode : o.modes) task.modes.push_back(to_machine(mode));
    task.judged = task.modes;
  }
  std::string summation;
  for (const auto& [name, value] : o.policies) {
    analysis::apply_policy(name + "=" + value, task.policy, summation);
  }
  if (!summation.empty()) {
    throw analysis::InputError("policies: summation is a setting of the subject");
  }
  if (!held.subject->kernels()) analysis::refuse_kernel_policies(task.policy);
  task.ignore = analysis::parse_ignore(o.ignore);
  if (!o.faults.empty()) task.faults = schedule::parse_faults(o.faults);
  return task;
}

analysis::ExecutorOptions executor_of(const Held& held, const Options& o, bool free_running) {
  analysis::ExecutorOptions out;
  out.executor = o.executor == Executor::processes   ? "processes"
                 : o.executor == Executor::automatic ? "auto"
                                                     : "inline";
  out = analysis::chosen(out, free_running);
  if (!held.subject->forks()) out.executor = "inline";
  return out;
}

analysis::Watch watch_of(const Options& o) {
  analysis::Watch watch;
  if (o.progress) {
    watch.progress = [&o](const analysis::Progress& p) {
      o.progress({from_machine(p.mode), p.done, p.of, p.seconds});
    };
  }
  return watch;
}

Finding finding_of(analysis::Settled settled, machine::Boundary mode) {
  analysis::RecordOptions record;
  record.write = false;
  const analysis::Finding f = analysis::write_finding(std::move(settled), record);
  Finding out;
  out.kind = machine::name(f.kind);
  out.mode = from_machine(mode);
  out.message = f.trace.verdict.message;
  out.story = f.story;
  out.trace = trace::to_text(f.trace);
  for (const analysis::Remedy& r : f.remedies.found) out.remedies.push_back(analysis::text(r));
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

ReplayResult replay_of(const Held& held, const trace::Trace& recorded, bool token,
                       const Options& o) {
  analysis::check_input(*held.subject, recorded.header.input_digest);
  const analysis::Replayed r = analysis::replay(
      *held.subject, recorded, {executor_of(held, o, false), o.remedies, token, 2, {}});
  ReplayResult out;
  if (!r.run.lost.empty()) {
    out.divergence = "a rank process was lost";
    return out;
  }
  out.reproduced = r.difference.empty();
  out.divergence = r.difference;
  if (r.now.verdict.finding) out.kind = machine::name(r.now.verdict.finding->kind);
  out.story = trace::story(r.now, r.run, *r.instance.program,
                           {.replay = "", .remedy = analysis::text(r.remedies)});
  return out;
}

std::shared_ptr<Held> hold(analysis::SubjectPtr subject) {
  auto held = std::make_shared<Held>();
  held->subject = std::move(subject);
  const std::string input = held->subject->input_file();
  if (!input.empty()) held->input_digest = trace::file_digest(input);
  return held;
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

std::string version() { return analysis::version(); }

Subject::Subject(const Case& of) : held_(as_error([&] { return hold(make_case_subject(of)); })) {}
Subject::Subject(const Threads& of)
    : held_(as_error([&] { return hold(make_threads_subject(of)); })) {}

Subject Subject::case_file(const std::string& path) {
  return as_error([&] {
    trace::CaseConfig config;
    config.file = path;
    analysis::read_case(config, false);
    return Subject(hold(analysis::make_subject(config)));
  });
}

Subject Subject::protocol(const Protocol& of) {
  return as_error([&] {
    programs::Config c;
    c.protocol = of.name;
    c.ranks = of.ranks;
    c.tokens = of.tokens;
    c.hidden = of.hidden;
    c.inner = of.inner;
    c.blocks = of.blocks;
    c.calls = of.calls;
    c.dtype = of.dtype;
    c.set = of.switches;
    return Subject(hold(analysis::make_subject(c)));
  });
}

Subject Subject::with(const std::map<std::string, std::string>& switches) const {
  return as_error([&] {
    auto changed = hold(held_->subject->with(switches));
    changed->subject->make_program();  // says what is wrong
    return Subject(std::move(changed));
  });
}

std::vector<std::string> Subject::sites() const {
  return as_error([&] {
    std::vector<std::string> out;
    for (const analysis::Step& s : held_->subject->weaker()) {
      if (out.empty() || out.back() != s.key) out.push_back(s.key);
    }
    return out;
  });
}

std::string Subject::text() const { return trace::case_text(held_->subject->config()); }

Result Subject::run(const Options& o) const {
  return as_error(
      [&] {
        const detail::Running running(o.stop);
        const schedule::TimeLimit limit(o.seconds);
        const Task task = task_of(*held_, o);
        analysis::check_memory(*task.subject, 1);
        const machine::Boundary mode = analysis::mode_of(task);
        return result_of(
            task, mode,
            analysis::run(task, mode, executor_of(*held_, o, true), false, watch_of(o)));
      },
      !held_->subject->forks());
}

Result Subject::fuzz(const Options& o) const {
  return as_error(
      [&] {
        const detail::Running running(o.stop);
        const Task task = task_of(*held_, o);
        analysis::check_memory(*task.subject, o.jobs);
        analysis::FuzzSpec spec;
        spec.strategy.kind = schedule::parse_strategy(o.strategy);
        spec.strategy.seed = o.seed;
        spec.strategy.depth = o.depth;
        spec.strategy.stale = o.stale;
        spec.schedules = o.schedules;
        spec.jobs = std::max(o.jobs, 1u);
        spec.executor = executor_of(*held_, o, false);
        spec.shrink = o.shrink;
        spec.remedies = o.remedies;
        if (spec.schedules == 0 && o.seconds <= 0) {
          throw analysis::InputError("fuzz: schedules 0 and no seconds: expected one of the two");
        }
        const analysis::Budget budget(o.seconds);
        analysis::FuzzResult r = analysis::fuzz(task, spec, budget, watch_of(o));
        std::vector<ModeResult> modes;
        for (analysis::FuzzMode& m : r.modes) {
          modes.push_back(judged_mode(m, m.verdict));
          modes.back().executions = m.search.schedules;
          modes.back().seconds = m.search.seconds;
        }
        return result_of(std::move(modes), r.notes);
      },
      !held_->subject->forks());
}

Result Subject::check(const Options& o) const {
  return as_error(
      [&] {
        const detail::Running running(o.stop);
        const Task task = task_of(*held_, o);
        analysis::check_memory(*task.subject, o.jobs);
        analysis::ExhaustiveSpec spec;
        spec.executions = o.executions;
        spec.jobs = std::max(o.jobs, 1u);
        spec.executor = executor_of(*held_, o, false);
        spec.shrink = o.shrink;
        spec.remedies = o.remedies;
        const analysis::Budget budget(o.seconds);
        analysis::LeftByMode left;
        analysis::ExhaustiveResult r = analysis::explore(task, spec, budget, left, watch_of(o));
        if (schedule::interrupted()) throw analysis::Interrupted();
        std::vector<ModeResult> modes;
        for (analysis::ExhaustiveMode& m : r.modes) {
          modes.push_back(judged_mode(m, m.verdict()));
          modes.back().executions = m.result.complete + m.result.blocked;
          modes.back().explored = m.verdict() == analysis::Verdict::pass ? 1 : m.result.explored;
          modes.back().seconds = m.result.seconds;
        }
        return result_of(std::move(modes), r.notes);
      },
      !held_->subject->forks());
}

std::vector<RelaxResult> Subject::relax(const Options& o) const {
  return as_error(
      [&] {
        const detail::Running running(o.stop);
        const Task task = task_of(*held_, o);
        analysis::check_memory(*task.subject, o.jobs);
        analysis::RelaxSpec spec;
        if (o.executions > 0) spec.executions = o.executions;
        if (o.seconds > 0) spec.seconds = o.seconds;
        spec.jobs = std::max(o.jobs, 1u);
        std::vector<RelaxResult> out;
        for (const machine::Boundary mode : task.modes) {
          const analysis::RelaxResult r = analysis::relax(task, mode, spec, watch_of(o));
          RelaxResult table;
          table.mode = from_machine(mode);
          table.verdict = r.any()                              ? Verdict::pass
                          : r.start == analysis::Answer::fails ? Verdict::finding
                                                               : Verdict::unknown;
          for (const analysis::RelaxedSite& s : r.sites) {
            table.sites.push_back(
                {s.key, s.where, s.present, s.alone, s.jointly, s.why, !s.searched});
          }
          out.push_back(std::move(table));
        }
        return out;
      },
      !held_->subject->forks());
}

ReplayResult Subject::replay(const std::string& text, const Options& o) const {
  return as_error(
      [&] {
        const detail::Running running(o.stop);
        const bool token = trace::is_token(text);
        const trace::Trace t = token ? trace::parse_token(text) : trace::parse("trace", text);
        const trace::Configuration& then = t.header.config;
        const trace::Configuration& mine = held_->subject->config();
        if (!then.is_of(mine)) {
          throw analysis::InputError("trace: it is of " + trace::case_text(then) + ", not of " +
                                     trace::case_text(mine));
        }
        // Shrunk, it has fewer calls, or is of a smaller size.
        return replay_of(*hold(held_->subject->like(then)), t, token, o);
      },
      !held_->subject->forks());
}

ReplayResult replay_file(const std::string& path, const Options& o) {
  return as_error([&] {
    const detail::Running running(o.stop);
    trace::Trace t = trace::read_file(path);
    return replay_of(*hold(analysis::find_subject(t.header.config, path)), t, false, o);
  });
}

}  // namespace ringfence
