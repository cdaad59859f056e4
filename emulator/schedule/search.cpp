#include "emulator/schedule/search.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "emulator/schedule/distinct.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::schedule {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kProgressEvery = std::chrono::milliseconds(200);
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

class Search {
 public:
  Search(const SearchSpec& spec, const SearchProgress& progress)
      : spec_(spec),
        progress_(progress),
        begin_(Clock::now()),
        limit_(spec.schedules > 0 ? spec.schedules : kNone - 1),
        portfolio_(spec.run.strategy.kind == StrategySpec::Kind::portfolio),
        corpus_(spec.corpus) {}

  SearchResult run(const std::vector<Executor*>& workers) {
    run_default(workers);
    if (!result_.found && !stopped()) {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < workers.size(); ++i) {
        threads.emplace_back([this, e = workers[i]] { work(*e); });
      }
      work(*workers.front());
    }
    if (error_) std::rethrow_exception(error_);
    result_.interrupted = interrupted();
    result_.distinct = distinct_.size();
    if (portfolio_) result_.kept = corpus_.finish();
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  bool stopped() const {
    return must_stop() || failed_.load(std::memory_order_relaxed) ||
           (spec_.seconds > 0 && seconds() >= spec_.seconds);
  }

  void run_default(const std::vector<Executor*>& workers) {
    RunSpec run = spec_.run;
    run.strategy.kind = StrategySpec::Kind::first;
    run.take_profile = run.trail = true;
    Outcome outcome = run_to_its_end(*workers.front(), run);
    expected_points_ = outcome.points;
    profile_ = Profile(std::move(outcome.seen));
    if (portfolio_) corpus_.begin(outcome);
    run.take_profile = run.trail = false;
    take(std::move(outcome), run.strategy, 0);
    for (std::size_t i = 1; i < workers.size() && !stopped(); ++i) workers[i]->run(run);
  }

  // Numbers are handed out in order and every one below a failing one is run, so the lowest
  // failing number does not depend on who was fast.
  void work(Executor& executor) {
    try {
      while (!stopped()) {
        const std::uint64_t n = next_.fetch_add(1, std::memory_order_relaxed);
        if (n >= limit_ || n > lowest_.load(std::memory_order_relaxed)) return;
        RunSpec run = spec_.run;
        run.strategy.seed = schedule_seed(spec_.run.strategy.seed, n);
        run.expected_points = expected_points_;
        run.profile = &profile_;
        run.trail = true;
        if (portfolio_) {
          corpus_.choose(n, run, [&] { return stopped() || n > lowest_.load(); });
          run.strategy = drawn(run.strategy);
        }
        Outcome outcome = run_to_its_end(executor, run);
        if (portfolio_) corpus_.ended(n, outcome);
        take(std::move(outcome), run.strategy, n);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  void take(Outcome outcome, const StrategySpec& strategy, std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    if (outcome.end == RunEnd::stopped) return;
    ++result_.schedules;
    result_.points += outcome.points;
    distinct_.add(outcome.fingerprint);
    if (undecided(outcome)) ++result_.undecided;
    const bool stuck = outcome.end == RunEnd::deadlock && outcome.faults.empty();
    if (stuck && !failure(outcome)) ++result_.stuck;
    if (!outcome.lost.empty()) {
      // It was so each time: the next schedule would fare no better.
      result_.lost = outcome.lost;
      failed_.store(true, std::memory_order_relaxed);
    }
    if (!outcome.faults.empty()) count_faults(outcome, n);
    if (failure(outcome) && n < lowest_.load(std::memory_order_relaxed)) {
      lowest_.store(n, std::memory_order_relaxed);
      result_.found = true;
      result_.number = n;
      result_.outcome = std::move(outcome);
      result_.strategy = strategy;
    }
    if (progress_ && Clock::now() - told_ >= kProgressEvery) {
      told_ = Clock::now();
      progress_(result_.schedules, seconds());
    }
  }

  void count_faults(const Outcome& outcome, std::uint64_t n) {
    const bool stopped = stopped_by_fault(outcome);
    const bool failed = failure(outcome).has_value();
    const auto count = [&](FaultCount& c) {
      ++c.runs;
      c.stopped += stopped;
      c.failed += failed;
      c.right += !stopped && !failed && outcome.end == RunEnd::complete;
    };
    count(result_.faulted);
    std::array<bool, kFaultKinds> met{};
    for (const AppliedFault& f : outcome.faults) met[static_cast<std::size_t>(f.kind)] = true;
    for (std::size_t k = 0; k < met.size(); ++k) {
      if (met[k]) count(result_.faults[k]);
    }
    if (stopped && n < lowest_stopped_) {
      lowest_stopped_ = n;
      result_.stopped = outcome;
    }
  }

  const SearchSpec& spec_;
  const SearchProgress& progress_;
  const Clock::time_point begin_;
  const std::uint64_t limit_;
  std::uint32_t expected_points_ = 0;
  const bool portfolio_;
  Corpus corpus_;
  Profile profile_;
  Distinct distinct_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> lowest_{kNone};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::uint64_t lowest_stopped_ = kNone;
  Clock::time_point told_ = begin_;
  SearchResult result_;
};

}  // namespace

std::uint64_t schedule_seed(std::uint64_t first, std::uint64_t n) {
  if (n == 0) return first;
  // splitmix64 (Steele, Lea, Flood 2014), one step of the n-th position.
  std::uint64_t z = first + n * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

SearchResult search(const std::vector<Executor*>& workers, const SearchSpec& spec,
                    const SearchProgress& progress) {
  return Search(spec, progress).run(workers);
}

}  // namespace ringfence::schedule
