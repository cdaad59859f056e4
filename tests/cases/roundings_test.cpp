// Rounding points that are named: each kernel is exact with its own, and a mismatch with another's.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/cases/harness.hpp"
#include "tests/support/says.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

constexpr int kRoundSum = 1, kRoundResidual = 2, kRoundScaled = 4, kEpsOutside = 8,
              kGammaIsFp32 = 16;

struct Norm {
  int flags = 0;
  std::string round;
  std::string payload = "normal";
  std::string gamma = "bf16";
  std::string reference;  // in place of [check.reference]
};

std::string text_of(const Norm& n) {
  const std::string reference = !n.reference.empty() ? n.reference
                                                     : fmt::format(R"([check.reference]
protocol = "tokenweave"
tensor = "data"
residual = "residual"
residual_out = "stream"
out = "out"
gamma = "gamma"
tokens = 5
hidden = 64
round = [{}])",
                                                                   n.round);
  return fmt::format(R"(version = 1
ranks = 4
[memory.data]
kind = "symmetric"
bytes = 640
init = {{ bf16 = "{}" }}
[memory.residual]
kind = "local"
bytes = 640
init = {{ bf16 = "{}", same = true, columns = 64 }}
[memory.gamma]
kind = "local"
bytes = {}
init = {{ {} = "normal", same = true }}
[memory.out]
kind = "local"
bytes = 640
[memory.stream]
kind = "local"
bytes = 640
[memory.pad]
kind = "symmetric"
bytes = 80
[[launch]]
ptx = "norms.ptx"
kernel = "fused_norm"
grid = [5]
block = [32]
args = [ {{peers = "data"}}, {{peers = "pad"}}, {{memory = "residual"}}, {{memory = "gamma"}}, {{memory = "out"}},
         {{memory = "stream"}}, "rank", "world", {{s32 = 64}}, {{f32 = 1e-6}}, {{s32 = {}}} ]
[check]
restored = ["pad"]
{}
)",
                     n.payload, n.payload, n.gamma == "f32" ? 256 : 128, n.gamma, n.flags,
                     reference);
}

// "clean", or what the finding says.
std::string run(const Norm& n) {
  cases::CaseProgram program(cases::parse_case(text_of(n), "tests/cases/files/norm.toml"), {});
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const auto f = schedule::failure(executor->run(spec));
  if (!f) return "clean";
  CHECK(f->kind == machine::FindingKind::numeric_mismatch);
  return program.last_mismatch();
}

}  // namespace

TEST_CASE("each choice of roundings is exact with its own names and a mismatch with all others") {
  struct Choice {
    int flags;
    const char* round;
  };
  // The result is rounded in any case: four roundings, as TokenWeave has them, three, two, three.
  const Choice all[] = {{kRoundSum | kRoundResidual | kRoundScaled, "'sum', 'residual', 'scaled'"},
                        {kRoundSum | kRoundResidual, "'sum', 'residual'"},
                        {kRoundResidual, "'residual'"},
                        {kRoundResidual | kRoundScaled, "'residual', 'scaled'"}};
  for (const Choice& kernel : all) {
    for (const Choice& named : all) {
      CAPTURE(kernel.round);
      CAPTURE(named.round);
      const std::string said = run({kernel.flags, named.round, "normal", "bf16", ""});
      if (kernel.flags == named.flags) {
        CHECK(said == "clean");
      } else {
        CHECK_MESSAGE(says(said, "elements mismatch, first ["), said);
      }
    }
  }
}

TEST_CASE("an eps outside the root is found in a row whose mean square is near eps") {
  const int flags = kRoundSum | kRoundResidual;
  Norm n{flags, "'sum', 'residual'", "adversarial", "bf16", ""};
  // gamma has to be of the same kind of init as the rest, unless the check is an expression.
  n.reference = R"-([check.let]
total = "sum(data)"
stream_value = "total + residual"
[check.expected.out]
columns = 64
value = "rmsnorm(stream_value, gamma, eps = 1e-6)"
round = ["total", "stream_value"])-";
  CHECK(run(n) == "clean");
  n.flags |= kEpsOutside;
  const std::string said = run(n);
  CHECK_MESSAGE(says(said, "out, call 0"), said);
  CHECK_MESSAGE(says(said, "first [0, "), said);  // the row of small numbers
  // With rows of normal size the two cannot be told from roundings.
  n.payload = "normal";
  CHECK(run(n) == "clean");
}

TEST_CASE("a gamma in fp32 is right where it is read so, and a mismatch where it is read as bf16") {
  Norm n{kRoundSum | kRoundResidual, "", "normal", "f32", ""};
  n.reference = R"-([check.let]
total = "sum(data)"
stream_value = "total + residual"
[check.expected.out]
columns = 64
dtype = "bf16"
value = "rmsnorm(stream_value, gamma, eps = 1e-6)"
round = ["total", "stream_value"])-";
  n.flags |= kGammaIsFp32;
  CHECK(run(n) == "clean");
  n.flags &= ~kGammaIsFp32;
  CHECK(says(run(n), "out, call 0"));
  // The operator's reference has one dtype.
  try {
    run({kRoundSum | kRoundResidual, "'sum'", "normal", "f32", ""});
    FAIL("accepted");
  } catch (const cases::CaseError& e) {
    CHECK_MESSAGE(says(e.what(), "dtype bf16, but the init of 'gamma' has f32"), e.what());
  }
}
