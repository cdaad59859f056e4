// What a reader who has never seen the kernel is told first: why a finding came about, and what
// would fix it. The causes are those of tests/ptx/kernels/zoo.cu and tests/zoo, read there.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cli/told.hpp"

namespace ringfence::cli {
namespace {

namespace fs = std::filesystem;

struct Fault {
  const char* name;
  std::vector<std::string> message, cause, fix;
};

// Lines of zoo.cu: 8 st_release, 11 st_relaxed, 24 add_release, 35 to 39 put, 48 to 52 wait.
const Fault kFaults[] = {
    {"flag-reused", {"== 1, and 0 is there"}, {"stored 0 over it at zoo.cu:11"}, {"only grow"}},
    {"wait-equal", {"== 2, and 3 is there"}, {"overshot to 3", "zoo.cu:24"}, {"wait for >= 2"}},
    {"early-signal",
     {},
     {"zoo.cu:8", "no block barrier"},
     {"__syncthreads() between zoo.cu:152 and zoo.cu:8"}},
    {"middle-barrier",
     {},
     {"the put at zoo.cu:39", "publishes nothing", "the wait at zoo.cu:52", "acquires nothing"},
     {".release at zoo.cu:39", ".acquire at zoo.cu:52"}},
    {"scope", {}, {"scope .gpu"}, {"scope .sys"}},
    {"reuse", {}, {"writes the buffer again at zoo.cu:75"}, {"barrier of the ranks"}},
    {"streams", {}, {"both signal in pad of rank"}, {"each launch"}},
    {"groups", {}, {"both signal in pad of rank"}, {"each block"}},
    {"grids",
     {"waits for ever for pad of rank 1"},
     {"nobody has written there", "rank 0 launches 1", "rank 0 has no block 1"},
     {"the same grid"}},
    {"idle-rank",
     {"waits for ever for pad of rank 0"},
     {"rank 1 has signalled nothing"},
     {"rank 1 has to come to this barrier"}},
    {"frozen-epoch", {}, {"of call 1 was satisfied by", "in call 0"}, {"epoch"}},
    {"flag-in-vector", {}, {"the flag can be new while its data are old"}, {"a store of its own"}},
    {"sentinel", {"!= 0, and 0 is there"}, {"sent 0 there at zoo.cu:11"}, {"-0.0"}},
    {"counter-reset",
     {">= 2, and 1 is there"},
     {"stored 0 over it at zoo.cu:11", "arrival"},
     {"atomic"}},
    {"pad-zeroed", {}, {"plain store of 0 at zoo.cu:138"}, {"clear"}},
    {"byte-flags", {}, {"of 8 bytes", "of 1"}, {"by one size"}},
    {"lamport-size",
     {},
     {"launch 0", "launch 3", "not cleared"},
     {"clear all that launch 0 wrote"}},
    {"grid-beyond-pad",
     {"pad of rank 0, byte 8", "zoo.cu:35", "4 beyond its 8 bytes", "2 blocks"},
     {},
     {}},
};

TEST_CASE("each fault of the zoo is told with its cause and with what mends it") {
  for (const Fault& fault : kFaults) {
    CAPTURE(fault.name);
    const Told t = told(std::string("tests/zoo/") + fault.name + "-fault.toml", "--no-remedies");
    for (const auto& [text, parts] :
         {std::pair{&t.message, &fault.message}, {&t.cause, &fault.cause}, {&t.fix, &fault.fix}}) {
      CAPTURE(*text);
      for (const std::string& part : *parts) {
        CAPTURE(part);
        CHECK(says(*text, part));
      }
    }
    // They stand above all else.
    if (!t.cause.empty()) CHECK(says(t.story.substr(0, t.story.find("  case ")), t.cause));
  }
}

TEST_CASE("a block barrier that is missing is put in, at its line") {
  const Told t = told("tests/zoo/early-signal-fault.toml");
  REQUIRE(!t.remedies.empty());
  CHECK(t.remedies.front().ends_with("/after=bar.sync"));
  CHECK(says(t.story, "__syncthreads() after zoo.cu:152"));
}

TEST_CASE("what the user took out is put back first") {
  // The __syncthreads() behind zoo.cu:152.
  const Told t = told("tests/zoo/early-signal-fixed.toml", "--set zoo.ptx:2642/barrier=none");
  REQUIRE(!t.remedies.empty());
  CHECK(t.remedies.front() == "zoo.ptx:2642/barrier=");
}

TEST_CASE("an init or a clear of a memory mends what lacks one") {
  const Folder f;
  // In the second call the count goes on from two.
  write_case(f,
             "  red.release.gpu.global.add.u32 [%m], 1;\n"
             "W: ld.acquire.gpu.global.u32 %v, [%m];\n  setp.ne.u32 %p, %v, 2;\n  @%p bra W;\n",
             "calls = 2\n", "");
  const Told counts = told(f / "c.toml");
  CHECK(says(counts.cause, "overshot to 3"));
  REQUIRE(!counts.remedies.empty());
  CHECK(counts.remedies.front() == "memory.count/clear=call");
  CHECK(says(counts.story, "count of rank 0 cleared by the host after each call"));
  const std::string command = "fuzz --executor inline --no-remedies --schedules 50 --case c.toml ";
  CHECK(ringfence(f, command + "--set " + counts.remedies.front()).status == 0);
  CHECK(ringfence(f, command).status == 1);

  write_case(f, "  ld.global.u32 %v, [%m+32];\n  red.global.add.u32 [%m], %v;\n", "",
             "init = \"poison\"\n");
  const Told unset = told(f / "c.toml", "--boundary stream");
  REQUIRE(!unset.remedies.empty());
  CHECK(unset.remedies.front() == "memory.count/init=zero");
}

TEST_CASE("waits that no other thread can end are told by what they wait for") {
  const Folder f;
  // The first phase is complete, and the wait is for the parity of the second.
  write_case(f,
             "  .shared .align 8 .b8 sm[8]; .reg .b64 %s;\n"
             "  mbarrier.init.shared.b64 [sm], 1;\n  mbarrier.arrive.shared.b64 %s, [sm];\n"
             "W: mbarrier.try_wait.parity.shared.b64 %p, [sm], 1;\n  @!%p bra W;\n",
             "", "");
  const Told ahead = told(f / "c.toml", "--no-remedies");
  CHECK(says(ahead.cause, "nobody has arrived since phase 0 was complete"));
  CHECK(says(ahead.fix, "the parity of phase 0, which is 0"));
  // The load of the flag stands before the loop.
  write_case(f, "  ld.global.u32 %v, [%m];\nL: setp.ne.u32 %p, %v, 1;\n  @%p bra L;\n", "", "");
  const Told hoisted = told(f / "c.toml", "--no-remedies");
  CHECK(says(hoisted.message, "loops for ever at k.ptx:"));
  CHECK(says(hoisted.cause, "the loop loads nothing"));
  CHECK(says(hoisted.fix, "ld.acquire.sys"));
}

TEST_CASE("threads that do not meet at a barrier are told with both their places") {
  const Folder f;
  write_case(f,
             "  mov.u32 %v, %tid.x;\n  setp.lt.u32 %p, %v, 32;\n  @%p bra A;\n  ret;\n"
             "A: bar.sync 0;\n",
             "", "", {.block = "64"});
  const Told exited = told(f / "c.toml", "--no-remedies --policy syncthreads=cuda");
  CHECK(says(exited.message, "thread 0 waits at a barrier of all threads of its block at k.ptx:1"));
  CHECK(says(exited.message, "thread 32 has exited at k.ptx:10"));
  CHECK(says(exited.cause, "is at the barrier of all threads at k.ptx:11"));
  CHECK(says(exited.cause, "has exited at k.ptx:10"));
  CHECK(says(exited.fix, "outside of the branch"));
}

TEST_CASE("a flag that both sides access plainly is told, and made strong on both") {
  const Folder f;
  const auto write = [&](const std::string& store, const std::string& load) {
    write_case(f,
               "  mov.u32 %v, %ctaid.x;\n"
               "  setp.eq.u32 %p, %v, 0;\n"
               "  @%p bra R;\n"
               "  st.global.u32 [%m+32], 7;\n"
               "  st" +
                   store +
                   ".global.u32 [%m], 1;\n"
                   "  ret;\n"
                   "R: ld" +
                   load +
                   ".global.u32 %v, [%m];\n"
                   "  setp.ne.u32 %p, %v, 1;\n"
                   "  @%p bra R;\n"
                   "  ld.global.u32 %v, [%m+32];\n",
               "", "");
  };
  const std::string clean = "fuzz --executor inline --no-remedies --schedules 100 --case c.toml";
  write(".release.gpu", ".acquire.gpu");
  CHECK(ringfence(f, clean).status == 0);
  write("", "");
  const Told t = told(f / "c.toml", "--remedies 20s");
  CHECK(says(t.cause, "k.ptx:13 polls by a plain load what k.ptx:11 signals by a plain store"));
  CHECK(t.fix == "st.release.sys at k.ptx:11, and ld.acquire.sys at k.ptx:13");
  std::string both;
  for (const std::string& change : t.remedies) both += " --set " + change;
  CHECK(says(both, "k.ptx:11/order=release"));
  CHECK(says(both, "k.ptx:13/order=acquire"));
  CHECK(ringfence(f, clean + both).status == 0);
}

// The flag and the data are words of one store: a strong load of the data would be no race, and
// could still read old data.
TEST_CASE("no remedy makes data strong, which would hide the race and order nothing") {
  const Told t = told("tests/zoo/flag-in-vector-fault.toml", "--remedies 20s");
  CHECK(!says(t.story, "(it is weak"));
}

// Rank 0's inputs are written by a launch before its kernel, whose threads fence at their start,
// except in strict (docs/modes.md): there alone the relaxed put lacks a release.
TEST_CASE("a put of what an earlier launch wrote lacks a release in strict alone") {
  const Folder f;
  const auto write = [&](const std::string& put, const std::string& wait) {
    std::ofstream(f / "k.ptx") << R"(.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 pad, .param .u32 rank) {
  .reg .pred %p; .reg .b32 %v; .reg .b64 %d, %s;
  ld.param.u64 %d, [data];
  ld.param.u64 %s, [pad];
  ld.param.u32 %v, [rank];
  ld.global.u64 %d, [%d];
  ld.global.u64 %s, [%s+8];
  setp.ne.u32 %p, %v, 0;
  @%p bra W;
  st.)" << put << R"(.sys.global.u32 [%s], 1;
  ret;
W: ld.)" << wait << R"(.sys.global.u32 %v, [%s];
  setp.ne.u32 %p, %v, 1;
  @%p bra W;
  ld.global.u32 %v, [%d];
  ret;
}
)";
    std::ofstream(f / "c.toml") << R"(version = 1
ranks = 2
[memory.data]
kind = "symmetric"
bytes = 64
init = { u32 = "integers" }
[memory.pad]
kind = "symmetric"
bytes = 16
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [1]
block = [1]
args = [ {peers = "data"}, {peers = "pad"}, "rank" ]
)";
  };
  const std::string clean = "fuzz --executor inline --no-remedies --schedules 50 --case c.toml ";
  write("release", "acquire");
  CHECK(ringfence(f, clean + "--boundary strict").status == 0);
  write("relaxed", "acquire");
  CHECK(ringfence(f, clean + "--boundary stream").status == 0);
  CHECK(ringfence(f, clean + "--boundary strict").status == 1);
  write("relaxed", "relaxed");
  const Told strict = told(f / "c.toml", "--no-remedies --boundary strict");
  CHECK(says(strict.cause, "the put at k.ptx:13"));
  CHECK(says(strict.cause, "the wait at k.ptx:15"));
  const Told stream = told(f / "c.toml", "--no-remedies --boundary stream");
  CHECK(!says(stream.cause, "the put at"));
  CHECK(says(stream.cause, "the wait at k.ptx:15"));
}

// tests/cases/files/collectives.cu: with `drop`, element 5 of the last rank lacks the last term; op
// 8 copies rank 0's input.
TEST_CASE("of a sum that lacks terms it is told where it was formed, and what was read for it") {
  const Folder f;
  const auto write =
      [&](int op, int drop) {
        std::ofstream(f / "c.toml")
            << "version = 1\nranks = 3\n"
               "[memory.data]\nkind = \"symmetric\"\nbytes = 96\ninit = { u32 = \"integers\" }\n"
               "[memory.out]\nkind = \"local\"\nbytes = 96\n"
               "[memory.pad]\nkind = \"symmetric\"\nbytes = 64\n"
               "[memory.epoch]\nkind = \"local\"\nbytes = 4\n[[launch]]\nptx = \""
            << fs::absolute("tests/cases/files/collectives.ptx").string()
            << "\"\nkernel = \"of_u32\"\ngrid = [1]\nblock = [32]\n"
               "args = [ {peers = \"data\"}, {memory = \"out\"}, {peers = \"pad\"}, \"rank\", "
               "\"world\", {s32 = 24}, {s32 = "
            << op << "}, {s32 = " << drop
            << "}, {memory = \"epoch\"} ]\n[check.expected.out]\nsum = \"data\"\n";
      };
  write(0, 0);
  CHECK(ringfence(f, "fuzz --executor inline --schedules 20 --case c.toml").status == 0);
  write(0, 1);
  const Told lacks = told(f / "c.toml", "--no-remedies");
  CHECK(says(lacks.cause, "the sum was formed by rank 2, block 0, thread 5 at collectives.ptx:"));
  CHECK(says(lacks.cause, "which had read 'data' of ranks 0, 1 (at collectives.ptx:"));
  CHECK(says(lacks.cause, "and of no other rank"));
  CHECK(says(lacks.fix, "add the terms of all ranks at collectives.ptx:"));
  write(8, 0);
  const Told copies = told(f / "c.toml", "--no-remedies");
  CHECK(says(copies.cause, "which had read 'data' of rank 0 (at collectives.ptx:"));
}

TEST_CASE("what no order and no scope mends is told with what does") {
  const Told t = told("tests/zoo/grids-fault.toml", "--boundary stream");
  CHECK(t.remedies.empty());
  CHECK(says(t.story, "makes it pass"));
  CHECK(says(t.story, "Suggested, not tried: the same grid on every rank"));
}

TEST_CASE("what several modes find is told once") {
  const Folder f;
  const Result r = ringfence(f, "fuzz --executor inline --no-remedies --case " +
                                    fs::absolute("tests/zoo/scope-fault.toml").string());
  CHECK(r.status == 1);
  std::size_t stories = 0;
  for (auto at = r.out.find("in boundary mode"); at != std::string::npos;
       at = r.out.find("in boundary mode", at + 1)) {
    ++stories;
  }
  CHECK(stories == 1);
  CHECK(says(r.out, "the same in strict and coherent (not claimed: strict, coherent)"));
}

// Lines of zoo.cu: 75 the rows' stores, 78 their loads, 138 the plain store to a slot.
TEST_CASE("the first line of a race names both accesses, in their order, with their lines") {
  const std::string scope = told("tests/zoo/scope-fault.toml", "--no-remedies --all").message;
  CHECK(says(scope, " writes data of rank 0, byte 0 at zoo.cu:75, and rank 1, "));
  CHECK(says(scope, " reads it at zoo.cu:78: no synchronisation orders the two"));
  // What no kernel does has no line, and says what it is for.
  const std::string reuse = told("docs/examples/all_reduce_broken.toml", "--no-remedies").message;
  CHECK(says(reuse, " at all_reduce.cu:40 in call 0, and rank "));
  CHECK(says(reuse, " writes it as the inputs of call 1 are written: no synchronisation"));
}

TEST_CASE("a line of an inlined helper is told with the line that calls it") {
  const Folder f;
  std::ofstream(f / "k.ptx") << R"(.version 8.6
.target sm_90
.address_size 64
.file 1 "k.cu"
.file 2 "helpers.cuh"
.visible .entry k(.param .u64 peers, .param .u32 rank)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [peers];
  ld.param.u32 %r1, [rank];
  ld.global.u64 %rd2, [%rd1];
  setp.ne.u32 %p1, %r1, 0;
  .loc 2 7 1, function_name $L__info_string0, inlined_at 1 41 9
  @%p1 st.global.u32 [%rd2], %r1;
  .loc 1 44 1
  ld.global.u32 %r2, [%rd2];
  ret;
}
)";
  std::ofstream(f / "c.toml") << R"(version = 1
ranks = 2
[memory.m]
kind = "symmetric"
bytes = 64
init = "zero"
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [1]
block = [1]
args = [ {peers = "m"}, "rank" ]
)";
  const Told t = told(f / "c.toml", "--no-remedies");
  CHECK(says(t.message, "at helpers.cuh:7 (called at k.cu:41)"));
  CHECK(says(t.story, "helpers.cuh:7 from k.cu:41: @%p1 st.global.u32"));
  CHECK(says(t.story,
             "helpers.cuh:7, called at k.cu:41: @%p1 st.global.u32 [%rd2], %r1;  (PTX "
             "line 16)"));
  CHECK(says(t.story, "k.cu:44: ld.global.u32 %r2, [%rd2];  (PTX line 18)"));
  // Known findings are still named by the line itself.
  std::ofstream(f / "known.toml") << "[[ignore]]\nkind = \"data-race\"\nline = \"helpers.cuh:7\"\n"
                                     "reason = \"a test\"\n";
  CHECK(ringfence(f, "fuzz --executor inline --schedules 20 --suppress known.toml --case c.toml")
            .status == 0);
}

// The default schedule comes to the slots of the barrier first, whose atomics race with each other,
// and only with those passed over to the rows, which are accessed plainly.
TEST_CASE("with --all a race of plain accesses is listed before one of strong accesses") {
  const Folder f;
  const std::string file = fs::absolute("tests/zoo/scope-fault.toml").string();
  ringfence(f,
            "fuzz --all --executor inline --boundary stream --schedules 200 --no-remedies --json "
            "r.json --case " +
                file);
  const auto found = json_of(f / "r.json")["findings"];
  REQUIRE(found.size() >= 2);
  CHECK(says(found[0]["message"], "zoo.cu:75"));
  CHECK(says(found[0]["token"], "suppress="));
  CHECK(says(found[1]["message"], "updates it at zoo.cu:37"));
  CHECK(!says(found[1]["token"], "suppress="));
}

TEST_CASE(
    "with --all findings behind the first are listed by their lines, and their traces replay") {
  const Folder f;
  const std::string file = fs::absolute("tests/zoo/scope-fault.toml").string();
  const Result r = ringfence(f,
                             "fuzz --all --executor inline --boundary stream --schedules 200 "
                             "--no-remedies --json r.json --case " +
                                 file);
  CHECK(r.status == 1);
  CHECK(says(r.out, "Further findings in stream"));
  std::set<std::string> accesses;
  const auto found = json_of(f / "r.json")["findings"];
  // The slots of the barrier, and the rows that it does not order: zoo.cu:75 and zoo.cu:78.
  REQUIRE(found.size() > 1);
  bool rows = false;
  for (const auto& one : found) {
    const std::string story = one["story"];
    const std::size_t at = story.find("The two accesses:");
    REQUIRE(at != std::string::npos);
    const std::string two = story.substr(at, story.find("missing between", at) - at);
    rows = rows || (says(two, "zoo.cu:75") && says(two, "zoo.cu:78"));
    std::string lines;
    for (auto line = two.find(" zoo.cu:"); line != std::string::npos;
         line = two.find(" zoo.cu:", line + 1)) {
      lines += two.substr(line, two.find(": ", line) - line);
    }
    CHECK(accesses.insert(lines).second);
    const std::string trace = one["trace"];
    CHECK(ringfence(f, "replay --no-remedies --executor inline " + trace).status == 1);
  }
  CHECK(rows);
}

TEST_CASE("traces that nobody named a file for go to a folder of their own") {
  const Folder f;
  CHECK(ringfence(f, "fuzz --executor inline --schedules 5 --case " +
                         fs::absolute("tests/zoo/scope-fixed.toml").string())
            .status == 0);
  CHECK(f.files().empty());
  ringfence(f, "fuzz --executor inline --no-remedies --case " +
                   fs::absolute("tests/zoo/scope-fault.toml").string());
  CHECK(f.files() == std::vector<std::string>{"ringfence-findings"});
}

}  // namespace
}  // namespace ringfence::cli
