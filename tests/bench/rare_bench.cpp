// Schedules until a rare fault is found (tests/rare): the median over seeds, of each strategy. A
// search is given up after --most schedules; a median beyond is printed as ">MOST".
//
//   bench_rare [--seeds N] [--first SEED] [--most N] [--only NAME] [STRATEGY...]
//   (default: 20, 1, 20000, all, pct and portfolio)
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "emulator/schedule/inline_executor.hpp"
#include "tests/rare/harness.hpp"

namespace {

using namespace ringfence;

struct Figures {
  std::vector<std::uint64_t> schedules;  // until found, or one more than the most
  std::map<std::string, int> by;         // who found it
  std::uint64_t ran = 0;
  double seconds = 0;
};

Figures measure(const testing::RareFault& fault, schedule::StrategySpec::Kind kind,
                std::uint64_t first, std::uint64_t seeds, std::uint64_t most) {
  const auto program = testing::make_rare(fault);
  schedule::InlineExecutor executor(*program);
  Figures out;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    // Seeds one after the other would share no schedule either; but let them differ in all bits.
    schedule::SearchSpec spec = testing::rare_search(schedule::schedule_seed(97, seed), most);
    spec.run.strategy.kind = kind;
    const schedule::SearchResult r = schedule::search({&executor}, spec);
    out.schedules.push_back(r.found ? r.schedules : most + 1);
    if (r.found) ++out.by[std::string(schedule::name(r.strategy.kind))];
    out.ran += r.schedules;
    out.seconds += r.seconds;
  }
  std::sort(out.schedules.begin(), out.schedules.end());
  return out;
}

std::string median_text(const Figures& f, std::uint64_t most) {
  const std::size_t n = f.schedules.size();
  const std::uint64_t median = (f.schedules[(n - 1) / 2] + f.schedules[n / 2]) / 2;
  return median > most ? fmt::format(">{}", most) : fmt::format("{}", median);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seeds = 20, first = 1, most = 20000;
  std::string only;
  std::vector<std::string> strategies;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--benchmark")) continue;  // ./dev bench gives all benchmarks the same
    if ((word == "--seeds" || word == "--first" || word == "--most") && i + 1 < argc) {
      (word == "--seeds"   ? seeds
       : word == "--first" ? first
                           : most) = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      strategies.push_back(word);
    }
  }
  if (strategies.empty()) strategies = {"pct", "portfolio"};
  fmt::print("Schedules until a rare fault is found: median of {} seeds, at most {} each\n\n{:<22}",
             seeds, most, "fault");
  for (const std::string& s : strategies) fmt::print(" {:>10} {:>9}", s, "1/s");
  fmt::print("  found by\n");
  for (const testing::RareFault& fault : testing::rare_faults()) {
    if (!only.empty() && fault.name != only) continue;
    fmt::print("{:<22}", fault.name);
    std::fflush(stdout);
    Figures last;
    for (const std::string& s : strategies) {
      last = measure(fault, schedule::parse_strategy(s), first, seeds, most);
      fmt::print(" {:>10} {:>9.0f}", median_text(last, most),
                 static_cast<double>(last.ran) / last.seconds);
      std::fflush(stdout);
    }
    for (const auto& [who, times] : last.by) fmt::print("  {} {}", who, times);
    fmt::print("\n");
  }
}
