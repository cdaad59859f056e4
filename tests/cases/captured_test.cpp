// What a captured run says of its memories: where they lie, which bytes nobody wrote, a module's
// variables; and more launches than a launcher writes by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"
#include "verify/safetensors.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using cases::CaseProgram;

namespace {

// Copies a word, by two addresses; adds one to a variable of the module.
const std::string kKernels = R"(
.visible .global .align 4 .u32 counter = 40;
.visible .entry copy(.param .u64 from, .param .u64 to)
{
  .reg .b32 %v;
  .reg .b64 %f, %t;
  ld.param.u64 %f, [from];
  ld.param.u64 %t, [to];
  ld.global.u32 %v, [%f];
  st.global.u32 [%t], %v;
  ret;
}
.visible .entry count(.param .u64 from)
{
  .reg .b32 %v;
  .reg .b64 %c;
  mov.u64 %c, counter;
  ld.global.u32 %v, [%c];
  add.u32 %v, %v, 1;
  st.global.u32 [%c], %v;
  ret;
}
.visible .entry put(.param .u64 to, .param .align 4 .b8 pair[8])
{
  .reg .b32 %v;
  .reg .b64 %t;
  ld.param.u64 %t, [to];
  ld.param.u32 %v, [pair+4];
  st.global.u32 [%t], %v;
  ret;
}
)";

struct Run {
  std::string kind = "clean";
  verify::Safetensors memories;
  std::uint32_t word(const std::string& name, std::size_t at = 0) const {
    const verify::Tensor* const t = memories.find(name);
    REQUIRE(t != nullptr);
    std::uint32_t v = 0;
    std::memcpy(&v, t->bytes.data() + at, 4);
    return v;
  }
};

// `program` outlives the executor's memory; what is asked of it is asked in `look`.
template <class F>
Run run(CaseProgram& program, const F& look) {
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  Run out;
  // Twice: the second starts as the first did.
  for (int i = 0; i < 2; ++i) {
    const schedule::Outcome outcome = executor->run(spec);
    const auto f = schedule::failure(outcome);
    out.kind = f ? std::string(machine::name(f->kind)) : "clean";
  }
  out.memories = program.final_memories();
  look();
  return out;
}
Run run(CaseProgram& program) {
  return run(program, [] {});
}

verify::Tensor tensor(verify::Dtype dtype, const std::vector<std::uint64_t>& numbers,
                      std::size_t bytes_each) {
  verify::Tensor t;
  t.dtype = dtype;
  t.shape = {static_cast<std::int64_t>(numbers.size())};
  for (const std::uint64_t n : numbers) {
    for (std::size_t b = 0; b < bytes_each; ++b) t.bytes.push_back(std::byte(n >> (8 * b) & 255));
  }
  return t;
}

// 64 bytes whose first word is 7 and whose bytes from 16 to 48 nobody wrote.
void add_partly(const Written& w) {
  verify::Safetensors s;
  std::vector<std::uint64_t> bytes(64, 0);
  bytes[0] = 7;
  s.add("x", tensor(verify::Dtype::u8, bytes, 1));
  s.add("x.unset", tensor(verify::Dtype::u64, {16, 48}, 8));
  w.add("x.safetensors", verify::safetensors_bytes("x.safetensors", s));
}

const std::string kPartly = R"(
ranks = 1
[memory.x]
kind = "local"
bytes = 64
init = { file = "x.safetensors", tensor = "x", once = true, unset = "x.unset" }
[memory.out]
kind = "local"
bytes = 16
)";

std::string copy(const std::string& from, const std::string& to) {
  return fmt::format(
      "[[launch]]\nptx = \"k.ptx\"\nkernel = \"copy\"\ngrid = [1]\nblock = [1]\n"
      "args = [{}, {}]\n",
      from, to);
}

}  // namespace

TEST_CASE("memories lie at the addresses that are given, and pointers to them lead there") {
  const Written w(kKernels);
  const auto program = w.open(
      "ranks = 2\n[memory.x]\nkind = \"symmetric\"\nbytes = 8\n"
      "addresses = [0x1080000000, 0x1000400000]\ninit = { u32 = [\"rank + 5\", 0] }\n"
      "[memory.y]\nkind = \"symmetric\"\nbytes = 4\n" +
      copy("{ u64 = [0x1000400000, 0x1080000000] }", "{ memory = \"y\" }"));
  const Run r = run(*program);
  CHECK(r.kind == "clean");
  CHECK(r.word("y.0") == 6);
  CHECK(r.word("y.1") == 5);
}

TEST_CASE("addresses that cannot be are refused") {
  const Written w(kKernels);
  const auto with = [&](const std::string& more) {
    return w.refusal("ranks = 2\n[memory.x]\nkind = \"symmetric\"\nbytes = 8\n" + more +
                     copy("{ memory = \"x\" }", "{ memory = \"x\" }"));
  };
  CHECK(with("addresses = [0x1000400000, 0]\n") == "accepted");
  CHECK(says(with("addresses = [0x1000400000]\n"), "addresses: expected one for each of 2 ranks"));
  CHECK(says(with("addresses = [0x1000400001, 0]\n"), "multiples of 0x200000"));
  CHECK(says(with("addresses = [0x200000, 0]\n"), "at least 0x1000000000"));
  CHECK(says(with("addresses = [0x1000400000, 0x1000400000]\n"), "is on pages of x of rank 0"));
}

TEST_CASE("what a file says nobody wrote is a finding where it is read, the rest is not") {
  const Written w(kKernels);
  add_partly(w);
  for (const auto& [offset, kind] : {std::pair(0, "clean"),
                                     {12, "clean"},
                                     {48, "clean"},
                                     {16, "uninitialised-read"},
                                     {44, "uninitialised-read"}}) {
    CAPTURE(offset);
    const auto program =
        w.open(kPartly + copy(fmt::format("{{ memory = \"x\", offset = {} }}", offset),
                              "{ memory = \"out\" }"));
    const Run r = run(*program);
    CHECK(r.kind == kind);
    if (offset == 0) CHECK(r.word("out.0") == 7);
  }
}

TEST_CASE("what kernels wrote of it is known after the run") {
  const Written w(kKernels);
  add_partly(w);
  const auto program =
      w.open(kPartly + copy("{ memory = \"x\" }", "{ memory = \"x\", offset = 20 }") +
             copy("{ memory = \"x\", offset = 20 }", "{ memory = \"out\" }"));
  using Pieces = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  Pieces not_written;
  const Run r = run(*program, [&] { not_written = program->not_written("x", 0); });
  CHECK(r.kind == "clean");
  CHECK(r.word("out.0") == 7);
  CHECK(r.word("x.0", 20) == 7);
  CHECK(not_written == Pieces{{0, 20}, {24, 64}});
}

TEST_CASE("pieces that are not of the memory are refused") {
  const Written w(kKernels);
  verify::Safetensors s;
  s.add("x", tensor(verify::Dtype::u8, std::vector<std::uint64_t>(64, 0), 1));
  s.add("x.unset", tensor(verify::Dtype::u64, {16, 80}, 8));
  w.add("x.safetensors", verify::safetensors_bytes("x.safetensors", s));
  CHECK(says(w.refusal(kPartly + copy("{ memory = \"x\" }", "{ memory = \"out\" }")),
             "u64 in pairs, each piece of the memory [first byte, end)"));
}

TEST_CASE("a module's variables lie in the memory that says so, and are what it holds") {
  const Written w(kKernels);
  const std::string count =
      "[[launch]]\nptx = \"k.ptx\"\nkernel = \"count\"\ngrid = [1]\nblock = [1]\n"
      "args = [{ memory = \"v\" }]\n";
  const auto memory = [](int bytes) {
    return fmt::format(
        "ranks = 1\n[memory.v]\nkind = \"local\"\nbytes = {}\nvariables = \"k.ptx\"\n"
        "init = {{ u32 = {} }}\n",
        bytes, bytes == 4 ? "[70]" : "1");
  };
  const auto program = w.open(memory(4) + count);
  CHECK(run(*program).word("v.0") == 71);
  CHECK(
      says(w.refusal("ranks = 1\n[memory.v]\nkind = \"local\"\nbytes = 2\nvariables = \"k.ptx\"\n" +
                     count),
           "[memory.v] has 2 bytes; the variables of k.ptx take 4"));
}

TEST_CASE("bytes of an argument may be each rank's own") {
  const Written w(kKernels);
  const auto program = w.open(
      "ranks = 2\n[memory.x]\nkind = \"symmetric\"\nbytes = 4\n"
      "[[launch]]\nptx = \"k.ptx\"\nkernel = \"put\"\ngrid = [1]\nblock = [1]\n"
      "args = [{ memory = \"x\" }, { bytes = [[1, 0, 0, 0, 8, 0, 0, 0], [1, 0, 0, 0, 9, 0, 0, 0]] "
      "}]\n");
  const Run r = run(*program);
  CHECK(r.word("x.0") == 8);
  CHECK(r.word("x.1") == 9);
}

TEST_CASE("a case has up to 128 launches and steps, each behind the one before") {
  const Written w(kKernels);
  const auto launches = [&](int count) {
    std::string text =
        "ranks = 1\n[memory.v]\nkind = \"local\"\nbytes = 4\nvariables = \"k.ptx\"\n";
    for (int i = 0; i < count; ++i) {
      text +=
          "[[launch]]\nptx = \"k.ptx\"\nkernel = \"count\"\ngrid = [1]\nblock = [1]\n"
          "args = [{ memory = \"v\" }]\n";
    }
    return text;
  };
  const auto program = w.open(launches(128));
  const Run r = run(*program);
  CHECK(r.kind == "clean");
  CHECK(r.word("v.0") == 128);
  CHECK(says(w.refusal(launches(129)), "129 launches and host steps; at most 128 are supported"));
}
