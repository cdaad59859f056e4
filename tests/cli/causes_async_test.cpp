// Causes of what runs beside its thread: mbarriers, barriers of clusters, asynchronous copies. Each
// broken kernel has a twin without the fault, which is clean.
#include <doctest/doctest.h>

#include <string>

#include "tests/cli/told.hpp"

namespace ringfence::cli {
namespace {

const std::string kClean = "fuzz --executor inline --no-remedies --schedules 100 --case c.toml";

// Thread 0 stores and arrives, thread 32 waits and loads. Lines: 14 and 15 the store and the
// arrival, in the order given; 19 the wait, 21 the load.
std::string handed_over(const std::string& fourteen, const std::string& fifteen,
                        const std::string& wait) {
  return "  .shared .align 8 .b8 sm[8]; .reg .b64 %s;\n"
         "  mov.u32 %v, %tid.x;\n"
         "  setp.eq.u32 %p, %v, 0;\n"
         "  @!%p bra I;\n"
         "  mbarrier.init.shared.b64 [sm], 1;\n"
         "I: bar.sync 0;\n"
         "  @!%p bra R;\n" +
         fourteen + fifteen +
         "  ret;\n"
         "R: setp.ne.u32 %p, %v, 32;\n"
         "  @%p bra E;\n"
         "W: mbarrier.try_wait.parity" +
         wait +
         ".shared.b64 %p, [sm], 0;\n"
         "  @!%p bra W;\n"
         "  ld.global.u32 %v, [%m];\n"
         "E:\n";
}

TEST_CASE("an mbarrier that does not order is told with its relaxed arrival or wait") {
  const Folder f;
  const Shape shape{.grid = "1", .block = "64"};
  const std::string store = "  st.global.u32 [%m], %v;\n";
  const std::string arrive = "  mbarrier.arrive.shared.b64 %s, [sm];\n";
  write_case(f, handed_over(store, arrive, ""), "", "", shape);
  CHECK(ringfence(f, kClean).status == 0);

  write_case(f, handed_over(store, "  mbarrier.arrive.relaxed.cta.shared.b64 %s, [sm];\n", ""), "",
             "", shape);
  const Told arrival = told(f / "c.toml", "--no-remedies");
  CHECK(arrival.cause == "the arrival at k.ptx:15 is .relaxed, so it publishes nothing");
  // What the wait saw, and no order beside the instruction's own.
  CHECK(says(arrival.story, "  1 phase complete"));
  CHECK(!says(arrival.story, "relaxed.cluster"));
  CHECK(says(arrival.fix, ".release at k.ptx:15"));

  write_case(f, handed_over(store, arrive, ".relaxed.cta"), "", "", shape);
  const Told wait = told(f / "c.toml", "--no-remedies");
  CHECK(wait.cause == "the wait at k.ptx:19 is .relaxed, so it acquires nothing");
  CHECK(says(wait.fix, ".acquire at k.ptx:19"));

  write_case(f, handed_over(arrive, store, ""), "", "", shape);
  const Told late = told(f / "c.toml", "--no-remedies");
  CHECK(says(late.cause, "k.ptx:15 comes after the arrival at the mbarrier"));
  CHECK(says(late.cause, "the wait at k.ptx:19 goes on"));
  CHECK(late.fix == "the mbarrier.arrive after k.ptx:15");
}

// Block 1 of a cluster stores and arrives at the mbarrier of block 0, which waits and loads.
std::string across_blocks(const std::string& arrive, const std::string& wait) {
  return "  .shared .align 8 .b8 sm[8]; .reg .b32 %a;\n"
         "  mov.u32 %v, %ctaid.x;\n"
         "  mbarrier.init.shared.b64 [sm], 1;\n"
         "  barrier.cluster.arrive;\n"
         "  barrier.cluster.wait;\n"
         "  setp.eq.u32 %p, %v, 0;\n"
         "  @%p bra R;\n"
         "  mapa.shared::cluster.u32 %a, sm, 0;\n"
         "  st.global.u32 [%m], %v;\n"
         "  mbarrier.arrive.release." +
         arrive +
         ".shared::cluster.b64 _, [%a];\n"
         "  bra E;\n"
         "R:\n"
         "W: mbarrier.try_wait.parity.acquire." +
         wait +
         ".shared::cta.b64 %p, [sm], 0;\n"
         "  @!%p bra W;\n"
         "  ld.global.u32 %v, [%m];\n"
         "E: barrier.cluster.arrive;\n"
         "  barrier.cluster.wait;\n";
}

TEST_CASE("an mbarrier whose scope ends at the block is told with both its lines") {
  const Folder f;
  const Shape shape{.more = "cluster = [2]\n"};
  write_case(f, across_blocks("cluster", "cluster"), "", "", shape);
  CHECK(ringfence(f, kClean).status == 0);
  write_case(f, across_blocks("cta", "cta"), "", "", shape);
  const Told both = told(f / "c.toml", "--no-remedies");
  CHECK(says(both.cause, "the arrival at k.ptx:16 has scope .cta, which ends at its block"));
  CHECK(says(both.cause, "the wait at k.ptx:19 has scope .cta, which ends at its block"));
  CHECK(both.fix == "scope .cluster at k.ptx:16, and scope .cluster at k.ptx:19");
}

std::string in_a_cluster(const std::string& before, const std::string& arrive,
                         const std::string& after) {
  return "  mov.u32 %v, %ctaid.x;\n"
         "  setp.ne.u32 %p, %v, 0;\n"
         "  @%p bra R;\n" +
         before + "  barrier.cluster.arrive" + arrive + ";\n" + after +
         "  barrier.cluster.wait;\n"
         "  ret;\n"
         "R: barrier.cluster.arrive;\n"
         "  barrier.cluster.wait;\n"
         "  ld.global.u32 %v, [%m];\n";
}

TEST_CASE("a cluster's barrier that does not order is told, and why it may not") {
  const Folder f;
  const Shape shape{.more = "cluster = [2]\n"};
  const std::string store = "  st.global.u32 [%m], %v;\n";
  write_case(f, in_a_cluster(store, "", ""), "", "", shape);
  CHECK(ringfence(f, kClean).status == 0);
  for (const std::string& body :
       {in_a_cluster(store, ".relaxed", ""), in_a_cluster("", "", store)}) {
    write_case(f, body, "", "", shape);
    const Told t = told(f / "c.toml", "--no-remedies");
    const std::string line = body == in_a_cluster("", "", store) ? "k.ptx:11" : "k.ptx:10";
    CHECK(says(t.cause, "both blocks pass the cluster's barrier between the two accesses"));
    CHECK(says(t.cause, "of block 0 is .relaxed, or stands before " + line));
    CHECK(says(t.fix, "without .relaxed"));
    CHECK(says(t.fix, "after " + line));
  }
}

// Thread 0 brings two rounds into one stage, by copies of k.cu:30; thread 32 reads the first at
// k.cu:40, after `wait`, and says so to whom `gate` lets wait before the second copy. With a wait
// it takes part in each phase, so that none ends before it has come.
std::string two_rounds(const std::string& wait, const std::string& gate) {
  const std::string copy =
      "  mbarrier.arrive.expect_tx.shared.b64 %s, [full], 16;\n"
      "  .loc 1 30 1\n"
      "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [stage], [%m], 16, "
      "[full];\n"
      "  .loc 1 31 1\n";
  const std::string arrive = "  mbarrier.arrive.shared.b64 %s, [";
  const std::string part = wait.empty() ? "" : arrive + "full];\n";
  return "  .shared .align 16 .b8 stage[16]; .shared .align 8 .b8 full[8];\n"
         "  .shared .align 8 .b8 empty[8]; .reg .b64 %s;\n"
         "  mov.u32 %v, %tid.x;\n"
         "  setp.eq.u32 %p, %v, 0;\n"
         "  @!%p bra I;\n"
         "  mbarrier.init.shared.b64 [full], " +
         std::string(wait.empty() ? "1" : "2") +
         ";\n"
         "  mbarrier.init.shared.b64 [empty], 1;\n"
         "I: bar.sync 0;\n"
         "  @!%p bra R;\n" +
         copy + "W: mbarrier.try_wait.parity.shared.b64 %p, [full], 0;\n  @!%p bra W;\n" + gate +
         copy +
         "V: mbarrier.try_wait.parity.shared.b64 %p, [full], 1;\n  @!%p bra V;\n"
         "  ret;\n"
         "R: setp.ne.u32 %p, %v, 32;\n"
         "  @%p bra E;\n" +
         part + wait +
         "  .loc 1 40 1\n"
         "  ld.shared.u32 %v, [stage];\n"
         "  .loc 1 41 1\n" +
         arrive + "empty];\n" + part + "E:\n";
}

TEST_CASE("of a copy into a stage that is read it is told whether the wait lacks or the way back") {
  const Folder f;
  const Shape shape{.grid = "1", .block = "64"};
  const std::string wait = "X: mbarrier.try_wait.parity.shared.b64 %p, [full], 0;\n  @!%p bra X;\n";
  const std::string gate =
      "G: mbarrier.try_wait.parity.shared.b64 %p, [empty], 0;\n  @!%p bra G;\n";
  write_case(f, two_rounds(wait, gate), "", "", shape);
  CHECK(ringfence(f, kClean).status == 0);

  write_case(f, two_rounds(wait, ""), "", "", shape);
  const Told back = told(f / "c.toml", "--no-remedies");
  CHECK(says(back.cause, "k.cu:30 issues copy 2 into this place"));
  CHECK(says(back.cause, "has waited for the end of only 1"));
  CHECK(says(back.fix, "an `empty` mbarrier"));
  CHECK(says(back.fix, "thread 32's block arrives there after k.cu:40"));

  write_case(f, two_rounds("", gate), "", "", shape);
  const Told full = told(f / "c.toml", "--no-remedies");
  CHECK(says(full.cause, "thread 32 has not waited for its end before k.cu:40"));
  CHECK(full.fix == "a wait for the phase of its mbarrier (mbarrier.try_wait) before k.cu:40");
}

// Each of 64 threads stores in `rounds` rounds, by lines of k.cu:30 that are unrolled, and reads at
// k.cu:32 what a thread of the other warp has stored.
std::string unrolled(int rounds, const std::string& between) {
  std::string body =
      "  .shared .align 4 .b8 tile[256]; .reg .b32 %a, %b, %t;\n"
      "  mov.u32 %v, %tid.x;\n"
      "  shl.b32 %a, %v, 2;\n"
      "  xor.b32 %b, %a, 128;\n"
      "  mov.u32 %t, tile;\n"
      "  add.u32 %a, %a, %t;\n"
      "  add.u32 %b, %b, %t;\n";
  for (int k = 0; k < rounds; ++k) {
    body +=
        "  .loc 1 30 1\n  st.shared.u32 [%a], %v;\n  .loc 1 31 1\n  bar.sync 0;\n"
        "  .loc 1 32 1\n  ld.shared.u32 %v, [%b];\n  .loc 1 33 1\n" +
        between;
  }
  return body;
}

TEST_CASE("what is put in at a line that is unrolled comes to each of its instructions") {
  const Folder f;
  const Shape shape{.grid = "1", .block = "64"};
  write_case(f, unrolled(3, "  bar.sync 0;\n"), "", "", shape);
  CHECK(ringfence(f, kClean).status == 0);

  write_case(f, unrolled(3, ""), "", "", shape);
  const Told t = told(f / "c.toml", "--remedies 20s");
  REQUIRE(!t.remedies.empty());
  CHECK(says(t.story, "__syncthreads() before k.cu:30 (--set k.ptx:"));
  std::string all, first;
  for (const std::string& change : t.remedies) {
    if (!says(change, "/before=bar.sync")) break;
    all += " --set " + change;
    if (first.empty()) first = " --set " + change;
  }
  CHECK(ringfence(f, kClean + all).status == 0);
  CHECK(ringfence(f, kClean + first).status == 1);
}

// All store, thread 0 begins a bulk copy of it (k.cu:30), and all store again (k.cu:33).
std::string copied_out(const std::string& between) {
  return "  .shared .align 16 .b8 tile[256]; .reg .b32 %a, %t;\n"
         "  mov.u32 %v, %tid.x;\n"
         "  shl.b32 %a, %v, 2;\n"
         "  mov.u32 %t, tile;\n"
         "  add.u32 %a, %a, %t;\n"
         "  st.shared.u32 [%a], %v;\n"
         "  fence.proxy.async.shared::cta;\n"
         "  bar.sync 0;\n"
         "  setp.ne.u32 %p, %v, 0;\n"
         "  @%p bra N;\n"
         "  .loc 1 30 1\n"
         "  cp.async.bulk.global.shared::cta.bulk_group [%m], [tile+128], 16;\n"
         "  cp.async.bulk.commit_group;\n"
         "  .loc 1 31 1\n"
         "N:\n" +
         between + "  .loc 1 33 1\n  st.shared.u32 [%a], %v;\n";
}

TEST_CASE("a bulk copy's wait and a block barrier are put in together where one is not enough") {
  const Folder f;
  const Shape shape{.grid = "1", .block = "64"};
  const std::string wait = "  cp.async.bulk.wait_group 0;\n", barrier = "  bar.sync 0;\n";
  write_case(f, copied_out(wait + barrier), "", "", shape);
  CHECK(ringfence(f, kClean).status == 0);
  for (const std::string& one : {wait, barrier}) {
    write_case(f, copied_out(one), "", "", shape);
    CHECK(ringfence(f, kClean).status == 1);
  }
  write_case(f, copied_out(""), "", "", shape);
  const Told t = told(f / "c.toml", "--remedies 20s");
  CHECK(says(t.cause, "a wait_group waits for the copies of its own thread alone"));
  REQUIRE(t.remedies.size() == 1);
  CHECK(says(t.remedies.front(), "/before=cp.async.bulk.wait_group+bar.sync"));
  CHECK(says(t.story, "cp.async.bulk.wait_group and __syncthreads() before k.cu:33"));
  CHECK(ringfence(f, kClean + " --set " + t.remedies.front()).status == 0);
  const Result bad = ringfence(f, kClean + " --set k.ptx:17/before=bar.sync+nothing");
  CHECK(bad.status == 2);
  CHECK(says(bad.err, "or several joined by +"));
}

}  // namespace
}  // namespace ringfence::cli
