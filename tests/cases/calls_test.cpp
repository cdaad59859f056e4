// Kernels that call functions, under the memory model: what a function orders, where findings say
// it stands, and modules that are linked.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/cases/edits.hpp"
#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"
#include "tests/ptx/fatbin.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using cases::CaseProgram;
using cases::Settings;
using machine::Boundary;

namespace {

constexpr Boundary kModes[] = {Boundary::strict, Boundary::stream, Boundary::coherent};

// traces/ptx/calls.ptx has a flag and data by functions that nvcc left as calls
// (tests/ptx/kernels).
const std::string kNotify = R"(version = 1
ranks = 2
[memory.flag]
kind = "symmetric"
bytes = 4
[memory.data]
kind = "symmetric"
bytes = 128
[memory.out]
kind = "local"
bytes = 128
[[launch]]
ptx = "traces/ptx/calls.ptx"
kernel = "notify"
grid = [1]
block = [32]
args = [ {memory = "flag"}, {memory = "flag", peer = 1}, {memory = "data"},
         {memory = "data", peer = 1}, {memory = "out"} ]
)";

std::unique_ptr<CaseProgram> notify(const Settings& settings = {}) {
  return std::make_unique<CaseProgram>(cases::parse_case(kNotify, "case.toml"), settings);
}

std::string key_of(const std::string& instruction, const std::string& what) {
  for (const cases::EditSite& site : cases::edit_sites(cases::parse_case(kNotify, "case.toml"))) {
    if (says(site.text, instruction) && says(site.key, "/" + what)) return site.key;
  }
  return {};
}

}  // namespace

TEST_CASE("calls: a wait and a signal in functions order data, and do not once relaxed") {
  for (const Boundary mode : kModes) {
    CHECK(found(fuzz(*notify(), mode, 100)) == "clean");
  }
  for (const char* const what : {"st.release", "ld.acquire"}) {
    CAPTURE(what);
    Settings settings;
    const std::string key = key_of(what, "order");
    REQUIRE(!key.empty());
    settings.edits[key] = "relaxed";
    const auto program = notify(settings);
    const auto r = fuzz(*program, Boundary::stream, 100);
    CHECK(found(r) == "data-race");
  }
}

TEST_CASE("calls: a finding in a function has the function's line, of PTX and of the source") {
  // The peer's 2 may have come: the trap on it stands in a function.
  const Written w(R"(
.func check(.param .b32 x)
{
  .reg .pred %p;
  .reg .b32 %r;
  ld.param.u32 %r, [x];
  setp.ne.u32 %p, %r, 2;
  @%p ret;
  trap;
}
.func spread(.param .b64 to)
{
  .reg .b64 %a;
  ld.param.u64 %a, [to];
  st.global.u32 [%a], 2;
  ret;
}
.visible .entry k(.param .u64 mine, .param .u64 theirs)
{
  .reg .b32 %r;
  .reg .b64 %a, %b;
  ld.param.u64 %a, [mine];
  ld.param.u64 %b, [theirs];
  {
    .param .b64 p;
    st.param.b64 [p], %b;
    call spread, (p);
  }
  ld.global.u32 %r, [%a];
  {
    .param .b32 p;
    st.param.b32 [p], %r;
    call check, (p);
  }
  ret;
}
)");
  const std::string text = R"(ranks = 2
[memory.x]
kind = "symmetric"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [1]
block = [1]
args = [ {memory = "x"}, {memory = "x", peer = 1} ]
)";
  const auto program = w.open(text);
  const auto race = fuzz(*program, Boundary::stream, 50);
  REQUIRE(found(race) == "data-race");
  const machine::Finding& f = race.outcome.findings.front();
  const std::string sites =
      program->site_name(f.first.site) + " " + program->site_name(f.second.site);
  CHECK(says(sites, "k.ptx:18: st.global.u32"));
  const auto other = w.open(text);
  const auto trap = fuzz(*other, machine::Policy{.boundary = Boundary::stream}, 50,
                         {machine::FindingKind::data_race});
  REQUIRE(found(trap) == "rank-lost");
  CHECK(says(other->last_mismatch(), "k.ptx:12"));
}

TEST_CASE("link: a kernel's function and counter are another module's") {
  const std::string entry = R"(
.extern .func (.param .b32 r) next(.param .b32 by);
.extern .global .align 4 .u32 counter;
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r;
  .reg .b64 %a, %c;
  ld.param.u64 %a, [out];
  {
    .param .b32 p;
    .param .b32 q;
    st.param.b32 [p], 5;
    call (q), next, (p);
    ld.param.b32 %r, [q];
  }
  st.global.u32 [%a], %r;
  mov.u64 %c, counter;
  ld.global.u32 %r, [%c];
  st.global.u32 [%a+4], %r;
  ret;
}
)";
  const std::string other = R"(.version 8.6
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 40;
.visible .func (.param .b32 r) next(.param .b32 by)
{
  .reg .b32 %r, %s;
  .reg .b64 %c;
  mov.u64 %c, counter;
  ld.param.u32 %s, [by];
  atom.global.add.u32 %r, [%c], %s;
  st.param.b32 [r], %r;
  ret;
}
)";
  const Written w(entry);
  w.add("device.ptx", other);
  const auto text = [](const std::string& link) {
    return R"(ranks = 2
calls = 2
[memory.out]
kind = "local"
bytes = 8
[[launch]]
ptx = "k.ptx"
)" + link + R"(kernel = "k"
grid = [1]
block = [1]
args = [ {memory = "out"} ]
)";
  };
  CHECK(says(w.refusal(text("")), "call of 'next', which nothing here defines"));
  CHECK(says(w.refusal(text("link = [\"none.ptx\"]\n")), "none.ptx"));
  CHECK(says(w.refusal(text("link = 3\n")), "link"));
  const auto program = w.open(text("link = [\"device.ptx\"]\n"));
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  REQUIRE(executor->run(spec).end == schedule::RunEnd::complete);
  const verify::Safetensors memories = program->final_memories();
  for (const char* name : {"out.0", "out.1"}) {
    const auto& bytes = memories.find(name)->bytes;
    // The second call finds what the first one left: 45, then 50.
    CHECK(bytes[0] == std::byte{45});
    CHECK(bytes[4] == std::byte{50});
  }
  // It belongs to the case's digest.
  w.add("case.toml", "version = 1\n" + text("link = [\"device.ptx\"]\n"));
  const cases::CaseFile file = cases::read_case(w.path("case.toml"));
  const std::string before = cases::digest(file);
  w.add("device.ptx", other + "// changed\n");
  CHECK(cases::digest(file) != before);
}

TEST_CASE("link: nvcc's modules of relocatable code") {
  if (std::system("command -v \"${NVCC:-nvcc}\" >/dev/null 2>&1") != 0) {
    MESSAGE("not run: no nvcc");
    return;
  }
  const Written w("");
  w.add("kernel.cu", R"(extern __device__ int base;
extern __device__ int scaled(int x);
extern "C" __global__ void k(int* out) { out[0] = scaled(5) + base; }
)");
  w.add("device.cu", R"(__device__ int base = 1000;
static __device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ int scaled(int x) { return twice(x) + 1; }
)");
  const auto program = w.open(R"(ranks = 1
[memory.out]
kind = "local"
bytes = 4
[[launch]]
ptx = "kernel.cu"
link = ["device.cu"]
kernel = "k"
grid = [1]
block = [1]
args = [ {memory = "out"} ]
)");
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  REQUIRE(executor->run(spec).end == schedule::RunEnd::complete);
  std::int32_t value = 0;
  const verify::Safetensors memories = program->final_memories();
  std::memcpy(&value, memories.find("out.0")->bytes.data(), sizeof value);
  CHECK(value == 1011);
}

TEST_CASE("modules: a case takes the kernel of whichever module of a program has it") {
  const auto module = [](const std::string& name, const std::string& more, const std::string& put) {
    return ptx::test::fatbin(".version 8.5\n.target sm_90a\n.address_size 64\n" + more +
                             ".visible .entry " + name +
                             "(.param .u64 out)\n{\n.reg .b64 %o, %c;\n.reg .b32 %v;\n"
                             "ld.param.u64 %o, [out];\nmov.u32 %v, 0;\n" +
                             put + "st.global.u32 [%o], %v;\nret;\n}\n");
  };
  const Written w("");
  // The third names a variable that a module without a kernel defines.
  w.add("program",
        ptx::test::elf() + module("first", "", "mov.u32 %v, 1;\n") +
            module("second", "", "mov.u32 %v, 2;\n") +
            module("third", ".extern .global .u32 count;\n", "ld.global.u32 %v, [count];\n") +
            ptx::test::fatbin(".version 8.5\n.target sm_90a\n.address_size 64\n"
                              ".visible .global .u32 count = 3;\n"));
  const auto text = [](const std::string& file, const std::string& kernel) {
    return "ranks = 1\n[memory.out]\nkind = \"local\"\nbytes = 4\n[[launch]]\nptx = \"" + file +
           "\"\nkernel = \"" + kernel +
           "\"\ngrid = [1]\nblock = [1]\nargs = [ {memory = \"out\"} ]\n";
  };
  const auto left = [&](const std::string& file, const std::string& kernel) {
    w.add("case.toml", "version = 1\n" + text(file, kernel));
    CHECK(!cases::digest(cases::read_case(w.path("case.toml"))).empty());
    const auto program = w.open(text(file, kernel));
    const auto executor = ranks::make_inline(*program);
    schedule::RunSpec spec;
    spec.strategy.kind = schedule::StrategySpec::Kind::first;
    REQUIRE(executor->run(spec).end == schedule::RunEnd::complete);
    std::int32_t value = 0;
    const verify::Safetensors memories = program->final_memories();
    std::memcpy(&value, memories.find("out.0")->bytes.data(), sizeof value);
    return value;
  };
  CHECK(left("program", "first") == 1);
  CHECK(left("program", "second") == 2);
  CHECK(left("program#2", "second") == 2);
  CHECK(left("program", "third") == 3);
  CHECK(says(w.refusal(text("program", "ir")), "the kernel name 'ir' matches 2: first in "));
  CHECK(says(w.refusal(text("program#2", "first")), "the kernel name 'first' matches none"));
}
