// What ringfence.torch puts on a stream for a call: a copy into the group's buffer, tokenweave's
// kernel launched dependent on it, a copy out of the buffer (python/src/ringfence/torch).
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// 16 bytes a thread; FIRST stands where a kernel meets the launch before it.
constexpr const char* kCopy = R"ptx(.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from)
{
  .reg .b64 %t, %f, %o;
  .reg .b32 %i, %a, %b, %c, %d;
  FIRST
  ld.param.u64 %t, [to];
  ld.param.u64 %f, [from];
  mov.u32 %i, %tid.x;
  mul.wide.u32 %o, %i, 16;
  add.u64 %t, %t, %o;
  add.u64 %f, %f, %o;
  ld.global.v4.u32 {%a, %b, %c, %d}, [%f];
  st.global.v4.u32 [%t], {%a, %b, %c, %d};
  ret;
}
)ptx";

struct Call {
  bool kernel_waits = true;  // griddepcontrol.wait in tokenweave's kernel
  bool kernel_is_dependent = true;
  std::string first_of_copies;  // griddepcontrol instructions of the copies
  bool copy_out_is_dependent = false;
  bool residual_is_whole = true;  // as the kernel is told; it is
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
    ++count;
  }
  REQUIRE(count > 0);
}

// The kind of what two calls in a row lead to, as tests/cases/files/tokenweave-peer-2.toml has the
// kernel: 2 ranks, 4 tokens, hidden 256.
std::string call(const Call& c, Boundary mode) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ringfence-operator-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::string copy = kCopy;
  replace_all(copy, "FIRST", c.first_of_copies);
  std::ofstream(folder / "copy.ptx", std::ios::binary) << copy;
  std::string kernel = read("traces/ptx/tokenweave.ptx");
  if (!c.kernel_waits) replace_all(kernel, "griddepcontrol.wait;", "");
  std::ofstream(folder / "kernel.ptx", std::ios::binary) << kernel;

  std::string text = read("tests/cases/files/tokenweave-peer-2.toml");
  replace_all(text, "../../../traces/ptx/tokenweave.ptx", (folder / "kernel.ptx").string());
  const auto launch_of_copy = [&](const char* to, const char* from, bool dependent) {
    return "[[launch]]\nptx = \"" + (folder / "copy.ptx").string() +
           "\"\nkernel = \"copy\"\ngrid = [1]\nblock = [128]\nargs = [ {memory = \"" + to +
           "\"}, {memory = \"" + from + "\"} ]\n" + (dependent ? "dependent = true\n" : "");
  };
  if (c.residual_is_whole) replace_all(text, "{s32 = 2}, {s32 = 1}", "{s32 = 2}, {s32 = 0}");
  const std::size_t launch = text.find("[[launch]]"), check = text.find("[check]");
  REQUIRE(check != std::string::npos);
  std::string memories = text.substr(0, launch);
  replace_all(memories, "ranks = 2\n", "ranks = 2\ncalls = 2\n");
  replace_all(memories, "kind = \"symmetric\"\nbytes = 2048\ninit = { bf16 = \"integers\" }",
              "kind = \"symmetric\"\nbytes = 2048");
  // Of all ranks the same, as a replicated residual and a weight are.
  replace_all(memories, "{ bf16 = \"integers\" }", "{ bf16 = \"integers\", same = true }");
  replace_all(memories, "bytes = 1024", "bytes = 2048");
  text = memories +
         "[memory.x]\nkind = \"local\"\nbytes = 2048\ninit = { bf16 = \"integers\" }\n"
         "[memory.out]\nkind = \"local\"\nbytes = 2048\n" +
         launch_of_copy("data", "x", false) + text.substr(launch, check - launch) +
         (c.kernel_is_dependent ? "dependent = true\n" : "") +
         launch_of_copy("out", "data", c.copy_out_is_dependent) + R"toml(
[check]
modes = ["coherent"]
equal = ["out"]
restored = ["pad"]
[check.let]
total = "sum(x)"
stream = "total + residual"
scaled = "stream * rms(stream, eps = 1e-6)"
[check.expected.out]
columns = 256
value = "scaled * gamma"
round = ["total", "stream", "scaled"]
)toml";
  cases::CaseProgram program(cases::parse_case(text, "tests/cases/files/operator.toml"), {});
  const std::string said = found(fuzz(program, mode, 60));
  std::filesystem::remove_all(folder);
  return said;
}

const std::string kTriggerAndWait = "griddepcontrol.launch_dependents;\n  griddepcontrol.wait;";

}  // namespace

TEST_CASE("copy in, tokenweave launched dependent, copy out: a call of the operator, twice") {
  CHECK(call({}, Boundary::coherent) == "clean");
  Call plain;
  plain.kernel_is_dependent = false;
  CHECK(call(plain, Boundary::coherent) == "clean");
  // A copy that lets the kernel start early changes nothing for one that waits.
  Call early;
  early.first_of_copies = "griddepcontrol.launch_dependents;";
  CHECK(call(early, Boundary::coherent) == "clean");
  // Nor does a copy out that starts while the kernel runs, and waits.
  Call chain;
  chain.first_of_copies = kTriggerAndWait;
  chain.copy_out_is_dependent = true;
  CHECK(call(chain, Boundary::coherent) == "clean");
  // Values are judged: rank 1 takes other rows of the residual here.
  Call sharded;
  sharded.residual_is_whole = false;
  CHECK(call(sharded, Boundary::coherent) == "numeric-mismatch");
}

TEST_CASE("a kernel of the operator that starts early and does not wait races with the copies") {
  Call kernel;
  kernel.kernel_waits = false;
  CHECK(call(kernel, Boundary::coherent) == "data-race");
  // Launched otherwise it needs no wait.
  kernel.kernel_is_dependent = false;
  CHECK(call(kernel, Boundary::coherent) == "clean");
  Call copy;
  copy.copy_out_is_dependent = true;
  CHECK(call(copy, Boundary::coherent) == "data-race");
}
