#include <doctest/doctest.h>

#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/verdict.hpp"

namespace {

using namespace ringfence::litmus;

Test sb(const std::string& condition) {
  return parse(
      "PTX SB\n{x=0; y=0;}\n P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;\n"
      " st.weak x, 1 | st.weak y, 1 ;\n ld.weak r0, y | ld.weak r0, x ;\n" +
          condition,
      "sb");
}

}  // namespace

TEST_CASE("the block of an exists test that is met reads as herd7's") {
  const States states = {{{0, 0}, 1}, {{0, 1}, 2}, {{1, 1}, 1}};
  CHECK(herd_block(sb("exists (P0:r0 == 0 /\\ P1:r0 == 0)"), states) ==
        "Test SB Allowed\n"
        "States 3\n"
        "P0:r0=0; P1:r0=0;\n"
        "P0:r0=0; P1:r0=1;\n"
        "P0:r0=1; P1:r0=1;\n"
        "Ok\n"
        "Witnesses\n"
        "Positive: 1 Negative: 3\n"
        "Condition exists (P0:r0 == 0 /\\ P1:r0 == 0)\n"
        "Observation SB Sometimes 1 3\n");
}

TEST_CASE("a ~exists that holds counts its executions as positive and observes Never") {
  CHECK(herd_block(sb("~exists (P0:r0 == 0 /\\ P1:r0 == 0)"), {{{0, 1}, 2}}) ==
        "Test SB Forbidden\nStates 1\nP0:r0=0; P1:r0=1;\nOk\nWitnesses\nPositive: 2 Negative: 0\n"
        "Condition ~exists (P0:r0 == 0 /\\ P1:r0 == 0)\nObservation SB Never 0 2\n");
}

TEST_CASE("quantifiers decide Ok, and no execution at all is never Ok") {
  const States both = {{{0, 0}, 1}, {{1, 1}, 1}};
  CHECK(judge(sb("exists (P0:r0 == 0 /\\ P1:r0 == 0)"), both).ok);
  CHECK_FALSE(judge(sb("~exists (P0:r0 == 0 /\\ P1:r0 == 0)"), both).ok);
  CHECK_FALSE(judge(sb("forall (P0:r0 == 0 /\\ P1:r0 == 0)"), both).ok);
  CHECK(judge(sb("forall (P0:r0 == P1:r0)"), both).ok);
  CHECK(judge(sb("forall (P0:r0 == P1:r0)"), both).observation == Observation::Always);
  for (const char* quantifier : {"exists", "~exists", "forall"}) {
    const Verdict none = judge(sb(std::string(quantifier) + " (P0:r0 == P1:r0)"), {});
    CHECK_FALSE(none.ok);
    CHECK(none.observation == Observation::Never);
  }
}

TEST_CASE("a witness or a counterexample decides, and forall does not hold where a test hangs") {
  const States met = {{{0, 0}, 1}}, other = {{{0, 1}, 1}};
  const std::string formula = " (P0:r0 == 0 /\\ P1:r0 == 0)";
  CHECK(judge(sb("exists" + formula), met).decided);
  CHECK_FALSE(judge(sb("exists" + formula), other).decided);
  CHECK(judge(sb("~exists" + formula), met).decided);
  CHECK_FALSE(judge(sb("~exists" + formula), other).decided);
  CHECK(judge(sb("forall" + formula), other).decided);
  CHECK_FALSE(judge(sb("forall" + formula), met).decided);
  const Verdict hang = judge(sb("forall" + formula), met, true);
  CHECK(hang.decided);
  CHECK_FALSE(hang.ok);
  CHECK(judge(sb("exists" + formula), met, true).ok);
  CHECK(judge(sb("~exists" + formula), other, true).ok);
  CHECK(herd_block(sb("forall" + formula), met, true).find("\nNo\n") != std::string::npos);
}

TEST_CASE("a filter removes executions from states and counts") {
  const Test test = sb("filter (P0:r0 == 1)\nexists (P1:r0 == 1)");
  const States states = {{{0, 0}, 5}, {{1, 1}, 3}};
  CHECK(judge(test, states).observation == Observation::Always);
  CHECK(judge(test, states).satisfying == 3);
  CHECK(herd_block(test, states).find("States 1\n") != std::string::npos);
}

TEST_CASE("observed variables are sorted, each once, locations before registers") {
  const auto variables =
      observed_variables(sb("locations [y; P0:r0]\nexists (P1:r0 == y /\\ P0:r0 < 2)"));
  CHECK(variables == std::vector<Variable>{{-1, 1, 0}, {0, 0, 0}, {1, 0, 0}});
}

TEST_CASE("expectation files are read line by line") {
  const auto lines = parse_expectations(
      "# a comment\nMP Never no-race\n\nSB+x.y boundary=stream multicast-flag=strict Sometimes\nZ "
      "Always # end",
      "e.txt");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].name == "MP");
  CHECK(lines[0].race == std::optional(false));
  CHECK(lines[1].settings.at("boundary") == "stream");
  CHECK(lines[1].observation == Observation::Sometimes);
  CHECK_FALSE(lines[1].race.has_value());
  CHECK(lines[2].line == 5);
}

TEST_CASE("expectation files with mistakes are refused with line and column") {
  const auto error = [](const char* text) -> std::string {
    try {
      parse_expectations(text, "e.txt");
    } catch (const ParseError& e) {
      return e.what();
    }
    return "none";
  };
  CHECK(error("MP").starts_with(
      "e.txt:1:3: Never, Sometimes or Always expected after the name and its settings"));
  CHECK(error("\nMP Perhaps").starts_with("e.txt:2:4: Never, Sometimes or Always"));
  CHECK(error("MP Never raec").starts_with("e.txt:1:10: race, no-race, hang"));
  CHECK(
      error("MP Never race x").starts_with("e.txt:1:15: race, no-race, hang, no-hang or the end"));
  CHECK(error("MP Never race no-race").starts_with("e.txt:1:15: `no-race` repeats"));
  CHECK(error("a/MP.litmus,2").starts_with("e.txt:1:13: 0 or 1 expected"));
  CHECK(error("MP Never\nMP a=b Never\nMP a=b Always")
            .starts_with("e.txt:3:1: second line for `MP`"));
}

TEST_CASE("an expectation may be of a path, of a hang, or an answer in the public form") {
  const auto lines = parse_expectations(
      "MP Never hang\nMP2 no-hang\nPTX/Manual/SB.litmus,0\n./a/SB.litmus Sometimes no-race hang\n"
      "MP boundary=stream race\n",
      "e.txt");
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].hang == std::optional(true));
  CHECK_FALSE(lines[1].observation.has_value());
  CHECK(lines[1].hang == std::optional(false));
  CHECK(lines[2].ok == std::optional(false));
  CHECK(lines[2].name == "PTX/Manual/SB.litmus");
  CHECK(lines[3].race == std::optional(false));
  CHECK(lines[4].race == std::optional(true));
  CHECK(lines[2].is_of("SB", "/suite/PTX/Manual/SB.litmus"));
  CHECK(lines[2].is_of("SB", "Manual/SB.litmus"));
  CHECK_FALSE(lines[2].is_of("SB", "/suite/PTX/Nvidia/SB.litmus"));
  CHECK_FALSE(lines[2].is_of("SB", "Manual/WSB.litmus"));
  CHECK(lines[3].is_of("other", "a/SB.litmus"));
  CHECK(lines[0].is_of("MP", "x.litmus"));
}
