// When a loop waits, and for what: each form of a wait by schedules and by the exhaustive search,
// with a twin that does not acquire.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "emulator/check/explorer.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// One warp of a block runs `waiter`, one of another block `writer`: whole warps. %m: a word of
// data; flags from byte 64 on, a word a lane at %f.
std::unique_ptr<cases::CaseProgram> program_of(const std::string& waiter,
                                               const std::string& writer) {
  const std::string text = R"(.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
  .reg .pred %p, %q, %r, %one;
  .reg .b32 %v, %w, %x, %n, %lane, %id;
  .reg .b64 %m, %f, %t0, %t1;
  ld.param.u64 %m, [data];
  mov.u32 %lane, %tid.x;
  setp.eq.u32 %one, %lane, 0;
  mul.wide.u32 %f, %lane, 4;
  add.u64 %f, %f, %m;
  mov.u32 %n, 0;
  mov.u32 %id, %ctaid.x;
  setp.eq.u32 %p, %id, 1;
  @%p bra WRITER;
)" + waiter + R"(
  @%one ld.weak.global.u32 %x, [%m];
  ret;
WRITER:
)" + writer + R"(
  ret;
}
)";
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-waits-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << text;
  auto program = std::make_unique<cases::CaseProgram>(
      cases::parse_case(
          "version = 1\nranks = 1\ncalls = 1\nbudget = 20000\n[memory.data]\nkind = \"local\"\n"
          "bytes = 1024\ninit = \"zero\"\n[[launch]]\nptx = \"" +
              file.string() +
              "\"\nkernel = \"k\"\ngrid = [2]\nblock = [32]\n"
              "args = [ {memory = \"data\"} ]\n",
          "waits.toml"),
      cases::Settings{});
  std::filesystem::remove(file);
  return program;
}

std::string searched(const std::string& waiter, const std::string& writer) {
  auto program = program_of(waiter, writer);
  return found(fuzz(*program, Boundary::stream, 200));
}

struct Checked {
  std::string found;
  std::uint64_t executions = 0;
};
Checked checked(const std::string& waiter, const std::string& writer) {
  check::CheckSpec spec;
  spec.run.policy.boundary = Boundary::stream;
  spec.executions = 20000;
  spec.fingerprints = true;
  const check::CheckResult r = check::check([&] { return program_of(waiter, writer); }, spec);
  CHECK(r.repeated == 0);
  if (r.verdict == check::Verdict::unknown) return {"unknown", r.complete};
  if (r.verdict == check::Verdict::pass) return {"clean", r.complete};
  const auto f = schedule::failure(r.outcome);
  return {f ? std::string(machine::name(f->kind)) : "no finding", r.complete};
}

const std::string kWriter = R"(
  @!%one ret;
  st.weak.global.u32 [%m], 1;
  st.release.gpu.global.u32 [%m+64], 1;
)";
// Every lane raises the flag of its own.
const std::string kWriterOfAll = R"(
  @%one st.weak.global.u32 [%m], 1;
  bar.warp.sync 0xffffffff;
  fence.acq_rel.gpu;
  st.relaxed.gpu.global.u32 [%f+64], 1;
)";

}  // namespace

TEST_CASE("one thread's look waits, in whatever form") {
  const std::vector<std::string> waits = {
      "L: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.ne.u32 %p, %v, 1;\n @%p bra L;",
      "L: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.eq.u32 %p, %v, 1;\n @%p bra D;\n bra "
      "L;\nD:",
      "L: atom.acquire.gpu.global.add.u32 %v, [%m+64], 0;\n setp.ne.u32 %p, %v, 1;\n @%p bra L;",
      "L: atom.acquire.gpu.global.or.b32 %v, [%m+64], 0;\n setp.ne.u32 %p, %v, 1;\n @%p bra L;",
      "L: atom.acquire.gpu.global.cas.b32 %v, [%m+64], 1, 1;\n setp.ne.u32 %p, %v, 1;\n @%p bra L;",
      "L: atom.acquire.gpu.global.cas.b32 %v, [%m+64], 1, 2;\n setp.ne.u32 %p, %v, 1;\n @%p bra L;",
      "L: atom.acquire.gpu.global.exch.b32 %v, [%m+64], 0;\n setp.ne.u32 %p, %v, 1;\n @%p bra L;",
      // Pauses that grow, and attempts that are counted, to no end.
      "mov.u32 %n, 8;\nL: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.eq.u32 %p, %v, 1;\n"
      "@%p bra D;\n nanosleep.u32 %n;\n setp.lt.u32 %p, %n, 256;\n @%p shl.b32 %n, %n, 1;\n bra "
      "L;\nD:",
      "L: add.u32 %n, %n, 1;\n ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.ne.u32 %p, %v, 1;\n "
      "@%p bra L;",
      // Unrolled.
      "L: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.eq.u32 %p, %v, 1;\n @%p bra D;\n"
      "ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.ne.u32 %p, %v, 1;\n @%p bra L;\nD:",
      // A time-out that traps.
      "mov.u64 %t0, %globaltimer;\nL: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.eq.u32 %p, %v, "
      "1;\n"
      "@%p bra D;\n mov.u64 %t1, %globaltimer;\n sub.u64 %t1, %t1, %t0;\n setp.lt.u64 %p, %t1, "
      "1000;\n"
      "@%p bra L;\n trap;\nD:",
  };
  for (const std::string& wait : waits) {
    INFO(wait);
    const std::string one = "  @!%one ret;\n" + wait;
    CHECK(searched(one, kWriter) == "clean");
    const Checked c = checked(one, kWriter);
    CHECK(c.found == "clean");
    CHECK(c.executions == 1);  // looks in vain are no events
    std::string relaxed = one;
    for (std::size_t at; (at = relaxed.find("acquire")) != std::string::npos;) {
      relaxed.replace(at, 7, "relaxed");
    }
    CHECK(searched(relaxed, kWriter) == "data-race");
    CHECK(checked(relaxed, kWriter).found == "data-race");
    // Nobody raises the flag.
    CHECK(searched(one, "") == "deadlock");
    CHECK(checked(one, "").found == "deadlock");
  }
}

TEST_CASE("lanes that leave their loop together wait together") {
  const std::vector<std::string> votes = {
      "vote.sync.all.pred %q, %p, 0xffffffff;\n @!%q bra L;",
      "vote.sync.any.pred %q, !%p, 0xffffffff;\n @%q bra L;",
      "vote.sync.ballot.b32 %w, %p, 0xffffffff;\n setp.ne.u32 %q, %w, 0xffffffff;\n @%q bra L;",
      "redux.sync.min.u32 %w, %v, 0xffffffff;\n setp.eq.u32 %q, %w, 0;\n @%q bra L;",
      // Two lanes' flags, by shuffles.
      "shfl.sync.idx.b32 %w, %v, 0, 31, 0xffffffff;\n shfl.sync.idx.b32 %x, %v, 5, 31, "
      "0xffffffff;\n"
      "and.b32 %w, %w, %x;\n setp.eq.u32 %q, %w, 0;\n @%q bra L;",
  };
  for (const std::string& vote : votes) {
    INFO(vote);
    const std::string wait =
        "L: ld.relaxed.gpu.global.u32 %v, [%f+64];\n setp.eq.u32 %p, %v, 1;\n" + vote;
    CHECK(searched(wait + "\n fence.acq_rel.gpu;", kWriterOfAll) == "clean");
    CHECK(searched(wait, kWriterOfAll) == "data-race");
    // The last flag stays down.
    CHECK(searched(wait, "  setp.eq.u32 %p, %lane, 5;\n @%p ret;\n" +
                             kWriterOfAll.substr(kWriterOfAll.find("fence"))) == "deadlock");
  }
  // By the exhaustive search: two lanes that look, of a warp that votes.
  for (const std::string& vote : {votes[0], votes[2]}) {
    INFO(vote);
    const std::string wait =
        "L: setp.gt.u32 %p, %lane, 1;\n @%p bra V;\n ld.relaxed.gpu.global.u32 %v, [%f+64];\n"
        "setp.eq.u32 %p, %v, 1;\nV: " +
        vote;
    const std::string writer = R"(
  setp.gt.u32 %p, %lane, 1;
  @%p ret;
)" + kWriterOfAll.substr(kWriterOfAll.find("fence"));
    const std::string data = "  @%one st.weak.global.u32 [%m], 1;\n  bar.warp.sync 0xffffffff;\n";
    CHECK(checked(wait + "\n fence.acq_rel.gpu;", data + writer).found == "clean");
    CHECK(checked(wait, data + writer).found == "data-race");
    CHECK(checked(wait, "  setp.ne.u32 %p, %lane, 1;\n @%p ret;\n" + writer).found == "deadlock");
  }
}

TEST_CASE("lanes that come to a matrix instruction one after the other execute it together") {
  // One lane polls for its block, as in Triton's kernels; the others are far ahead of it then.
  const std::string matrix = R"(
  .reg .b32 %s, %a, %b, %c, %d;
  .shared .align 16 .b8 tile[512];
  @!%one bra J;
L: ld.acquire.gpu.global.u32 %v, [%m+64];
  setp.ne.u32 %p, %v, 1;
  @%p bra L;
J: bar.sync 0;
  mov.u32 %s, tile;
  mad.lo.u32 %s, %lane, 16, %s;
  st.shared.v4.u32 [%s], {%lane, %lane, %lane, %lane};
  bar.warp.sync 0xffffffff;
  setp.eq.u32 %q, %lane, 5;
)";
  const std::string load = "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a, %b, %c, %d}, [%s];\n";
  CHECK(searched(matrix + load, kWriter) == "clean");
  CHECK(checked(matrix + load, kWriter).found == "clean");
  // A lane that has left does not come.
  CHECK(searched(matrix + "  @%q ret;\n" + load, kWriter) == "barrier-divergence");
  std::string relaxed = matrix + load;
  relaxed.replace(relaxed.find("acquire"), 7, "relaxed");
  CHECK(searched(relaxed, kWriter) == "data-race");
}

TEST_CASE("lanes that look in instructions of their own, joined by a vote, wait together") {
  const auto wait = [](const std::string& first, const std::string& second) {
    return "  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\nL: @%one ld.acquire.gpu.global.u32 %v, [" +
           first + "];\n  @!%one ld.acquire.gpu.global.u32 %v, [" + second +
           "];\n  setp.ne.u32 %p, %v, 0;\n  vote.sync.all.pred %p, %p, 3;\n  @!%p bra L;\n";
  };
  const std::string both = kWriter + "  st.release.gpu.global.u32 [%m+68], 1;\n";
  const std::string one = wait("%m+64", "%m+64"), two = wait("%m+64", "%m+68");
  const std::string other = wait("%m+68", "%m+64");
  for (const std::string& w : {one, two, other}) {
    INFO(w);
    CHECK(searched(w, both) == "clean");
    CHECK(checked(w, both).found == "clean");
    CHECK(searched(w, "") == "deadlock");
  }
  // One of the two flags stays down.
  CHECK(searched(two, kWriter) == "deadlock");
  CHECK(checked(two, kWriter).found == "deadlock");
  CHECK(searched(other, kWriter) == "deadlock");
  CHECK(checked(other, kWriter).found == "deadlock");
}

TEST_CASE("a thread that looks at two places in turn waits for both") {
  const std::string wait = R"(  @!%one ret;
L: ld.acquire.gpu.global.u32 %v, [%m+64];
  setp.eq.u32 %p, %v, 1;
  selp.u32 %n, 1, 0, %p;
  ld.acquire.gpu.global.u32 %w, [%m+68];
  setp.eq.u32 %q, %w, 1;
  @%q add.u32 %n, %n, 1;
  setp.ne.u32 %p, %n, 2;
  @%p bra L;
)";
  const std::string writer = R"(  @!%one ret;
  st.relaxed.gpu.global.u32 [%m+68], 1;
  st.weak.global.u32 [%m], 1;
  st.release.gpu.global.u32 [%m+64], 1;
)";
  const std::string early = R"(  @!%one ret;
  st.weak.global.u32 [%m], 1;
  st.release.gpu.global.u32 [%m+64], 1;
)";
  CHECK(searched(wait, writer) == "clean");
  CHECK(checked(wait, writer).found == "clean");
  CHECK(searched(wait, early) == "deadlock");
  CHECK(checked(wait, early).found == "deadlock");
  std::string relaxed = wait;
  relaxed.replace(relaxed.find("acquire"), 7, "relaxed");
  CHECK(searched(relaxed, writer) == "data-race");
  CHECK(checked(relaxed, writer).found == "data-race");
}

TEST_CASE("to give up is a choice where the kernel then goes on") {
  const std::string look =
      "L: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.eq.u32 %p, %v, 1;\n @%p bra D;\n";
  const std::vector<std::string> ends = {
      "add.u32 %n, %n, 1;\n setp.lt.u32 %p, %n, 3;\n @%p bra L;\n",
      "add.u32 %n, %n, 1;\n setp.lt.u32 %p, %n, 63;\n @%p bra L;\n",
      "add.u32 %n, %n, 1;\n setp.ne.u32 %p, %n, 1000;\n @%p bra L;\n",
      "mov.u64 %t1, %globaltimer;\n sub.u64 %t1, %t1, %t0;\n setp.lt.u64 %p, %t1, 100000;\n @%p "
      "bra L;\n",
      // The clock is looked at in every fourth attempt, and starts with the first of these.
      "add.u32 %n, %n, 1;\n and.b32 %x, %n, 3;\n setp.ne.u32 %p, %x, 0;\n @%p bra L;\n"
      "mov.u64 %t1, %globaltimer;\n setp.eq.u32 %p, %n, 4;\n @%p mov.u64 %t0, %t1;\n"
      "sub.u64 %t1, %t1, %t0;\n setp.lt.u64 %p, %t1, 100000;\n @%p bra L;\n",
  };
  for (const std::string& end : ends) {
    INFO(end);
    const std::string start = "  @!%one ret;\n mov.u64 %t0, %globaltimer;\n";
    const std::string goes_on = start + look + end + "D:";
    CHECK(searched(goes_on, kWriter) == "data-race");
    CHECK(checked(goes_on, kWriter).found == "data-race");
    // Nobody comes: it gives up, and there is no deadlock.
    CHECK(searched(goes_on, "") == "clean");
    CHECK(checked(goes_on, "").found == "clean");
    // The twin looks at the flag behind the loop.
    const std::string again = goes_on + "\n setp.ne.u32 %p, %v, 1;\n @%p ret;";
    CHECK(searched(again, kWriter) == "clean");
    CHECK(checked(again, kWriter).found == "clean");
    // What can only trap is not done.
    const std::string traps = start + look + end + " trap;\nD:";
    CHECK(searched(traps, kWriter) == "clean");
    CHECK(checked(traps, kWriter).found == "clean");
    CHECK(searched(traps, "") == "deadlock");
    CHECK(checked(traps, "").found == "deadlock");
  }
  // A trap under a guard is in the loop, whose attempts are then made.
  const std::string guarded =
      "  @!%one ret;\nL: ld.acquire.gpu.global.u32 %v, [%m+64];\n  add.u32 %n, %n, 1;\n"
      "  setp.gt.u32 %p, %n, 10;\n  @%p trap;\n  setp.ne.u32 %p, %v, 1;\n  @%p bra L;\n";
  CHECK(checked(guarded, kWriter).found == "rank-lost");
  CHECK(checked(guarded, "").found == "rank-lost");
  CHECK(searched(guarded, "") == "rank-lost");
}

TEST_CASE("a time-out that is not taken is told, and with what it is where it leads on") {
  const auto notes = [](const std::string& waiter, const std::string& writer) {
    std::vector<std::string> remarks, time_outs;
    check::CheckSpec spec;
    spec.run.policy.boundary = Boundary::stream;
    spec.executions = 2000;
    spec.leaving = [&](const schedule::Program& program) {
      const auto& c = dynamic_cast<const cases::CaseProgram&>(program);
      remarks = c.remarks();
      time_outs = c.time_outs();
    };
    check::check([&] { return program_of(waiter, writer); }, spec);
    return std::pair(remarks.size(), time_outs.size());
  };
  const std::string two =
      "  @!%one ret;\nL: ld.acquire.gpu.global.u32 %v, [%m+64];\n"
      " ld.acquire.gpu.global.u32 %w, [%m+68];\n add.u32 %x, %v, %w;\n setp.eq.u32 %p, %x, 2;\n"
      " @%p bra D;\n";
  const std::string one =
      "  @!%one ret;\nL: ld.acquire.gpu.global.u32 %v, [%m+64];\n setp.eq.u32 %p, %v, 1;\n"
      " @%p bra D;\n";
  const std::string counts = " add.u32 %n, %n, 1;\n setp.lt.u32 %p, %n, 63;\n @%p bra L;\n";
  // Of two places, by an attempt of which it is not known what it does: nothing takes it.
  CHECK(notes(two + counts + "D:", kWriter) == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(notes(two + counts + " trap;\nD:", kWriter) == std::pair<std::size_t, std::size_t>(1, 0));
  CHECK(notes(two + " bra L;\nD:", kWriter) == std::pair<std::size_t, std::size_t>(0, 0));
  // Of one it is a choice where it leads on.
  CHECK(notes(one + counts + "D:", "") == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(notes(one + counts + " trap;\nD:", "") == std::pair<std::size_t, std::size_t>(1, 0));
  CHECK(notes(one + counts + " trap;\nD:", kWriter) == std::pair<std::size_t, std::size_t>(1, 0));
}

namespace {

// A loop of so many attempts that a warp makes together: what it looks at, whether it has found it
// (%p), who takes part, and who writes that.
struct Attempted {
  std::string lanes, look, writer;
};

// `lanes`: the first so many vote on a flag of each.
Attempted voted(int lanes, const std::string& order) {
  const std::string part = "  setp.ge.u32 %p, %lane, " + std::to_string(lanes) + ";\n  @%p ret;\n";
  return {part,
          "L: ld." + order + ".gpu.global.u32 %v, [%f+64];\n  setp.eq.u32 %p, %v, 1;\n" +
              "  vote.sync.all.pred %p, %p, " + std::to_string((1 << lanes) - 1) + ";\n",
          part + "  @%one st.weak.global.u32 [%m], 1;\n  bar.warp.sync " +
              std::to_string((1 << lanes) - 1) +
              ";\n  fence.acq_rel.gpu;\n  st.relaxed.gpu.global.u32 [%f+64], 1;\n"};
}

Attempted two_flags(const std::string& order) {
  const std::string load = "  ld." + order + ".gpu.global.u32 ";
  return {"  @!%one ret;\n",
          "L:\n" + load + "%v, [%m+64];\n" + load +
              "%w, [%m+68];\n  add.u32 %x, %v, %w;\n  setp.eq.u32 %p, %x, 2;\n",
          kWriter + "  st.release.gpu.global.u32 [%m+68], 1;\n"};
}

std::string counted(const std::string& most) {
  return "  add.u32 %n, %n, 1;\n  setp.lt.u32 %q, %n, " + most + ";\n  @%q bra L;\n";
}

struct Told {
  std::string searched, checked;
  std::size_t remarks = 0, time_outs = 0;  // of both
};
Told told(const std::string& waiter, const std::string& writer,
          machine::TimeOut time_out = machine::TimeOut::spared) {
  Told out;
  machine::Policy policy;
  policy.boundary = Boundary::stream;
  policy.time_out = time_out;
  const auto program = program_of(waiter, writer);
  out.searched = found(fuzz(*program, policy, 200, {}, [&] {
    out.remarks += program->remarks().size();
    out.time_outs += program->time_outs().size();
  }));
  check::CheckSpec spec;
  spec.run.policy = policy;
  spec.executions = 20000;
  spec.fingerprints = true;
  spec.leaving = [&](const schedule::Program& made) {
    const auto& c = dynamic_cast<const cases::CaseProgram&>(made);
    out.remarks += c.remarks().size();
    out.time_outs += c.time_outs().size();
  };
  const check::CheckResult r = check::check([&] { return program_of(waiter, writer); }, spec);
  CHECK(r.repeated == 0);
  const auto f = schedule::failure(r.outcome);
  out.checked = r.verdict == check::Verdict::unknown ? "unknown"
                : r.verdict == check::Verdict::pass  ? "clean"
                : f                                  ? std::string(machine::name(f->kind))
                                                     : "no finding";
  return out;
}

void judge(const std::string& expected, const std::string& waiter, const std::string& writer,
           machine::TimeOut time_out = machine::TimeOut::spared) {
  const Told t = told(waiter, writer, time_out);
  CHECK(t.searched == expected);
  CHECK(t.checked == expected);
  CHECK(t.time_outs == 0);
}

const std::string kPause = "  nanosleep.u32 20;\n";

}  // namespace

TEST_CASE("attempts of a warp, or at several places, are given up by choice where that leads on") {
  for (const std::string most : {"2", "3", "4", "63", "1000000"}) {
    for (const Attempted& a : {two_flags("acquire"), voted(4, "acquire")}) {
      INFO(a.look, most);
      const std::string loop = a.lanes + a.look + "  @%p bra D;\n" + kPause + counted(most);
      // What it reads behind them it may read too early.
      judge("data-race", loop + "D:\n", a.writer);
      // The twin looks again at what it has found.
      judge("clean", loop + "D:\n  @!%p ret;\n", a.writer);
      judge("clean", loop + "  ret;\nD:\n", a.writer);
      // Nobody comes: that is no deadlock.
      judge("clean", loop + "D:\n", "");
      // It stands in its last attempt then.
      const std::string other = "  setp.ne.and.u32 %r, %n, " + most + ", !%p;\n  @%r trap;\n";
      judge("clean", loop + "D:\n" + other, "");
      judge("rank-lost", loop + "D:\n  @!%p trap;\n  ret;\n", a.writer, machine::TimeOut::taken);
    }
  }
  // Of each of eight flags.
  const Attempted eight = voted(8, "relaxed");
  const std::string loop = eight.lanes + eight.look + "  @%p bra D;\n" + counted("3");
  judge("clean", loop + "D:\n  ret;\n", eight.writer);
  judge("clean", loop + "D:\n  ret;\n", "");
}

TEST_CASE("attempts that can only end in a trap are not taken, by either search") {
  for (const std::string most : {"2", "3", "4", "63", "1000000"}) {
    for (const Attempted& a :
         {two_flags("acquire"), two_flags("relaxed"), voted(4, "acquire"), voted(8, "relaxed")}) {
      INFO(a.look, most);
      const std::string loop = a.lanes + a.look + "  @%p bra D;\n" + kPause + counted(most);
      for (const std::string& traps : {loop + "  trap;\nD:\n  ret;\n",
                                       // It looks once more at what it has found.
                                       loop + "D:\n  @!%p trap;\n  ret;\n"}) {
        const Told t = told(traps, a.writer);
        CHECK(t.searched == "clean");
        CHECK(t.checked == "clean");
        CHECK(t.remarks == 2);
        CHECK(t.time_outs == 0);
        judge("deadlock", traps, "");
        judge("rank-lost", traps, a.writer, machine::TimeOut::taken);
      }
    }
  }
  // One attempt is no loop.
  const Attempted one = two_flags("acquire");
  judge("rank-lost", one.lanes + one.look + "  @%p bra D;\n" + counted("1") + "  trap;\nD:\n",
        one.writer);
}

TEST_CASE("a loop that only reads a place again, so many times, is no wait") {
  for (const std::string load : {"ld.weak.global.u32", "ld.relaxed.gpu.global.u32",
                                 "ld.acquire.gpu.global.u32", "ld.volatile.global.u32"}) {
    for (const std::string most : {"1", "2", "3", "4", "63"}) {
      INFO(load, most);
      const std::string loop = "  @!%one ret;\nL: " + load + " %v, [%m+64];\n" + counted(most);
      judge("clean", loop, "");
      judge("clean", loop + "  setp.eq.u32 %p, %v, 1;\n  @%p trap;\n", "");
      judge("rank-lost", loop + "  setp.eq.u32 %p, %v, 0;\n  @%p trap;\n", "");
      judge("rank-lost", loop + "  setp.eq.u32 %p, %v, 1;\n  @%p bra D;\n  trap;\nD:\n", "");
      judge("rank-lost", loop + "  trap;\n", "");
      // What it found last may be old.
      const std::string once = "  @!%one ret;\n  st.relaxed.gpu.global.u32 [%m+64], 1;\n";
      if (load.find("weak") == std::string::npos) {
        judge("rank-lost", loop + "  setp.eq.u32 %p, %v, 0;\n  @%p trap;\n", once);
      }
      // Without an end it is one.
      judge("deadlock", "  @!%one ret;\nL: " + load + " %v, [%m+64];\n  bra L;\n", "");
    }
  }
}

TEST_CASE("attempts by a clock that a warp makes together are given up, or not, as others are") {
  const std::string start = "  mov.u64 %t0, %globaltimer;\n";
  const std::string clock =
      "  mov.u64 %t1, %globaltimer;\n  sub.u64 %t1, %t1, %t0;\n  setp.lt.u64 %q, %t1, 100000;\n"
      "  @%q bra L;\n";
  for (const Attempted& a : {two_flags("acquire"), voted(4, "acquire")}) {
    INFO(a.look);
    const std::string loop = a.lanes + start + a.look + "  @%p bra D;\n" + clock;
    judge("data-race", loop + "D:\n", a.writer);
    judge("clean", loop + "  ret;\nD:\n", a.writer);
    judge("clean", loop + "D:\n", "");
    judge("clean", loop + "  trap;\nD:\n", a.writer);
    judge("deadlock", loop + "  trap;\nD:\n", "");
  }
}

TEST_CASE("what a look's guard leaves as it was is no news in the lanes that make the look") {
  // Lanes 0 and 1 look, lanes 2 and 3 vote with them.
  const std::string part =
      "  setp.ge.u32 %p, %lane, 4;\n  @%p ret;\n  setp.gt.u32 %r, %lane, 1;\n  mov.u32 %v, 1;\n";
  const std::string loop = part +
                           "L: @!%r ld.acquire.gpu.global.u32 %v, [%f+64];\n"
                           "  setp.eq.u32 %p, %v, 1;\n  vote.sync.all.pred %p, %p, 15;\n"
                           "  @%p bra D;\n" +
                           counted("2");
  const std::string writer = kWriter + "  st.release.gpu.global.u32 [%m+68], 1;\n";
  judge("clean", loop + "  trap;\nD:\n", writer);
  CHECK(checked(loop + "  trap;\nD:\n", writer).executions == 1);
  judge("deadlock", loop + "  trap;\nD:\n", kWriter);
  judge("data-race", loop + "D:\n", writer);
}

TEST_CASE("a loop without an end is a livelock once the budget of instructions is used up") {
  const std::string counts = "  @!%one ret;\nL: add.u32 %n, %n, 1;\n";
  CHECK(searched(counts + "  bra L;\n", "") == "livelock");
  CHECK(searched(counts + "  st.weak.global.u32 [%m+128], %n;\n  bra L;\n", "") == "livelock");
  CHECK(searched(counts + "  setp.lt.u32 %p, %n, 1000;\n  @%p bra L;\n", "") == "clean");
}
