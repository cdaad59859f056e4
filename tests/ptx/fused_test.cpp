// The fused kernel against section 1 of the design, written out directly: bit for bit, over the
// number of ranks, the policies of the in-switch sum, and schedules.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "emulator/ptx/alu/approx.hpp"
#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

float widen(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

// Nearest even, by comparing the two neighbours: not the executor's bit trick.
std::uint16_t round_bf16(double x) {
  const float f = static_cast<float>(x);
  std::uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const auto low = static_cast<std::uint16_t>(bits >> 16);
  const double below = std::fabs(x - widen(low));
  const double above = std::fabs(widen(static_cast<std::uint16_t>(low + 1)) - x);
  if (below < above || (below == above && low % 2 == 0)) return low;
  return static_cast<std::uint16_t>(low + 1);
}

struct Case {
  std::uint32_t ranks;
  std::uint32_t tokens;
  std::uint32_t hidden;
  std::uint32_t blocks;
  SumPolicy policy;
  std::uint64_t seed;
};

struct Outcome {
  std::vector<std::vector<std::uint16_t>> data;      // by rank
  std::vector<std::vector<std::uint16_t>> residual;  // by rank, own rows
  std::vector<std::vector<std::uint16_t>> start;     // partials as they were
  std::vector<std::vector<std::uint16_t>> start_residual;
  std::vector<std::uint16_t> gamma;
  std::vector<std::uint32_t> pads;
  std::uint32_t threads = 0;
};

constexpr float kEps = 1e-6F;

Outcome execute(const Case& c) {
  static const Module module = load("fused");
  static const Program program = decode(module, module.kernel("fused_rs_ln_ag"));
  FlatMemory memory(c.ranks, c.policy, c.seed);
  VirtualClock clock;
  Outcome out;
  out.threads = std::min(1024U, (c.hidden / 8 + 31) / 32 * 32);
  const std::size_t elements = static_cast<std::size_t>(c.tokens) * c.hidden;
  const std::size_t own = elements / c.ranks;
  const FlatMemory::Symmetric data = memory.symmetric("data", elements * 2);
  const FlatMemory::Symmetric pad = memory.symmetric("pad", c.blocks * c.ranks * 4);
  std::uint64_t state = c.seed * 77 + 5;
  const auto draw = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return round_bf16(static_cast<double>(static_cast<std::int64_t>(state)) * 0x1p-62);
  };
  out.gamma.resize(c.hidden);
  for (std::uint16_t& g : out.gamma) g = draw();
  std::vector<Execution> launches;
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    std::vector<std::uint16_t> partial(elements);
    for (std::uint16_t& x : partial) x = draw();
    std::memcpy(memory.at(data.unicast[r], elements * 2), partial.data(), elements * 2);
    out.start.push_back(std::move(partial));
    std::vector<std::uint16_t> residual(own);
    for (std::uint16_t& x : residual) x = draw();
    const std::uint64_t residual_at = memory.allocate("residual", r, own * 2);
    std::memcpy(memory.at(residual_at, own * 2), residual.data(), own * 2);
    out.start_residual.push_back(std::move(residual));
    const std::uint64_t gamma_at = memory.allocate("gamma", r, c.hidden * 2);
    std::memcpy(memory.at(gamma_at, c.hidden * 2), out.gamma.data(), c.hidden * 2);
    const std::uint64_t table = memory.allocate("pads", r, c.ranks * 8);
    std::memcpy(memory.at(table, c.ranks * 8), pad.unicast.data(), c.ranks * 8);
    Parameters parameters;
    parameters.add(data.multicast).add(residual_at).add(gamma_at).add(table);
    parameters.add(r).add(c.ranks).add(c.tokens).add(c.hidden).add(kEps);
    LaunchConfig config = launch(c.blocks, out.threads, parameters);
    config.rank = r;
    config.instruction_budget = 20'000'000;
    launches.emplace_back(program, config, memory, clock);
    out.residual.emplace_back();
    out.residual.back().resize(own);
    out.data.emplace_back();
    // Addresses to read back from when all is done.
    out.pads.push_back(static_cast<std::uint32_t>(residual_at >> 21));
  }
  FairChooser fair;
  SeededChooser seeded(c.seed);
  run_to_end(launches, clock, c.seed % 2 == 0 ? static_cast<Chooser&>(fair) : seeded);
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    const std::uint64_t residual_at = static_cast<std::uint64_t>(out.pads[r]) << 21;
    std::memcpy(out.residual[r].data(), memory.at(residual_at, own * 2), own * 2);
    out.data[r].resize(elements);
    std::memcpy(out.data[r].data(), memory.at(data.unicast[r], elements * 2), elements * 2);
  }
  out.pads.clear();
  for (std::uint32_t r = 0; r < c.ranks; ++r) {
    const std::uint32_t* pads = view<std::uint32_t>(memory, pad.unicast[r], c.blocks * c.ranks);
    out.pads.insert(out.pads.end(), pads, pads + c.blocks * c.ranks);
  }
  return out;
}

// The in-switch sum of one element where the policy fixes it.
std::uint16_t sum_of(const Case& c, const Outcome& o, std::size_t index) {
  if (c.policy == SumPolicy::exact) {
    // bf16 values of this test's range add up exactly in double.
    double sum = 0;
    for (std::uint32_t r = 0; r < c.ranks; ++r) sum += widen(o.start[r][index]);
    return round_bf16(sum);
  }
  if (c.policy == SumPolicy::element_steps) {
    std::uint16_t sum = o.start[0][index];
    for (std::uint32_t r = 1; r < c.ranks; ++r) {
      sum = round_bf16(static_cast<double>(widen(sum)) + widen(o.start[r][index]));
    }
    return sum;
  }
  float sum = widen(o.start[0][index]);
  for (std::uint32_t r = 1; r < c.ranks; ++r) sum += widen(o.start[r][index]);
  if (c.policy == SumPolicy::truncated) {
    std::uint32_t bits;
    std::memcpy(&bits, &sum, 4);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  return round_bf16(sum);
}

void check_against_formula(const Case& c) {
  CAPTURE(c.ranks);
  CAPTURE(c.tokens);
  CAPTURE(c.hidden);
  CAPTURE(c.blocks);
  CAPTURE(std::string(name_of(c.policy)));
  CAPTURE(c.seed);
  const Outcome o = execute(c);
  const std::uint32_t slice = c.tokens / c.ranks;
  std::size_t wrong_residual = 0;
  std::size_t wrong_out = 0;
  for (std::uint32_t token = 0; token < c.tokens; ++token) {
    const std::uint32_t owner = token / slice;
    std::vector<std::uint16_t> z(c.hidden);
    for (std::uint32_t h = 0; h < c.hidden; ++h) {
      const std::uint16_t v = sum_of(c, o, static_cast<std::size_t>(token) * c.hidden + h);
      const std::size_t at = static_cast<std::size_t>(token % slice) * c.hidden + h;
      z[h] = round_bf16(static_cast<double>(widen(v)) + widen(o.start_residual[owner][at]));
      wrong_residual += z[h] != o.residual[owner][at];
    }
    // Thread t sums vectors t, t + threads, ...; pairs as x*x + y*y with one rounding of x*x +
    // (yy).
    std::vector<float> lanes(o.threads, 0.0F);
    for (std::uint32_t vector = 0; vector < c.hidden / 8; ++vector) {
      float& sum = lanes[vector % o.threads];
      for (std::uint32_t i = 0; i < 8; i += 2) {
        const float x = widen(z[vector * 8 + i]);
        const float y = widen(z[vector * 8 + i + 1]);
        sum = sum + std::fma(x, x, y * y);
      }
    }
    const auto butterfly = [](std::vector<float> v) {
      for (std::size_t step = 16; step > 0; step /= 2) {
        std::vector<float> next(32);
        for (std::size_t i = 0; i < 32; ++i) next[i] = v[i] + v[i ^ step];
        v = next;
      }
      return v[0];
    };
    std::vector<float> warps(32, 0.0F);
    for (std::size_t w = 0; w < o.threads / 32; ++w) {
      warps[w] = butterfly({lanes.begin() + static_cast<std::ptrdiff_t>(32 * w),
                            lanes.begin() + static_cast<std::ptrdiff_t>(32 * w + 32)});
    }
    const float s = rsqrt_approx(butterfly(warps) / static_cast<float>(c.hidden) + kEps);
    for (std::uint32_t h = 0; h < c.hidden; ++h) {
      const std::uint16_t n = round_bf16(widen(z[h]) * s);
      const std::uint16_t y = round_bf16(static_cast<double>(widen(n)) * widen(o.gamma[h]));
      for (std::uint32_t r = 0; r < c.ranks; ++r) {
        wrong_out += o.data[r][static_cast<std::size_t>(token) * c.hidden + h] != y;
      }
    }
  }
  CHECK(wrong_residual == 0);
  CHECK(wrong_out == 0);
  CHECK(std::all_of(o.pads.begin(), o.pads.end(), [](std::uint32_t pad) { return pad == 0; }));
}

}  // namespace

TEST_CASE("the fused kernel equals the formula bit for bit on 2, 4 and 8 ranks") {
  check_against_formula({2, 4, 256, 2, SumPolicy::rank_order, 1});
  check_against_formula({4, 16, 1024, 3, SumPolicy::rank_order, 2});
  check_against_formula({8, 16, 512, 2, SumPolicy::rank_order, 3});
}

TEST_CASE("the fused kernel equals the formula where threads move several vectors") {
  check_against_formula({2, 4, 9216, 2, SumPolicy::rank_order, 4});
}

TEST_CASE("the fused kernel equals the formula under each fixed policy of the sum") {
  for (const SumPolicy policy :
       {SumPolicy::exact, SumPolicy::element_steps, SumPolicy::truncated}) {
    check_against_formula({4, 8, 512, 2, policy, 5});
    check_against_formula({8, 8, 256, 1, policy, 6});
  }
}

TEST_CASE("schedules do not change the fused kernel's result") {
  const Outcome first = execute({4, 8, 256, 2, SumPolicy::rank_order, 10});
  for (std::uint64_t seed = 11; seed < 31; ++seed) {
    Case c{4, 8, 256, 2, SumPolicy::rank_order, seed};
    check_against_formula(c);
  }
  CHECK(first.threads == 32);
}

}  // namespace ringfence::ptx::test
