#include "emulator/check/explorer.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
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

// A graph to explore, with its share of the whole search.
struct Item {
  Graph graph;
  double share = 1;
  std::uint32_t generation = 0;  // of the sets
};

class Search {
 public:
  Search(const Factory& make, const CheckSpec& spec, const Visit& visit, const Progress& progress)
      : make_(make), spec_(spec), visit_(visit), progress_(progress), sets_(spec.sets) {
    run_ = spec.run;
    run_.strategy.kind = schedule::StrategySpec::Kind::first;
    run_.weak_points = run_.weak_points || spec.weak_events;
    run_.free_running = false;
    if (spec.left == nullptr) {
      items_.push_back({});
      return;
    }
    const Left& left = *spec.left;
    for (const std::uint64_t label : left.agents) agents_.index(label);
    for (const CellKey& c : left.ordered) sets_.turn_off(c);
    if (left.all_ordered) sets_.turn_all_off();
    started_ = sets_.generation();
    for (const Left::Item& i : left.items) items_.push_back({i.graph, i.share, started_});
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
    if (failed_) {
      result_.verdict = Verdict::fail;
    } else if (whole && result_.complete > 0) {
      result_.verdict = Verdict::pass;
    }
    if (items_.empty() && !stop_) result_.explored = 1;
    result_.ordered_cells = sets_.generation();
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
    left.agents = agents_.labels();
    for (Item& i : items_) left.items.push_back({i.share, std::move(i.graph)});
  }

  void work() {
    try {
      const std::unique_ptr<schedule::Program> program = make_();
      schedule::InlineExecutor executor(*program);
      Walk walk(agents_, sets_, spec_.weak_events, spec_.sum_order);
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [&] { return stop_ || !items_.empty() || active_ == 0; });
        if (stop_ || items_.empty()) break;
        Item item = std::move(items_.back());
        items_.pop_back();
        ++active_;
        lock.unlock();
        schedule::Outcome outcome = explore(item, executor, walk);
        lock.lock();
        --active_;
        take(item, std::move(outcome), *program, executor, walk);
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
    }
    changed_.notify_all();
  }

  schedule::Outcome explore(Item& item, schedule::InlineExecutor& executor, Walk& walk) {
    walk.start(item.graph, executor.execution());
    executor.set_arbiter(&walk);
    schedule::Outcome outcome;
    try {
      outcome = executor.run(run_, walk);
      walk.finish();
    } catch (...) {
      executor.set_arbiter(nullptr);
      throw;
    }
    executor.set_arbiter(nullptr);
    return outcome;
  }

  // With the lock.
  void take(Item& item, schedule::Outcome outcome, const schedule::Program& program,
            schedule::InlineExecutor& executor, Walk& walk) {
    if (item.generation != sets_.generation()) return restart();
    if (outcome.end == schedule::RunEnd::stopped && !walk.abandoned()) {  // interrupted
      items_.push_back(std::move(item));
      stop_ = true;
      return;
    }
    std::vector<Graph>& found = walk.found();
    const double share = item.share / static_cast<double>(found.size() + 1);
    result_.explored += share;
    for (Graph& g : found) items_.push_back({std::move(g), share, item.generation});
    found.clear();
    if (walk.abandoned()) {
      ++result_.abandoned;
    } else {
      count(std::move(outcome), program, executor, walk);
    }
    const std::uint64_t runs = result_.complete + result_.blocked + result_.abandoned;
    if (schedule::interrupted() || (spec_.seconds > 0 && seconds() >= spec_.seconds) ||
        (spec_.executions > 0 && runs >= spec_.executions && !items_.empty())) {
      stop_ = true;
    }
    if (progress_ && Clock::now() - told_ >= kProgressEvery) {
      told_ = Clock::now();
      result_.seconds = before_ + seconds();
      progress_(result_);
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
      visit_(program, executor.machine(), outcome);
    }
    if (!failure) return;
    ++result_.findings;
    if (spec_.all || failed_) return;
    // A run that takes reductions for sets leaves out what one of them saw of another: what it
    // finds has to be there without the rule.
    schedule::RunSpec again = schedule::replay_spec(run_, outcome.decisions);
    again.history = spec_.run.history;
    const auto first = schedule::failure(outcome);
    schedule::Outcome replayed = executor.run(again);
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
    items_.clear();
    items_.push_back({{}, 1, started_});
    seen_.clear();
    result_ = CheckResult{};
  }

  const Factory& make_;
  const CheckSpec& spec_;
  const Visit& visit_;
  const Progress& progress_;
  const Clock::time_point begin_ = Clock::now();
  schedule::RunSpec run_;
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
  CheckResult result_;
};

}  // namespace

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
    if (over || schedule::interrupted()) {
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
    all.explored = (i + r.explored) / orders;
    all.interrupted = r.interrupted;
    all.outcome = std::move(r.outcome);
  }
  return all;
}

}  // namespace ringfence::check
