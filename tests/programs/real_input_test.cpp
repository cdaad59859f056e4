// Inputs from files: the operator on tensors of a trained checkpoint where they are there.

#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>

#include "tests/programs/harness.hpp"
#include "verify/safetensors.hpp"

using namespace ringfence;
using namespace ringfence::programs;

namespace {

// A file of generated tensors; removed at the end.
class File {
 public:
  explicit File(bool with_beta) {
    verify::Problem p;
    p.ranks = 2;
    p.tokens = 6;
    p.inner = 8;
    p.hidden = 16;
    p.has_beta = with_beta;
    const verify::Inputs in = verify::generate(p, verify::Fill::normal, 3, 0);
    verify::Safetensors file;
    file.add("attn", in.x);
    file.add("weight", in.weight);
    file.add("residual", in.residual);
    file.add("gamma", in.gamma);
    if (with_beta) file.add("beta", in.beta);
    file.metadata["eps"] = "0.25";
    verify::write_safetensors(path, file);
  }
  ~File() { std::filesystem::remove(path); }
  const std::string path =
      (std::filesystem::temp_directory_path() / "ringfence-programs-test.safetensors").string();
};

Config from(const std::string& path, const std::string& protocol, std::uint32_t ranks) {
  Config c;
  c.protocol = protocol;
  c.ranks = ranks;
  c.blocks = 2;
  c.input = path;
  c.eps = -1;
  return c;
}

std::string first_run(const Config& c) {
  Bench bench(c);
  return verdict(bench.run(machine::Boundary::coherent, 1, schedule::StrategySpec::Kind::first));
}

}  // namespace

TEST_CASE("input: sizes, dtype and eps are the file's; later calls have shifted rows") {
  const File file(false);
  Config c = from(file.path, "tokenweave", 2);
  c.calls = 2;
  Bench bench(c);
  const Payload& payload = bench.op().payload();
  CHECK(payload.problem().hidden == 16);
  CHECK(payload.problem().tokens == 6);
  CHECK(payload.problem().eps == 0.25f);
  CHECK(payload.inputs(0, 1).x.pattern(0) == payload.inputs(0, 0).x.pattern(8));
  CHECK(verdict(bench.run(machine::Boundary::coherent, 1)) == "clean");
  c.eps = 1e-3;
  CHECK(Bench(c).op().payload().problem().eps == 1e-3f);
}

TEST_CASE("input: tokenweave refuses a beta with a reason; pypto takes it") {
  const File file(true);
  CHECK_THROWS_WITH_AS(validate(from(file.path, "tokenweave", 2)), doctest::Contains("beta"),
                       std::invalid_argument);
  CHECK(first_run(from(file.path, "pypto", 2)) == "clean");
}

TEST_CASE("input: five layers of a trained checkpoint, on 2, 4 and 8 ranks, both protocols") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/inputs")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    for (const std::uint32_t ranks : {2u, 4u, 8u}) {
      for (const char* protocol : {"tokenweave", "pypto"}) {
        CAPTURE(entry.path().string());
        CAPTURE(ranks);
        CAPTURE(protocol);
        CHECK(first_run(from(entry.path().string(), protocol, ranks)) == "clean");
      }
    }
  }
  CHECK(files == 5);
}
