// Generated kernels, a few of the campaign's: check, fuzz and the axioms agree on them.

#include <doctest/doctest.h>

#include "tests/oracle/axioms.hpp"
#include "tests/oracle/compare.hpp"
#include "tests/oracle/generate.hpp"
#include "tests/oracle/print.hpp"
#include "tests/oracle/waits.hpp"

using namespace ringfence;
using oracle::Kernel;

namespace {

constexpr std::uint64_t kKernels = 200;
// With bulk copies one takes many times as long: ./dev campaign has more of them.
constexpr std::uint64_t kWithCopies = 70;
constexpr std::uint64_t kPaired = 130;
constexpr std::uint64_t kWaits = 150;

struct Counts {
  int pass = 0, fail = 0;
};

// Both verdicts are worth something: a test asks for some of each.
Counts compare(const oracle::GeneratorOptions& options, std::uint64_t schedules,
               std::uint64_t kernels) {
  oracle::Limits limits;
  limits.schedules = schedules;
  limits.seconds = 30;  // most take milliseconds: a machine that is busy decides nothing
  Counts n;
  int undecided = 0;
  for (std::uint64_t seed = 1; seed <= kernels; ++seed) {
    const Kernel kernel = oracle::generate(seed, options);
    const oracle::Judged j = oracle::judge(kernel, limits);
    CHECK_MESSAGE(j.difference.empty(), seed, ": ", j.difference, oracle::to_ptx(kernel));
    ++(!j.whole && !j.undefined ? undecided : j.verdict == oracle::Verdict::pass ? n.pass : n.fail);
  }
  CHECK(undecided * 50 <= static_cast<int>(kernels));
  return n;
}

// Check and the axioms, on most of them.
void agree(const oracle::GeneratorOptions& options, std::uint64_t kernels) {
  std::uint64_t judged = 0;
  for (std::uint64_t seed = 1; seed <= kernels; ++seed) {
    const Kernel kernel = oracle::generate(seed, options);
    try {
      const std::string difference = oracle::difference_from_axioms(kernel, {});
      CHECK_MESSAGE(difference.empty(), seed, ": ", difference, oracle::to_ptx(kernel));
      ++judged;
    } catch (const oracle::Unsupported&) {
    }
  }
  CHECK(judged * 4 >= kernels * 3);
}

}  // namespace

TEST_CASE("fuzz refutes no PASS of check, and shows no outcome that check does not have") {
  const Counts n = compare({}, 100, kKernels);
  CHECK(n.pass >= 40);
  CHECK(n.fail >= 40);
}

TEST_CASE("nor where bulk copies complete at times of their own") {
  oracle::GeneratorOptions options;
  options.forms = options.loops = false;
  options.copies = true;
  const Counts n = compare(options, 60, kWithCopies);
  CHECK(n.pass >= 7);
  CHECK(n.fail >= 20);
}

TEST_CASE("threads that are lanes of one warp do in mode coherent what warps of their own do") {
  oracle::GeneratorOptions options;
  options.paired = true;
  options.loops = false;
  oracle::Limits limits;
  limits.boundary = machine::Boundary::coherent;
  limits.schedules = 40;
  limits.seconds = 0.5;  // one in 15 takes minutes, most milliseconds
  int whole = 0;
  for (std::uint64_t seed = 1; seed <= kPaired; ++seed) {
    const Kernel kernel = oracle::generate(seed, options);
    const oracle::Judged j = oracle::judge(kernel, limits);
    CHECK_MESSAGE(j.difference.empty(), seed, ": ", j.difference, oracle::to_ptx(kernel));
    if (j.whole) ++whole;
  }
  // Of the others check says that an order of the lanes is left out.
  CHECK(whole * 2 >= static_cast<int>(kPaired));
}

TEST_CASE("in mode coherent fuzz shows no outcome that check does not have") {
  oracle::Limits limits;
  limits.boundary = machine::Boundary::coherent;
  limits.schedules = 100;
  limits.seconds = 10;
  // The last one waits for an mbarrier's phase that is over already, or again two phases later.
  for (std::uint64_t seed = 90; seed <= 109; ++seed) {
    const Kernel kernel = oracle::generate(seed, {});
    const oracle::Judged j = oracle::judge(kernel, limits);
    CHECK_MESSAGE(j.difference.empty(), seed, ": ", j.difference, oracle::to_ptx(kernel));
  }
}

TEST_CASE("nor where threads wait again at places that are counted up, in mode coherent too") {
  for (const machine::Boundary mode : {machine::Boundary::strict, machine::Boundary::coherent}) {
    oracle::Limits limits;
    limits.boundary = mode;
    limits.schedules = 60;
    limits.seconds = 30;
    int pass = 0, fail = 0;
    for (std::uint64_t seed = 1; seed <= kWaits; ++seed) {
      const Kernel kernel = oracle::generate_waits(seed);
      const oracle::Judged j = oracle::judge(kernel, limits);
      CHECK_MESSAGE(j.difference.empty(), seed, ": ", j.difference, oracle::to_ptx(kernel));
      pass += j.verdict == oracle::Verdict::pass ? 1 : 0;
      fail += j.verdict == oracle::Verdict::fail ? 1 : 0;
    }
    CHECK(pass * 10 >= static_cast<int>(kWaits));
    CHECK(fail * 10 >= static_cast<int>(kWaits));
  }
}

TEST_CASE("without loops, check has the outcomes that the axioms admit") {
  oracle::GeneratorOptions options;
  options.loops = options.votes = false;
  agree(options, kKernels);
}

TEST_CASE("with bulk copies, check has the races and the outcomes that the axioms admit") {
  oracle::GeneratorOptions options;
  options.loops = options.votes = false;
  options.copies = true;
  agree(options, kWithCopies);
}

TEST_CASE("a wait that two phases end may come before the first of them, for check too") {
  // T1's wait for parity 1 is over while T0 has not arrived, and again behind the second phase.
  Kernel kernel;
  kernel.warps = 2;
  kernel.locations = {{}};
  kernel.mbarriers = {{.owner = 0, .count = 2}};
  kernel.threads.resize(2);
  const auto step = [](oracle::Step::Kind kind, std::uint32_t value, oracle::Order order) {
    oracle::Step s;
    s.kind = kind;
    s.value = value;
    s.order = order;
    s.scope = oracle::Scope::cta;
    return s;
  };
  using Kind = oracle::Step::Kind;
  using oracle::Order;
  const oracle::Step arrive = step(Kind::mbar_arrive, 0, Order::release);
  kernel.threads[0] = {step(Kind::store, 1, Order::relaxed), arrive,
                       step(Kind::mbar_wait, 0, Order::acquire), arrive, arrive};
  kernel.threads[1] = {arrive, step(Kind::mbar_wait, 1, Order::acquire),
                       step(Kind::load, 0, Order::relaxed)};
  CHECK(oracle::difference_from_axioms(kernel, {}).empty());
  const oracle::Judged j = oracle::judge(kernel, {}, true);
  CHECK(j.outcomes == oracle::Outcomes{{0, 1}, {1, 1}});
}

TEST_CASE(
    "a look in vain that writes over a write that it races with leaves the search undecided") {
  // T0 waits by atom.add of 0 for the 1 of T2. T1 stores there, too.
  Kernel kernel;
  kernel.warps = 3;
  kernel.locations = {{}};
  kernel.threads.resize(3);
  const auto step = [](oracle::Step::Kind kind, std::uint32_t value, oracle::Order order) {
    oracle::Step s;
    s.kind = kind;
    s.value = value;
    s.order = order;
    return s;
  };
  using oracle::Order;
  kernel.threads[0] = {step(oracle::Step::Kind::poll_add, 1, Order::relaxed)};
  kernel.threads[1] = {step(oracle::Step::Kind::store, 1, Order::weak)};
  kernel.threads[2] = {step(oracle::Step::Kind::store, 1, Order::relaxed)};
  oracle::Limits limits;
  limits.schedules = 100;
  const oracle::Judged over = oracle::judge(kernel, limits, true);
  CHECK_FALSE(over.whole);
  CHECK(over.left_out.find("look") != std::string::npos);
  // A strong write is in one order with the looks.
  kernel.threads[1][0].order = Order::relaxed;
  const oracle::Judged strong = oracle::judge(kernel, limits, true);
  CHECK(strong.whole);
  CHECK_MESSAGE(strong.left_out.empty(), strong.left_out);
  CHECK_MESSAGE(strong.difference.empty(), strong.difference);
  // So are looks that only read.
  kernel.threads[1][0].order = Order::weak;
  kernel.threads[0][0].kind = oracle::Step::Kind::poll;
  CHECK(oracle::judge(kernel, limits, true).whole);
}

TEST_CASE("a poll by an atomic that the value passes is a deadlock, also where another one polls") {
  // T0 stores 2, then 3; T1 waits by atom.cas for the 2, and T2 by atom.add of 0 for the 3.
  Kernel kernel;
  kernel.warps = 3;
  kernel.locations = {{}};
  kernel.threads.resize(3);
  const auto step = [](oracle::Step::Kind kind, std::uint32_t value) {
    oracle::Step s;
    s.kind = kind;
    s.value = value;
    return s;
  };
  kernel.threads[0] = {step(oracle::Step::Kind::store, 2), step(oracle::Step::Kind::store, 3)};
  kernel.threads[1] = {step(oracle::Step::Kind::poll_cas, 2)};
  kernel.threads[2] = {step(oracle::Step::Kind::poll_add, 3)};
  oracle::Limits limits;
  limits.schedules = 100;
  const oracle::Judged passed = oracle::judge(kernel, limits);
  CHECK(passed.verdict == oracle::Verdict::fail);
  CHECK(passed.finding == "deadlock");
  CHECK_MESSAGE(passed.difference.empty(), passed.difference);
  // Both wait for the last one.
  kernel.threads[1][0].value = 3;
  const oracle::Judged stays = oracle::judge(kernel, limits);
  CHECK(stays.verdict == oracle::Verdict::pass);
  CHECK_MESSAGE(stays.difference.empty(), stays.difference);
}
