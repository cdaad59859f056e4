// The set of rare faults is what it says: no schedule of its programs races, the default one is
// right, and what the search finds is the wrong outcome; with the mended twin it finds nothing.
#include <doctest/doctest.h>

#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "tests/rare/harness.hpp"

using namespace ringfence;
using namespace ringfence::testing;
using machine::FindingKind;

namespace {

// A kernel says that an outcome is wrong by a trap, which ends its rank.
bool is_wrong_outcome(const schedule::Outcome& o) {
  const auto f = schedule::failure(o);
  return f && (f->kind == FindingKind::numeric_mismatch || f->kind == FindingKind::rank_lost);
}

}  // namespace

TEST_CASE("the set has thirty faults, of protocols in C++ and of PTX, of two ranks and more") {
  const auto all = rare_faults();
  CHECK(all.size() >= 30);
  int more_ranks = 0, ptx = 0;
  for (const RareFault& f : all) {
    more_ranks += f.ranks > 2;
    ptx += f.name.ends_with(".toml");
  }
  CHECK(more_ranks >= 5);
  CHECK(ptx >= 10);
}

TEST_CASE("no program of rare faults races or hangs, and the default schedule of each is right") {
  for (const RareFault& f : rare_faults()) {
    CAPTURE(f.name);
    const auto program = make_rare(f);
    REQUIRE(program->ranks() == f.ranks);
    schedule::InlineExecutor executor(*program);
    schedule::RunSpec run = rare_search(1, 1).run;
    run.strategy.kind = schedule::StrategySpec::Kind::first;
    schedule::Outcome o = executor.run(run);
    CHECK(o.end == schedule::RunEnd::complete);
    CHECK(o.findings.empty());
    for (const auto kind :
         {schedule::StrategySpec::Kind::random, schedule::StrategySpec::Kind::pct,
          schedule::StrategySpec::Kind::pos, schedule::StrategySpec::Kind::surw}) {
      for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        run.strategy = {.kind = kind, .seed = seed};
        o = executor.run(run);
        const bool right = o.end == schedule::RunEnd::complete && o.findings.empty();
        CHECK((right || is_wrong_outcome(o)));
      }
    }
  }
}

TEST_CASE("the twin of a rare fault, whose ranks work one after the other, is clean") {
  for (const RareFault& f : rare_faults()) {
    CAPTURE(f.name);
    const auto program = make_rare(f, true);
    schedule::SearchSpec spec = rare_search(1, 300);
    spec.run.strategy.kind = schedule::StrategySpec::Kind::portfolio;
    schedule::InlineExecutor executor(*program);
    const schedule::SearchResult r = schedule::search({&executor}, spec);
    CHECK_FALSE(r.found);
    CHECK(r.undecided == 0);
  }
}

TEST_CASE("a portfolio's search is the same for any number of workers, its mutants included") {
  for (const char* name : {"turns", "lost-5"}) {
    CAPTURE(name);
    RareFault fault;
    for (const RareFault& f : rare_faults()) {
      if (f.name == name) fault = f;
    }
    const auto one = make_rare(fault), two = make_rare(fault), three = make_rare(fault);
    schedule::InlineExecutor a(*one), b(*two), c(*three);
    bool mutants = false;
    for (std::uint64_t seed = 1; seed <= 24 && !(mutants && seed > 4); ++seed) {
      CAPTURE(seed);
      schedule::SearchSpec spec = rare_search(seed, 3000);
      spec.run.strategy.kind = schedule::StrategySpec::Kind::portfolio;
      const schedule::SearchResult alone = schedule::search({&a}, spec);
      const schedule::SearchResult together = schedule::search({&a, &b, &c}, spec);
      CHECK(alone.found == together.found);
      CHECK(alone.number == together.number);
      CHECK(alone.outcome.digest == together.outcome.digest);
      CHECK(alone.strategy.kind == together.strategy.kind);
      mutants |= alone.strategy.kind == schedule::StrategySpec::Kind::mutant;
      if (alone.found) continue;
      CHECK(alone.distinct == together.distinct);
      REQUIRE(alone.kept.size() == together.kept.size());
      CHECK(alone.kept.size() > 3);
      for (std::size_t i = 0; i < alone.kept.size(); ++i) {
        CHECK(alone.kept[i].number == together.kept[i].number);
        CHECK(alone.kept[i].decisions == together.kept[i].decisions);
      }
    }
    CHECK((mutants || std::string(name) != "turns"));
  }
}

TEST_CASE("a portfolio begins with the corpus that it is given, and keeps nothing of it again") {
  const auto program = make_rare(rare_faults().front());
  schedule::InlineExecutor executor(*program);
  schedule::SearchSpec spec = rare_search(1, 400);
  spec.run.strategy.kind = schedule::StrategySpec::Kind::portfolio;
  const schedule::SearchResult first = schedule::search({&executor}, spec);
  REQUIRE_FALSE(first.found);
  REQUIRE(first.kept.size() > 3);
  for (const schedule::KeptSchedule& k : first.kept) spec.corpus.push_back(k.decisions);
  const schedule::SearchResult second = schedule::search({&executor}, spec);
  // Another search would keep about as many; the same one keeps few.
  CHECK(second.kept.size() < first.kept.size());
  // A schedule of the corpus that fails is found first.
  schedule::SearchSpec until = rare_search(7, 20000);
  until.run.strategy.kind = schedule::StrategySpec::Kind::portfolio;
  const schedule::SearchResult found = schedule::search({&executor}, until);
  REQUIRE(found.found);
  spec.corpus = {found.outcome.decisions};
  const schedule::SearchResult again = schedule::search({&executor}, spec);
  REQUIRE(again.found);
  CHECK(again.number == 0);
  CHECK(again.outcome.digest == found.outcome.digest);
}
