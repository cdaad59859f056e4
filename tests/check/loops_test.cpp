// Loops of litmus tests: waits in any form, waits that never end, and loops that a bound ends.
#include <doctest/doctest.h>

#include "emulator/litmus/parser.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

namespace {

struct Run {
  litmus::Test test;
  testing::Searched searched;
  litmus::Verdict verdict;
};

Run run(const std::string& state, const std::string& rows, const std::string& condition) {
  Run r{litmus::parse("PTX t\n{" + state + "}\n" + rows + condition + "\n", "t"), {}, {}};
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  r.searched = testing::search(r.test, policy);
  r.verdict = litmus::judge(r.test, r.searched.states, !r.searched.hangs.empty());
  return r;
}

const std::string kWriter =
    " P0@cta 0,gpu 0         | P1@cta 0,gpu 1          ;\n"
    " st.weak data, 1        | L0:                     ;\n"
    " st.release.sys flag, 1 |                         ;\n";
std::string row(const std::string& cell) { return " | " + cell + " ;\n"; }
std::string rows(const std::vector<std::string>& cells) {
  std::string out = kWriter;
  for (const std::string& c : cells) out += row(c);
  return out;
}
const std::string kState = "data=0; flag=0; P1:r1=0; P1:r2=1; P1:r3=0;";

// The lines of the only hang.
std::vector<std::pair<std::size_t, int>> hang(const Run& r) {
  REQUIRE(r.searched.hangs.size() == 1);
  std::vector<std::pair<std::size_t, int>> out;
  for (const litmus::Waiting& w : *r.searched.hangs.begin()) {
    out.emplace_back(w.thread, r.test.threads[w.thread].instructions[w.instruction].at.line);
  }
  return out;
}

}  // namespace

TEST_CASE("a wait is one whichever way round its loop is written, and sees what was released") {
  const std::vector<std::vector<std::string>> loops = {
      {"ld.acquire.sys r0, flag", "bne r0, 1, L0"},
      {"ld.acquire.sys r0, flag", "bne 1, r0, L0"},
      {"ld.acquire.sys r0, flag", "bne r2, r0, L0"},
      {"ld.acquire.sys r0, flag", "beq r0, r2, OUT", "goto L0", "OUT:"},
      {"ld.acquire.sys r0, flag", "beq 1, r0, OUT", "goto L0", "OUT:"},
      {"ld.acquire.sys r0, flag", "sub r1, r0, 1", "bne r1, 0, L0"},
      {"ld.acquire.sys r0, flag", "blt r0, 1, L0"},
      {"goto IN", "AGAIN:", "goto L0", "IN:", "ld.acquire.sys r0, flag", "bne r0, 1, AGAIN"},
      {"atom.acquire.sys.exch r0, flag, 1", "bne r0, 1, L0"},
      {"atom.acquire.sys.cas r0, flag, 1, 2", "bne r0, 1, L0"},
      {"atom.acquire.sys.add r0, flag, 0", "bne r0, 1, L0"},
      {"ld.acquire.sys.v2 {r0, r1}, pair", "bne r0, 0, L0", "ld.acquire.sys r0, flag",
       "bne r0, 1, L0"},
  };
  for (const auto& loop : loops) {
    std::vector<std::string> cells = loop;
    INFO(cells[0], "; ", cells[1]);
    cells.push_back("ld.weak r3, data");
    const bool exchange = cells[0].find("exch") != std::string::npos;
    const Run r = run(kState + "pair[2]=0;", rows(cells), "~exists (P1:r3 == 0)");
    CHECK_FALSE(r.searched.bounded);
    // An exchange takes the flag itself, if it comes first: then nobody releases anything.
    if (exchange) continue;
    CHECK(r.verdict.ok);
    CHECK(r.searched.hangs.empty());
    CHECK_FALSE(r.searched.race);
    // The broken twin: relaxed.
    for (std::string& c : cells) {
      if (const auto at = c.find("acquire"); at != std::string::npos) c.replace(at, 7, "relaxed");
    }
    const Run twin = run(kState + "pair[2]=0;", rows(cells), "~exists (P1:r3 == 0)");
    CHECK_FALSE(twin.verdict.ok);
    CHECK(twin.searched.race);
    CHECK_FALSE(twin.searched.bounded);
  }
}

TEST_CASE("a wait inside a wait is decided: a turn that read the same again changes nothing") {
  const auto of = [](const std::string& last) {
    return run("x=0; y=0; d=0;",
               " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n st.weak d, 1 | OUTER: ;\n"
               " st.release.sys x, 1 | ld.acquire.sys r0, x ;\n " +
                   last +
                   " | beq r0, 0, OUTER ;\n | ld.acquire.sys r1, y ;\n | beq r1, 0, OUTER ;\n"
                   " | ld.weak r2, d ;\n",
               "forall (P1:r2 == 1)");
  };
  const Run both = of("st.release.sys y, 1");
  CHECK(both.verdict.ok);
  CHECK_FALSE(both.searched.bounded);
  CHECK(both.searched.hangs.empty());
  // The broken twin: nobody writes y.
  const Run one = of("mov r3, 1");
  CHECK_FALSE(one.searched.bounded);
  CHECK(one.searched.states.empty());
  CHECK(one.searched.hangs.size() == 1);
}

TEST_CASE("a lock by exchange excludes, whatever turns its losers make") {
  const std::string lock =
      " P0@cta 0,gpu 0                   | P1@cta 1,gpu 0                   ;\n"
      " L0:                              | L0:                              ;\n"
      " atom.acquire.gpu.exch r0, lock, 1 | atom.acquire.gpu.exch r0, lock, 1 ;\n"
      " bne r0, 0, L0                    | bne 0, r0, L0                    ;\n"
      " ld.weak r3, x                    | ld.weak r3, x                    ;\n"
      " add r4, r3, 1                    | add r4, r3, 1                    ;\n"
      " st.weak x, r4                    | st.weak x, r4                    ;\n"
      " st.release.gpu lock, 0           | st.release.gpu lock, 0           ;\n";
  const Run r = run("lock=0; x=0;", lock, "forall (x == 2)");
  CHECK(r.verdict.ok);
  CHECK_FALSE(r.searched.race);
  CHECK_FALSE(r.searched.bounded);
  std::string relaxed = lock;
  relaxed.replace(relaxed.find("st.release.gpu"), 14, "st.relaxed.gpu");
  CHECK_FALSE(run("lock=0; x=0;", relaxed, "forall (x == 2)").verdict.ok);
}

TEST_CASE("each of those that wait for a lock may be the first, also of three") {
  const auto of = [](int threads) {
    std::string rows;
    const auto row = [&](const std::string& text, const std::string& number = {}) {
      for (int t = 0; t < threads; ++t) {
        const std::string n = number.empty() ? std::string() : std::to_string(t + 1);
        rows += (t == 0 ? " " : " | ") + text + n;
      }
      rows += " ;\n";
    };
    for (int t = 0; t < threads; ++t) {
      rows += (t == 0 ? " P" : " | P") + std::to_string(t) + "@cta " + std::to_string(t) + ",gpu 0";
    }
    rows += " ;\n";
    row("L0:");
    row("atom.acquire.gpu.cas r0, lock, 0, 1");
    row("bne r0, 0, L0");
    row("ld.weak r1, x");
    row("st.weak x, ", "n");
    row("st.release.gpu lock, 0");
    const std::string third = threads == 3 ? " /\\ P2:r1 == 0" : "";
    return run(
        "lock=0; x=0;", rows,
        "exists (P0:r1 == 2 /\\ P1:r1 == " + std::string(threads == 3 ? "3" : "0") + third + ")");
  };
  const Run two = of(2);
  CHECK(two.verdict.ok);
  CHECK(two.searched.result.complete == 2);
  CHECK(two.searched.result.blocked == 0);
  CHECK_FALSE(two.searched.race);
  const Run three = of(3);
  CHECK(three.verdict.ok);
  CHECK(three.searched.states.size() == 6);
  CHECK(three.searched.result.blocked == 0);
}

TEST_CASE("a lock that whoever comes second finds taken for ever is a hang, whoever that is") {
  const Run r = run("lock=0;",
                    " P0@cta 0,gpu 0                      | P1@cta 1,gpu 0 ;\n"
                    " L0:                                 | L0: ;\n"
                    " atom.acquire.gpu.cas r0, lock, 0, 1 | atom.acquire.gpu.cas r0, lock, 0, 1 ;\n"
                    " bne r0, 0, L0                       | bne r0, 0, L0 ;\n",
                    "exists (lock == 1)");
  CHECK(r.searched.hangs.size() == 2);
  CHECK(r.searched.result.complete == 0);
}

TEST_CASE("a wait by an atomic that writes may be passed by, though others take what passed it") {
  // P0's value 2 goes by; P2's exchange of 3 by 3 is then the last write, and P1 waits for ever.
  const auto of = [](const std::string& first, const std::string& second) {
    return run("x=0;",
               " P0@cta 0,gpu 0 | P1@cta 1,gpu 0 | P2@cta 2,gpu 0 ;\n" + first +
                   " | L1: | L2: ;\n" + second +
                   " | atom.acquire.gpu.cas r0, x, 2, 2 | atom.acquire.gpu.cas r0, x, 3, 3 ;\n"
                   " | bne r0, 2, L1 | bne r0, 3, L2 ;\n",
               "exists (P1:r0 == 2 /\\ P2:r0 == 3)");
  };
  const Run r = of(" st.relaxed.gpu x, 2", " st.relaxed.gpu x, 3");
  CHECK(r.verdict.ok);
  CHECK(hang(r) == std::vector<std::pair<std::size_t, int>>{{1, 5}});
  CHECK(testing::difference_of_waits(r.test) == "");
  // The other way round it is P2 that may be passed by.
  const Run other = of(" st.relaxed.gpu x, 3", " st.relaxed.gpu x, 2");
  CHECK(hang(other) == std::vector<std::pair<std::size_t, int>>{{2, 5}});
  CHECK(testing::difference_of_waits(other.test) == "");
  // Who has what it waits for for itself is not.
  const Run alone = of(" st.relaxed.gpu x, 2", " mov r1, 0");
  CHECK(alone.verdict.others + alone.verdict.satisfying == 0);
  CHECK(hang(alone) == std::vector<std::pair<std::size_t, int>>{{2, 5}});
}

TEST_CASE("whoever is put behind another one waits for what that one leaves, and for no more") {
  // P1 takes the 0 and stores 2 or 0 in the end: P0 waits for ever, or takes that; P2's poll does
  // not keep it from it.
  const auto of = [](const std::string& last) {
    return run("x=0;",
               " P0@cta 0,gpu 0 | P1@cta 1,gpu 0 | P2@cta 2,gpu 0 ;\n L0: | L1: | L2: ;\n"
               " atom.acquire.gpu.cas r0, x, 0, 1 | atom.acquire.gpu.cas r0, x, 0, 4 |"
               " atom.acquire.gpu.cas r0, x, 4, 4 ;\n"
               " bne r0, 0, L0 | bne r0, 0, L1 | bne r0, 4, L2 ;\n | st.release.gpu x, " +
                   last + " | ;\n",
               "exists (x == 1)");
  };
  const Run taken = of("2");
  CHECK_FALSE(taken.verdict.ok);
  CHECK(taken.searched.hangs.size() == 3);
  CHECK(testing::difference_of_waits(taken.test) == "");
  const Run free = of("0");
  CHECK(free.verdict.ok);
  CHECK(testing::difference_of_waits(free.test) == "");
}

TEST_CASE("a wait sees the 1 for ever where it is the last, and is no second execution where not") {
  // x is 2 and then 1, in which order P0 sees the 2 or hangs, or 1 and then 2, where it sees the 2.
  const Run r = run("x=0;",
                    " P0@cta 0,gpu 0 | P1@cta 1,gpu 0 | P2@cta 2,gpu 0 ;\n"
                    " L0: | st.relaxed.gpu x, 2 | st.relaxed.gpu x, 1 ;\n"
                    " ld.relaxed.gpu r0, x | | ;\n bne r0, 2, L0 | | ;\n",
                    "exists (x == 1)");
  for (const testing::Races races : {testing::Races::passed_over, testing::Races::end}) {
    const testing::Searched all = testing::search(r.test, testing::letter(), false, 0, true, races);
    CHECK(all.result.complete == 2);
    CHECK(all.result.blocked == 1);
    CHECK(all.hangs.size() == 1);
  }
}

TEST_CASE("a wait for what nobody writes hangs: its thread and line are known") {
  const Run r =
      run("x=0;", " P0@cta 0,gpu 0 ;\n L0: ;\n ld.relaxed.sys r0, x ;\n beq r0, 0, L0 ;\n",
          "~exists (P0:r0 == 0)");
  CHECK_FALSE(r.verdict.ok);
  CHECK(hang(r) == std::vector<std::pair<std::size_t, int>>{{0, 5}});
  // Also in a form that is no await, and with no read at all.
  const Run two =
      run("x=0; y=0;",
          " P0@cta 0,gpu 0 ;\n L0: ;\n ld.relaxed.sys r0, x ;\n ld.relaxed.sys r1, y ;\n"
          " add r2, r0, r1 ;\n beq r2, 0, L0 ;\n",
          "forall (P0:r0 == 0)");
  CHECK(hang(two) == std::vector<std::pair<std::size_t, int>>{{0, 5}});
  CHECK_FALSE(two.verdict.ok);
  const Run none = run("x=0;", " P0@cta 0,gpu 0 ;\n L0: ;\n goto L0 ;\n", "exists (x == 0)");
  CHECK(hang(none) == std::vector<std::pair<std::size_t, int>>{{0, 4}});
}

TEST_CASE("forall does not hold where one of two executions hangs") {
  const auto of = [](const std::string& first, const std::string& second) {
    return run("x=0;",
               " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n L0: | " + first +
                   " ;\n ld.relaxed.sys r0, x | " + second + " ;\n bne r0, 1, L0 | ;\n",
               "forall (P0:r0 == 1)");
  };
  const Run lost = of("st.relaxed.sys x, 1", "st.relaxed.sys x, 2");
  CHECK(lost.searched.states.size() == 1);
  CHECK(hang(lost) == std::vector<std::pair<std::size_t, int>>{{0, 5}});
  CHECK_FALSE(lost.verdict.ok);
  const Run last = of("st.relaxed.sys x, 2", "st.relaxed.sys x, 1");
  CHECK(last.searched.hangs.empty());
  CHECK(last.verdict.ok);
}

TEST_CASE("a weak poll need never see a write; a strong one does in the end") {
  const auto of = [](const std::string& load) {
    return run("x=0;",
               " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n st.relaxed.sys x, 1 | L0: ;\n | " + load +
                   " r0, x ;\n | bne r0, 1, L0 ;\n",
               "exists (P1:r0 == 1)");
  };
  CHECK(of("ld.relaxed.sys").searched.hangs.empty());
  const Run weak = of("ld.weak");
  CHECK(weak.verdict.ok);
  CHECK(hang(weak) == std::vector<std::pair<std::size_t, int>>{{1, 5}});
}

TEST_CASE("threads that wait for each other hang together, at barriers too") {
  const Run polls =
      run("x=0; y=0;",
          " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n L0: | L0: ;\n"
          " ld.acquire.sys r0, x | ld.acquire.sys r0, y ;\n beq r0, 0, L0 | beq r0, 0, L0 ;\n"
          " st.release.sys y, 1 | st.release.sys x, 1 ;\n",
          "exists (x == 1)");
  CHECK(hang(polls) == std::vector<std::pair<std::size_t, int>>{{0, 5}, {1, 5}});
  const Run bars =
      run("x=0;",
          " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n bar.cta.sync 1, 1, 3 | bar.cta.sync 1, 1, 3 ;\n",
          "exists (x == 0)");
  CHECK(hang(bars) == std::vector<std::pair<std::size_t, int>>{{0, 4}, {1, 4}});
}

TEST_CASE("a barrier's id and count in registers are read when it is reached") {
  const auto of = [](const std::string& id) {
    return run("x=0; P1:r3=2;",
               " P0@cta 0,gpu 0    | P1@cta 0,gpu 0     ;\n"
               " bar.cta.sync 1, 1, 2 | st.weak x, 1    ;\n"
               " ld.weak r1, x     | mov r2, " +
                   id +
                   " ;\n"
                   "                   | bar.cta.sync 1, r2, r3 ;\n",
               "~exists (P0:r1 == 0)");
  };
  const Run same = of("1");
  CHECK(same.verdict.ok);
  CHECK_FALSE(same.searched.race);
  const Run other = of("2");
  CHECK(other.searched.states.empty());
  CHECK(other.searched.hangs.size() == 1);
}

TEST_CASE("where more threads come to a barrier than it needs, who meets whom is open") {
  const auto of = [](const std::string& third, const std::string& count) {
    const std::string bar = "bar.cta.sync 1, 1, " + count;
    return run(
        "x=0;",
        " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 | P2@cta 0,gpu 0 | P3@cta 0,gpu 0 ;\n st.weak x, 1 | " +
            bar + " | " + third + " | " + third + " ;\n " + bar + " | ld.weak r0, x | | ;\n",
        "exists (P1:r0 == 0)");
  };
  const Run open = of("bar.cta.sync 1, 1, 2", "2");
  CHECK(open.verdict.observation == litmus::Observation::Sometimes);
  CHECK(open.searched.race);
  CHECK(open.searched.hangs.empty());
  CHECK(testing::difference(open.test) == "");
  // The broken twins: nobody else comes; all four are needed.
  CHECK(of("mov r1, 0", "2").verdict.observation == litmus::Observation::Never);
  const Run all = of("bar.cta.sync 1, 1, 4", "4");
  CHECK(all.verdict.observation == litmus::Observation::Never);
  CHECK_FALSE(all.searched.race);
  // Three come to a barrier of two: one of them is left over.
  const Run three =
      run("x=0;",
          " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 | P2@cta 0,gpu 0 ;\n bar.cta.sync 1, 1, 2 | "
          "bar.cta.sync 1, 1, 2 | bar.cta.sync 1, 1, 2 ;\n",
          "exists (x == 0)");
  CHECK(three.searched.states.empty());
  CHECK(three.searched.hangs.size() == 3);
}

TEST_CASE(
    "who waits for the whole block waits no more for a thread that has ended; by count it does") {
  const auto of = [](const std::string& barrier, const std::string& last) {
    return run("x=0; y=0;",
               " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 | P2@cta 0,gpu 0 ;\n"
               " " +
                   barrier +
                   " | st.weak x, 1 | ld.relaxed.cta r1, y ;\n"
                   " ld.weak r0, x | " +
                   barrier +
                   " | beq r1, 0, OUT ;\n"
                   " st.relaxed.cta y, 1 | | " +
                   barrier +
                   " ;\n"
                   " | | OUT: ;\n | | " +
                   last + " ;\n",
               "exists (P0:r0 == 0 \\/ P2:r1 == 1)");
  };
  // P2 reads 0, jumps over the barrier and ends: P0 still sees what P1 wrote before it.
  const Run whole = of("bar.cta.sync 1", "mov r2, 0");
  CHECK(whole.verdict.observation == litmus::Observation::Never);
  CHECK(whole.verdict.others > 0);
  CHECK(whole.searched.hangs.empty());
  CHECK_FALSE(whole.searched.race);
  CHECK(testing::difference(whole.test) == "");
  // The broken twins: three are counted; P2 does not end, as it waits for what comes after.
  const Run counted = of("bar.cta.sync 1, 0, 3", "mov r2, 0");
  CHECK(counted.searched.states.empty());
  CHECK(hang(counted) == std::vector<std::pair<std::size_t, int>>{{0, 4}, {1, 5}});
  const Run stays = run("x=0; y=0;",
                        " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n bar.cta.sync 1 | goto L ;\n"
                        " st.relaxed.cta y, 1 | bar.cta.sync 1 ;\n | L: ;\n"
                        " | ld.relaxed.cta r0, y ;\n | beq r0, 0, L ;\n",
                        "exists (y == 1)");
  CHECK(stays.searched.states.empty());
  CHECK(stays.searched.hangs.size() == 1);
  CHECK(testing::difference(stays.test) == "");
  // An end orders nothing: what P1 did before it races with P0, which went on because of it.
  const Run race = run("x=0;",
                       " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n bar.cta.sync 1 | st.weak x, 1 ;\n"
                       " ld.weak r0, x | goto OUT ;\n | bar.cta.sync 1 ;\n | OUT: ;\n",
                       "exists (P0:r0 == 0)");
  CHECK(race.verdict.observation == litmus::Observation::Sometimes);
  CHECK(race.searched.race);
  CHECK(testing::difference(race.test) == "");
}

TEST_CASE("a loop that counts is left at the bound, and that is said; more turns see more") {
  const litmus::Test test = litmus::parse(
      "PTX t\n{x=0; P0:r1=0;}\n P0@cta 0,gpu 0 ;\n L0: ;\n add r1, r1, 1 ;\n"
      " ld.relaxed.sys r0, x ;\n blt r1, 5, L0 ;\nexists (P0:r1 == 5)\n",
      "t");
  CHECK(testing::search(test, testing::letter()).bounded);
  CHECK(testing::search(test, testing::letter()).states.empty());
  check::CheckSpec spec;
  spec.run.policy = testing::letter();
  spec.all = true;
  std::size_t complete = 0;
  check::check([&] { return std::make_unique<litmus::LitmusProgram>(test, 0, 4); }, spec, 1,
               [&](const check::Execution& e) {
                 CHECK_FALSE(dynamic_cast<const litmus::LitmusProgram&>(e.program).bounded());
                 ++complete;
               });
  CHECK(complete == 1);
}
