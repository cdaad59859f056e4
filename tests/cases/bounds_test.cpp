// An access out of bounds is told as that access: who, what it does, its line, which memory it was
// meant for, and by how much it misses it.
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <string>

#include "emulator/trace/verdict.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

// What is told of a kernel of one warp; %r0 is the thread, %rd0 and %rd1 point to `in` and `out` of
// 256 bytes each, %rd2 is 4 times the thread, %r5 was loaded from `in` by each thread.
struct Told {
  machine::FindingKind kind;
  std::string message;
  std::string line;  // of the access
};

Told told(const std::string& variables, const std::string& body, unsigned shared_bytes = 0) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-bounds-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << R"(.version 8.0
.target sm_90a
.address_size 64
)" << variables << R"(
.visible .entry bounds(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<4>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd0, [in];
  cvta.to.global.u64 %rd0, %rd0;
  ld.param.u64 %rd1, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd3, %rd0, %rd2;
  ld.global.u32 %r5, [%rd3];
)" << body << "  ret;\n}\n";
  const auto memory = [](const std::string& name) {
    return "[memory." + name + "]\nkind = \"local\"\nbytes = 256\ninit = { fill = 0 }\n";
  };
  cases::CaseProgram program(
      cases::parse_case(
          "version = 1\nranks = 1\n" + memory("in") + memory("out") + "[[launch]]\nptx = \"" +
              file.string() + "\"\nkernel = \"bounds\"\ngrid = [2]\nblock = [32]\nshared_bytes = " +
              std::to_string(shared_bytes) + "\nargs = [ {memory = \"in\"}, {memory = \"out\"} ]\n",
          "bounds.toml"),
      {});
  std::filesystem::remove(file);
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  const auto f = schedule::failure(outcome);
  REQUIRE(f);
  REQUIRE(f->has_second);
  return {f->kind, trace::make_verdict(outcome, program).message,
          program.site_name(f->second.site)};
}

#define CHECK_SAYS(text, part)                          \
  CHECK_MESSAGE((text).find(part) != std::string::npos, \
                "'" << (text) << "' does not say '" << (part) << "'")

const char* const kDynamic = ".extern .shared .align 16 .b8 tile[];";

}  // namespace

TEST_CASE("a store to shared memory that the case gives none of names itself and shared_bytes") {
  const Told t = told(kDynamic,
                      "  mov.u32 %r1, tile;\n  mad.lo.u32 %r2, %r0, 4, %r1;\n"
                      "  st.shared.u32 [%r2+512], %r5;\n");
  CHECK(t.kind == machine::FindingKind::out_of_bounds);
  CHECK_SAYS(t.line, "st.shared.u32 [%r2+512]");
  CHECK_SAYS(t.message,
             "rank 0, block 0, thread 0 writes shared memory of block 0 of rank 0, byte 512");
  CHECK_SAYS(t.message,
             "4 bytes at byte 512 of the block's shared memory end 516 beyond its 0 bytes");
  CHECK_SAYS(t.message, "the case has shared_bytes = 0, expected at least 516");
}

TEST_CASE("what is due of shared_bytes is without the kernel's own shared memory") {
  const Told t = told(std::string(".shared .align 16 .b8 own[32];\n") + kDynamic,
                      "  mov.u32 %r1, tile;\n  mad.lo.u32 %r2, %r0, 4, %r1;\n"
                      "  st.shared.u32 [%r2], %r5;\n",
                      64);
  CHECK_SAYS(t.message,
             "rank 0, block 0, thread 16 writes shared memory of block 0 of rank 0, byte 96");
  CHECK_SAYS(t.message, "end 4 beyond its 96 bytes");
  CHECK_SAYS(t.message, "the case has shared_bytes = 64, expected at least 68");
}

TEST_CASE("a kernel whose shared memory has a size of its own is told nothing of shared_bytes") {
  const Told t = told(".shared .align 16 .b8 own[64];",
                      "  mov.u32 %r1, own;\n  mad.lo.u32 %r2, %r0, 4, %r1;\n"
                      "  atom.shared.add.u32 %r3, [%r2], %r5;\n");
  CHECK(t.kind == machine::FindingKind::out_of_bounds);
  CHECK_SAYS(t.message, "thread 16 updates shared memory of block 0 of rank 0, byte 64");
  CHECK(t.message.find("shared_bytes") == std::string::npos);
}

TEST_CASE("an index that ran away names the memory that it was meant for, wherever it points") {
  SUBCASE("far behind it") {
    const Told t = told("",
                        "  add.s64 %rd4, %rd1, %rd2;\n  add.s64 %rd4, %rd4, 8589934592;\n"
                        "  st.global.u32 [%rd4], %r5;\n");
    CHECK(t.kind == machine::FindingKind::out_of_bounds);
    CHECK_SAYS(t.line, "st.global.u32 [%rd4]");
    CHECK_SAYS(t.message, "thread 0 writes out of rank 0, byte 8589934592");
    CHECK_SAYS(t.message,
               "4 bytes at byte 8589934592 of 'out of rank 0' end 8589934340 beyond its 256 bytes");
  }
  SUBCASE("before it") {
    const Told t = told("", "  sub.s64 %rd4, %rd1, %rd2;\n  red.global.add.u32 [%rd4+40], 1;\n");
    CHECK_SAYS(t.message, "thread 11 updates 0x");
    CHECK_SAYS(t.message, "4 bytes begin 4 before 'out of rank 0', which has 256");
  }
  SUBCASE("at the end of another memory") {
    // 2 MiB of pages and as much that nothing lies in: `out` begins 4 MiB behind `in`.
    const Told t = told("", "  ld.global.u32 %r6, [%rd0+4194564];\n");
    CHECK_SAYS(t.message, "thread 0 reads in of rank 0, byte 4194564");
    CHECK_SAYS(t.message, "of 'in of rank 0' end 4194312 beyond its 256 bytes");
  }
}

TEST_CASE("an address out of memory or from two memories is told by what is near it") {
  SUBCASE("behind") {
    const Told t = told("",
                        "  setp.lt.u32 %p0, %r0, 16;\n  selp.b64 %rd4, %rd0, %rd1, %p0;\n"
                        "  st.global.u32 [%rd4+300], %r5;\n");
    CHECK_SAYS(t.message, "thread 0 writes in of rank 0, byte 300");
    CHECK_SAYS(t.message, "of 'in of rank 0' end 48 beyond its 256 bytes");
  }
  SUBCASE("where no page is") {
    const Told t = told("",
                        "  ld.global.u64 %rd5, [%rd0];\n  add.s64 %rd4, %rd5, %rd1;\n"
                        "  st.global.u32 [%rd4+2097152], %r5;\n");
    CHECK_SAYS(t.message,
               "of 'out of rank 0' end 2096900 beyond its 256 bytes, the nearest memory");
  }
  SUBCASE("nowhere near") {
    const Told t = told("", "  ld.global.u64 %rd5, [%rd0];\n  st.global.u32 [%rd5+16], %r5;\n");
    CHECK_SAYS(t.message, "thread 0 writes 0x10 at ");
    CHECK_SAYS(t.message, "4 bytes at 0x10, where there is no memory");
  }
}

TEST_CASE("a copy out of bounds is told as the copy, not as what waits for it") {
  SUBCASE("cp.async, from global memory") {
    const Told t = told(".shared .align 16 .b8 tile[512];",
                        "  mov.u32 %r1, tile;\n  mad.lo.u32 %r2, %r0, 16, %r1;\n"
                        "  mul.wide.u32 %rd4, %r0, 16;\n  add.s64 %rd4, %rd1, %rd4;\n"
                        "  cp.async.ca.shared.global [%r2], [%rd4], 16;\n"
                        "  cp.async.wait_all;\n");
    CHECK_SAYS(t.line, "cp.async.ca.shared.global");
    CHECK_SAYS(t.message, "thread 16 reads out of rank 0, byte 256");
    CHECK_SAYS(t.message, "16 bytes at byte 256 of 'out of rank 0' end 16 beyond its 256 bytes");
  }
  SUBCASE("cp.async, to shared memory") {
    const Told t = told(".shared .align 16 .b8 tile[64];",
                        "  mov.u32 %r1, tile;\n  mad.lo.u32 %r2, %r0, 16, %r1;\n"
                        "  cp.async.ca.shared.global [%r2], [%rd1], 16;\n"
                        "  cp.async.wait_all;\n");
    CHECK_SAYS(t.line, "cp.async.ca.shared.global");
    CHECK_SAYS(t.message, "thread 4 writes shared memory of block 0 of rank 0, byte 64");
  }
  SUBCASE("a bulk copy, to global memory") {
    const Told t = told(".shared .align 16 .b8 tile[512];",
                        "  setp.ne.u32 %p0, %r0, 0;\n  @%p0 bra DONE;\n"
                        "  mov.u32 %r1, tile;\n  mov.u32 %r2, 512;\n"
                        "  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;\n"
                        "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nDONE:\n");
    CHECK_SAYS(t.line, "cp.async.bulk.global");
    CHECK_SAYS(t.message, "thread 0 writes out of rank 0, byte 0");
    CHECK_SAYS(t.message, "512 bytes at byte 0 of 'out of rank 0' end 256 beyond its 256 bytes");
  }
}

TEST_CASE("a misaligned shared access names its place and itself") {
  const Told t = told(".shared .align 16 .b8 own[64];",
                      "  mov.u32 %r1, own;\n  st.shared.u32 [%r1+6], %r5;\n");
  CHECK(t.kind == machine::FindingKind::misaligned);
  CHECK_SAYS(t.message, "thread 0 writes shared memory of block 0 of rank 0, byte 6");
  CHECK_SAYS(t.message, "shared byte 6 is not aligned to 4 bytes");
}
