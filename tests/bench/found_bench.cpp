// Schedules until a known fault is found, by pct of depth 3 and by the portfolio: the wrong
// variants of tests/programs/variants.json and the faults of tests/zoo, in each mode in which they
// are wrong. Medians over seeds; what the default schedule finds in both is only counted.
//
//   bench_found [--seeds N] [--most N]   (default: 20, 2000)
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "emulator/cases/case_program.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/programs/config.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/search.hpp"

namespace {

using namespace ringfence;
using Kind = schedule::StrategySpec::Kind;

std::uint64_t seeds = 20, most = 2000;
int counted = 0, at_once = 0, slower = 0;

std::uint64_t median(schedule::Executor& executor, machine::Boundary mode, Kind kind) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    schedule::SearchSpec spec;
    spec.run.policy.boundary = mode;
    spec.run.strategy.kind = kind;
    spec.run.strategy.seed = schedule::schedule_seed(97, seed);
    spec.run.point_limit = 1u << 16;
    spec.schedules = most;
    const schedule::SearchResult r = schedule::search({&executor}, spec);
    if (r.found && r.schedules == 1) return 1;  // so it is from each seed
    all.push_back(r.found ? r.schedules : most + 1);
  }
  std::sort(all.begin(), all.end());
  return (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
}

void compare(schedule::Program& program, machine::Boundary mode, const std::string& name) {
  schedule::InlineExecutor executor(program);
  const std::uint64_t pct = median(executor, mode, Kind::pct);
  ++counted;
  if (pct == 1) {
    ++at_once;
    return;
  }
  const std::uint64_t portfolio = median(executor, mode, Kind::portfolio);
  slower += portfolio > 2 * pct;
  fmt::print("{:<70} {:<9} {:>8} {:>8} {:>6.2f}\n", name, machine::name(mode), pct, portfolio,
             static_cast<double>(portfolio) / static_cast<double>(pct));
  std::fflush(stdout);
}

void variants() {
  std::ifstream file("tests/programs/variants.json");
  for (const nlohmann::json& protocol : nlohmann::json::parse(file)) {
    for (const nlohmann::json& variant : protocol["variants"]) {
      programs::Config c;
      c.protocol = protocol["protocol"];
      c.ranks = protocol["ranks"];
      c.tokens = protocol["tokens"];
      c.hidden = protocol["hidden"];
      c.inner = protocol["inner"];
      c.blocks = protocol["blocks"];
      c.calls = protocol["calls"];
      std::string name = c.protocol;
      for (const std::string s : variant["set"]) {
        const std::size_t equals = s.find('=');
        c.set.emplace(s.substr(0, equals), s.substr(equals + 1));
        name += " " + s;
      }
      const auto program = programs::make_program(c);
      for (const auto mode :
           {machine::Boundary::strict, machine::Boundary::stream, machine::Boundary::coherent}) {
        if (variant[std::string(machine::name(mode))] != "clean") compare(*program, mode, name);
      }
    }
  }
}

void zoo() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/zoo")) {
    const std::string path = entry.path().string();
    if (path.ends_with("-fault.toml")) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    cases::CaseProgram program(cases::read_case(path), {});
    for (const machine::Boundary mode : program.file().check.modes) compare(program, mode, path);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--seeds") seeds = std::strtoull(argv[i + 1], nullptr, 10);
    if (word == "--most") most = std::strtoull(argv[i + 1], nullptr, 10);
  }
  fmt::print("Schedules until a fault is found: medians of {} seeds, at most {} each\n\n", seeds,
             most);
  fmt::print("{:<70} {:<9} {:>8} {:>8} {:>6}\n", "fault", "mode", "pct", "portfolio", "ratio");
  variants();
  zoo();
  fmt::print(
      "\n{} faults in a mode, {} of them by the default schedule; more than twice as many: {}\n",
      counted, at_once, slower);
}
