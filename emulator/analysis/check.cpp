#include "emulator/analysis/check.hpp"

#include <algorithm>

#include "emulator/analysis/unknown.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::analysis {

namespace {

ExhaustiveMode explore_mode(const Task& task, machine::Boundary mode, const ExhaustiveSpec& spec,
                            double seconds, const check::Left* left, bool try_stream, Notes& notes,
                            const Watch& watch) {
  auto m = task.mode_of<ExhaustiveMode>(mode);
  check::CheckSpec check;
  check.run = run_spec(task, mode);
  check.sets = spec.sets;
  check.executions = spec.executions;
  check.seconds = seconds;
  check.left = left;
  Notes found;
  check.leaving = [&](const schedule::Program& program) {
    add(found, task.subject->notes(program));
  };
  const auto make = [&] { return task.subject->make_program(); };
  const check::Progress progress = [&](const check::CheckResult& r) {
    watch.say({mode, r.complete + r.blocked, 0, r.seconds, r.explored, r.waiting});
  };
  const schedule::TimeLimit limit(seconds);
  auto by_stream = try_stream ? check::check_by_stream(make, check, spec.jobs, progress)
                              : std::optional<check::CheckResult>();
  if (!by_stream) found = {};
  m.result =
      by_stream ? *std::move(by_stream) : check::check_sums(make, check, spec.jobs, progress);
  add(notes, found);
  watch.over(mode);
  return m;
}

// Of a case that passes in mode stream.
ExhaustiveMode coherent_by_stream(const Task& task, const ExhaustiveMode& stream) {
  auto m = task.mode_of<ExhaustiveMode>(machine::Boundary::coherent);
  m.result.verdict = check::Verdict::pass;
  m.result.of_stream = true;
  m.result.complete = stream.result.complete;
  m.result.blocked = stream.result.blocked;
  m.result.abandoned = stream.result.abandoned;
  m.result.events = stream.result.events;
  m.result.explored = stream.result.explored;
  m.result.ordered_cells = stream.result.ordered_cells;
  m.result.sum_orders = stream.result.sum_orders;
  return m;
}

Notes notes_of_default_schedule(const Subject& subject, schedule::RunSpec spec) {
  if (!subject.kernels()) return {};  // nothing to run for: others leave nothing open
  const Instance instance = make_inline_instance(subject);
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  instance.executor->run(spec);
  return subject.notes(*instance.program);
}

}  // namespace

Verdict ExhaustiveMode::verdict() const {
  return result.verdict == check::Verdict::pass   ? Verdict::pass
         : result.verdict == check::Verdict::fail ? Verdict::finding
                                                  : Verdict::unknown;
}

ExhaustiveResult explore(const Task& task, const ExhaustiveSpec& spec, const Budget& budget,
                         LeftByMode& left, const Watch& watch) {
  {
    const auto program = task.subject->make_program();  // what cannot be launched is refused here
    if (watch.begun) watch.begun(*program);
  }
  RecordOptions record;
  record.executor = spec.executor;
  record.until = budget.end();
  record.shrink = spec.shrink;
  record.watch = watch;
  ExhaustiveResult out;
  Notes searched;
  for (std::size_t i = 0; i < task.modes.size(); ++i) {
    const auto before = left.find(task.modes[i]);
    const auto stream = std::find_if(
        out.modes.begin(), out.modes.end(),
        [](const ExhaustiveMode& done) { return done.mode == machine::Boundary::stream; });
    if (task.modes[i] == machine::Boundary::coherent && stream != out.modes.end() &&
        stream->verdict() == Verdict::pass &&
        check::stream_stands_for_coherent(run_spec(task, task.modes[i]),
                                          *task.subject->make_program())) {
      out.modes.push_back(coherent_by_stream(task, *stream));
      continue;
    }
    out.modes.push_back(explore_mode(task, task.modes[i], spec, budget.share(task.modes.size() - i),
                                     before != left.end() ? &before->second : nullptr,
                                     stream == out.modes.end(), searched, watch));
    ExhaustiveMode& m = out.modes.back();
    if (m.verdict() != Verdict::finding) {
      left[m.mode] = std::move(m.result.left);
      if (m.result.interrupted) break;
      continue;
    }
    schedule::SearchResult found;
    found.found = true;
    found.outcome = m.result.outcome;
    found.strategy.kind = schedule::StrategySpec::Kind::first;
    record.remedies = spec.remedies && m.judged;
    record.limits.seconds = spec.remedy_seconds;
    m.settled = settle_finding(task, m.mode, found, record);
  }
  // Those that an interruption left no time for: without them nothing is known of what is judged.
  for (std::size_t i = out.modes.size(); i < task.modes.size(); ++i) {
    out.modes.push_back(task.mode_of<ExhaustiveMode>(task.modes[i]));
    out.modes.back().result.interrupted = true;
  }
  const auto passes = [](const ExhaustiveMode& m) { return m.verdict() == Verdict::pass; };
  if (std::any_of(out.modes.begin(), out.modes.end(), passes)) {
    out.notes = notes_of_default_schedule(*task.subject, run_spec(task, task.judged.front()));
    add(out.notes, searched);
  } else {
    out.notes.unexplored = searched.unexplored;
  }
  for (ExhaustiveMode& m : out.modes) {
    if (passes(m) && out.notes.leave_out()) m.result.verdict = check::Verdict::unknown;
    if (m.verdict() != Verdict::unknown || m.result.left_out.empty()) continue;
    m.left_out = left_out_texts(m.result.left_out, *task.subject->make_program());
  }
  return out;
}

check::CheckResult explore_subject(const Subject& subject, check::CheckSpec spec, unsigned jobs) {
  Notes notes;
  spec.leaving = [&](const schedule::Program& program) { add(notes, subject.notes(program)); };
  const auto make = [&] { return subject.make_program(); };
  auto by_stream = check::check_by_stream(make, spec, jobs);
  if (!by_stream) notes = {};
  check::CheckResult r = by_stream ? *std::move(by_stream) : check::check_sums(make, spec, jobs);
  if (r.verdict != check::Verdict::pass) return r;
  add(notes, notes_of_default_schedule(subject, spec.run));
  if (notes.leave_out()) r.verdict = check::Verdict::unknown;
  return r;
}

schedule::SearchResult explore_mode(const Task& task, machine::Boundary mode,
                                    std::uint64_t executions, unsigned jobs) {
  check::CheckSpec spec;
  spec.run = run_spec(task, mode);
  spec.executions = executions;
  check::CheckResult of = explore_subject(*task.subject, spec, jobs);
  schedule::SearchResult r;
  r.schedules = r.distinct = of.complete + of.blocked;
  r.points = of.events;
  r.seconds = of.seconds;
  r.undecided = of.verdict == check::Verdict::unknown ? 1 : 0;
  r.found = of.verdict == check::Verdict::fail;
  r.outcome = std::move(of.outcome);
  r.strategy.kind = schedule::StrategySpec::Kind::first;
  return r;
}

}  // namespace ringfence::analysis
