// What a portfolio keeps, and what it makes changed schedules of.

#include <doctest/doctest.h>

#include <map>

#include "emulator/schedule/corpus.hpp"

using namespace ringfence;
using namespace ringfence::schedule;

namespace {

const auto kNever = [] { return false; };

// Told apart by the point of its one decision.
Outcome outcome(std::uint32_t point, std::vector<std::uint64_t> reads,
                std::uint16_t write_site = 1) {
  Outcome out;
  out.decisions = {{.agent = 1, .point = point}};
  out.reads = std::move(reads);
  machine::Trail::Pair pair;
  pair.write_site = write_site;
  pair.times = 1;
  out.pairs = {pair};
  return out;
}

// Numbers first to last - 1, each with what `of` says.
template <class F>
void run(Corpus& corpus, std::uint64_t first, std::uint64_t last, F of) {
  for (std::uint64_t n = first; n < last; ++n) {
    RunSpec spec;
    corpus.choose(n, spec, kNever);
    corpus.ended(n, of(n));
  }
}

// How often a schedule is made of each kept one, by the point of its decision.
std::map<std::uint32_t, int> chosen(Corpus& corpus, std::uint64_t n) {
  std::map<std::uint32_t, int> out;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    RunSpec spec;
    spec.strategy.seed = seed;
    corpus.choose(n, spec, kNever);
    if (spec.strategy.kind == StrategySpec::Kind::mutant) ++out[spec.decisions.at(0).point];
  }
  return out;
}

}  // namespace

TEST_CASE(
    "news: a read that returned another write is kept to be changed, but not for the folder") {
  const std::vector<Decisions> none;
  Corpus corpus(none);
  corpus.begin(outcome(0, {10}));
  run(corpus, 0, 128, [](std::uint64_t n) {
    return n == 7 ? outcome(7, {10, 11}) : outcome(100, {10});
  });
  const auto of = chosen(corpus, 128);
  REQUIRE(of.size() == 1);  // what showed nothing new is not kept
  CHECK(of.begin()->first == 7);
  CHECK(of.begin()->second > 800);  // a quarter of 4,000
  CHECK(of.begin()->second < 1200);
  CHECK(corpus.finish().empty());
}

TEST_CASE("news: a new pair of lines is kept for the folder as well") {
  const std::vector<Decisions> none;
  Corpus corpus(none);
  corpus.begin(outcome(0, {10}));
  run(corpus, 0, 128,
      [](std::uint64_t n) { return n == 7 ? outcome(7, {10}, 2) : outcome(100, {10}); });
  const auto kept = corpus.finish();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].number == 7);
}

TEST_CASE("news: half of the changed schedules are made of those that showed what is rarest") {
  const std::vector<Decisions> none;
  Corpus corpus(none);
  corpus.begin(outcome(0, {10}));
  // 40 kinds of runs, each with a read of its own; all come again and again, but for eight.
  run(corpus, 0, 640, [](std::uint64_t n) {
    const auto kind = static_cast<std::uint32_t>(n % 40);
    const bool rare = kind < 8;
    if (rare && n >= 40) return outcome(100, {10});
    return outcome(kind, {10, 1000 + kind});
  });
  const auto of = chosen(corpus, 640);
  int rare = 0, all = 0;
  for (const auto& [kind, times] : of) {
    all += times;
    if (kind < 8) rare += times;
  }
  CHECK(of.size() == 40);
  // Half of them, and of the others that the order gives to the first eight of 40: 1 of 25.
  CHECK(rare > all * 45 / 100);
  CHECK(rare < all * 60 / 100);
}

TEST_CASE("news: what a number is made of does not depend on the order in which a block ended") {
  const std::vector<Decisions> none;
  const auto of = [](std::uint64_t n) {
    return outcome(static_cast<std::uint32_t>(n), {10, 20 + n * n % 97});
  };
  Corpus forwards(none), backwards(none);
  forwards.begin(outcome(0, {10}));
  backwards.begin(outcome(0, {10}));
  run(forwards, 0, 256, of);
  for (std::uint64_t block = 0; block < 4; ++block) {
    for (std::uint64_t i = 64; i-- > 0;) backwards.ended(64 * block + i, of(64 * block + i));
  }
  CHECK(chosen(forwards, 256) == chosen(backwards, 256));
  CHECK(chosen(forwards, 256).size() > 8);
}
