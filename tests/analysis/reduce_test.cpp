#include "emulator/analysis/reduce.hpp"

#include <doctest/doctest.h>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/subject.hpp"
#include "emulator/schedule/failure.hpp"

namespace ringfence::analysis {
namespace {

TEST_CASE("configurations to try are smaller in one respect each, the greatest reductions first") {
  programs::Config c;
  c.ranks = 8;
  c.tokens = 64;
  c.calls = 5;
  const auto tries = smaller_configs(c);
  REQUIRE_FALSE(tries.empty());
  CHECK(tries.front().calls == 1);
  bool ranks = false, blocks = false, hidden = false;
  for (const programs::Config& t : tries) {
    const bool smaller = t.calls < c.calls || t.ranks < c.ranks || t.blocks < c.blocks ||
                         t.tokens < c.tokens || t.hidden < c.hidden || t.inner < c.inner;
    CHECK(smaller);
    CHECK(t.ranks >= 2);
    ranks |= t.ranks == 2 && t.tokens == 16;
    blocks |= t.blocks == 1;
    hidden |= t.hidden == 8;
  }
  CHECK(ranks);
  CHECK(blocks);
  CHECK(hidden);
}

TEST_CASE("a file's sizes are not reduced") {
  programs::Config c;
  c.input = "x.safetensors";
  for (const programs::Config& t : smaller_configs(c)) {
    CHECK(t.tokens == c.tokens);
    CHECK(t.hidden == c.hidden);
    CHECK(t.inner == c.inner);
  }
}

TEST_CASE("a deadlock of two slots reduces to two ranks of one block and one row each") {
  programs::Config c;
  c.ranks = 4;
  c.blocks = 2;
  c.calls = 2;
  c.set["slot"] = "wrong";
  const SubjectPtr subject = make_subject(c);
  const Instance instance = make_inline_instance(*subject);
  schedule::RunSpec base;
  schedule::RunSpec first = base;
  first.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome found = instance.executor->run(first);
  REQUIRE(schedule::failure(found));
  const Reduced r = reduce(subject, base, found, schedule::failure(found)->kind);
  CHECK(r.smaller);
  REQUIRE(r.subject->config().protocol() != nullptr);
  const programs::Config& smallest = *r.subject->config().protocol();
  CHECK(smallest.ranks == 2);
  CHECK(smallest.blocks == 1);
  CHECK(smallest.calls == 1);
  CHECK(smallest.tokens == 2);
  CHECK(smallest.hidden == 8);
  REQUIRE(schedule::failure(r.outcome));
  CHECK(schedule::failure(r.outcome)->kind == schedule::failure(found)->kind);
}

}  // namespace
}  // namespace ringfence::analysis
