// What a launch is beside its threads: who has exited, who meets at a barrier, when a block begins
// and ends, how many blocks are resident, and launches that overlap. Each claim has a twin.

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "emulator/check/explorer.hpp"
#include "emulator/trace/verdict.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

struct Case {
  std::string ptx;       // kernels, without a header
  std::string launches;  // TOML behind `[[launch]]` and the ptx key, one a launch
  std::string memories = "[memory.data]\nkind = \"local\"\nbytes = 1024\n";
  unsigned ranks = 1;
};

std::string launch(const std::string& kernel, unsigned blocks, unsigned threads,
                   const std::string& more = "") {
  return "kernel = \"" + kernel + "\"\ngrid = [" + std::to_string(blocks) + "]\nblock = [" +
         std::to_string(threads) + "]\nargs = [ {memory = \"data\"} ]\n" + more;
}

// A kernel of one parameter, with its address in %m, the thread in %t, the block in %b; label(s)
// and registers are its own.
std::string kernel(const std::string& name, const std::string& body,
                   const std::string& directives = "") {
  return ".visible .entry " + name + "(.param .u64 data) " + directives +
         "\n{\n  .reg .pred %p<4>;\n  .reg .b32 %t, %b, %v<9>;\n  .reg .b64 %m, %s<4>;\n"
         "  .shared .align 16 .b8 sm[256];\n"
         "  ld.param.u64 %m, [data];\n  mov.u32 %t, %tid.x;\n  mov.u32 %b, %ctaid.x;\n" +
         body + "  ret;\n}\n";
}

std::unique_ptr<cases::CaseProgram> program_of(const Case& c) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-launches-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary)
      << ".version 8.0\n.target sm_90\n.address_size 64\n" + c.ptx;
  std::string text = "version = 1\nranks = " + std::to_string(c.ranks) + "\n" + c.memories;
  std::string launches = c.launches;
  for (std::size_t at = 0; (at = launches.find("kernel =", at)) != std::string::npos;) {
    const std::string head = "[[launch]]\nptx = \"" + file.string() + "\"\n";
    launches.insert(at, head);
    at += head.size() + 1;
  }
  auto program = std::make_unique<cases::CaseProgram>(
      cases::parse_case(text + launches, "launches.toml"), cases::Settings{});
  std::filesystem::remove(file);
  return program;
}

struct Found {
  std::string kind;  // of the finding, or "clean"
  std::string message;
  std::string first, second;  // the lines of the two accesses
  std::vector<std::string> remarks;
};

Found fuzzed(const Case& c, machine::Policy policy = {}, std::uint64_t schedules = 100) {
  const auto program = program_of(c);
  const auto executor = ranks::make_inline(*program);
  schedule::SearchSpec spec;
  spec.run.policy = policy;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  spec.run.point_limit = 1u << 16;
  spec.schedules = schedules;
  const schedule::SearchResult r = schedule::search({executor.get()}, spec);
  Found f{found(r), "", "", "", program->remarks()};
  if (r.found) {
    const trace::Verdict v = trace::make_verdict(r.outcome, *program);
    f.message = v.message;
    f.first = v.first.line;
    f.second = v.second.line;
  }
  return f;
}

std::string checked(const Case& c, machine::Policy policy = {}) {
  check::CheckSpec spec;
  spec.run.policy = policy;
  spec.executions = 20000;
  spec.fingerprints = true;
  const check::CheckResult r = check::check_sums([&] { return program_of(c); }, spec);
  CHECK(r.repeated == 0);
  if (r.verdict == check::Verdict::unknown) return "unknown";
  if (r.verdict == check::Verdict::pass) return "clean";
  const auto f = schedule::failure(r.outcome);
  return f ? std::string(machine::name(f->kind)) : "no finding";
}

// Both searches say so; returns what the schedules found.
Found judge(const std::string& expected, const Case& c, machine::Policy policy = {}) {
  CHECK(checked(c, policy) == expected);
  Found f = fuzzed(c, policy);
  CHECK(f.kind == expected);
  return f;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

machine::Policy cuda() {
  machine::Policy p;
  p.syncthreads = machine::SyncThreads::cuda;
  return p;
}

// Four warps; warps 0 and 1 come to the first barrier, the others to `rest`.
Case branched(const std::string& barrier, const std::string& rest) {
  return {kernel("k",
                 "  setp.ge.u32 %p0, %t, 64;\n  @%p0 bra REST;\n"
                 "  shl.b32 %v0, %t, 2;\n  mov.u32 %v1, sm;\n  add.u32 %v1, %v1, %v0;\n"
                 "  st.shared.u32 [%v1], %t;\n" +
                     barrier +
                     "  xor.b32 %v0, %v0, 128;\n  mov.u32 %v1, sm;\n  add.u32 %v1, %v1, %v0;\n"
                     "  ld.shared.u32 %v2, [%v1];\n  ret;\nREST:\n" +
                     rest),
          launch("k", 1, 128)};
}

// Two blocks of a cluster; %v1: the first word of the peer's shared memory.
Case cluster(const std::string& body) {
  return {kernel("k",
                 "  xor.b32 %v0, %b, 1;\n  mov.u32 %v1, sm;\n"
                 "  mapa.shared::cluster.u32 %v1, %v1, %v0;\n" +
                     body,
                 ".reqnctapercluster 2"),
          launch("k", 2, 32)};
}
const std::string kSync = "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n";
const std::string kLoad = "  ld.shared::cluster.u32 %v2, [%v1+16];\n";

}  // namespace

TEST_CASE("threads that have exited release a barrier of the whole block, which a note tells") {
  const Case c = branched("  bar.sync 0;\n", "");
  const Found f = judge("clean", c);
  REQUIRE(f.remarks.size() == 1);
  CHECK(has(f.remarks[0], "bar.sync 0"));
  CHECK(has(f.remarks[0], "others have exited"));
  CHECK(has(f.remarks[0], ": ret"));
  const Found letter = judge("barrier-divergence", c, cuda());
  CHECK(has(letter.first, ": ret"));
  CHECK(has(letter.second, ": bar.sync 0"));
}

TEST_CASE("threads that have exited do not come to a barrier that counts") {
  // 64 threads are enough; 128 never come.
  const Found enough = judge("clean", branched("  bar.sync 1, 64;\n", ""), cuda());
  CHECK(enough.remarks.empty());
  judge("deadlock", branched("  bar.sync 1, 128;\n", ""));
}

TEST_CASE("threads that meet at a block's barrier from two instructions: a note, or a finding") {
  const Case c = branched("  bar.sync 0;\n", "  bar.sync 0;\n");
  const Found f = judge("clean", c);
  REQUIRE(f.remarks.size() == 1);
  CHECK(has(f.remarks[0], "from two instructions"));
  const Found letter = judge("barrier-divergence", c, cuda());
  CHECK(has(letter.first, ": bar.sync 0"));
  CHECK(has(letter.second, ": bar.sync 0"));
  CHECK(letter.first != letter.second);
  // A barrier without .aligned may be two instructions.
  const Case unaligned = branched("  barrier.sync 0;\n", "  barrier.sync 0;\n");
  CHECK(judge("clean", unaligned, cuda()).remarks.empty());
  // So may one that counts: a producer's and a consumer's.
  const Case counted = branched("  bar.sync 0, 128;\n", "  bar.arrive 0, 128;\n");
  CHECK(judge("clean", counted, cuda()).remarks.empty());
}

TEST_CASE("who goes on from a barrier that exits release does so behind what those threads did") {
  // Block 0 waits for a 1, which another one stores and `last` may take away: at the barrier that
  // only the exit behind a load of something else completes.
  const auto taken = [](const std::string& barrier, unsigned cluster, const std::string& word) {
    const std::string exch = "  atom.relaxed.gpu.global.exch.b32 %v0, [%m+" + word + "], 4;\n";
    return Case{
        kernel("k",
               "  setp.eq.u32 %p0, %b, 0;\n  @%p0 bra POLL;\n  setp.eq.u32 %p0, %b, 1;\n"
               "  @%p0 bra STORE;\n  setp.ge.u32 %p0, %t, 32;\n  setp.eq.or.u32 %p0, %b, 3, %p0;\n"
               "  @%p0 bra EXIT;\n" +
                   barrier + "  setp.ne.u32 %p0, %t, 0;\n  @%p0 bra END;\n" + exch +
                   "  bra END;\nPOLL:\n  setp.ne.u32 %p0, %t, 0;\n  @%p0 bra END;\nW:\n"
                   "  ld.relaxed.gpu.global.u32 %v0, [%m];\n  setp.ne.u32 %p1, %v0, 1;\n"
                   "  @%p1 bra W;\n  bra END;\nSTORE:\n  setp.ne.u32 %p0, %t, 0;\n"
                   "  @%p0 bra END;\n  st.relaxed.gpu.global.u32 [%m], 1;\n  bra END;\nEXIT:\n"
                   "  and.b32 %v0, %t, 31;\n  setp.ne.u32 %p0, %v0, 0;\n  @%p0 bra END;\n"
                   "  ld.relaxed.gpu.global.u32 %v0, [%m+8];\nEND:\n",
               cluster > 1 ? ".reqnctapercluster 2" : ""),
        launch("k", cluster > 1 ? 4 : 3, 64)};
  };
  judge("deadlock", taken("  bar.sync 0;\n", 1, "0"));
  judge("clean", taken("  bar.sync 0;\n", 1, "16"));
  judge("deadlock", taken(kSync, 2, "0"));
  judge("clean", taken(kSync, 2, "16"));
}

TEST_CASE("shared memory of a peer is there once its block has begun, and until it ends") {
  judge("clean", cluster(kSync + kLoad + kSync));
  const Found early = judge("cluster-entry", cluster(kLoad + kSync));
  CHECK(has(early.second, ": ld.shared::cluster"));
  CHECK(early.first == "block barrier");  // that its start stands for
  CHECK(has(early.message, "start"));
  const Found late = judge("cluster-exit", cluster(kSync + kLoad));
  CHECK(has(late.first + late.second, ": ld.shared::cluster"));
  CHECK(has(late.first + late.second, ": ret"));
  // Behind the peer's arrival is not behind its wait; an arrival alone keeps nobody there.
  judge("cluster-exit", cluster(kSync + kLoad + "  barrier.cluster.arrive;\n"));
  judge("cluster-exit",
        cluster(kSync + "  barrier.cluster.arrive;\n" + kLoad + "  barrier.cluster.wait;\n"));
  // For that a barrier that orders nothing else is enough.
  const std::string relaxed = "  barrier.cluster.arrive.relaxed;\n  barrier.cluster.wait;\n";
  judge("clean", cluster(relaxed + kLoad + relaxed));
  // What a thread does to its own block by such an address is no visit.
  judge("clean",
        {kernel("k", "  mov.u32 %v1, sm;\n  mapa.shared::cluster.u32 %v1, %v1, %b;\n" + kLoad,
                ".reqnctapercluster 2"),
         launch("k", 2, 32)});
}

TEST_CASE("a flag that the peer block wrote tells that it has begun, or that a visit is over") {
  // Block 0 tells block 1 by a flag in global memory that it has begun; block 1 loads and tells it
  // that it is done.
  const auto flags = [](const std::string& order, bool waits) {
    const std::string acquire = order == ".relaxed" ? order : ".acquire";
    const std::string wait0 = waits ? "W0:\n  ld" + acquire +
                                          ".gpu.global.u32 %v3, [%m+4];\n"
                                          "  setp.eq.u32 %p1, %v3, 0;\n  @%p1 bra W0;\n"
                                    : "";
    return Case{
        kernel("k",
               "  mov.u32 %v1, sm;\n  mapa.shared::cluster.u32 %v1, %v1, 0;\n"
               "  setp.ne.u32 %p0, %t, 0;\n  @%p0 bra END;\n"
               "  setp.eq.u32 %p0, %b, 1;\n  @%p0 bra ONE;\n"
               "  st" +
                   order + ".gpu.global.u32 [%m], 1;\n" + wait0 + "  ret;\nONE:\n  ld" + acquire +
                   ".gpu.global.u32 %v3, [%m];\n  setp.eq.u32 %p1, %v3, 0;\n"
                   "  @%p1 bra ONE;\n" +
                   kLoad + "  st" + order + ".gpu.global.u32 [%m+4], 1;\nEND:\n",
               ".reqnctapercluster 2"),
        launch("k", 2, 32)};
  };
  judge("clean", flags(".release", true));
  judge("cluster-exit", flags(".release", false));
  judge("cluster-entry", flags(".relaxed", true));
}

TEST_CASE("a signal to a peer's mbarrier is over once the peer has seen its phase") {
  const auto signal = [](const std::string& wait) {
    return Case{
        kernel("k",
               "  mov.u32 %v1, sm;\n  mapa.shared::cluster.u32 %v1, %v1, 0;\n"
               "  setp.ne.u32 %p0, %t, 0;\n"
               "  @!%p0 mbarrier.init.shared.b64 [sm], 1;\n" +
                   kSync + "  @%p0 bra END;\n  setp.eq.u32 %p0, %b, 1;\n  @%p0 bra ONE;\n" + wait +
                   "  ret;\nONE:\n"
                   "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%v1];\nEND:\n",
               ".reqnctapercluster 2"),
        launch("k", 2, 32)};
  };
  judge("clean", signal("W0:\n  mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [sm], 0;\n"
                        "  @!%p1 bra W0;\n"));
  judge("cluster-exit", signal(""));
}

TEST_CASE("blocks that wait for each other and are not resident together are told as that") {
  // Each block counts itself, the last one lets all go on.
  const auto barrier = [](unsigned blocks, const std::string& more,
                          const std::string& directives = "") {
    return Case{kernel("k",
                       "  setp.ne.u32 %p0, %t, 0;\n  @%p0 bra END;\n"
                       "  mov.u32 %v1, %nctaid.x;\n  sub.u32 %v1, %v1, 1;\n"
                       "  atom.acq_rel.gpu.global.add.u32 %v0, [%m], 1;\n"
                       "  setp.ne.u32 %p1, %v0, %v1;\n  @%p1 bra W;\n"
                       "  st.release.gpu.global.u32 [%m+64], 1;\nW:\n"
                       "  ld.acquire.gpu.global.u32 %v0, [%m+64];\n"
                       "  setp.eq.u32 %p1, %v0, 0;\n  @%p1 bra W;\nEND:\n",
                       directives),
                launch("k", blocks, 32, more)};
  };
  const auto fuzz = [](const Case& c, machine::Policy p = {}) { return fuzzed(c, p, 5); };
  // One block of 200,000 bytes on each of 132 multiprocessors.
  const std::string large = "shared_bytes = 200000\n";
  CHECK(fuzz(barrier(132, large)).kind == "clean");
  const Found found = fuzz(barrier(133, large));
  CHECK(found.kind == "residency");
  CHECK(has(found.message, "it has 133, and 132 fit, 1 on each of 132 multiprocessors by 201344"));
  // Registers: 255 a thread are 8160 a warp, so a quarter has two; of blocks of 256 threads one.
  machine::Policy registers;
  registers.registers = 255;
  const auto wide = [&](unsigned blocks) {
    Case c = barrier(blocks, "");
    c.launches = launch("k", blocks, 256);
    return c;
  };
  CHECK(fuzz(wide(133)).kind == "clean");
  CHECK(fuzz(wide(132), registers).kind == "clean");
  CHECK(
      has(fuzz(wide(133), registers).message, "132 fit, 1 on each of 132 multiprocessors by 255 "));
  Case limited = wide(133);
  limited.ptx = barrier(133, "", ".maxnreg 255").ptx;
  CHECK(fuzz(limited).kind == "residency");
  // Blocks that wait for nobody take turns.
  CHECK(
      fuzz({kernel("k", "  red.relaxed.gpu.global.add.u32 [%m], 1;\n"), launch("k", 150, 1, large)})
          .kind == "clean");
  // Of other GPUs.
  const auto on = [&](unsigned multiprocessors, unsigned blocks, const std::string& more = "") {
    Case c = barrier(blocks, large + more);
    c.memories = "multiprocessors = " + std::to_string(multiprocessors) + "\n" + c.memories;
    return c;
  };
  CHECK(fuzz(on(114, 114)).kind == "clean");
  CHECK(has(fuzz(on(114, 115)).message, "it has 115, and 114 fit, 1 on each of 114"));
  CHECK(fuzz(on(148, 148)).kind == "clean");
  CHECK(fuzz(on(148, 148, "cooperative = true\n")).kind == "clean");
  CHECK_THROWS_WITH_AS(program_of(on(114, 132, "cooperative = true\n")),
                       doctest::Contains("a cooperative launch of 132 blocks, and 114 fit"),
                       cases::CaseError);
  // Seven groups of 16 and one of two: a cluster of four is in none of two.
  CHECK(fuzz(on(114, 112, "cluster = [4]\n")).kind == "clean");
  CHECK(fuzz(on(114, 116, "cluster = [4]\n")).kind == "residency");
  CHECK_THROWS_WITH_AS(program_of(on(0, 1)), doctest::Contains("multiprocessors"),
                       cases::CaseError);
  // By the letter two blocks do not have to be there together, but those of a cooperative launch
  // and of a cluster do.
  machine::Policy letter;
  letter.progress = machine::Progress::letter;
  judge("clean", barrier(2, ""));
  const Found alone = judge("residency", barrier(2, ""), letter);
  CHECK(has(alone.message, "progress=letter"));
  judge("clean", barrier(2, "cooperative = true\n"), letter);
  judge("clean", barrier(2, "cluster = [2]\n"), letter);
  CHECK_THROWS_WITH_AS(program_of(barrier(133, large + "cooperative = true\n")),
                       doctest::Contains("a cooperative launch of 133 blocks, and 132 fit"),
                       cases::CaseError);
}

namespace {

const std::string kTrigger = "  griddepcontrol.launch_dependents;\n";
const std::string kWait = "  griddepcontrol.wait;\n";
const std::string kStore = "  st.global.u32 [%m], 7;\n";
const std::string kRead = "  ld.global.u32 %v1, [%m];\n";
const std::string kAhead = "dependent = true\n";

// Launches of one thread, one behind the other; all but the first may overlap the one before.
Case chain(const std::vector<std::string>& bodies, const std::string& more = kAhead) {
  Case c;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const std::string name = "k" + std::to_string(i);
    c.ptx += kernel(name, bodies[i]);
    c.launches += launch(name, 1, 1, i == 0 ? "" : more);
  }
  return c;
}

}  // namespace

TEST_CASE("a dependent launch sees what the one before wrote once it has waited, and not before") {
  judge("clean", chain({kTrigger + kStore, kWait + kRead}));
  const Found early = judge("data-race", chain({kTrigger + kStore, kRead + kWait}));
  CHECK(has(early.first, ": st.global.u32"));
  CHECK(has(early.second, ": ld.global.u32"));
  // Nothing triggers: the launch before has ended then, and nothing is flushed yet.
  judge("data-race", chain({kStore, kRead}));
  judge("data-race", chain({kStore + kTrigger, kRead}));
  judge("clean", chain({kStore, kWait + kRead}));
  // Without the key the stream orders them.
  judge("clean", chain({kTrigger + kStore, kRead + kWait}, ""));
  // The other way round: what the one before still reads.
  judge("data-race", chain({kTrigger + kRead, kStore}));
  judge("clean", chain({kTrigger + kRead, kWait + kStore}));
}

TEST_CASE("griddepcontrol.wait by one thread holds for others behind a barrier alone") {
  const auto two = [](const std::string& between) {
    Case c =
        chain({kTrigger + kStore,
               "  setp.ne.u32 %p0, %t, 0;\n  @%p0 bra OTHERS;\n" + kWait + "OTHERS:\n" + between +
                   "  setp.ne.u32 %p0, %t, 32;\n  @%p0 bra END;\n" + kRead + "END:\n"});
    c.launches = launch("k0", 1, 1) + launch("k1", 1, 64, kAhead);
    return c;
  };
  judge("clean", two("  bar.sync 0;\n"));
  judge("data-race", two(""));
}

TEST_CASE("a release fence before launch_dependents covers what its thread did, with a note") {
  const auto fenced = [](const std::string& fence) {
    return chain({kStore + fence + kTrigger, kRead});
  };
  const Found f = judge("clean", fenced("  fence.acq_rel.gpu;\n"));
  REQUIRE(f.remarks.size() == 1);
  CHECK(has(f.remarks[0], "ld.global.u32"));
  CHECK(has(f.remarks[0], "the manual requires griddepcontrol.wait"));
  judge("clean", fenced("  fence.sc.sys;\n"));
  judge("data-race", fenced("  fence.acq_rel.cta;\n"));
  judge("data-race", chain({"  fence.acq_rel.gpu;\n" + kStore + kTrigger, kRead}));
  judge("data-race", chain({kStore + kTrigger + "  fence.acq_rel.gpu;\n", kRead}));
  // Who waits needs no note.
  CHECK(judge("clean", chain({kStore + "  fence.acq_rel.gpu;\n" + kTrigger, kWait + kRead}))
            .remarks.empty());
  // Of another thread it covers nothing, unless a barrier stands before that thread's fence.
  const auto other = [](const std::string& between) {
    Case c =
        chain({"  setp.ne.u32 %p0, %t, 32;\n  @%p0 bra FIRST;\n" + kStore + "FIRST:\n" + between +
                   "  setp.ne.u32 %p0, %t, 0;\n  @%p0 bra END;\n"
                   "  fence.acq_rel.gpu;\n" +
                   kTrigger + "END:\n",
               kRead});
    c.launches = launch("k0", 1, 64) + launch("k1", 1, 1, kAhead);
    return c;
  };
  judge("clean", other("  bar.sync 0;\n"));
  judge("data-race", other(""));
  // All threads fence and meet, then all trigger: whoever comes first knows the others' fences.
  const auto all = [](const std::string& between) {
    Case c =
        chain({"  shl.b32 %v0, %t, 2;\n  cvt.u64.u32 %s0, %v0;\n  add.s64 %s0, %m, %s0;\n"
               "  st.global.u32 [%s0], 7;\n  fence.acq_rel.gpu;\n" +
                   between + kTrigger,
               "  ld.global.u32 %v1, [%m+128];\n"});
    c.launches = launch("k0", 1, 64) + launch("k1", 1, 1, kAhead);
    return c;
  };
  judge("clean", all("  bar.sync 0;\n"));
  judge("data-race", all(""));
}

TEST_CASE(
    "a launch waits for the one directly before: a middle one that never waits orders nothing") {
  judge("clean", chain({kTrigger + kStore, kTrigger + kWait, kWait + kRead}));
  judge("data-race", chain({kTrigger + kStore, kTrigger, kWait + kRead}));
  // An ordinary launch behind them follows both.
  Case c = chain({kTrigger + kStore, kTrigger, kRead});
  c.launches = launch("k0", 1, 1) + launch("k1", 1, 1, kAhead) + launch("k2", 1, 1);
  judge("clean", c);
}

TEST_CASE("who goes on behind an arrival may read what others write behind the barrier") {
  // Of each warp one lane is left. Block 0 arrives and loads; block 1 writes behind the barrier,
  // or (the twin) before it arrives, where the load may return the value as well.
  const auto reads = [](const std::string& before, const std::string& behind) {
    return Case{kernel("k",
                       "  setp.ne.u32 %p0, %t, 0;\n  @%p0 ret;\n  setp.eq.u32 %p0, %b, 1;\n"
                       "  @%p0 bra WRITE;\n  barrier.cluster.arrive.release;\n" +
                           behind +
                           "  ld.relaxed.gpu.global.u32 %v0, [%m];\n  setp.eq.u32 %p1, %v0, 2;\n"
                           "  @%p1 trap;\n  ret;\nWRITE:\n" +
                           before +
                           "  barrier.cluster.arrive.release;\n  barrier.cluster.wait.acquire;\n"
                           "  atom.relaxed.gpu.global.exch.b32 %v0, [%m], 2;\n",
                       ".reqnctapercluster 2"),
                launch("k", 2, 32)};
  };
  judge("rank-lost", reads("", ""));
  // Only a second barrier keeps the write behind the load.
  const std::string twice =
      "  barrier.cluster.wait.acquire;\n  ld.relaxed.gpu.global.u32 %v0, [%m];\n"
      "  setp.eq.u32 %p1, %v0, 2;\n  @%p1 trap;\n  barrier.cluster.arrive.release;\n  "
      "barrier.cluster.wait.acquire;\n  ret;\n";
  const std::string first = "  barrier.cluster.arrive.release;\n  barrier.cluster.wait.acquire;\n";
  judge("clean", reads(first, twice));
}

TEST_CASE("a dependent launch may take the value that a wait of the launch before waits for") {
  // Block 0 waits for the 1 that another of its warps stores behind its trigger. Block 1 triggers
  // by its end, which is behind what each of its warps does.
  const auto ahead = [](const std::string& second) {
    Case c =
        chain({"  and.b32 %v0, %t, 31;\n  setp.ne.u32 %p0, %v0, 0;\n  @%p0 bra END;\n"
               "  setp.eq.u32 %p1, %t, 32;\n  setp.eq.u32 %p0, %b, 1;\n  @%p0 bra ONE;\n"
               "  @%p1 bra STORE;\nW:\n  ld.relaxed.gpu.global.u32 %v0, [%m];\n"
               "  setp.ne.u32 %p1, %v0, 1;\n  @%p1 bra W;\n  bra END;\nSTORE:\n" +
                   kTrigger +
                   "  st.relaxed.gpu.global.u32 [%m], 1;\n  bra END;\nONE:\n"
                   "  @%p1 bra END;\n  ld.relaxed.gpu.global.u32 %v0, [%m+8];\nEND:\n",
               second});
    c.launches = launch("k0", 2, 64) + launch("k1", 1, 1, kAhead);
    return c;
  };
  const std::string take = "  atom.relaxed.gpu.global.exch.b32 %v0, [%m], 4;\n";
  judge("deadlock", ahead(take));
  judge("clean", ahead(kWait + take));
}

TEST_CASE("a launch begins early only when every block of the one before has triggered or ended") {
  // Block 1 of the first triggers after its store; a relaxed flag tells the second nothing, so that
  // it reads 0 shows that it began before, and traps.
  const std::string trap =
      "  ld.relaxed.gpu.global.u32 %v1, [%m];\n  setp.ne.u32 %p0, %v1, 0;\n"
      "  @%p0 bra END;\n  trap;\nEND:\n";
  const std::string store = "  st.relaxed.gpu.global.u32 [%m], 1;\n";
  judge("rank-lost", chain({kTrigger + store, trap}));
  judge("clean", chain({kTrigger + store, kWait + trap}));
  judge("clean", chain({store, kWait + trap}));
  // Overlap is an opportunity: who needs it waits for ever.
  const std::string waits =
      "W:\n  ld.acquire.gpu.global.u32 %v1, [%m];\n"
      "  setp.eq.u32 %p0, %v1, 0;\n  @%p0 bra W;\n";
  const std::string release = "  st.release.gpu.global.u32 [%m], 1;\n";
  judge("deadlock", chain({kTrigger + waits, release}));
  judge("deadlock", chain({waits, release}));
}

TEST_CASE("two launches on streams of their own share no block: a scope of .cta reaches neither") {
  const auto flag = [](const std::string& scope) {
    Case c = chain({kStore + "  st.release." + scope + ".global.u32 [%m+4], 1;\n",
                    "  ld.acquire." + scope +
                        ".global.u32 %v2, [%m+4];\n  setp.eq.u32 %p0, %v2, 0;\n"
                        "  @%p0 bra END;\n" +
                        kRead + "END:\n"},
                   "stream = 1\n");
    return c;
  };
  judge("clean", flag("gpu"));
  judge("data-race", flag("cta"));
}

TEST_CASE("steps of the host stand between launches that overlap as they stand between others") {
  const auto with = [](const std::vector<std::string>& bodies, std::size_t before,
                       const std::string& step) {
    Case c = chain(bodies);
    std::size_t at = 0;
    for (std::size_t i = 0; i < before; ++i) at = c.launches.find("kernel =", at + 1);
    c.launches.insert(at == std::string::npos ? c.launches.size() : at, step);
    return c;
  };
  const std::string zero =
      "[[host]]\nmemset = { to = {memory = \"data\"}, bytes = 4, value = 0 }\n";
  // Before the first: the first follows it, the second overlaps the first as ever.
  judge("clean", with({kTrigger + kStore, kWait + kRead}, 0, zero));
  judge("data-race", with({kTrigger + kStore, kRead + kWait}, 0, zero));
  // Between the two: nothing triggers the second, which follows the step, which follows the first.
  judge("clean", with({kTrigger + kStore, kRead}, 1, zero));
  judge("data-race", with({kTrigger + kStore, kRead}, 1, zero + "stream = 1\n"));
  // Behind the second, whose predecessor may be running yet where the second never waited.
  judge("clean", with({kTrigger + kStore, kWait + kRead}, 2, zero));
  judge("clean", with({kTrigger + kStore, ""}, 2, zero));
  // On another stream it follows neither.
  judge("data-race", with({kTrigger + kStore, kWait + kRead}, 2, zero + "stream = 1\n"));
  // A launch that triggers by its end is still seen by the wait of the next one alone.
  judge("data-race", with({kStore, kRead}, 2, zero));
}

TEST_CASE("a dependent launch needs one before it on its stream") {
  CHECK_THROWS_WITH_AS(
      program_of({kernel("k0", ""), launch("k0", 1, 1, kAhead)}),
      doctest::Contains("dependent = true needs a [[launch]] before it on stream 0"),
      cases::CaseError);
}

TEST_CASE("a dependent launch begins behind the first trigger of a block, not behind its end") {
  // The first thread of each of two warps; the second warp looks at a flag that the next launch
  // sets.
  const auto looked = [](const std::string& first, const std::string& second) {
    const std::string look =
        "  ld.relaxed.gpu.global.u32 %v1, [%m+64];\n  setp.eq.u32 %p1, %v1, 1;\n  @%p1 trap;\n";
    Case c =
        chain({"  and.b32 %v0, %t, 31;\n  setp.ne.u32 %p0, %v0, 0;\n  @%p0 bra END;\n"
               "  setp.eq.u32 %p0, %t, 32;\n  @%p0 bra LOOK;\n" +
                   first + "  bra END;\nLOOK:\n" + look + second + "END:\n",
               "  st.relaxed.gpu.global.u32 [%m+64], 1;\n"});
    c.launches = launch("k0", 1, 64) + launch("k1", 1, 1, kAhead);
    return c;
  };
  judge("rank-lost", looked(kTrigger, ""));
  judge("clean", looked("", kTrigger));
  judge("clean", looked("  bar.sync 1, 64;\n" + kTrigger, "  bar.sync 1, 64;\n"));
  // Either may be first.
  const std::string store = "  st.relaxed.gpu.global.u32 [%m+128], 1;\n";
  judge("rank-lost", looked(store + kTrigger, kTrigger));
  judge("rank-lost", looked(kTrigger, kTrigger));
  // A barrier decides it.
  judge("clean", looked("  bar.sync 1, 64;\n" + kTrigger, kTrigger + "  bar.sync 1, 64;\n"));
}

TEST_CASE("which warp of a block is the first to trigger is explored, each way once") {
  // The first thread of each of three warps. The next launch adds to what the second one exchanges.
  const auto adds = [](const std::string& zero, const std::string& one, const std::string& two) {
    Case c =
        chain({"  and.b32 %v0, %t, 31;\n  setp.ne.u32 %p0, %v0, 0;\n  @%p0 bra END;\n"
               "  setp.eq.u32 %p0, %t, 32;\n  @%p0 bra ONE;\n"
               "  setp.eq.u32 %p0, %t, 64;\n  @%p0 bra TWO;\n" +
                   zero + "  bra END;\nONE:\n" + one + "  bra END;\nTWO:\n" + two + "END:\n",
               "  atom.relaxed.gpu.global.add.u32 %v1, [%m+64], 1;\n"});
    c.launches = launch("k0", 1, 96) + launch("k1", 1, 1, kAhead);
    return c;
  };
  // Behind its own trigger, and then only if another thread was first: a 1 is there.
  const std::string looks =
      "  atom.relaxed.gpu.global.exch.b32 %v1, [%m+64], 0;\n  setp.eq.u32 %p1, %v1, 1;\n"
      "  @%p1 trap;\n";
  judge("rank-lost", adds(looks + kTrigger, kTrigger, ""));
  judge("rank-lost", adds(looks + kTrigger, "", kTrigger));
  judge("rank-lost", adds(kTrigger, looks + kTrigger, kTrigger));
  judge("clean", adds(looks + kTrigger, "", ""));
  judge("clean",
        adds(looks + "  bar.sync 1, 64;\n" + kTrigger, "  bar.sync 1, 64;\n" + kTrigger, ""));
  judge("clean",
        adds("", looks + "  bar.sync 1, 64;\n" + kTrigger, "  bar.sync 1, 64;\n" + kTrigger));
}

TEST_CASE("of the fences of a block those of its first trigger count, whichever thread that is") {
  const auto two = [](const std::string& zero, const std::string& one) {
    Case c =
        chain({"  and.b32 %v0, %t, 31;\n  setp.ne.u32 %p0, %v0, 0;\n  @%p0 bra END;\n"
               "  setp.eq.u32 %p0, %t, 32;\n  @%p0 bra ONE;\n" +
                   zero + "  bra END;\nONE:\n" + one + "END:\n",
               kRead});
    c.launches = launch("k0", 1, 64) + launch("k1", 1, 1, kAhead);
    return c;
  };
  const std::string fenced = kStore + "  fence.acq_rel.gpu;\n";
  judge("data-race", two(fenced + kTrigger, kTrigger));
  judge("data-race", two(kTrigger, fenced + kTrigger));
  judge("clean", two(fenced + kTrigger, ""));
  judge("clean", two("", fenced + kTrigger));
  // One that all threads meet at decides nothing, but what comes behind it may keep a thread back.
  judge("clean", two(fenced + "  bar.sync 1, 64;\n" + kTrigger, "  bar.sync 1, 64;\n"));
  judge("data-race", two(fenced + "  bar.sync 1, 64;\n  st.global.u32 [%m+64], 1;\n" + kTrigger,
                         "  bar.sync 1, 64;\n" + kTrigger));
}

TEST_CASE(
    "tokenweave's kernel launched dependent, behind itself, passes; without its wait it races") {
  std::ifstream file("tests/cases/files/tokenweave-peer-2.toml");
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t from = text.find("[[launch]]"), to = text.find("[check]");
  REQUIRE(to != std::string::npos);
  const std::string second = text.substr(from, to - from);
  // Two in a row: what the second one's operator works on is the first one's result.
  text = text.substr(0, text.find("[check.reference]"));
  text.insert(to, second + kAhead);
  const auto run = [](const std::string& toml) {
    cases::CaseProgram program(cases::parse_case(toml, "tests/cases/files/dependent.toml"), {});
    return found(fuzz(program, Boundary::coherent, 50));
  };
  CHECK(run(text) == "clean");
  std::ifstream ptx("traces/ptx/tokenweave.ptx");
  std::string kernels{std::istreambuf_iterator<char>(ptx), std::istreambuf_iterator<char>()};
  std::size_t waits = 0;
  for (std::size_t at = 0; (at = kernels.find("griddepcontrol.wait;", at)) != std::string::npos;) {
    kernels.replace(at, 20, "");
    ++waits;
  }
  REQUIRE(waits > 0);
  const auto made = std::filesystem::temp_directory_path() /
                    ("ringfence-no-wait-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(made, std::ios::binary) << kernels;
  std::string broken = text;
  for (std::size_t at = 0;
       (at = broken.find("../../../traces/ptx/tokenweave.ptx", at)) != std::string::npos;) {
    broken.replace(at, 34, made.string());
  }
  CHECK(run(broken) == "data-race");
  // One that is not dependent needs no wait.
  broken.replace(broken.find(kAhead), kAhead.size(), "");
  CHECK(run(broken) == "clean");
  std::filesystem::remove(made);
}
