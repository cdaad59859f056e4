#include <doctest/doctest.h>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"

namespace {

using namespace ringfence::litmus;

// The text of a test around a state section, a table's rows and a condition.
std::string with(const std::string& state, const std::string& rows, const std::string& condition) {
  return "PTX t\n{" + state + "}\n" + rows + "\n" + condition + "\n";
}

const std::string kTwo = " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n";

std::string error_of(const std::string& text) {
  try {
    parse(text, "t.litmus");
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

template <class T>
const T& instruction(const Test& test, std::size_t thread, std::size_t i) {
  return std::get<T>(test.threads.at(thread).instructions.at(i).what);
}

}  // namespace

TEST_CASE("a message-passing test is read field by field") {
  const Test test = parse(
      "PTX MP+rel+acq.sys\n\"one\" \"two\nlines\"\n{\ndata=0; flag=-3;\nP1:r0=7;\nP0:r5=&data;\n}\n"
      " P0@cta 0,gpu 0          | P1@cta 2,gpu 1          ;\n"
      " st.weak data, 1         | ld.acquire.sys r0, flag ;\n"
      " st.release.gpu flag, r5 |                         ;\n"
      "                         | ld.weak r1, data        ;\n"
      "~exists\n(P1:r0 == 1 /\\ 1:r1 = 0)\n",
      "mp.litmus");
  CHECK(test.name == "MP+rel+acq.sys");
  REQUIRE(test.comments.size() == 2);
  CHECK(test.comments[1] == "two\nlines");
  REQUIRE(test.locations.size() == 2);
  CHECK(test.locations[0].name == "data");
  CHECK(test.locations[1].initial == std::vector<std::int64_t>{-3});
  CHECK(test.locations[1].type == Type{'b', 32});
  REQUIRE(test.threads.size() == 2);
  CHECK(test.threads[1].cta == 2);
  CHECK(test.threads[1].gpu == 1);
  REQUIRE(test.threads[0].instructions.size() == 2);
  REQUIRE(test.threads[1].instructions.size() == 2);

  const auto& release = instruction<Store>(test, 0, 1);
  CHECK(release.order == Order::release);
  CHECK(release.scope == Scope::gpu);
  CHECK(release.address == Address{1, 0});
  CHECK(release.values == std::vector<Operand>{Register{0}});
  CHECK(test.threads[0].registers[0].initial_address == 0);
  const auto& acquire = instruction<Load>(test, 1, 0);
  CHECK(acquire.order == Order::acquire);
  CHECK(acquire.scope == Scope::sys);
  CHECK(test.threads[1].instructions[0].at.line == 10);
  CHECK(test.threads[1].instructions[0].at.column == 28);
  CHECK(test.threads[1].registers[0].initial == 7);

  CHECK(test.quantifier == Quantifier::NotExists);
  CHECK(test.condition.kind == Formula::Kind::And);
  REQUIRE(test.condition.children.size() == 2);
  CHECK(std::get<Variable>(test.condition.children[1].left) == Variable{1, 1, 0});
}

TEST_CASE(
    "atomics, reductions, fences and barriers are read with their orders, scopes and operands") {
  const Test test =
      parse(with("x=0;",
                 kTwo + "atom.acq_rel.gpu.cas r0, x, 0, 1 | bar.cta.sync 1, 2, 3 ;\n"
                        "red.release.sys.add x, r0 | bar.cta.arrive 0 ;\n"
                        "fence.sc.cta | fence.proxy.alias ;\n"
                        "fence.acq_rel.cluster | atom.relaxed.sys.exch.u64 r1, [x], 4 ;\n",
                 "exists (x == 1)")
                .replace(7, 4, "b64 x=0"),
            "t");
  const auto& cas = instruction<Atomic>(test, 0, 0);
  CHECK(cas.op == Combine::cas);
  CHECK(cas.order == Order::acq_rel);
  CHECK(cas.value == Operand{Constant{0}});
  CHECK(cas.desired == Operand{Constant{1}});
  const auto& red = instruction<Atomic>(test, 0, 1);
  CHECK_FALSE(red.destination.has_value());
  CHECK(red.value == Operand{Register{0}});
  CHECK(instruction<Fence>(test, 0, 2).order == Order::sc);
  CHECK(instruction<Fence>(test, 0, 3).scope == Scope::cluster);
  const auto& sync = instruction<Barrier>(test, 1, 0);
  CHECK_FALSE(sync.arrive);
  CHECK(sync.count == std::optional<Operand>(Constant{3}));
  CHECK(instruction<Barrier>(test, 1, 1).arrive);
  CHECK(instruction<ProxyFence>(test, 1, 2).kind == ProxyFence::Kind::Alias);
  CHECK(instruction<Atomic>(test, 1, 3).type == Type{'u', 64});
}

TEST_CASE("branches find their labels, before and behind them") {
  const Test test = parse(with("x=0; P0:r1=0;",
                               "P0@cta 0,gpu 0 ;\n LC00: ;\n ld.relaxed.sys r0, x ;\n"
                               "beq r0, r1, LC00 ;\n goto done ;\n add r1, r0, -1 ;\n done: ;\n",
                               "forall (P0:r0 != 0)"),
                          "t");
  CHECK(instruction<Branch>(test, 0, 2).target == 0);
  CHECK(instruction<Branch>(test, 0, 2).comparison == Compare::eq);
  CHECK(instruction<Branch>(test, 0, 3).target == 5);
  CHECK_FALSE(instruction<Branch>(test, 0, 3).comparison.has_value());
  CHECK(instruction<Local>(test, 0, 4).b == Operand{Constant{-1}});
}

TEST_CASE("ld of a number or a register is local, with or without an order") {
  const Test test = parse(
      with("x=0;", "P0@cta 0,gpu 0 ;\n ld r0, 5 ;\n ld.weak r1, r0 ;\n", "exists (P0:r1 == 5)"),
      "t");
  CHECK(instruction<Local>(test, 0, 0).op == LocalOp::Move);
  CHECK(instruction<Local>(test, 0, 1).a == Operand{Register{0}});
}

TEST_CASE("a second name leads through its proxy to the location, also by way of another name") {
  const Test test = parse(with("x=0; y @ generic aliases x; s @ surface aliases y; p=x;",
                               "P0@cta 0,gpu 0 ;\n sust.weak s, 2 ;\n fence.proxy.surface ;\n"
                               "tld.weak r0, x ;\n",
                               "exists (y == 0)"),
                          "t");
  CHECK(test.locations[2].alias_of == 1);
  CHECK(test.locations[2].proxy == Proxy::Surface);
  CHECK(test.locations[3].initial_address == 0);
  CHECK(test.locations[3].type == Type{'b', 64});
  CHECK(instruction<Store>(test, 0, 0).proxy == Proxy::Surface);
  CHECK(instruction<Load>(test, 0, 2).proxy == Proxy::Texture);
}

TEST_CASE("extensions: arrays, vectors, widths, offsets, multicast, launches, clusters") {
  const Test test = parse(
      with("b16 buf[4]={1,2,3,4}; u64 w=0; x0=0; x1=0; m @ multicast aliases x0, x1; P0:r9=&w;",
           "P0@cta 0,cluster 3,gpu 0 ;\n"
           "ld.weak.v2.b32 {r0, r1}, buf ;\n"
           "st.relaxed.sys.v4 buf, {1, r0, 3, 4} ;\n"
           "ld.weak.u8 r2, w+3 ;\n"
           "ld.weak r3, [r9+4] ;\n"
           "ld.weak r3, buf[3] ;\n"
           "multimem.ld_reduce.acquire.sys.add r4, m ;\n"
           "multimem.st m, 7 ;\n"
           "launch ;\n"
           "multimem.red.release.gpu.add m, 1 ;\n"
           "ld.volatile r5, x1 ;\n"
           "fence.acquire.sys ;\n",
           "exists (buf[2] == 3 /\\ w < 0x10)"),
      "t");
  CHECK(test.threads[0].cluster == 3);
  const auto& vector = instruction<Load>(test, 0, 0);
  CHECK(vector.destinations == std::vector<RegisterId>{1, 2});
  CHECK(vector.type == Type{'b', 32});
  CHECK(instruction<Store>(test, 0, 1).values.size() == 4);
  CHECK(instruction<Load>(test, 0, 2).address == Address{1, 3});
  CHECK(instruction<Load>(test, 0, 3).address == Address{Register{0}, 4});
  CHECK(instruction<Load>(test, 0, 4).address == Address{0, 6});
  CHECK(instruction<Load>(test, 0, 5).multimem == Combine::add);
  CHECK(instruction<Store>(test, 0, 6).order == Order::weak);
  CHECK(instruction<Store>(test, 0, 6).multimem);
  CHECK(instruction<Atomic>(test, 0, 8).order == Order::release);
  CHECK(instruction<Load>(test, 0, 9).order == Order::relaxed);
  CHECK(instruction<Load>(test, 0, 9).scope == Scope::sys);
  CHECK(instruction<Fence>(test, 0, 10).order == Order::acquire);
  CHECK(test.locations[4].replicas == std::vector<LocationId>{2, 3});
}

TEST_CASE("a location that is not declared starts at 0, and is listed once") {
  const Test test =
      parse(with("x=0; P0:r1=&z;", "P0@cta 0,gpu 0 ;\n ld.weak r0, y ;\n st.weak y, 1 ;\n",
                 "exists (x == 0 /\\ w == 0 /\\ y == 1)"),
            "t");
  CHECK(test.undeclared == std::vector<std::string>{"z", "y", "w"});
  REQUIRE(test.locations.size() == 4);
  CHECK(test.locations[2].initial == std::vector<std::int64_t>{0});
}

TEST_CASE(
    "a file with a number of more than 31 bits has locations of 64, where no width is given") {
  const std::string rows = "P0@cta 0,gpu 0 ;\n st.weak x, 4294967297 ;\n";
  const Test test = parse(with("x=0; b16 y=0;", rows, "exists (x == 4294967297)"), "t");
  CHECK(test.locations[0].type == Type{'b', 64});
  CHECK(test.locations[1].type == Type{'b', 16});
  CHECK(parse(with("x=0;", "P0@cta 0,gpu 0 ;\n", "exists (x == -1)"), "t").locations[0].type ==
        Type{'b', 32});
  const std::string printed = print(test);
  CHECK(print(parse(printed, "t")) == printed);
}

TEST_CASE("bar.sync of PTX names the barrier and a number of threads, bar.cta an instance too") {
  const Test test = parse(with("x=0; P0:r1=3;",
                               "P0@cta 0,gpu 0 ;\n bar.sync 1, 64 ;\n barrier.arrive r1, 32 ;\n"
                               " bar.cta.sync 1, 3 ;\n bar.sync 4 ;\n bar.sync 1, 2, 3 ;\n",
                               "exists (x == 0)"),
                          "t");
  const auto& ptx = instruction<Barrier>(test, 0, 0);
  CHECK(ptx.instance == Operand{Constant{0}});
  CHECK(ptx.id == std::optional<Operand>(Constant{1}));
  CHECK(ptx.count == std::optional<Operand>(Constant{64}));
  CHECK(instruction<Barrier>(test, 0, 1).id == std::optional<Operand>(Register{0}));
  CHECK(instruction<Barrier>(test, 0, 2).id == std::optional<Operand>(Constant{3}));
  CHECK_FALSE(instruction<Barrier>(test, 0, 2).count.has_value());
  CHECK_FALSE(instruction<Barrier>(test, 0, 3).count.has_value());
  CHECK(instruction<Barrier>(test, 0, 4).count == std::optional<Operand>(Constant{3}));
}

TEST_CASE("filter and observed variables stand before the condition") {
  const Test test =
      parse(with("x=0; y=0;", "P0@cta 0,gpu 0 ;\n ld.weak r0, x ;\n",
                 "locations [y; 0:r0]\nfilter (x == 0)\nexists not (x == 1 \\/ y == 2)"),
            "t");
  CHECK(test.observed == std::vector<Variable>{{-1, 1, 0}, {0, 0, 0}});
  REQUIRE(test.filter.has_value());
  CHECK(test.condition.kind == Formula::Kind::Not);
  CHECK(test.condition.children[0].kind == Formula::Kind::Or);
}

TEST_CASE(
    "mbarriers, a cluster's barrier and bulk copies are read, or refused with what is right") {
  const std::string two = "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;\n ", one = "P0@cta 0,gpu 0 ;\n ";
  const auto error = [&](const std::string& table) {
    return error_of(with("x=0; y=0; b64 z=0; mbarrier m=2;", table, "exists (x==0)"));
  };
  const auto says = [&](const std::string& row, const std::string& part) {
    const std::string message = error(one + row + " ;");
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  for (const char* row :
       {"mbarrier.arrive m", "mbarrier.arrive.release.cluster.b64 [m]",
        "mbarrier.arrive.expect_tx.relaxed.cta m, 32", "mbarrier.try_wait.parity m, 1",
        "mbarrier.test_wait.parity.acquire.cta r0, m, 0", "cp.async.bulk x, y, m",
        "cp.reduce.async.bulk.add x, y", "cp.async.bulk.wait_group.read 0",
        "cp.async.bulk.wait_group 2", "barrier.cluster.arrive.relaxed"}) {
    CHECK_MESSAGE(error(one + row + " ;") == "no error", row);
  }
  says("mbarrier.arrive x", "`x` is no mbarrier; declare one as mbarrier x=1;");
  says("mbarrier.init m", "known are mbarrier.arrive, mbarrier.try_wait and mbarrier.test_wait");
  says("mbarrier.arrive.acquire.cta m", "unknown modifier `.acquire`");
  says("mbarrier.arrive.release.gpu m", "unknown modifier `.gpu`");
  says("mbarrier.arrive.relaxed m", "order and scope stand together, as in .relaxed.cta");
  says("mbarrier.arrive.expect_tx m, 8", "8 bytes; a copy has 16");
  says("mbarrier.try_wait m, 0", "a wait names a parity");
  says("mbarrier.try_wait.parity m, 2", "the parity of a phase is 0 or 1");
  says("st.weak m, 1", "`m` is an mbarrier");
  says("cp.async.bulk x, z", "a copy is between locations of one type");
  says("cp.async.bulk x, [r0]", "a copy names its locations");
  says("cp.async.bulk.wait_group -1", "the number of groups that may be open is 0 or more");
  says("cp.async.bulk.prefetch x, y", "unknown instruction `cp.async.bulk.prefetch`");
  says("barrier.cluster.wait", "without an arrival before it");
  says("barrier.cluster.arrive ;\n barrier.cluster.arrive", "a second arrival");
  says("barrier.cluster.arrive.acquire", "barrier.cluster.arrive is .release or .relaxed");
  const std::string waits = "mbarrier.try_wait.parity m, 0";
  CHECK(error(two + waits + " | " + waits + " ;").find("of another cta") != std::string::npos);
  CHECK(error(two + waits + " | mbarrier.arrive m ;").find("another cluster") != std::string::npos);
  CHECK(error_of(with("mbarrier m=0;", one + waits + " ;", "exists (0==0)")).find("at least one") !=
        std::string::npos);
  CHECK(error_of(with("mbarrier m=1;", one + waits + " ;", "exists (m==0)"))
            .find("whose bits say nothing") != std::string::npos);
}

TEST_CASE("what is wrong is told with file, line, column and what would be right") {
  const std::string one = "P0@cta 0,gpu 0 ;\n";
  const auto starts = [](const std::string& message, const std::string& start) {
    INFO(message);
    CHECK(message.starts_with(start));
  };
  starts(error_of(""), "t.litmus:1:1: a PTX litmus test starts with `PTX NAME`");
  starts(error_of("PTX\n{}"), "t.litmus:1:1: a PTX litmus test starts");
  starts(error_of("PTX t\n\"no end"), "t.litmus:2:1: comment without end");
  starts(error_of("PTX t\n"), "t.litmus:2:1: no state section");
  starts(error_of(with("x=0;", one + " loda.weak r0, x ;", "exists (x==0)")),
         "t.litmus:4:2: unknown instruction `loda`; known are ld, st");
  starts(error_of(with("x=0;", one + " ld.weak r0, P0 ;", "exists (x==0)")),
         "t.litmus:4:14: a location expected, not the thread `P0`");
  // What looks like a load whose brackets were forgotten is no move.
  starts(error_of(with("x=0; P0:r1=&x;", one + " ld.acquire.sys r0, r1 ;", "exists (x==0)")),
         "t.litmus:4:21: this ld reads memory, so it takes an address; what r1 holds is read by "
         "[r1], a move is `mov`");
  starts(error_of(with("x=0; P0:r1=0;", one + " ld.relaxed.gpu r0, r1 ;", "exists (x==0)")),
         "t.litmus:4:21: this ld reads memory");
  starts(error_of(with("x=0;", one + " ld.volatile r0, 5 ;", "exists (x==0)")),
         "t.litmus:4:18: this ld reads memory");
  starts(error_of(with("x=0; P0:r1=&x;", one + " ld.weak r0, r1 ;", "exists (x==0)")),
         "t.litmus:4:14: `r1` holds an address");
  starts(error_of(with("x=0; P0:r1=0;", one + " suld.weak r0, r1 ;", "exists (x==0)")),
         "t.litmus:4:16: this suld reads memory");
  // PTX's spelling of a barrier with a count.
  starts(
      error_of(with("x=0;", one + " bar.sync 1, 3 ;", "exists (x==0)")),
      "t.litmus:4:14: the second operand of PTX's bar.sync is a number of threads, a multiple of "
      "32");
  // Constants that do not fit.
  starts(error_of(with("b32 x=0;", one + " st.weak x, 4294967296 ;", "exists (x==0)")),
         "t.litmus:4:13: 4294967296 does not fit into 32 bits");
  starts(error_of(with("x=0;", one + " st.weak.u8 x, -129 ;", "exists (x==0)")),
         "t.litmus:4:16: -129 does not fit into 8 bits");
  starts(error_of(with("b8 x=256;", one, "exists (x==0)")),
         "t.litmus:2:7: 256 does not fit into 8 bits");
  starts(
      error_of(with("x=0;", one + " atom.relaxed.sys.cas.u16 r0, x, 0, 65536 ;", "exists (x==0)")),
      "t.litmus:4:34: 65536 does not fit into 16 bits");
  starts(error_of(with("x=0; y=2147483648;", one + " ld.weak.u32 r0, x ;", "exists (x==0)")),
         "t.litmus:4:18: `x` has 64 bits, as the file has a number of more than 31");
  starts(error_of(with("x=0;", one + " st.weak x, r1 ;", "exists (x==0)")),
         "t.litmus:4:13: undeclared register P0:r1");
  starts(error_of(with("x=0;", one + " st.weak x, 1 ;", "exists (P0:r3==0)")),
         "t.litmus:5:12: undeclared register P0:r3");
  starts(error_of(with("x=0;", one + " st.weak x, 1 ;", "exists (P1:r3==0)")),
         "t.litmus:5:9: no thread `P1`; the table has P0 to P0");
  starts(error_of(with("x=0;", one + " st.weak x, 1 ;", "")), "t.litmus:6:1: missing condition");
  starts(error_of(with("x=0;", "P0@cta 0 ;\n st.weak x, 1 ;", "exists (x==0)")),
         "t.litmus:3:1: P0 has no gpu; place a thread as P0@cta 0,gpu 0");
  starts(error_of(with("x=0;", "P1@cta 0,gpu 0 ;\n st.weak x, 1 ;", "exists (x==0)")),
         "t.litmus:3:1: thread P0 expected, not `P1`");
  starts(error_of(with("x=0;",
                       "P0@cta 0,cluster 0,gpu 0 | P1@cta 0,cluster 1,gpu 0 ;\n st.weak x, 1 | ;",
                       "exists (x==0)")),
         "t.litmus:3:28: cta 0 of gpu 0 is in two clusters");
  starts(error_of(with("x=0;", kTwo + " st.weak x, 1 ;", "exists (x==0)")),
         "t.litmus:4:15: `|` expected between the cells of P0 and P1, not `;`");
  starts(error_of(with("x=0;", one + " ld.relaxed r0, x ;", "exists (x==0)")),
         "t.litmus:4:2: a strong load has a scope");
  starts(error_of(with("x=0;", one + " st.acquire.gpu x, 1 ;", "exists (x==0)")),
         "t.litmus:4:2: a store is .weak, .relaxed, .release or .volatile");
  starts(error_of(with("x=0;", one + " ld.weak.weak r0, x ;", "exists (x==0)")),
         "t.litmus:4:10: `.weak` repeats");
  starts(error_of(with("x=0;", one + " atom.relaxed.gpu r0, x, 1 ;", "exists (x==0)")),
         "t.litmus:4:2: an atomic has an operation");
  starts(error_of(with("x=0;", one + " fence.acq_rel ;", "exists (x==0)")),
         "t.litmus:4:2: a fence has a scope");
  starts(error_of(with("x=0;", one + " goto L1 ;", "exists (x==0)")),
         "t.litmus:4:7: P0 has no label `L1`");
  starts(error_of(with("x=0; x=1;", one, "exists (x==0)")),
         "t.litmus:2:7: location `x` is declared twice");
  starts(error_of(with("x=0; P4:r0=0;", one, "exists (x==0)")), "t.litmus:2:7: no thread P4");
  starts(error_of(with("y @ generic aliases y;", one, "exists (y==0)")),
         "t.litmus:2:2: `y` names itself");
  starts(error_of(with("x=0;", one + " ld.weak.b64 r0, x ;", "exists (x==0)")),
         "t.litmus:4:18: access to bytes 0 to 7 of `x`, which has 4");
  starts(error_of(with("x=0;", one + " multimem.st x, 1 ;", "exists (x==0)")),
         "t.litmus:4:14: `x` is no multicast address");
  starts(error_of(with("x=0;", one, "exists (x==0) y")), "t.litmus:5:15: end of the file expected");
  starts(error_of(with("x=0;", one, "exists (x)")),
         "t.litmus:5:10: ==, !=, <, <=, > or >= expected");
  starts(error_of(with("x=18446744073709551616;", one, "exists (x==0)")),
         "t.litmus:2:4: number too large");
  starts(error_of(with("x=0;", one + " ld.weak r0, # ;", "exists (x==0)")),
         "t.litmus:4:14: `#` has no meaning here");
  const std::string deep(300, '(');
  starts(error_of(with("x=0;", one, "exists " + deep)),
         "t.litmus:5:110: formula nested too deeply");
  CHECK_THROWS_AS(parse_file("no/such/file.litmus"), ParseError);
}

TEST_CASE("printing and reading again changes nothing") {
  const char* const texts[] = {
      "PTX a\n\"why\"\n{x=0; u64 y=-5; b8 z[3]={1,2,3}; p=&x; q @ constant aliases x;\n"
      "m @ multicast aliases x, x1; x1=4; P0:r0=&x; P1:r7=3;}\n"
      "P0@cta 0,gpu 0|P1@cta 1,cluster 0,gpu 1;\n"
      "ld.acquire.cluster.u16 r1, [r0+2]|atom.acq_rel.sys.cas.b32 r1, x, r7, -2;\n"
      "cold.weak r2, q|suatom.relaxed.gpu.min r2, x, 1;\n"
      "|sured.release.cta.max x, 1;\n"
      "st.weak.v2 z[1], {1, r2}|red.relaxed.sys.xor [r7], 1;\n"
      "multimem.ld_reduce.relaxed.gpu.min r3, m|multimem.red.relaxed.sys.add m, r2;\n"
      "loop:|bar.cta.sync r7, 1, 64;\n"
      "sub r3, r3, 1|fence.release.gpu;\n"
      "bge r3, 0, loop|launch;\n"
      "goto loop|fence.proxy.async;\n"
      "locations [z[2];]\n"
      "filter (x==0 /\\ (P0:r3==1 \\/ not (y==2 /\\ x!=3)))\n"
      "forall ((x==0 /\\ y==1) /\\ 0:r1>=-4)\n",
  };
  for (const char* text : texts) {
    const std::string once = print(parse(text, "t"));
    INFO(once);
    CHECK(print(parse(once, "t")) == once);
    CHECK(once.find("ld.acquire.cluster.u16 r1, [r0+2]") != std::string::npos);
    CHECK(once.find("(x == 0 /\\ y == 1 /\\ P0:r1 >= -4)") != std::string::npos);
  }
}
