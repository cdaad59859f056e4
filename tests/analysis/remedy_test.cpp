#include "emulator/analysis/remedy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "emulator/analysis/instance.hpp"
#include "emulator/programs/protocol.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "tests/support/small_programs.hpp"

namespace ringfence::analysis {
namespace {

using machine::Boundary;

programs::Config small(const std::string& protocol, const std::map<std::string, std::string>& set) {
  programs::Config c;
  c.protocol = protocol;
  c.ranks = 2;
  c.blocks = 1;
  c.tokens = 2;
  c.hidden = 64;
  c.inner = 64;
  c.set = set;
  return c;
}

// What helps the first finding of a short search.
Remedies remedies_of(const programs::Config& config, Boundary mode) {
  schedule::SearchSpec search;
  search.run.policy.boundary = mode;
  const schedule::RunSpec base = search.run;
  const SubjectPtr subject = make_subject(config);
  const Instance instance = make_inline_instance(*subject);
  const auto result = schedule::search({instance.executor.get()}, search);
  REQUIRE(result.found);
  return find_remedies(*subject, base, result.outcome.decisions,
                       {.schedules = 100, .seconds = 60, .most = 3});
}

std::vector<std::string> texts(const Remedies& r) {
  std::vector<std::string> out;
  for (const Remedy& one : r.found) out.push_back(text(one));
  return out;
}

TEST_CASE("the fault that a switch puts in is mended by that switch, and by it first") {
  const struct {
    const char* protocol;
    std::map<std::string, std::string> set;
    Boundary mode;
    const char* mended;
  } faults[] = {
      {"tokenweave",
       {{"end.put", "relaxed"}},
       Boundary::coherent,
       "end.put=release (it is relaxed)"},
      {"tokenweave", {{"scope", "gpu"}}, Boundary::coherent, "scope=sys (it is gpu)"},
      {"tokenweave", {{"start", "none"}}, Boundary::coherent, "without start=none"},
      {"tokenweave", {{"slot", "wrong"}}, Boundary::coherent, "without slot=wrong"},
      {"pypto", {{"barrier_all", "none"}}, Boundary::strict, "without barrier_all=none"},
      {"pypto", {{"clear.data", "none"}}, Boundary::strict, "without clear.data=none"},
      {"pypto",
       {{"signal.order", "relaxed"}},
       Boundary::strict,
       "signal.order=release (it is relaxed)"},
  };
  for (const auto& fault : faults) {
    const Remedies r = remedies_of(small(fault.protocol, fault.set), fault.mode);
    CAPTURE(std::string(fault.mended));
    REQUIRE_FALSE(r.found.empty());
    CHECK(text(r.found.front()) == fault.mended);
  }
}

TEST_CASE("two faults are mended together, and neither change can be left out") {
  const Remedies strict = remedies_of(small("tokenweave", {{"start.put", "release"},
                                                           {"start.wait", "acquire"},
                                                           {"end.put", "relaxed"},
                                                           {"end.wait", "relaxed"}}),
                                      Boundary::strict);
  CHECK(texts(strict) ==
        std::vector<std::string>{
            "end.put=release (it is relaxed) and end.wait=acquire (it is relaxed)"});
  const Remedies coherent = remedies_of(
      small("tokenweave", {{"scope", "gpu"}, {"end.put", "relaxed"}}), Boundary::coherent);
  REQUIRE(coherent.found.size() == 1);
  CHECK(coherent.found[0].changes.size() == 2);
}

// The least orders of a CAS barrier in each mode, as the design has them.
TEST_CASE("in stream the correct barrier lacks an acquire at its start, in strict a release too") {
  const Remedies stream = remedies_of(small("tokenweave", {}), Boundary::stream);
  CHECK(texts(stream) == std::vector<std::string>{"start.wait=acquire (it is relaxed)"});
  const Remedies strict = remedies_of(small("tokenweave", {}), Boundary::strict);
  CHECK(texts(strict) ==
        std::vector<std::string>{
            "start.put=release (it is relaxed) and start.wait=acquire (it is relaxed)"});
}

TEST_CASE("no switch mends a fault that none of them makes, and that is said") {
  // One rank's pads are dirty and its block counts differ: taking one fault away leaves the other,
  // and both together are a case of their own.
  const Remedies r =
      remedies_of(small("tokenweave", {{"grid", "1,2"}, {"pads", "dirty"}}), Boundary::coherent);
  REQUIRE(r.found.size() == 1);
  CHECK(r.found[0].changes.size() == 2);
  Remedies nothing;
  nothing.tried = 7;
  CHECK(text(nothing) ==
        "None of the 7 changes that were tried makes it pass (switches of the protocol)\n");
  CHECK(text(Remedies{}).empty());
}

// One switch: "fault" reads what nobody wrote, "none" writes for ever.
class Endless final : public RecordedAs<programs::Config> {
 public:
  explicit Endless(programs::Config config) : RecordedAs(std::move(config)) {}
  std::vector<machine::Boundary> claims() const override { return {Boundary::strict}; }
  std::unique_ptr<schedule::Program> make_program() const override {
    const bool fault = record().set.at("end") == "fault";
    return std::make_unique<testing::HostProgram>(
        std::uint16_t{1}, [fault](testing::HostProgram& p, schedule::Agent& host, std::uint16_t) {
          p.launch(host, 0, {[&](schedule::Agent& a) {
                     if (fault) a.fail(testing::finding_of(machine::FindingKind::rank_lost));
                     for (std::uint32_t n = 0;; ++n) {
                       testing::store32(a, p.slot(0, 0), n, machine::Order::relaxed);
                     }
                   }});
        });
  }
  std::vector<Step> stronger() const override { return {{"end", "fault", "none", ""}}; }
  SubjectPtr with(const Settings& set) const override {
    programs::Config c = record();
    c.set = set;
    return std::make_shared<Endless>(std::move(c));
  }
  SubjectPtr like(const trace::Configuration& c) const override {
    return std::make_shared<Endless>(*c.protocol());
  }
};

TEST_CASE("the time for remedies is over within a run as well, and that is told") {
  programs::Config config;
  config.ranks = 1;
  config.set = {{"end", "fault"}};
  const Endless subject(config);
  schedule::RunSpec base;
  base.point_limit = ~0U;  // the run without the fault ends by time alone
  std::vector<std::uint64_t> shown;
  Watch watch;
  watch.trying = [&](std::uint64_t number, double, double limit) {
    shown.push_back(number);
    CHECK(limit == 0.2);
  };
  bool over = false;
  watch.tried = [&] { over = true; };
  const auto begin = std::chrono::steady_clock::now();
  const Remedies r = find_remedies(subject, base, {}, {.seconds = 0.2}, {}, watch);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() >= 0.2);
  CHECK(took.count() < 5);  // of a busy machine
  CHECK_FALSE(schedule::time_is_over());
  CHECK(r.found.empty());
  CHECK(r.tried == 1);
  CHECK_FALSE(r.complete);
  CHECK(text(r).find("the 0.2 s were over, --remedies 2s gives more") != std::string::npos);
  CHECK(shown == std::vector<std::uint64_t>{1});
  CHECK(over);
}

TEST_CASE("where no change helps, what does is told") {
  Remedies r;
  r.tried = 2;
  r.kernel = true;
  r.instead = "the same grid on every rank";
  CHECK(
      text(r).ends_with("(orders, scopes, fences and barriers of the kernels)\n"
                        "  Suggested, not tried: the same grid on every rank\n"));
}

TEST_CASE("every step up is legal, and strictly above the value in force") {
  for (const char* protocol : {"tokenweave", "pypto"}) {
    std::map<std::string, std::string> set{{"scope", "cta"}};
    const auto steps = programs::strengthenings(protocol, set);
    REQUIRE_FALSE(steps.empty());
    CHECK(steps.front().key == "scope");
    for (const programs::Strengthening& s : steps) {
      CHECK(s.from != s.to);
      set = {{s.key, s.to}};
      CHECK_NOTHROW(programs::definition_of(protocol).switches().apply(protocol, set));
    }
  }
}

}  // namespace
}  // namespace ringfence::analysis
