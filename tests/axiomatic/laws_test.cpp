// Laws that hold of the model whatever its details, checked on generated programs. They share no
// code with the checker's axioms, so a mistake there must break one of them.
#include <doctest/doctest.h>

#include <algorithm>

#include "emulator/litmus/printer.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/axiomatic/interleaving.hpp"

namespace {

using namespace ringfence;
using Kind = axiomatic::Instruction::Kind;

constexpr std::uint64_t kSeeds = 600;

axiomatic::GeneratorOptions small() {
  axiomatic::GeneratorOptions options;
  options.awaits = false;
  options.max_events = 7;
  return options;
}

bool is_memory(const axiomatic::Instruction& i) {
  return i.kind == Kind::Load || i.kind == Kind::Store || i.kind == Kind::Rmw ||
         i.kind == Kind::Cas;
}

bool subset(const std::set<axiomatic::Outcome>& a, const std::set<axiomatic::Outcome>& b) {
  return std::includes(b.begin(), b.end(), a.begin(), a.end());
}

// All accesses at least relaxed, all scopes sys.
void strengthen(axiomatic::Program& program) {
  for (auto& thread : program.threads) {
    for (auto& i : thread.code) {
      if (is_memory(i) && i.order == axiomatic::Order::Weak) i.order = axiomatic::Order::Relaxed;
      i.scope = axiomatic::Scope::Sys;
    }
  }
}

// fence.sc.sys between any two accesses of a thread.
void fence_all(axiomatic::Program& program) {
  for (auto& thread : program.threads) {
    std::vector<axiomatic::Instruction> code;
    std::vector<int> moved;
    for (const auto& i : thread.code) {
      moved.push_back(static_cast<int>(code.size()));
      if (is_memory(i)) {
        axiomatic::Instruction fence;
        fence.kind = Kind::Fence;
        fence.order = axiomatic::Order::Sc;
        code.push_back(fence);
      }
      code.push_back(i);
    }
    moved.push_back(static_cast<int>(code.size()));
    for (auto& i : code) {
      if (i.kind == Kind::Jump) i.target = moved[static_cast<std::size_t>(i.target)];
    }
    thread.code = std::move(code);
  }
}

}  // namespace

TEST_CASE("every interleaving is an outcome of the model") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed, small());
    INFO(litmus::print(test));
    const auto program = axiomatic::convert(test);
    REQUIRE(subset(axiomatic::interleavings(program), axiomatic::check(program).outcomes));
  }
}

TEST_CASE("with strong accesses and fence.sc between all of them only interleavings are left") {
  auto options = small();
  options.max_events = 6;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed, options);
    INFO(litmus::print(test));
    auto program = axiomatic::convert(test);
    strengthen(program);
    fence_all(program);
    REQUIRE(axiomatic::check(program).outcomes == axiomatic::interleavings(program));
  }
}

TEST_CASE("stronger accesses and wider scopes never add an outcome") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed, small());
    INFO(litmus::print(test));
    auto program = axiomatic::convert(test);
    const auto weaker = axiomatic::check(program);
    strengthen(program);
    const auto stronger = axiomatic::check(program);
    REQUIRE(subset(stronger.outcomes, weaker.outcomes));
    REQUIRE_FALSE(stronger.race);
  }
}

TEST_CASE("fences never add an outcome") {
  auto options = small();
  options.max_events = 6;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed, options);
    INFO(litmus::print(test));
    auto program = axiomatic::convert(test);
    const auto weaker = axiomatic::check(program);
    fence_all(program);
    REQUIRE(subset(axiomatic::check(program).outcomes, weaker.outcomes));
  }
}

TEST_CASE("executing in order never adds an outcome") {
  axiomatic::Options in_order;
  in_order.load_buffering = false;
  std::uint64_t fewer = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed, small());
    INFO(litmus::print(test));
    const auto program = axiomatic::convert(test);
    const auto all = axiomatic::check(program).outcomes;
    const auto ordered = axiomatic::check(program, in_order).outcomes;
    REQUIRE(subset(ordered, all));
    REQUIRE(subset(axiomatic::interleavings(program), ordered));
    fewer += ordered.size() < all.size() ? 1 : 0;
  }
  CHECK(fewer > 0);
}

TEST_CASE("the order in which threads are listed does not matter") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed, small());
    INFO(litmus::print(test));
    const auto program = axiomatic::convert(test);
    auto rotated = program;
    std::rotate(rotated.threads.begin(), rotated.threads.begin() + 1, rotated.threads.end());
    const std::size_t first = program.threads.front().registers.size();
    std::size_t registers = 0;
    for (const auto& thread : program.threads) registers += thread.registers.size();
    std::set<axiomatic::Outcome> expected;
    for (axiomatic::Outcome outcome : axiomatic::check(program).outcomes) {
      std::rotate(outcome.begin(), outcome.begin() + static_cast<std::ptrdiff_t>(first),
                  outcome.begin() + static_cast<std::ptrdiff_t>(registers));
      expected.insert(outcome);
    }
    REQUIRE(axiomatic::check(rotated).outcomes == expected);
  }
}
