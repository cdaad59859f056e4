// What a launcher's case needs of the commands: modes that are claimed by default, findings that
// are known, and templates that become cases.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/command.hpp"
#include "tests/support/says.hpp"

namespace ringfence::cli {
namespace {

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Each rank puts a number into its peer's memory; a value that is written without a fence, and a
// wait that acquires nothing, tell the peer.
const char* const kPtx = R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry put(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ret;
}
.visible .entry get(.param .u64 data, .param .u64 out)
{
  .reg .b32 %n;
  .reg .b64 %d, %o;
  ld.param.u64 %d, [data];
  ld.param.u64 %o, [out];
  ld.global.u32 %n, [%d];
  st.global.u32 [%o], %n;
  ret;
}
)";

std::string exchange(const std::string& check) {
  return R"(version = 1
ranks = 2
[memory.data]
kind = "symmetric"
bytes = 4
[memory.out]
kind = "local"
bytes = 4
[memory.flag]
kind = "symmetric"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = "put"
grid = [1]
block = [1]
args = [ {memory = "data", peer = 1}, {u32 = 6} ]
[[host]]
write = { to = {memory = "flag", peer = 1}, u32 = 1, fence = false }
[[host]]
wait = { at = {memory = "flag"}, u32 = 1 }
[[launch]]
ptx = "k.ptx"
kernel = "get"
grid = [1]
block = [1]
args = [ {memory = "data"}, {memory = "out"} ]
)" + check;
}

}  // namespace

TEST_CASE(
    "a time-out that leads on and was not taken is UNKNOWN, one that can only trap is a note") {
  // One block waits for two flags of the other, and gives up after a time. What a thread has in its
  // local memory is not followed there.
  const auto kernel = [](const std::string& behind, const std::string& local) {
    return R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data)
{
  .reg .pred %p;
  .reg .b32 %v, %w, %n, %id;
  .reg .b64 %m, %t0, %t1;
  .local .align 4 .b8 own[4];
  ld.param.u64 %m, [data];
  mov.u32 %id, %ctaid.x;
  setp.eq.u32 %p, %id, 1;
  @%p bra WRITER;
  mov.u64 %t0, %globaltimer;
L:
  ld.acquire.gpu.global.u32 %v, [%m+64];
  ld.acquire.gpu.global.u32 %w, [%m+68];
  add.u32 %v, %v, %w;
  setp.eq.u32 %p, %v, 2;
  @%p bra DONE;
  mov.u64 %t1, %globaltimer;
  sub.u64 %t1, %t1, %t0;
  setp.lt.u64 %p, %t1, 1000000;
)" + local +
           R"(
  @%p bra L;
)" + behind +
           R"(
DONE:
  ld.global.u32 %v, [%m];
  ret;
WRITER:
  st.global.u32 [%m], 1;
  st.release.gpu.global.u32 [%m+64], 1;
  st.release.gpu.global.u32 [%m+68], 1;
  ret;
}
)";
  };
  const Folder f;
  write(f / "case.toml",
        "version = 1\nranks = 1\n[memory.data]\nkind = \"local\"\nbytes = 128\ninit = \"zero\"\n"
        "[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [2]\nblock = [1]\n"
        "args = [ {memory = \"data\"} ]\n");
  // What goes wrong behind it: the read is not ordered with the write.
  const std::string local = "  ld.local.u32 %n, [own];";
  write(f / "k.ptx", kernel("", local));
  const Result r = ringfence(f, "check --case case.toml --json r.json");
  CHECK_MESSAGE(r.status == 3, r.out, r.err);
  CHECK_MESSAGE(
      says(r.out, "UNKNOWN: a time-out after which the kernel continues was not explored"), r.out);
  CHECK_MESSAGE(says(r.out, "not explored: the time-out of the wait at k.ptx:16"), r.out);
  // Else it is taken.
  write(f / "k.ptx", kernel("", ""));
  CHECK(ringfence(f, "check --case case.toml").status == 1);
  write(f / "k.ptx", kernel("  trap;", local));
  const Result trap = ringfence(f, "check --case case.toml --json r.json");
  CHECK_MESSAGE(trap.status == 0, trap.out, trap.err);
  CHECK_MESSAGE(says(trap.out, "note: the time-out of the wait at k.ptx:16"), trap.out);
  CHECK(json_of(f / "r.json")["remarks"].size() == 1);
}

TEST_CASE("where a kernel uses what the model does not follow, check does not say PASS") {
  const auto kernel = [](const std::string& fence) {
    return ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 "
           "data)\n{\n  " +
           fence + ";\n  ret;\n}\n";
  };
  const Folder f;
  write(f / "case.toml",
        "version = 1\nranks = 2\n[memory.data]\nkind = \"symmetric\"\nbytes = 4\n[[launch]]\n"
        "ptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [ {memory = \"data\"} "
        "]\n");
  const std::string fence = "fence.proxy.tensormap::generic.release.gpu";
  write(f / "k.ptx", kernel(fence));
  for (const std::string command : {"check", "fuzz --schedules 5", "run"}) {
    CAPTURE(command);
    const Result r = ringfence(f, command + " --case case.toml --json r.json");
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    CHECK_MESSAGE(says(r.out, "left out: k.ptx:6: " + fence), r.out);
    CHECK(json_of(f / "r.json")["left_out"].size() == 1);
    CHECK(says(r.out, "NO FINDING") == (command == "check"));
    CHECK_FALSE(says(r.out, "PASS"));
  }
  write(f / "k.ptx", kernel("fence.acq_rel.gpu"));
  const Result r = ringfence(f, "check --case case.toml --json r.json");
  CHECK(says(r.out, "PASS"));
  CHECK_FALSE(says(r.out, "NO FINDING"));
  CHECK(json_of(f / "r.json")["left_out"].empty());
}

TEST_CASE("a case without modes is judged in stream, with strict and coherent shown beside it") {
  const Folder f;
  write(f / "k.ptx", kPtx);
  write(f / "case.toml", exchange(""));
  const std::string command = " --case case.toml --no-remedies --json r.json";
  for (const std::string search : {"fuzz --executor inline --schedules 100", "check"}) {
    const Result r = ringfence(f, search + command);
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    const auto modes = json_of(f / "r.json")["modes"];
    CHECK(modes["strict"] == "finding");
    CHECK(modes["stream"] == "pass");
    CHECK(modes["coherent"] == "pass");
  }
  write(f / "case.toml", exchange("[check]\nmodes = [\"strict\"]\n"));
  CHECK(ringfence(f, "fuzz --executor inline --schedules 100" + command).status == 1);
}

TEST_CASE("run takes the first mode that a case claims") {
  const Folder f;
  write(f / "k.ptx", kPtx);
  write(f / "case.toml", exchange(""));
  CHECK(says(ringfence(f, "run --case case.toml").out, "boundary mode stream"));
  write(f / "case.toml", exchange("[check]\nmodes = [\"coherent\", \"strict\"]\n"));
  CHECK(says(ringfence(f, "run --case case.toml").out, "boundary mode coherent"));
}

TEST_CASE("a file of suppressions passes over findings, and says which entries were of no use") {
  const Folder f;
  write(f / "k.ptx", kPtx);
  write(f / "case.toml", exchange("[check]\nmodes = [\"strict\"]\n"));
  const std::string fuzz =
      "fuzz --case case.toml --executor inline --schedules 100 --boundary strict --no-remedies "
      "--json r.json ";
  CHECK(ringfence(f, fuzz).status == 1);
  const std::string used =
      "[[ignore]]\nkind = \"data-race\"\nmemory = \"data\"\nreason = \"the host waits\"\n";
  const std::string unused =
      "[[ignore]]\nkind = \"data-race\"\nmemory = \"out\"\nreason = \"old\"\n";
  write(f / "known.toml", used + unused);
  const Result r = ringfence(f, fuzz + "--suppress known.toml");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(says(r.out, "ignored nothing: --suppress:5, data-race in out: old"));
  CHECK(json_of(f / "r.json")["unused_suppressions"].size() == 1);
  write(f / "known.toml", unused);
  const Result other = ringfence(f, fuzz + "--suppress known.toml --trace x.trace.jsonl");
  CHECK(other.status == 1);
  // The trace has what it was found under.
  CHECK(says(ringfence(f, "replay x.trace.jsonl").out, "bit for bit"));
  write(f / "known.toml", "[[ignore]]\nkind = \"data-race\"\n");
  const Result bad = ringfence(f, fuzz + "--suppress known.toml");
  CHECK(bad.status == 2);
  CHECK(says(bad.err, "known.toml:1:"));
  CHECK(ringfence(f, fuzz + "--suppress absent.toml").status == 2);
  write(f / "known.toml", "[[ignore]]\nkind = \"data-race\"\nmemory = \"none\"\nreason = \"x\"\n");
  CHECK(ringfence(f, fuzz + "--suppress known.toml").status == 2);
  CHECK(ringfence(f, "fuzz --suppress known.toml --schedules 1").status == 2);
}

TEST_CASE("a template of several kernels is a case once its memories have a kind") {
  const Folder f;
  write(f / "k.ptx", kPtx);
  const Result r = ringfence(f, "ptx k.ptx --case-template put --case-template get");
  CHECK_MESSAGE(r.status == 0, r.err);
  write(f / "case.toml", r.out);
  CHECK(ringfence(f, "fuzz --case case.toml --schedules 1").status == 2);
  std::string text = r.out;
  const std::string open = "kind = \"FILL\"";
  for (auto at = text.find(open); at != std::string::npos; at = text.find(open)) {
    text.replace(at, open.size(), "kind = \"local\"");
  }
  write(f / "case.toml", text);
  const Result filled = ringfence(f, "fuzz --case case.toml --executor inline --schedules 10");
  // 128 threads put into one word.
  CHECK_MESSAGE(filled.status == 1, filled.out, filled.err);
  CHECK(says(filled.out, "both write the same value"));
}

}  // namespace ringfence::cli
