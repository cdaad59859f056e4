#include "emulator/analysis/fuzz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "emulator/analysis/corpus.hpp"
#include "emulator/analysis/errors.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/cause.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::analysis {

namespace {

schedule::SearchSpec search_spec(const Task& task, machine::Boundary mode, const FuzzSpec& spec) {
  schedule::SearchSpec s;
  s.run = run_spec(task, mode);
  s.run.strategy = spec.strategy;
  s.run.strategy.faults = task.faults;
  s.schedules = spec.schedules;
  if (!spec.corpus.empty()) s.corpus = read_corpus(spec.corpus, task, mode);
  return s;
}

// Executors for all jobs, made once for all modes.
class Workers {
 public:
  Workers(const Task& task, const FuzzSpec& spec) : options_(spec.executor) {
    for (unsigned i = 0; i < spec.jobs; ++i) {
      instances_.push_back(make_instance(*task.subject, options_));
    }
  }
  const schedule::Program& program() const { return *instances_.front().program; }
  std::vector<schedule::Executor*> start() {
    std::vector<schedule::Executor*> out;
    for (Instance& instance : instances_) out.push_back(&instance.start(options_));
    return out;
  }
  // What confirms a finding needs the memory.
  void give_up() {
    for (Instance& instance : instances_) instance.executor.reset();
  }
  void add_notes(const Task& task, Notes& notes) const {
    for (const Instance& i : instances_) add(notes, task.subject->notes(*i.program));
  }

 private:
  ExecutorOptions options_;
  std::vector<Instance> instances_;
};

// What passes over a finding by its lines; empty where it has none.
std::string suppression_of(const trace::Verdict& v) {
  std::vector<std::string> lines;
  for (const trace::SideNames* side : {&v.first, &v.second}) {
    const std::string line = trace::line_of(side->line);
    const auto colon = line.rfind(':');
    if (colon == std::string::npos || colon + 1 == line.size() ||
        line.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
      continue;
    }
    lines.push_back(line);
  }
  if (lines.empty()) return "";
  std::string text = fmt::format("[[ignore]]\nkind = \"{}\"\nline = \"{}\"\n",
                                 machine::name(v.finding->kind), lines[0]);
  if (lines.size() > 1) text += fmt::format("other_line = \"{}\"\n", lines[1]);
  return text + "reason = \"told before\"\n";
}

// The task that passes over those in `known`, besides what it passes over already. Null where there
// is no such task: of a protocol, or of a kind that cannot be passed over.
std::optional<Task> passing_over(const Task& task, const std::string& known) {
  try {
    Task out = task;
    out.subject = task.subject->passing_over(known);
    if (out.subject == nullptr) return std::nullopt;
    out.subject->make_program();
    return out;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// One of several findings of a mode, with the search that met it.
struct Met {
  Task task;  // with those that were met before passed over
  schedule::SearchResult search;
  Settled settled;
};

// How many schedules went by before one met it: each search makes the same schedules in the same
// order, so one that many of them meet is met soon.
std::uint64_t schedules_before(const Met& m) {
  const bool at_once = m.search.strategy.kind == schedule::StrategySpec::Kind::first;
  return at_once ? 0 : m.search.number + 1;
}

// Of no weak access: a race of two accesses that were both meant to synchronise.
bool is_strong(const Met& m) {
  const auto& f = m.settled.finding.trace.verdict.finding;
  return f && f->has_first && f->has_second && machine::is_strong(f->first.order) &&
         machine::is_strong(f->second.order);
}

// The findings of a mode, each met with those before it passed over; the most blatant first: the
// one that the fewest schedules miss, and of equals plain accesses before strong ones.
std::vector<Met> find_all(const Task& task, const FuzzMode& found, const FuzzSpec& spec,
                          const Budget& budget, const RecordOptions& record, const Watch& watch) {
  std::vector<Met> out;
  std::string known;
  out.push_back({task, found.search, settle_finding(task, found.mode, found.search, record)});
  while (out.size() < spec.all && !schedule::must_stop()) {
    const trace::Verdict* const last = &out.back().settled.finding.trace.verdict;
    const std::string text = suppression_of(*last);
    // One that was passed over, and came again all the same, would come for ever.
    if (text.empty() || known.find(text) != std::string::npos) break;
    known += text;
    const std::optional<Task> next = passing_over(task, known);
    if (!next) break;
    Workers workers(*next, spec);
    schedule::SearchSpec search = search_spec(*next, found.mode, spec);
    search.seconds = budget.share(1);
    schedule::SearchResult r =
        schedule::search(workers.start(), search, [&](std::uint64_t done, double seconds) {
          watch.say({found.mode, done, search.schedules, seconds, -1});
        });
    watch.over(found.mode);
    if (!r.found) break;
    workers.give_up();
    Settled settled = settle_finding(*next, found.mode, r, record);
    out.push_back({*next, std::move(r), std::move(settled)});
  }
  std::stable_sort(out.begin(), out.end(), [](const Met& a, const Met& b) {
    return std::pair(schedules_before(a), is_strong(a)) <
           std::pair(schedules_before(b), is_strong(b));
  });
  return out;
}

Verdict verdict_of(const schedule::SearchResult& r) {
  if (r.found) return Verdict::finding;
  return r.undecided == 0 && r.schedules > r.stuck ? Verdict::pass : Verdict::unknown;
}

}  // namespace

FuzzResult fuzz(const Task& task, const FuzzSpec& spec, const Budget& budget, const Watch& watch) {
  Workers workers(task, spec);
  if (watch.begun) watch.begun(workers.program());
  RecordOptions record;
  record.executor = spec.executor;
  record.until = budget.end();
  record.shrink = spec.shrink;
  record.watch = watch;
  FuzzResult out;
  for (std::size_t i = 0; i < task.modes.size(); ++i) {
    auto m = task.mode_of<FuzzMode>(task.modes[i]);
    schedule::SearchSpec search = search_spec(task, m.mode, spec);
    search.seconds = budget.share(task.modes.size() - i);
    const auto executors = workers.start();
    {
      const schedule::TimeLimit limit(search.seconds);
      m.search = schedule::search(executors, search, [&](std::uint64_t done, double seconds) {
        watch.say({m.mode, done, search.schedules, seconds, -1});
      });
      watch.over(m.mode);
    }
    if (!spec.corpus.empty()) write_corpus(spec.corpus, task, m.mode, m.search.kept);
    if (m.search.interrupted && !m.search.found) throw Interrupted();
    workers.add_notes(task, out.notes);
    if (m.search.found) {
      workers.give_up();
      record.remedies = spec.remedies && m.judged;
      record.limits.seconds = spec.remedy_seconds;
      if (spec.all > 1 && m.judged) {
        RecordOptions without = record;
        without.remedies = false;  // of the others a replay tries them
        std::vector<Met> all = find_all(task, m, spec, budget, without, watch);
        try_remedies(all.front().settled, all.front().task, m.mode, record);
        m.search.outcome = all.front().search.outcome;
        m.search.number = all.front().search.number;
        m.search.strategy = all.front().search.strategy;
        m.settled = std::move(all.front().settled);
        for (std::size_t k = 1; k < all.size(); ++k) m.more.push_back(std::move(all[k].settled));
      } else {
        m.settled = settle_finding(task, m.mode, m.search, record);
      }
    }
    m.verdict = verdict_of(m.search);
    out.modes.push_back(std::move(m));
    if (!out.modes.back().search.lost.empty()) break;  // no other mode would fare better
  }
  // Without a verdict on these, nothing is known of what is judged.
  for (std::size_t i = out.modes.size(); i < task.modes.size(); ++i) {
    auto m = task.mode_of<FuzzMode>(task.modes[i]);
    m.search.lost = out.modes.back().search.lost;
    out.modes.push_back(std::move(m));
  }
  for (FuzzMode& m : out.modes) {
    if (m.verdict == Verdict::pass && !out.notes.time_outs.empty()) m.verdict = Verdict::unknown;
  }
  for (const FuzzMode& m : out.modes) {
    if (m.search.faulted.stopped == 0) continue;
    const Instance instance = make_inline_instance(*task.subject);  // which names what was awaited
    out.stopped_in = m.mode;
    out.stopped = trace::make_verdict(m.search.stopped, *instance.program);
    break;
  }
  return out;
}

schedule::SearchResult search_mode(const Task& task, machine::Boundary mode, const FuzzSpec& spec) {
  const schedule::SearchSpec search = search_spec(task, mode, spec);
  Workers workers(task, spec);
  schedule::SearchResult r = schedule::search(workers.start(), search);
  if (!spec.corpus.empty()) write_corpus(spec.corpus, task, mode, r.kept);
  return r;
}

}  // namespace ringfence::analysis
