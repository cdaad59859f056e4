#include "emulator/timing/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "emulator/machine/names.hpp"
#include "emulator/programs/protocols/pypto.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "verify/problem.hpp"

namespace ringfence::timing {
namespace {

constexpr std::uint32_t kRunHidden = 8;
constexpr std::uint64_t kMostTileRows = 65536;   // of the switch
constexpr std::uint32_t kMostWaves = 15;         // of an agent's label
constexpr std::uint32_t kMostTokens = 1u << 20;  // of the run's memory

std::uint32_t round_up(std::uint32_t n, std::uint32_t unit) { return (n + unit - 1) / unit * unit; }

// Of the tokens: rows come in equal slices for the ranks, and in equal waves.
std::uint32_t unit_of(const Sizes& s) {
  return s.transport == Transport::put ? 1 : s.waves * s.ranks;
}

// Launches of the operator.
std::uint32_t launches_of(const Sizes& s) { return s.transport == Transport::put ? 1 : s.waves; }

std::uint32_t gpus_of(const Sizes& s) { return s.gpus == 0 ? s.ranks : s.gpus; }

std::string text_of(const schedule::Outcome& outcome, const schedule::Program& program) {
  if (outcome.findings.empty()) return "the run did not end";
  const machine::Finding& f = outcome.findings.front();
  const auto side = [&](const machine::AccessInfo& a) {
    return fmt::format("{} of {}", program.site_name(a.site),
                       schedule::text(schedule::unpack(a.label)));
  };
  std::string text(machine::name(f.kind));
  if (f.has_first) text += ": " + side(f.first);
  if (f.has_second) text += (f.has_first ? ", then " : ": ") + side(f.second);
  return text;
}

}  // namespace

const char* name(Transport t) {
  return t == Transport::multimem ? "multimem" : t == Transport::peer ? "peer" : "put";
}

void check(const Profile& p, const Sizes& s) {
  const std::uint32_t gpus = gpus_of(s);
  const auto refuse = [](const std::string& text) { throw std::invalid_argument(text); };
  if (s.ranks < 1 || s.ranks > static_cast<std::uint32_t>(verify::kMaxRanks)) {
    refuse(fmt::format("--ranks {}: expected 1 to {}", s.ranks, verify::kMaxRanks));
  }
  if (s.tokens < 1 || s.tokens > kMostTokens) {
    refuse(fmt::format("--tokens {}: expected 1 to {}", s.tokens, kMostTokens));
  }
  if (s.hidden < 8 || s.hidden % 8 != 0) {
    refuse(fmt::format("--hidden {}: expected a multiple of 8, such as {}", s.hidden,
                       round_up(std::max(s.hidden, 1u), 8)));
  }
  if (s.blocks < 1) refuse(fmt::format("--blocks {}: expected 1 or more", s.blocks));
  if (s.waves < 1 || s.waves > kMostWaves) {
    refuse(fmt::format("--waves {}: expected 1 to {}", s.waves, kMostWaves));
  }
  if (s.transport == Transport::put && s.set.contains("tile_rows") && s.waves > 1) {
    refuse(fmt::format("--waves {} --set tile_rows: expected one of them", s.waves));
  }
  if (gpus < 1 || gpus > s.ranks || s.ranks % gpus != 0) {
    refuse(fmt::format("--gpus {}: expected a divisor of --ranks {}", gpus, s.ranks));
  }
  const std::uint32_t together = s.ranks / gpus * s.blocks;
  if (together > p.multiprocessors) {
    refuse(fmt::format("--blocks {}: {} blocks on a GPU cannot all be resident; at most {} a rank",
                       s.blocks, together,
                       static_cast<std::uint32_t>(p.multiprocessors) / (s.ranks / gpus)));
  }
  if (s.transport == Transport::multimem && gpus != s.ranks) {
    refuse(fmt::format(
        "--transport multimem --gpus {}: expected a GPU for each of {} ranks; or --transport peer",
        gpus, s.ranks));
  }
  if (s.waves > 1 && s.inner == 0) {
    refuse(fmt::format("--waves {}: there is no product to overlap; expected --inner", s.waves));
  }
  for (const char* key : {"groups", "waves", "grid"}) {
    if (s.set.contains(key)) {
      refuse(fmt::format("--set {}: simulate sets it itself; expected --blocks or --waves", key));
    }
  }
  programs::validate(run_config(s));
}

programs::Config run_config(const Sizes& s) {
  programs::Config c;
  c.protocol = s.transport == Transport::put ? "pypto" : "tokenweave";
  c.ranks = s.ranks;
  c.tokens = round_up(s.tokens, unit_of(s)) / launches_of(s);
  c.hidden = kRunHidden;
  c.inner = s.ranks;
  c.blocks = s.blocks;
  c.set = s.set;
  if (s.transport == Transport::put) {
    const auto given = programs::parse_switches<programs::PyPtoSwitches>(c.protocol, s.set);
    if (!s.set.contains("tile_rows")) {
      // As few tiles as asked for and as the ring of data takes.
      const std::uint64_t fit = std::max<std::uint64_t>(given.data_limit / 2 / s.hidden, 1);
      const std::uint64_t rows = std::min<std::uint64_t>((s.tokens + s.waves - 1) / s.waves, fit);
      c.set["tile_rows"] = std::to_string(std::min<std::uint64_t>(rows, kMostTileRows));
    }
    // The rings wrap where they would with whole rows.
    c.set["data_limit"] = std::to_string(std::max<std::uint64_t>(
        given.data_limit * kRunHidden / s.hidden, std::uint64_t{2} * kRunHidden));
  } else if (s.waves > 1) {
    c.set["groups"] = std::to_string(s.waves);
    c.set["waves"] = "yes";
  }
  return c;
}

Timing simulate(const Profile& profile, const Sizes& s) {
  check(profile, s);
  const programs::Config config = run_config(s);
  const std::unique_ptr<programs::OperatorProgram> program =
      programs::prepare(config)->make_operator();

  Shape shape;
  shape.transport = s.transport;
  shape.kernel = s.kernel;
  shape.ranks = s.ranks;
  shape.gpus = gpus_of(s);
  shape.blocks = s.blocks;
  shape.tokens = config.tokens;
  shape.hidden = s.hidden;
  shape.inner = s.inner;
  shape.beside = launches_of(s) > 1;
  shape.run_hidden = kRunHidden;
  Clockwork clocks(profile, shape, *program);

  schedule::InlineExecutor executor(*program);
  clocks.bind(executor.machine());
  schedule::RunSpec spec;
  // Both protocols claim this mode.
  spec.policy.boundary = machine::Boundary::coherent;
  spec.point_limit = ~0u;
  executor.set_listener(&clocks);
  const schedule::Outcome outcome = executor.run(spec, clocks);

  Timing t;
  t.tokens = config.tokens * launches_of(s);
  t.steps = outcome.steps;
  t.clean = outcome.end == schedule::RunEnd::complete;
  if (!t.clean) {
    t.interrupted = outcome.end == schedule::RunEnd::stopped;
    if (!outcome.findings.empty()) t.finding = outcome.findings.front().kind;
    t.message = text_of(outcome, *program);
    return t;
  }
  // Agent r is the host of rank r.
  for (std::uint32_t r = 0; r < s.ranks; ++r) {
    if (clocks.account(r).at > t.account.at) t.account = clocks.account(r);
  }
  t.busy = clocks.busy(t.account.at);
  return t;
}

}  // namespace ringfence::timing
