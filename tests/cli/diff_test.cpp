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

}  // namespace
}  // namespace ringfence::cli
