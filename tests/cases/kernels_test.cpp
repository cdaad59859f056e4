// ringfence's own CUDA kernels, as compiled: results, agreement with the program in C++, and that
// the recorded PTX is that of the sources here.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "emulator/programs/config.hpp"
#include "emulator/schedule/label.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

std::string case_of(const char* transport, int ranks) {
  return "tests/cases/files/tokenweave-" + std::string(transport) + "-" + std::to_string(ranks) +
         ".toml";
}

// The kernels of more than two peers, and those of peers that are near, are made by the build.
bool here(const std::string& transport, int ranks) {
  if (transport == "near") return ranks <= 4 && made("tokenweave-near");
  return transport != "peer" || ranks == 2 || made("tokenweave-more");
}

// The updates of each slot of the pads in a default run: slot -> who did what, in order. A failed
// compare-and-swap is none.
std::map<std::string, std::vector<std::string>> pad_updates(schedule::Program& program,
                                                            const char* pad) {
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  spec.history = true;
  const schedule::Outcome outcome = executor->run(spec);
  REQUIRE(outcome.end == schedule::RunEnd::complete);
  std::map<std::string, std::vector<std::string>> out;
  for (const machine::Event& e : outcome.history) {
    if (e.kind != machine::Event::Kind::rmw) continue;
    const std::string region = program.region_name(e.address.region);
    if (region.rfind(pad, 0) != 0) continue;
    out[region + " " + std::to_string(e.address.offset)].push_back(
        schedule::text(schedule::unpack(e.label)) + " " + std::to_string(e.old_value) + "->" +
        std::to_string(e.value) + " " + std::string(machine::name(e.order)));
  }
  return out;
}

}  // namespace

namespace {

// The case of the peer kernel on 2 ranks with a gamma of fp32 beside bf16 data, for `kernel`.
std::string with_fp32_gamma(const std::string& kernel) {
  std::ifstream in(case_of("peer", 2));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto put = [&](const std::string& old, const std::string& fresh) {
    const auto at = text.find(old);
    REQUIRE(at != std::string::npos);
    text.replace(at, old.size(), fresh);
  };
  put("tokenweave_peerILi2ELi1E", kernel);
  put("bytes = 512\ninit = { bf16 = \"integers\" }",
      "bytes = 1024\ninit = { f32 = \"normal\", same = true }");
  // The residual whole: residual_sharded, the last number before the spin control, is 0.
  put("bytes = 1024\ninit = { bf16 = \"integers\" }",
      "bytes = 2048\ninit = { bf16 = \"normal\", same = true }");
  put("{s32 = 1}, {struct = [ {u64 = 0}, {u64 = 0}, {u64 = 0}",
      "{s32 = 0}, {struct = [ {u64 = 0}, {u64 = 0}, {u64 = 0}");
  text.erase(text.find("[check.reference]"));
  return text + R"case([check.let]
total = "sum('data')"
stream = "total + residual"
scaled = "stream * rms(stream, eps = 1e-6)"
[check.expected.data]
columns = 256
dtype = "bf16"
value = "scaled * gamma"
round = ["total", "stream", "scaled"]
)case";
}

}  // namespace

TEST_CASE("the kernel for a gamma in fp32 multiplies by it as it is, and the other one does not") {
  const auto found_of = [](const std::string& kernel) {
    cases::CaseProgram program(cases::parse_case(with_fp32_gamma(kernel), case_of("peer", 2)), {});
    return found(fuzz(program, Boundary::coherent, 20));
  };
  CHECK(found_of("tokenweave_peer_fp32ILi2ELi1E") == "clean");
  CHECK(found_of("tokenweave_peerILi2ELi1E") == "numeric-mismatch");
}

TEST_CASE("the CUDA kernels give the rounding-exact result on 2, 4 and 8 ranks") {
  for (const char* transport : {"peer", "near", "multimem"}) {
    for (const int ranks : {2, 4, 8}) {
      CAPTURE(transport);
      CAPTURE(ranks);
      if (!here(transport, ranks)) continue;
      const auto program = open(case_of(transport, ranks));
      const auto executor = ranks::make_inline(*program);
      schedule::RunSpec spec;
      spec.strategy.kind = schedule::StrategySpec::Kind::first;
      const schedule::Outcome outcome = executor->run(spec);
      CAPTURE(program->last_mismatch());
      CHECK(outcome.end == schedule::RunEnd::complete);
      CHECK(program->comparisons().size() == 2);
      for (const verify::Comparison& c : program->comparisons()) {
        CHECK(c.bit_exact);
        CHECK(c.passed());
      }
    }
  }
}

TEST_CASE("the CUDA kernels are clean in coherent mode, and rely on it") {
  for (const char* transport : {"peer", "near", "multimem"}) {
    if (!here(transport, 2)) continue;
    const auto program = open(case_of(transport, 2));
    CHECK(found(fuzz(*program, Boundary::coherent, 100)) == "clean");
    CHECK(found(fuzz(*program, Boundary::stream, 100)) == "data-race");
  }
}

TEST_CASE("the CUDA kernel and the program in C++ make the same updates of the pads") {
  for (const int ranks : {2, 4}) {
    programs::Config config;
    config.ranks = static_cast<std::uint32_t>(ranks);
    config.tokens = 2 * config.ranks;
    config.hidden = 256;
    config.inner = 64;
    config.blocks = 2;
    const auto model = programs::make_program(config);
    const auto expected = pad_updates(*model, "pad");
    CHECK(expected.size() == static_cast<std::size_t>(2 * ranks * ranks));
    for (const char* transport : {"peer", "multimem"}) {
      CAPTURE(transport);
      if (!here(transport, ranks)) continue;
      const auto kernel = open(case_of(transport, ranks));
      CHECK(pad_updates(*kernel, "pad") == expected);
    }
    // The comparison tells orders apart.
    config.set["start.put"] = "release";
    const auto other = programs::make_program(config);
    CHECK(pad_updates(*other, "pad") != expected);
  }
}

TEST_CASE("the PTX of the CUDA kernels kept here was made of the sources here") {
  check_recorded_sources("traces/ptx/tokenweave.ptx");
}

TEST_CASE("the PTX that the build makes of the CUDA kernels is that of the sources here") {
  for (const char* name : {"tokenweave-more", "tokenweave-near", "pypto"}) {
    if (!made(name)) continue;
    CAPTURE(name);
    check_recorded_sources(made_path(name));
  }
}
