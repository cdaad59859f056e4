#include "emulator/cli/reduce.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "emulator/cli/case_program.hpp"
#include "emulator/cli/instance.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "verify/error.hpp"

namespace ringfence::cli {

namespace {

using programs::Config;

// 1, half, one less, as far as they are smaller and at least `least`.
std::vector<std::uint32_t> smaller(std::uint32_t n, std::uint32_t least,
                                   std::uint32_t multiple = 1) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t v : {least, n / 2 / multiple * multiple, n > multiple ? n - multiple : n}) {
    if (v >= least && v < n && std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  }
  return out;
}

// The failing run of `config` that a short search finds, if there is one of this kind.
bool fails_alike(const Config& config, const schedule::RunSpec& base, machine::FindingKind kind,
                 const ReduceLimits& limits, double seconds, schedule::Outcome& outcome) {
  try {
    check_config(config);
    const Instance instance = make_inline_instance(config);
    schedule::SearchSpec spec;
    spec.run = base;
    spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
    spec.schedules = limits.schedules;
    spec.seconds = seconds;
    schedule::SearchResult r = schedule::search({instance.executor.get()}, spec);
    const auto f = r.found ? schedule::failure(r.outcome) : std::nullopt;
    if (!f || f->kind != kind) return false;
    outcome = std::move(r.outcome);
    return true;
  } catch (const std::invalid_argument&) {
    return false;  // not a legal configuration
  } catch (const verify::InputError&) {
    return false;
  }
}

}  // namespace

std::vector<Config> smaller_configs(const Config& config) {
  std::vector<Config> out;
  const auto add = [&](auto change) {
    Config c = config;
    change(c);
    out.push_back(std::move(c));
  };
  for (std::uint32_t n : smaller(config.calls, 1)) add([&](Config& c) { c.calls = n; });
  if (is_case(config)) return out;  // the file has the sizes, and its kernel's scalars go with them
  const bool generated = config.input.empty();
  for (std::uint32_t n : smaller(config.ranks, 2)) {
    if (generated && config.tokens % config.ranks == 0) {
      add([&](Config& c) {
        c.ranks = n;
        c.tokens = config.tokens / config.ranks * n;
      });
    }
    add([&](Config& c) { c.ranks = n; });
  }
  for (std::uint32_t n : smaller(config.blocks, 1)) add([&](Config& c) { c.blocks = n; });
  if (!generated) return out;  // the file has the sizes
  for (std::uint32_t n : smaller(config.tokens, config.ranks, config.ranks)) {
    add([&](Config& c) { c.tokens = n; });
  }
  for (std::uint32_t n : smaller(config.tokens, 1)) add([&](Config& c) { c.tokens = n; });
  for (std::uint32_t n : smaller(config.hidden, 8, 8)) add([&](Config& c) { c.hidden = n; });
  for (std::uint32_t n : smaller(config.inner, config.ranks, config.ranks)) {
    add([&](Config& c) { c.inner = n; });
  }
  return out;
}

Reduced reduce(const Config& config, const schedule::RunSpec& base,
               const schedule::Outcome& outcome, machine::FindingKind kind,
               const ReduceLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto left = [&] {
    return limits.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Reduced best{config, outcome, false};
  // Each success starts over from the greatest reductions of the smaller configuration.
  for (bool again = true; again;) {
    again = false;
    for (const Config& c : smaller_configs(best.config)) {
      if (left() <= 0 || schedule::must_stop()) return best;
      schedule::Outcome found;
      if (!fails_alike(c, base, kind, limits, left(), found)) continue;
      best = {c, std::move(found), true};
      again = true;
      break;
    }
  }
  return best;
}

}  // namespace ringfence::cli
