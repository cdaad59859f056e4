#include <doctest/doctest.h>

#include "tests/cli/command.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {
namespace {

TEST_CASE(
    "results of two protocols agree with the reference and each other, a changed one does not") {
  const Folder f;
  verify::Problem p;
  p.tokens = 16;
  p.inner = 64;
  p.hidden = 64;
  const verify::Inputs in = verify::generate(p, verify::Fill::normal, 3, 0);
  verify::Safetensors file;
  file.add("x", in.x);
  file.add("weight", in.weight);
  file.add("residual", in.residual);
  file.add("gamma", in.gamma);
  verify::write_safetensors(f / "in.safetensors", file);
  CHECK(ringfence(f, "run --input in.safetensors --output a.safetensors").status == 0);
  CHECK(ringfence(f, "run --input in.safetensors --protocol pypto --output b.safetensors").status ==
        0);

  const Result same =
      ringfence(f, "diff a.safetensors b.safetensors --reference in.safetensors --json d.json");
  CHECK_MESSAGE(same.status == 0, same.out, same.err);
  CHECK(json_of(f / "d.json")["verdict"] == "pass");
  CHECK(json_of(f / "d.json")["tensors"].size() == 6);

  verify::Safetensors b = verify::read_safetensors(f / "b.safetensors");
  b.tensors[0].second.bits()[100] ^= 0x0100;
  verify::write_safetensors(f / "b.safetensors", b);
  const Result other =
      ringfence(f, "diff a.safetensors b.safetensors --reference in.safetensors --junit d.xml");
  CHECK(other.status == 1);
  CHECK(other.out.find("MISMATCH") != std::string::npos);
  CHECK(other.out.find("[1, 36]") != std::string::npos);
  CHECK(content(f / "d.xml").find("failures=\"2\"") != std::string::npos);
}

TEST_CASE(
    "diff takes the reference's tensors by the names that --map gives, and lists unused ones") {
  const Folder f;
  verify::Problem p;
  p.tokens = 8;
  p.inner = 64;
  p.hidden = 64;
  const verify::Inputs in = verify::generate(p, verify::Fill::normal, 3, 0);
  verify::Safetensors file;
  file.add("x", in.x);
  file.add("weight", in.weight);
  file.add("residual", in.residual);
  file.add("model.norm.weight", in.gamma);
  verify::Tensor other = in.gamma;
  other.bits()[5] = 0x4000;  // 2
  file.add("other.weight", other);
  verify::write_safetensors(f / "in.safetensors", file);
  const std::string named = " --map gamma=model.norm.weight";
  REQUIRE(ringfence(f, "run --input in.safetensors --output a.safetensors" + named).status == 0);

  const std::string diff = "diff a.safetensors a.safetensors --reference in.safetensors";
  const Result bare = ringfence(f, diff);
  CHECK(bare.status == 2);
  CHECK(bare.err.find("no tensor 'gamma'") != std::string::npos);
  const Result same = ringfence(f, diff + named + " --json d.json");
  CHECK_MESSAGE(same.status == 0, same.out, same.err);
  CHECK(same.err.find("not used: 'other.weight'") != std::string::npos);
  CHECK(json_of(f / "d.json")["input_map"] == "gamma=model.norm.weight");
  // Another gamma is another operator: the column that differs is told.
  const Result wrong = ringfence(f, diff + " --map gamma=other.weight");
  CHECK(wrong.status == 1);
  CHECK_MESSAGE(wrong.out.find(", 5]") != std::string::npos, wrong.out);
  const Result unknown = ringfence(f, diff + " --map delta=other.weight");
  CHECK(unknown.status == 2);
  CHECK(lines(unknown.err) == 1);
}

}  // namespace
}  // namespace ringfence::cli
