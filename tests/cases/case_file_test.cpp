#include "emulator/cases/case_file.hpp"
#include "tests/support/says.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace ringfence;
using namespace ringfence::cases;

namespace {

const std::string kGood = R"(version = 1
ranks = 2
calls = 2
[memory.pad]
kind = "symmetric"
bytes = 256
[memory.data]
kind = "symmetric"
bytes = 4096
init = { bf16 = "integers" }
[memory.gamma]
kind = "local"
bytes = 128
init = { file = "x.safetensors", tensor = "gamma" }
[[launch]]
ptx = "fused.ptx"
kernel = "fused_rs_ln_ag"
grid = [[2], [3]]
block = [128]
args = [ {memory = "data"}, {multicast = "data", offset_per_rank = 512}, {peers = "pad"}, "rank",
         "world", {u32 = 8}, {f32 = 1e-6}, {s16 = -2}, {bytes = [1, 2, 3]}, {memory = "gamma"} ]
[check]
modes = ["coherent"]
equal = ["data"]
restored = ["pad"]
)";

// The message that `text` is refused with.
std::string refusal(const std::string& text) {
  try {
    parse_case(text, "a/b.toml");
  } catch (const CaseError& e) {
    return e.what();
  }
  return "accepted";
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a case is read as it is written") {
  const CaseFile c = parse_case(kGood, "a/b.toml");
  CHECK(c.ranks == 2);
  CHECK(c.calls == 2);
  REQUIRE(c.memories.size() == 3);
  CHECK(c.memories[0].name == "pad");
  CHECK(c.memories[1].initial.kind == Initial::Kind::integers);
  CHECK(c.memories[2].initial.tensor == "gamma");
  CHECK(c.beside(c.memories[2].initial.file) == "a/x.safetensors");
  REQUIRE(c.launches.size() == 1);
  const Launch& l = c.launches[0];
  CHECK(l.grid_of(1) == Dim3{3, 1, 1});
  REQUIRE(l.args.size() == 10);
  CHECK(l.args[1].kind == Argument::Kind::multicast);
  CHECK(l.args[1].offset_per_rank == 512);
  CHECK(l.args[5].bytes == std::vector<std::uint8_t>{8, 0, 0, 0});
  CHECK(l.args[7].bytes == std::vector<std::uint8_t>{0xfe, 0xff});
  CHECK(c.check.modes == std::vector{machine::Boundary::coherent});
}

TEST_CASE("a case that names no modes claims stream") {
  CHECK(parse_case(edited("modes = [\"coherent\"]\n", ""), "b").check.modes ==
        std::vector{machine::Boundary::stream});
}

TEST_CASE("missing and extra keys, wrong types and ranges are refused with their place") {
  CHECK(says(refusal(edited("version = 1", "version = 2")), "a/b.toml:1:"));
  CHECK(says(refusal(edited("version = 1\n", "")), "lacks the key 'version'"));
  CHECK(says(refusal(edited("calls = 2", "cals = 2")), "unknown key 'cals'"));
  CHECK(says(refusal(edited("ranks = 2", "ranks = 0")), "from 1 to 64"));
  CHECK(says(refusal(edited("bytes = 256", "bytes = \"256\"")), "whole number"));
  CHECK(says(refusal(edited("block = [128]", "block = [2048]")), "from 1 to 1024"));
  CHECK(says(refusal(edited("grid = [[2], [3]]", "grid = [[2]]")), "1 entries for 2 ranks"));
  CHECK(says(refusal(edited("{u32 = 8}", "{u32 = -8}")), "from 0 to 4294967295"));
  CHECK(says(refusal(edited("{u32 = 8}", "{u31 = 8}")), "unknown kind of argument 'u31'"));
  CHECK(says(refusal(edited("\"world\"", "\"size\"")), "'rank' or 'world'"));
  CHECK(says(refusal(edited("[[launch]]", "[[launch")), "not TOML"));
  // toml++ 3.3 fails an assertion of its own on these.
  CHECK(says(refusal(edited("[check]", "[$check]")), "a/b.toml:22:1: not TOML"));
  CHECK(says(refusal(edited("[memory.data]", "[memory.]")), "a/b.toml:7:"));
  CHECK(says(refusal("["), "a/b.toml:1:"));
  // It also reaches what it calls unreachable, for letters from U+00A0 on in a key.
  CHECK(says(refusal(edited("ranks = 2", "r\u00e4nge = 2")), "a/b.toml:2:2: not TOML"));
  CHECK(says(refusal("[m\u2003.x]\n"), "not TOML"));
  CHECK(says(refusal("version = 0\u00e9\n"), "not TOML"));
  CHECK(says(refusal("version = \"\"\"\\\u00e9\"\"\"\n"), "not TOML"));
  CHECK(says(refusal("version = \"\u00e4\" # \u00e9\n"), "must be a whole number"));
  const auto filled = [](const char* init) { return edited("{ bf16 = \"integers\" }", init); };
  CHECK(parse_case(filled("{ fill = 255 }"), "b").memories[1].initial.fill == 255);
  CHECK(says(refusal(filled("{ fill = 256 }")), "from 0 to 255"));
  CHECK(says(refusal(filled("{ fill = 1, tensor = \"x\" }")), "unknown key 'tensor'"));
}

TEST_CASE("a message is one line, whatever the file holds") {
  for (const std::string& text : {edited("calls = 2", "\"ca\\nlls\" = 2"),
                                  edited("{peers = \"pad\"}", "{peers = \"p\\nad\"}"),
                                  edited("[\"coherent\"]", "[\"\\u0000\\r\\n\"]"),
                                  edited("calls = 2", std::string(100'000, 'x') + " = 2")}) {
    const std::string message = refusal(text);
    CHECK(message != "accepted");
    CHECK(message.size() < 500);
    for (const char c : message) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
  CHECK(says(refusal(edited("calls = 2", "\"ca\\nlls\" = 2")),
             "a/b.toml:3:1: unknown key 'ca\\x0alls'"));
}

TEST_CASE(
    "memories that are named are declared, symmetric where peers need them, and large enough") {
  CHECK(says(refusal(edited("{peers = \"pad\"}", "{peers = \"pads\"}")), "no [memory.pads]"));
  CHECK(says(refusal(edited("{peers = \"pad\"}", "{peers = \"gamma\"}")), "make it symmetric"));
  CHECK(says(refusal(edited("offset_per_rank = 512", "offset_per_rank = 4096")), "which has 4096"));
  CHECK(says(refusal(edited("equal = [\"data\"]", "equal = [\"dat\"]")), "check.equal"));
}

TEST_CASE("a grid of more blocks than a launch can have is refused where it stands") {
  CHECK(says(refusal(edited("grid = [[2], [3]]", "grid = [2147483647]")), "a/b.toml:"));
  CHECK(says(refusal(edited("grid = [[2], [3]]", "grid = [[65535, 65535, 2], [3]]")),
             "at most 16777216 blocks"));
}

TEST_CASE("a case cut at any byte is refused or complete, never more") {
  for (std::size_t n = 0; n < kGood.size(); ++n) {
    try {
      const CaseFile c = parse_case(kGood.substr(0, n), "cut");
      CHECK(c.launches.size() == 1);
    } catch (const CaseError&) {
    }
  }
}

TEST_CASE("a tensor map is read as it is written, and refused as the driver would") {
  const std::string map =
      "{tensor_map = {memory = \"data\", offset = 16, dtype = \"bf16\", dims = [100, 8], "
      "strides = [208], box = [64, 8], swizzle = \"128B\"}}";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = map;
    if (!from.empty()) {
      REQUIRE(changed.find(from) != std::string::npos);
      changed.replace(changed.find(from), from.size(), to);
    }
    return edited("{u32 = 8}", changed);
  };
  const Argument a = parse_case(with("", ""), "a/b.toml").launches[0].args[5];
  CHECK(a.kind == Argument::Kind::tensor_map);
  CHECK(a.name == "data");
  CHECK(a.offset == 16);
  CHECK(a.map.element_bytes == 2);
  CHECK(a.map.dimensions == 2);
  CHECK(a.map.size[0] == 100);
  CHECK(a.map.stride[1] == 208);
  CHECK(a.map.box[1] == 8);
  CHECK(a.map.swizzle == ptx::Swizzle::bytes128);
  // Rows lie close together unless it says otherwise.
  std::string dense = with("strides = [208], ", "");
  dense.replace(dense.find("[100, 8]"), 8, "[128, 8]");
  CHECK(parse_case(dense, "b").launches[0].args[5].map.stride[1] == 256);
  CHECK(says(refusal(with("strides = [208], ", "")), "strides"));
  CHECK(says(refusal(with("\"bf16\"", "\"bf17\"")), "tensor_map dtype 'bf17'"));
  CHECK(says(refusal(with("[100, 8]", "[]")), "1 to 5 numbers"));
  CHECK(says(refusal(with("box = [64, 8]", "box = [64]")), "as many in box"));
  CHECK(says(refusal(with("box = [64, 8]", "box = [72, 8]")), "swizzle spans"));
  CHECK(says(refusal(with("box = [64, 8]", "box = [64, 300]")), "from 1 to 256"));
  CHECK(says(refusal(with("[208]", "[200]")), "multiples of 16"));
  CHECK(says(refusal(with("[208]", "[208, 8]")), "each dimension except the innermost"));
  CHECK(says(refusal(with("\"128B\"", "\"256B\"")), "known: none, 32B, 64B, 128B"));
  CHECK(says(refusal(with("offset = 16", "offset = 8")), "multiple of 16"));
  CHECK(says(refusal(with("[100, 8]", "[100, 80]")), "reaches byte"));
  // 16 * 2^32 * 2^28 bytes and 15 more rows: as 64 bits that is a small number again.
  CHECK(says(refusal(with("dims = [100, 8], strides = [208], box = [64, 8]",
                          "dims = [8, 4294967296, 268435456, 16], box = [8, 1, 1, 1]")),
             "spans at most 1099511627776 bytes"));
  CHECK(says(refusal(with("[100, 8], strides = [208]", "[8, 1048577], strides = [1048576]")),
             "spans at most"));
  CHECK(says(refusal(with("memory = \"data\", ", "")), "lacks the key 'memory'"));
  CHECK(says(refusal(with("dtype", "type")), "unknown key 'type'"));
}

TEST_CASE("a reference of the whole operator names both operands, and its own result") {
  const std::string whole =
      "[check.reference]\nprotocol = \"pypto\"\nx = \"data\"\nweight = \"data\"\ninner = 16\n"
      "out = \"data\"\nresidual = \"data\"\ngamma = \"data\"\ntokens = 4\nhidden = 64\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = whole;
    if (!from.empty()) {
      REQUIRE(changed.find(from) != std::string::npos);
      changed.replace(changed.find(from), from.size(), to);
    }
    return kGood + changed;
  };
  const CaseFile c = parse_case(with("", ""), "a/b.toml");
  CHECK(c.check.reference->weight == "data");
  CHECK(c.check.reference->inner == 16);
  CHECK(says(refusal(with("weight = \"data\"\n", "")), "lacks the key 'weight'"));
  CHECK(says(refusal(with("out = \"data\"\n", "")), "lacks the key 'out'"));
  CHECK(says(refusal(with("inner = 16", "inner = 15")), "do not divide"));
  CHECK(says(refusal(with("inner = 16", "inner = 1600")), "needs"));
  CHECK(says(refusal(with("x = \"data\"\n", "tensor = \"data\"\n")), "unknown key '"));
  CHECK(says(refusal(with("x = \"data\"\n", "x = \"data\"\ntensor = \"data\"\n")),
             "reference: expected tensor, or x and weight"));
}

TEST_CASE("the corpus of the fuzz target is read, or refused in one line") {
  unsigned read = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/case")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    CAPTURE(entry.path().string());
    const std::string message = refusal(text);
    read += message == "accepted" ? 1U : 0U;
    CHECK(message.find('\n') == std::string::npos);
    if (message != "accepted") CHECK(message.rfind("a/b.toml:", 0) == 0);
  }
  CHECK(read == 7);
}
