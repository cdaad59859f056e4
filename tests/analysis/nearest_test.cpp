#include "emulator/analysis/nearest.hpp"

#include <doctest/doctest.h>

#include "emulator/analysis/instance.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "emulator/schedule/shrink.hpp"
#include "tests/support/small_programs.hpp"

namespace ringfence::analysis {
namespace {

// Rank 1 reads a word that rank 0 writes; a read of the new value is a finding.
class Sees final : public RecordedAs<programs::Config> {
 public:
  explicit Sees(programs::Config config) : RecordedAs(std::move(config)) {}
  std::vector<machine::Boundary> claims() const override { return {machine::Boundary::strict}; }
  std::unique_ptr<schedule::Program> make_program() const override {
    const bool always = record().set.contains("always");
    return std::make_unique<testing::HostProgram>(
        std::uint16_t{2},
        [always](testing::HostProgram& p, schedule::Agent& host, std::uint16_t rank) {
          p.launch(host, rank, {[&, rank](schedule::Agent& a) {
                     const machine::Address at = p.slot(0, 0);
                     if (rank == 0) {
                       testing::store32(a, at, 1, machine::Order::relaxed);
                     } else if (testing::load32(a, at, machine::Order::relaxed) == 1 || always) {
                       a.fail(testing::finding_of(machine::FindingKind::rank_lost));
                     }
                   }});
        });
  }
  SubjectPtr with(const Settings& set) const override {
    programs::Config c = record();
    c.set = set;
    return std::make_shared<Sees>(std::move(c));
  }
  SubjectPtr like(const trace::Configuration& c) const override {
    return std::make_shared<Sees>(*c.protocol());
  }
};

std::optional<schedule::Outcome> nearest(const Sees& subject) {
  schedule::SearchSpec search;
  search.run.policy.boundary = machine::Boundary::strict;
  const Instance instance = make_inline_instance(subject);
  const auto result = schedule::search({instance.executor.get()}, search);
  REQUIRE(result.found);
  trace::Trace failing;
  failing.header.policy = search.run.policy;
  failing.decisions = result.outcome.decisions;
  schedule::RunSpec again = schedule::replay_spec(search.run, failing.decisions);
  again.history = true;
  const schedule::Outcome run = instance.executor->run(again);
  REQUIRE(schedule::failure(run));
  return nearest_passing(subject, failing, run);
}

TEST_CASE("the nearest schedule that passes is one, and comes with its events") {
  programs::Config config;
  config.ranks = 2;
  const auto passing = nearest(Sees(config));
  REQUIRE(passing);
  CHECK_FALSE(schedule::failure(*passing));
  CHECK(passing->end == schedule::RunEnd::complete);
  CHECK_FALSE(passing->history.empty());
  CHECK_FALSE(schedule::time_is_over());
}

TEST_CASE("where none passes there is none") {
  programs::Config config;
  config.ranks = 2;
  config.set = {{"always", "yes"}};
  CHECK_FALSE(nearest(Sees(config)));
}

}  // namespace
}  // namespace ringfence::analysis
