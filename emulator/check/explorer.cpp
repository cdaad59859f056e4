#include "emulator/check/explorer.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_set>

#include "emulator/check/walk.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/shrink.hpp"

namespace ringfence::check {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kProgressEvery = std::chrono::milliseconds(200);

constexpr double kAlmostAll = 0.999;  // explored, before the search has ended

// A graph to explore, with its share of the whole search.
struct Item {
  Graph graph;
  double share = 1;
  std::uint32_t generation = 0;                // of the sets
  std::shared_ptr<const Foresight> foresight;  // of a search for what has no order of execution
  std::uint32_t corrections = 0;               // of the foresight
  bool again = false;                          // a run that was made, with other values foreseen
};

// What a run gave.
struct Explored {
  schedule::Outcome outcome;
  Judged judged;
  bool may_buffer = false;  // a run in order: there is something to search for out of order
  bool straight = false;    // see CheckSpec
  bool differs = false;     // with other values foreseen the program goes another way
  std::vector<Foreseen> corrections;
};

class Search {
 public:
  Search(const Factory& make, const CheckSpec& spec, const Visit& visit, const Progress& progress)
      : make_(make), spec_(spec), visit_(visit), progress_(progress), sets_(spec.sets) {
    run_ = spec.run;
    run_.strategy.kind = schedule::StrategySpec::Kind::first;
    run_.free_running = false;
    buffering_ = spec.all && run_.policy.load_buffering == machine::LoadBuffering::on &&
                 run_.policy.boundary != machine::Boundary::coherent;
    loose_ = run_;
    loose_.weak_points = true;
    for (int k = 0; k < machine::kFindingKinds; ++k) {
      const auto kind = static_cast<machine::FindingKind>(k);
      if (!schedule::waits_for_ever(kind)) loose_.ignore.push_back(kind);
    }
    if (spec.left == nullptr) {
      items_.push_back({});
      return;
    }
    const Left& left = *spec.left;
    for (const std::uint64_t label : left.agents) agents_.index(label);
    for (const CellKey& c : left.ordered) sets_.turn_off(c);
    if (left.all_ordered) sets_.turn_all_off();
    for (const LeftOut& order : left.left_out) sets_.leave_out(order);
    started_ = sets_.generation();
    for (const Left::Item& i : left.items)
      items_.push_back({i.graph, i.share, started_, nullptr, 0});
    result_.complete = left.complete;
    result_.blocked = left.blocked;
    result_.bounded = left.bounded;
    result_.abandoned = left.abandoned;
    result_.events = left.events;
    result_.explored = left.explored;
    before_ = left.seconds;
  }

  CheckResult run(unsigned jobs) {
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 1; i < jobs; ++i) threads.emplace_back([this] { work(); });
      work();
    }
    if (error_) std::rethrow_exception(error_);
    result_.seconds = before_ + seconds();
    result_.interrupted = schedule::interrupted();
    const bool whole = items_.empty() && !stop_ && result_.bounded == 0;
    result_.left_out = sets_.left_out();
    if (failed_) {
      result_.verdict = Verdict::fail;
    } else if (whole && result_.complete > 0 && result_.left_out.empty()) {
      result_.verdict = Verdict::pass;
    }
    if (items_.empty() && !stop_) result_.explored = 1;
    result_.ordered_cells = sets_.ordered_cells();
    if (!failed_) leave();
    return std::move(result_);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void leave() {
    Left& left = result_.left;
    left.complete = result_.complete;
    left.blocked = result_.blocked;
    left.bounded = result_.bounded;
    left.abandoned = result_.abandoned;
    left.events = result_.events;
    left.seconds = result_.seconds;
    left.explored = result_.explored;
    left.all_ordered = sets_.all_off() && spec_.sets;
    left.ordered = sets_.off();
    left.left_out = sets_.left_out();
    left.agents = agents_.labels();
    for (Item& i : items_) {
      if (i.foresight == nullptr) left.items.push_back({i.share, std::move(i.graph)});
    }
  }

  void work() {
    try {
      const std::unique_ptr<schedule::Program> program = make_();
      schedule::InlineExecutor executor(*program);
      const bool past_races = schedule::passes_over_races(run_) || program->passes_over_races();
      Sets sets = [&] {
        const std::lock_guard lock(mutex_);
        return sets_;
      }();
      Sets no_sets{false};
      Walk in_order(agents_, sets, past_races, spec_.sum_order, spec_.all),
          loose(agents_, no_sets, true, spec_.sum_order);
      Record record;
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [&] { return stop_ || any_item() || active_ == 0; });
        if (stop_ || items_.empty()) break;
        Item item = std::move(items_.back());
        items_.pop_back();
        ++active_;
        Walk& walk = item.foresight != nullptr ? loose : in_order;
        const bool recorded = item.foresight != nullptr || (buffering_ && !buffered_);
        if (sets.generation() != item.generation) sets = sets_;
        lock.unlock();
        Explored explored = explore(item, *program, executor, walk, recorded ? &record : nullptr);
        lock.lock();
        --active_;
        if (item.generation == sets_.generation()) {
          sets_.adopt(sets);
        } else {
          sets = sets_;
        }
        take(item, std::move(explored), *program, executor, walk, record);
        changed_.notify_all();
      }
      if (spec_.leaving) spec_.leaving(*program);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
    }
    changed_.notify_all();
  }

  // Whether there is something to explore. A foresight's turn comes when all others are done with,
  // so that what is known of values by then is known to it (Foresights).
  bool any_item() {
    if (items_.empty()) {
      if (auto f = foresights_.next()) {
        items_.push_back({{}, 0, sets_.generation(), std::move(f->foresight), f->corrections});
      }
    }
    return !items_.empty();
  }

  Explored explore(Item& item, const schedule::Program& program, schedule::InlineExecutor& executor,
                   Walk& walk, Record* record) {
    Explored out;
    walk.set_foresight(item.foresight.get(), record);
    walk.start(item.graph, executor.execution());
    if (record != nullptr) record->start(executor.machine(), run_.policy);
    executor.set_arbiter(&walk);
    executor.set_listener(record != nullptr ? &walk : nullptr);
    const auto leave = [&] {
      executor.set_listener(nullptr);
      executor.set_arbiter(nullptr);
    };
    try {
      out.outcome = executor.run(item.foresight != nullptr ? loose_ : run_, walk);
      walk.finish(out.outcome.end == schedule::RunEnd::finding);
    } catch (...) {
      leave();
      throw;
    }
    leave();
    const auto end = out.outcome.end;
    if (item.again && walk.abandoned()) out.differs = true;
    if (record == nullptr || walk.abandoned() ||
        (end != schedule::RunEnd::complete && end != schedule::RunEnd::deadlock)) {
      return out;
    }
    if (item.foresight == nullptr) {
      out.may_buffer = may_buffer(*record);
      return out;
    }
    out.straight = spec_.straight && spec_.straight(program);
    const Record::Resolved resolved = record->resolve(*item.foresight);
    if (item.again && (!walk.as_given() || resolved == Record::Resolved::no)) {
      out.differs = true;
    } else if (resolved == Record::Resolved::yes) {
      out.judged = judge(*record, executor.machine(), out.straight);
    } else if (resolved == Record::Resolved::otherwise) {
      out.corrections = corrections(*record);
    }
    return out;
  }

  // With the lock.
  void take(Item& item, Explored explored, const schedule::Program& program,
            schedule::InlineExecutor& executor, Walk& walk, const Record& record) {
    if (item.generation != sets_.generation()) return restart();
    schedule::Outcome& outcome = explored.outcome;
    if (outcome.end == schedule::RunEnd::stopped && !walk.abandoned()) {  // interrupted
      items_.push_back(std::move(item));
      stop_ = true;
      return;
    }
    std::vector<Item> next;
    if (item.again) walk.found().clear();
    const double share = share_out(item, walk.found(), next);
    walk.found().clear();
    if (explored.may_buffer && !buffered_) {
      buffered_ = true;
      next.push_back({{}, 0, item.generation, std::make_shared<const Foresight>(), 0});
    }
    if (item.foresight != nullptr) follow(item, explored, walk, next);
    // Foresights have no share: nobody knows how many there will be.
    result_.explored = std::min(result_.explored + share, kAlmostAll);
    std::move(next.begin(), next.end(), std::back_inserter(items_));
    if (walk.abandoned()) {
      ++result_.abandoned;
    } else if (item.foresight != nullptr) {
      count_judged(explored, program, executor, record);
    } else {
      count(std::move(outcome), program, executor, walk);
    }
    const std::uint64_t runs =
        result_.complete + result_.blocked + result_.abandoned + result_.ruled_out;
    if (schedule::must_stop() || (spec_.seconds > 0 && seconds() >= spec_.seconds) ||
        (spec_.executions > 0 && runs >= spec_.executions && !items_.empty())) {
      stop_ = true;
    }
    if (progress_ && Clock::now() - told_ >= kProgressEvery) {
      told_ = Clock::now();
      result_.seconds = before_ + seconds();
      result_.waiting = items_.size() + active_;
      progress_(result_);
    }
  }

  // What follows from a run, each with its share of the run's; returns the run's own. Were what one
  // event can do the same whatever the others do, a run with c other ways at a point would be one
  // of 1 + c times as many, and behind each of those ways as many would follow as behind the run's.
  static double share_out(const Item& item, std::vector<Walk::Found>& found,
                          std::vector<Item>& next) {
    double share = item.share;
    for (auto first = found.begin(); first != found.end();) {
      const auto end = std::find_if(
          first, found.end(), [&](const Walk::Found& f) { return f.behind != first->behind; });
      share /= static_cast<double>(end - first + 1);
      for (; first != end; ++first) {
        next.push_back(
            {std::move(first->graph), share, item.generation, item.foresight, item.corrections});
      }
    }
    return share;
  }

  // What follows from a run out of order, besides its graphs.
  void follow(const Item& item, Explored& explored, const Walk& walk, std::vector<Item>& next) {
    const Foresights::Next mine{item.foresight, item.corrections};
    for (const Foreseen& f : explored.judged.later) foresights_.propose(mine, f);
    if (explored.differs) foresights_.propose_values(mine);
    if (explored.corrections.empty()) return;
    if (item.corrections >= Foresights::kCorrections) {
      explored.judged.unclear = true;
      return;
    }
    const Foresights::Next right{
        std::make_shared<const Foresight>(corrected(*item.foresight, explored.corrections)),
        item.corrections + 1};
    next.push_back({walk.graph(), 0, item.generation, right.foresight, right.corrections, true});
    if (!explored.straight) foresights_.propose_values(right);
  }

  // A run out of order: what the axioms leave of it.
  void count_judged(const Explored& explored, const schedule::Program& program,
                    schedule::InlineExecutor& executor, const Record& record) {
    const schedule::Outcome& outcome = explored.outcome;
    if (outcome.end == schedule::RunEnd::step_limit) ++result_.bounded;
    if (explored.judged.unclear) ++result_.unjudged;
    if (explored.judged.executions.empty() && explored.corrections.empty()) ++result_.ruled_out;
    for (const Judgement& j : explored.judged.executions) {
      // One execution may come of several foresights.
      if (!executions_.insert(j.fingerprint).second) continue;
      ++result_.out_of_order;
      ++(outcome.end == schedule::RunEnd::deadlock ? result_.blocked : result_.complete);
      if (visit_) visit_({program, executor.machine(), outcome, &record, &j});
    }
  }

  void count(schedule::Outcome outcome, const schedule::Program& program,
             schedule::InlineExecutor& executor, Walk& walk) {
    result_.events = std::max<std::uint64_t>(result_.events, walk.events());
    result_.sum_orders = std::max(result_.sum_orders, walk.sum_orders());
    const bool failure = schedule::failure(outcome).has_value();
    if (outcome.end == schedule::RunEnd::deadlock) ++result_.blocked;
    if (outcome.end == schedule::RunEnd::complete) {
      ++result_.complete;
      if (spec_.fingerprints && !seen_.insert(walk.fingerprint()).second) ++result_.repeated;
    }
    if (outcome.end == schedule::RunEnd::step_limit) ++result_.bounded;
    if (visit_ && (outcome.end == schedule::RunEnd::complete || spec_.all)) {
      visit_({program, executor.machine(), outcome, nullptr, nullptr, &walk.ends()});
    }
    if (!failure) return;
    // By the policy this is no execution. What it leads to is known where its threads came to
    // their ends or wait for ever, and not where one was stopped.
    if (outcome.findings.front().torn) {
      if (outcome.end == schedule::RunEnd::deadlock) return;
      ++result_.bounded;
      ++result_.torn;
      return;
    }
    ++result_.findings;
    if (spec_.all || failed_) return;
    // A run that takes reductions for sets leaves out what one of them saw of another: what it
    // finds has to be there without the rule.
    schedule::RunSpec again = schedule::replay_spec(run_, outcome.decisions);
    again.history = spec_.run.history;
    const auto first = schedule::failure(outcome);
    schedule::Outcome replayed = executor.run(again);
    if (replayed.end == schedule::RunEnd::stopped) {
      forget();  // nothing is known of the finding, and it must not be missed by a search that goes
                 // on
      stop_ = true;
      return;
    }
    const auto second = schedule::failure(replayed);
    if (!second || second->kind != first->kind) {
      sets_.turn_all_off();
      if (!spec_.sets || turned_off_)
        throw std::logic_error("check: a finding that is not replayed");
      turned_off_ = true;
      return restart();
    }
    failed_ = stop_ = true;
    result_.outcome = std::move(replayed);
  }

  // Cells turned out to be no sets: what was explored with them as sets does not count.
  void restart() {
    if (started_ == sets_.generation()) return;
    started_ = sets_.generation();
    forget();
  }

  void forget() {
    items_.clear();
    items_.push_back({{}, 1, started_, nullptr, 0});
    seen_.clear();
    buffered_ = false;
    foresights_.clear();
    executions_.clear();
    result_ = CheckResult{};
  }

  const Factory& make_;
  const CheckSpec& spec_;
  const Visit& visit_;
  const Progress& progress_;
  const Clock::time_point begin_ = Clock::now();
  schedule::RunSpec run_;
  schedule::RunSpec loose_;  // for runs out of order
  Agents agents_;
  Sets sets_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
  unsigned active_ = 0;
  std::uint32_t started_ = 0;
  bool stop_ = false;
  bool failed_ = false;
  bool turned_off_ = false;
  double before_ = 0;  // seconds of the searches that this one goes on with
  std::exception_ptr error_;
  Clock::time_point told_ = begin_;
  std::unordered_set<std::uint64_t> seen_;
  bool buffering_ = false;
  bool buffered_ = false;  // the search out of order was begun
  Foresights foresights_;
  std::unordered_set<std::uint64_t> executions_;  // those out of order, by fingerprint
  CheckResult result_;
};

}  // namespace

bool Execution::race() const {
  return judgement != nullptr ? judgement->race : machine.ignored_races() > 0;
}

namespace {

// The bytes of an open end, where they lie in a location, take each of its values.
std::vector<std::uint64_t> with_end(const OpenEnd& end, machine::Address at, std::uint32_t bytes,
                                    const std::vector<std::uint64_t>& values) {
  const CellKey& cell = end.cell;
  if (cell.region != at.region || cell.offset >= at.offset + bytes ||
      at.offset >= cell.offset + cell.size) {
    return values;
  }
  std::vector<std::uint64_t> out;
  for (std::uint64_t value : values) {
    for (const std::uint64_t last : end.values) {
      for (std::uint32_t b = 0; b < bytes; ++b) {
        const std::uint64_t place = at.offset + b;
        if (place < cell.offset || place >= cell.offset + cell.size) continue;
        const std::uint64_t byte = last >> (8 * (place - cell.offset)) & 0xFF;
        value = (value & ~(std::uint64_t{0xFF} << (8 * b))) | byte << (8 * b);
      }
      if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
    }
  }
  return out;
}

}  // namespace

std::vector<std::uint64_t> Execution::final_values(machine::Address at, std::uint32_t bytes) const {
  std::vector<std::uint64_t> values;
  const auto of_machine = [&] {
    machine.final_values(at, bytes, [&](std::uint64_t v) { values.push_back(v); });
    for (std::size_t i = 0; ends != nullptr && i < ends->size(); ++i) {
      values = with_end((*ends)[i], at, bytes, values);
    }
    return values;
  };
  if (judgement == nullptr) return of_machine();
  const auto& locations = record->locations();
  const auto found = std::find(locations.begin(), locations.end(),
                               CellKey{at.region, at.offset, static_cast<std::uint8_t>(bytes)});
  if (found == locations.end()) return of_machine();
  for (const std::uint32_t w :
       judgement->final_writes[static_cast<std::size_t>(found - locations.begin())]) {
    const Node& write = record->nodes()[w];
    if (write.kind == Node::Kind::initial) return of_machine();  // nobody wrote there
    values.push_back(write.value);
  }
  return values;
}

CheckResult check(const Factory& make, const CheckSpec& spec, unsigned jobs, const Visit& visit,
                  const Progress& progress) {
  return Search(make, spec, visit, progress).run(std::max(jobs, 1u));
}

CheckResult check_sums(const Factory& make, const CheckSpec& spec, unsigned jobs,
                       const Progress& progress) {
  CheckResult all = check(make, spec, jobs, {}, progress);
  const std::uint32_t orders = all.sum_orders;
  for (std::uint32_t i = 1; i < orders && all.verdict == Verdict::pass; ++i) {
    CheckSpec next = spec;
    next.left = nullptr;
    next.sum_order = (spec.sum_order + i) % orders;
    const std::uint64_t done = all.complete + all.blocked + all.abandoned;
    const bool over = (spec.executions > 0 && done >= spec.executions) ||
                      (spec.seconds > 0 && all.seconds >= spec.seconds);
    if (over || schedule::must_stop()) {
      all.verdict = Verdict::unknown;
      all.explored = static_cast<double>(i) / orders;
      break;
    }
    if (spec.executions > 0) next.executions = spec.executions - done;
    if (spec.seconds > 0) next.seconds = spec.seconds - all.seconds;
    CheckResult r = check(make, next, jobs, {}, progress);
    all.verdict = r.verdict;
    all.complete += r.complete;
    all.blocked += r.blocked;
    all.bounded += r.bounded;
    all.abandoned += r.abandoned;
    all.findings += r.findings;
    all.events = std::max(all.events, r.events);
    all.seconds += r.seconds;
    all.ordered_cells = std::max(all.ordered_cells, r.ordered_cells);
    all.left_out.insert(all.left_out.end(), r.left_out.begin(), r.left_out.end());
    all.explored = (i + r.explored) / orders;
    all.interrupted = r.interrupted;
    all.outcome = std::move(r.outcome);
  }
  return all;
}

bool stream_stands_for_coherent(const schedule::RunSpec& run, const schedule::Program& program) {
  const machine::Policy& p = run.policy;
  return !schedule::passes_over_races(run) && !program.passes_over_races() &&
         p.fresh_lines == machine::FreshLines::off && p.vector == machine::VectorAccess::elements &&
         p.line == machine::LineAccess::lanes;
}

std::optional<CheckResult> check_by_stream(const Factory& make, const CheckSpec& spec,
                                           unsigned jobs, const Progress& progress) {
  if (spec.run.policy.boundary != machine::Boundary::coherent || spec.all || spec.fingerprints ||
      spec.left != nullptr || schedule::must_stop() ||
      !stream_stands_for_coherent(spec.run, *make())) {
    return std::nullopt;
  }
  CheckSpec stream = spec;
  stream.run.policy.boundary = machine::Boundary::stream;
  stream.executions =
      spec.executions > 0 ? std::min(spec.executions, kMostByStream) : kMostByStream;
  stream.seconds = spec.seconds / 2;
  CheckResult r = check_sums(make, stream, jobs, progress);
  if (r.verdict != Verdict::pass) return std::nullopt;
  r.of_stream = true;
  return r;
}

}  // namespace ringfence::check
