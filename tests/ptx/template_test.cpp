// What --case-template guesses of a kernel's parameters.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/parameter_use.hpp"
#include "emulator/ptx/parser.hpp"

using namespace ringfence::ptx;

namespace {

Module load() {
  std::ifstream in("tests/ptx/kernels/template.ptx");
  REQUIRE(in.is_open());
  return parse(std::string(std::istreambuf_iterator<char>(in), {}), "template.ptx");
}

// The line of an argument, by its number.
std::string argument(const std::string& text, const std::string& number) {
  const auto comment = text.find("# " + number + ": ");
  REQUIRE(comment != std::string::npos);
  const auto begin = text.rfind('\n', comment) + 1;
  return text.substr(begin, text.find('\n', comment) - begin);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("template: a signature tells pointers, tables of peers and numbers apart") {
  const Module m = load();
  const std::string text = case_template({{&m, &m.kernel("two_shot")}}, "t.ptx");
  CHECK(contains(argument(text, "0"), "{memory = \"p0\"},"));
  CHECK(contains(argument(text, "0"), "float*"));
  CHECK(contains(argument(text, "1"), "{peers = \"p1\"},"));
  CHECK(contains(argument(text, "2"), "{multicast = \"p2\"},"));
  CHECK(contains(argument(text, "3"), "{u64 = 0},"));
  CHECK(contains(argument(text, "3"), "long long"));
  CHECK(contains(argument(text, "4"), "{u32 = 0},"));
  CHECK(contains(argument(text, "6"), "{u16 = 0}"));
  // Numbers are no memories.
  CHECK_FALSE(contains(text, "[memory.p3]"));
  CHECK(contains(text, "[memory.p1]\nkind = \"FILL\"        # symmetric, as the kernel takes"));
  CHECK(contains(text, "\nmodes = [\"stream\"]          # "));
}

TEST_CASE("template: a struct has the fields that the kernel loads, marked as guessed") {
  const Module m = load();
  const std::string text = case_template({{&m, &m.kernel("two_shot")}}, "t.ptx");
  const std::string line = argument(text, "5");
  CHECK(contains(line,
                 "{struct = [{memory = \"p5_0\"}, {peers = \"p5_8\"}, {u32 = 0}, {u64 = 0}, "
                 "{f32 = 0.0}]},"));
  CHECK(contains(line, "guessed"));
  CHECK(contains(text, "[memory.p5_0]"));
}

TEST_CASE("template: without a signature, what the kernel does with a value says what it is") {
  const Module m = load();
  const std::string text = case_template({{&m, &m.kernel("bare")}}, "t.ptx");
  CHECK(contains(argument(text, "0"), "{memory = \"p0\"},"));
  CHECK(contains(argument(text, "1"), "{peers = \"p1\"},"));
  CHECK(contains(argument(text, "2"), "{u64 = 0}"));
  CHECK_FALSE(contains(text, "[memory.p2]"));
}

TEST_CASE("template: a table by value that a rank indexes is one of replicas") {
  // As nvcc makes of struct { float* data[8]; unsigned* pads[8]; } and data[r], pads[r].
  std::string text =
      ".version 8.5\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .align 8 .b8 p[136], .param .u32 r)\n{\n"
      ".local .align 8 .b8 depot[128];\n.reg .b32 %r<4>;\n.reg .b64 %rd<9>;\n"
      "mov.u64 %rd1, depot;\nld.param.u32 %r1, [r];\nld.param.u32 %r2, [p+128];\n";
  for (int i = 0; i < 16; ++i) {
    const std::string at = std::to_string(8 * i);
    text += "ld.param.u64 %rd2, [p+" + at + "];\nst.local.u64 [%rd1+" + at + "], %rd2;\n";
  }
  text +=
      "mul.wide.u32 %rd3, %r1, 8;\nadd.u64 %rd3, %rd1, %rd3;\nld.local.u64 %rd4, [%rd3];\n"
      "ld.local.u64 %rd5, [%rd3+64];\nst.global.u32 [%rd4], %r2;\nst.global.u32 [%rd5], %r2;\n"
      "ret;\n}\n";
  const Module m = parse(text, "t.ptx");
  const std::string made = case_template({{&m, &m.kernel("k")}}, "t.ptx");
  CHECK(contains(argument(made, "0"),
                 "{struct = [{replicas = \"p0_0\", count = 8}, {replicas = \"p0_64\", count = 8}, "
                 "{u32 = 0}]},"));
  CHECK(contains(made, "[memory.p0_0]"));
  CHECK(contains(made, "[memory.p0_64]"));
}

TEST_CASE("template: several kernels make one case, with memories of their own") {
  const Module m = load();
  const std::string text =
      case_template({{&m, &m.kernel("bare")}, {&m, &m.kernel("two_shot")}}, "t.ptx");
  CHECK(contains(text, "[memory.k0_p0]"));
  CHECK(contains(text, "[memory.k1_p0]"));
  const auto first = text.find("[[launch]]");
  CHECK(text.find("[[launch]]", first + 1) != std::string::npos);
}

TEST_CASE("a demangled name selects a kernel where no mangled one does") {
  const Module m = load();
  CHECK(m.kernel("ns::two_shot<8>").name == m.kernel("two_shot").name);
  CHECK(m.kernel("bare").name == "bare");
  CHECK_THROWS_AS(m.kernel("ns::two_shot<16>"), Error);
}

TEST_CASE("the types of a demangled name's parameters are split at its own commas") {
  using Types = std::vector<std::string>;
  CHECK(parameter_types("void f<(int)8, g<a, b> >(int*, T<a, b>, void (*)(int, int))") ==
        Types{"int*", "T<a, b>", "void (*)(int, int)"});
  CHECK(parameter_types("f(void)").empty());
  CHECK(parameter_types("f").empty());
}
