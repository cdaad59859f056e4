// What a user sees of values: what is judged and what is not, figures, and files of results.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/command.hpp"
#include "tests/support/says.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {
namespace {

// A case of tests/cases/files/collectives.cu on two ranks: every rank copies rank 0's input (8), or
// sums (0).
void write_case(const Folder& f, int op, const std::string& check) {
  std::filesystem::copy_file("tests/cases/files/collectives.ptx", f / "collectives.ptx",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(f / "case.toml") << R"(version = 1
ranks = 2
[memory.data]
kind = "symmetric"
bytes = 128
init = { u32 = "integers" }
[memory.out]
kind = "local"
bytes = 128
[memory.pad]
kind = "symmetric"
bytes = 64
[memory.epoch]
kind = "local"
bytes = 4
[[launch]]
ptx = "collectives.ptx"
kernel = "of_u32"
grid = [1]
block = [32]
args = [ {peers = "data"}, {memory = "out"}, {peers = "pad"}, "rank", "world", {s32 = 32}, {s32 = )"
                                 << op << R"(}, {s32 = 0}, {memory = "epoch"} ]
)" << check;
}

TEST_CASE(
    "replicas that agree and are no sum pass only as long as no sum is expected, and say so") {
  const Folder f;
  write_case(f, 8, "[check]\nequal = ['out']\n");
  const std::string unjudged =
      "values not judged: out (its replicas are compared with one another alone), epoch";
  for (const std::string command : {"run", "fuzz --schedules 5", "check"}) {
    CAPTURE(command);
    const Result r = ringfence(f, command + " --case case.toml --json r.json");
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    CHECK_MESSAGE(says(r.out, unjudged), r.out);
    CHECK(json_of(f / "r.json")["values_not_judged"].size() == 2);
    CHECK(json_of(f / "r.json")["never_written"].empty());
  }
  write_case(f, 8, "[check]\nequal = ['out']\n[check.expected.out]\nsum = 'data'\n");
  for (const std::string command : {"run --executor inline", "fuzz --schedules 5", "check"}) {
    CAPTURE(command);
    const Result r = ringfence(f, command + " --case case.toml --json r.json");
    CHECK(r.status == 1);
    CHECK_MESSAGE(says(r.out, "numeric-mismatch"), r.out);
    CHECK_MESSAGE(says(r.out, "[0] of rank 0: got "), r.out);
  }
  write_case(f, 0, "[check.expected.out]\nsum = 'data'\n");
  const Result r = ringfence(f, "run --case case.toml --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(json_of(f / "r.json")["tensors"][0]["name"] == "out");
  CHECK(json_of(f / "r.json")["tensors"][0]["worst"].is_null());
  CHECK(says(r.out, "values not judged: epoch"));
}

TEST_CASE("run writes the figures of a case as HTML, and its memories by name and rank") {
  const Folder f;
  write_case(f, 0, "[check.expected.out]\nsum = 'data'\n");
  const Result r = ringfence(f, "run --case case.toml --numbers n.html --output o.safetensors");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(says(content(f / "n.html"), "<td>out</td>"));
  const verify::Safetensors file = verify::read_safetensors(f / "o.safetensors");
  for (const char* name : {"data.0", "data.1", "out.0", "out.1", "pad.0", "epoch.1"}) {
    CAPTURE(name);
    CHECK(file.find(name) != nullptr);
  }
  const verify::Tensor &a = *file.find("data.0"), &b = *file.find("data.1");
  const verify::Tensor& sum = *file.find("out.1");
  REQUIRE(sum.dtype == verify::Dtype::u32);
  REQUIRE(sum.elements() == 32);
  for (std::size_t i = 0; i < 32; ++i) CHECK(sum.value(i) == a.value(i) + b.value(i));
  // What was written may be expected of the next run.
  write_case(f, 0, "[check.expected.out]\nfile = 'o.safetensors'\ntensor = 'out.{rank}'\n");
  CHECK(ringfence(f, "run --case case.toml").status == 0);
}

TEST_CASE("pypto adds in fp16 as well, in every order") {
  const Folder f;
  CHECK(ringfence(f, "run --protocol pypto --dtype fp16").status == 0);
  CHECK(ringfence(f, "run --protocol pypto --dtype fp16 --payload normal").status == 0);
  CHECK(ringfence(f,
                  "fuzz --protocol pypto --dtype fp16 --payload normal --ranks 2 --tokens 4 "
                  "--hidden 16 --inner 4 --blocks 1 --schedules 50")
            .status == 0);
}

TEST_CASE("both protocols compute in fp32, and what moves 16-bit types alone says so") {
  const Folder f;
  for (const std::string protocol : {"tokenweave", "pypto"}) {
    CAPTURE(protocol);
    for (const std::string payload : {"exact", "normal"}) {
      const Result r = ringfence(f, "run --protocol " + protocol + " --dtype fp32 --payload " +
                                        payload + " --json r.json --output o.safetensors");
      CHECK_MESSAGE(r.status == 0, r.out, r.err);
      for (const auto& tensor : json_of(f / "r.json")["tensors"]) {
        CHECK(tensor["dtype"] == "fp32");
        CHECK(tensor["mismatches"] == 0);
      }
      CHECK(verify::read_safetensors(f / "o.safetensors").find("out")->dtype == verify::Dtype::f32);
    }
    CHECK(ringfence(f, "fuzz --protocol " + protocol +
                           " --dtype fp32 --payload normal --ranks 2 --tokens 4 --hidden 16 "
                           "--inner 4 --blocks 1 --boundary coherent --schedules 50")
              .status == 0);
  }
  // What a race does to the numbers is found in fp32 too.
  const Result r =
      ringfence(f,
                "fuzz --dtype fp32 --ranks 2 --tokens 4 --hidden 16 --inner 4 --blocks "
                "1 --boundary coherent --set end.put=relaxed --ignore data-race");
  CHECK_MESSAGE(r.status == 1, r.out, r.err);
  CHECK(ringfence(f, "run --dtype fp32 --set width=4").status == 0);
  const Result wide = ringfence(f, "run --dtype fp32 --set width=8");
  CHECK(wide.status == 2);
  CHECK_MESSAGE(says(wide.err, "at most 4 elements of fp32"), wide.err);
  const Result pull = ringfence(f, "run --protocol lamport --dtype fp32");
  CHECK(pull.status == 2);
  CHECK_MESSAGE(says(pull.err, "--dtype fp32: lamport moves 16-bit types"), pull.err);
}

TEST_CASE(
    "threads and width of tokenweave's blocks and tiles of pypto's product keep the numbers") {
  const Folder f;
  for (const std::string set : {"threads=64", "threads=32 --set width=4", "width=2", "width=8"}) {
    CAPTURE(set);
    const Result r = ringfence(f, "run --payload normal --hidden 512 --set " + set);
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
  }
  const Result r =
      ringfence(f, "run --protocol pypto --payload normal --inner 256 --set tiles=16,8,32");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  for (const std::string set : {"threads=33", "threads=2048", "width=3", "width=16"}) {
    CAPTURE(set);
    CHECK(ringfence(f, "run --set " + set).status == 2);
  }
  CHECK(ringfence(f, "run --protocol pypto --set tiles=8,8").status == 2);
  CHECK(ringfence(f, "run --set threads=32 --ranks 40 --tokens 40 --inner 80").status == 2);
}

TEST_CASE("an input's tensors may have other names, and those that are not used are told") {
  const Folder f;
  verify::Safetensors file;
  const auto add = [&](const char* name, verify::Dtype dtype, verify::Shape shape) {
    verify::Tensor t(dtype, std::move(shape));
    for (std::size_t i = 0; i < t.elements(); ++i) {
      verify::store_pattern(dtype, verify::encode(dtype, static_cast<double>(i % 5) - 2),
                            t.bytes.data() + i * verify::dtype_bytes(dtype));
    }
    file.add(name, std::move(t));
  };
  add("attn", verify::Dtype::bf16, {8, 16});
  add("weight", verify::Dtype::bf16, {16, 16});
  add("residual", verify::Dtype::bf16, {8, 16});
  add("model.norm.weight", verify::Dtype::f32, {1, 16});
  add("bias", verify::Dtype::bf16, {16});
  add("rotary", verify::Dtype::f32, {4});
  verify::write_safetensors(f / "in.safetensors", file);
  const std::string run = "run --protocol pypto --ranks 2 --input in.safetensors";
  const Result bare = ringfence(f, run);
  CHECK(bare.status == 2);
  CHECK(says(bare.err, "no tensor 'gamma'"));
  const Result r = ringfence(f, run + " --map gamma=model.norm.weight --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK_MESSAGE(says(r.err, "not used: 'rotary'"), r.err);
  CHECK_MESSAGE(says(r.err, "'model.norm.weight' is F32 beside bf16 data"), r.err);
  CHECK(json_of(f / "r.json")["configuration"]["input_map"] == "gamma=model.norm.weight");
  CHECK(ringfence(f, "run --map gamma=x").status == 2);
  CHECK(ringfence(f, run + " --map delta=x").status == 2);
  // A finding's trace has the names, and replays with them.
  const Result found = ringfence(f,
                                 "fuzz --protocol pypto --ranks 2 --input in.safetensors --map "
                                 "gamma=model.norm.weight --set barrier_all=none --trace t.jsonl");
  CHECK_MESSAGE(found.status == 1, found.out, found.err);
  CHECK(ringfence(f, "replay t.jsonl").status == 1);
}

}  // namespace
}  // namespace ringfence::cli
