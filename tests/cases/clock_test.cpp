// The virtual clock of a rank, as kernels see it.
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// Two calls on two ranks of a kernel of one thread; [%rd0] is 16 bytes of its own.
std::string verdict(const std::string& body) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-clock-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary)
      << ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry timed(.param .u64 own)\n"
         "{\n  .reg .pred %p<4>;\n  .reg .b32 %r<6>;\n  .reg .b64 %rd<8>;\n"
         "  ld.param.u64 %rd0, [own];\n"
      << body << "DONE:\n  ret;\n}\n";
  const std::string text =
      "version = 1\nranks = 2\ncalls = 2\nbudget = 100000\n"
      "[memory.own]\nkind = \"local\"\nbytes = 16\n[[launch]]\nptx = \"" +
      file.string() +
      "\"\nkernel = \"timed\"\ngrid = [1]\nblock = [1]\n"
      "args = [ {memory = \"own\"} ]\n";
  cases::CaseProgram program(cases::parse_case(text, "clock.toml"), cases::Settings{});
  std::filesystem::remove(file);
  return found(fuzz(program, Boundary::coherent, 3));
}

// Until `clock`, of 64 bits, has gone on by more than `ns` (or, the other way, by less).
std::string delay(const std::string& clock, const std::string& ns, const std::string& until) {
  return "  mov.u64 %rd1, " + clock + ";\nAGAIN:\n  mov.u64 %rd2, " + clock +
         ";\n  sub.u64 %rd3, %rd2, %rd1;\n  setp." + until + ".s64 %p0, %rd3, " + ns +
         ";\n  @!%p0 bra AGAIN;\n";
}

}  // namespace

TEST_CASE("a delay by any of the clocks ends") {
  CHECK(verdict(delay("%globaltimer", "1000000000", "gt")) == "clean");
  CHECK(verdict(delay("%clock64", "3000000", "gt")) == "clean");
  CHECK(verdict("  mov.u32 %r0, %clock;\nAGAIN:\n  mov.u32 %r1, %clock;\n"
                "  sub.u32 %r2, %r1, %r0;\n  setp.lt.u32 %p0, %r2, 4000000000;\n"
                "  @%p0 bra AGAIN;\n") == "clean");
}

TEST_CASE("a delay until the clock has gone back does not end") {
  CHECK(verdict(delay("%globaltimer", "0", "lt")) == "livelock");
}

TEST_CASE("the clock goes on from launch to launch") {
  const std::string now = "  mov.u64 %rd1, %globaltimer;\n  ld.global.u64 %rd2, [%rd0];\n";
  const std::string keep = delay("%globaltimer", "100", "gt") + "  st.global.u64 [%rd0], %rd2;\n";
  CHECK(verdict(now + "  setp.ge.u64 %p1, %rd1, %rd2;\n  @%p1 bra OK;\n  trap;\nOK:\n" + keep) ==
        "clean");
  CHECK(verdict(now +
                "  setp.le.u64 %p1, %rd2, 0;\n  @%p1 bra OK;\n"
                "  setp.lt.u64 %p1, %rd1, %rd2;\n  @%p1 bra OK;\n  trap;\nOK:\n" +
                keep) == "rank-lost");
}

TEST_CASE("a poll with a time-out is a wait: it is told as the deadlock that it would hide") {
  const std::string poll =
      "  mov.u64 %rd1, %globaltimer;\nAGAIN:\n  ld.acquire.sys.global.u32 %r0, [%rd0];\n"
      "  setp.ne.u32 %p0, %r0, 0;\n  @%p0 bra DONE;\n  mov.u64 %rd2, %globaltimer;\n"
      "  sub.u64 %rd3, %rd2, %rd1;\n  setp.lt.u64 %p1, %rd3, 1000;\n  @%p1 bra AGAIN;\n  trap;\n";
  CHECK(verdict(poll) == "deadlock");
  // Its twin: the flag is there.
  CHECK(verdict("  mov.u32 %r1, 1;\n  st.release.sys.global.u32 [%rd0], %r1;\n" + poll) == "clean");
}

TEST_CASE("a trap ends the rank, and the finding says where") {
  CHECK(verdict("  trap;\n") == "rank-lost");
  CHECK(verdict("  mov.u32 %r0, %tid.x;\n  setp.ne.u32 %p0, %r0, 0;\n  @%p0 trap;\n") == "clean");
}
