// What a launcher says of ranks and calls: arguments, kernels, grids and blocks of their own; and
// what the host puts on streams between launches.
#include <doctest/doctest.h>

#include <string>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using cases::CaseProgram;
using machine::Boundary;

namespace {

constexpr Boundary kModes[] = {Boundary::strict, Boundary::stream, Boundary::coherent};

// Traps unless its number is what lies in memory.
const std::string kSame = R"(
.visible .entry same(.param .u64 data, .param .u32 number)
{
  .reg .pred %p;
  .reg .b32 %n, %v;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  ld.global.u32 %v, [%d];
  setp.eq.u32 %p, %n, %v;
  @%p ret;
  trap;
}
.visible .entry put(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ret;
}
.visible .entry put_first(.param .u64 data, .param .u32 number)
{
  .reg .pred %p;
  .reg .b32 %n, %t;
  .reg .b64 %d;
  mov.u32 %t, %tid.x;
  setp.ne.u32 %p, %t, 0;
  @%p ret;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ret;
}
)";

std::string launch(const std::string& kernel, const std::string& args,
                   const std::string& more = "") {
  std::string text =
      "[[launch]]\nptx = \"k.ptx\"\nkernel = " + kernel + "\nargs = [ " + args + " ]\n" + more;
  if (more.find("grid") == std::string::npos) text += "grid = [1]\n";
  if (more.find("block") == std::string::npos) text += "block = [1]\n";
  return text;
}

std::string memory(const std::string& init = "\"zero\"") {
  return "[memory.data]\nkind = \"symmetric\"\nbytes = 4\ninit = " + init + "\n";
}

std::string in(CaseProgram& program, Boundary mode, int schedules = 20) {
  return found(fuzz(program, mode, static_cast<std::uint64_t>(schedules)));
}

// The kind of a finding, or "clean", in all modes alike.
std::string in_all(const Written& w, const std::string& text, int schedules = 30) {
  std::string out;
  for (const Boundary mode : kModes) {
    const std::string kind = in(*w.open(text), mode, schedules);
    if (out.find(kind) == std::string::npos) out += (out.empty() ? "" : " ") + kind;
  }
  return out;
}

}  // namespace

TEST_CASE("an argument differs from rank to rank, and from call to call") {
  const Written w(kSame);
  const auto text = [](const std::string& number, const std::string& init) {
    return "ranks = 2\ncalls = 3\n" + memory(init) +
           launch("\"same\"", "{memory = \"data\"}, " + number);
  };
  CHECK(in_all(w, text("{u32 = [7, 9]}", "{ u32 = \"7 + 2 * rank\" }")) == "clean");
  CHECK(in_all(w, text("{u32 = [9, 7]}", "{ u32 = \"7 + 2 * rank\" }")) == "rank-lost");
  CHECK(in_all(w, text("{u32 = \"call * 0 + 5\"}", "{ u32 = 5 }")) == "clean");
  CHECK(in_all(w, text("{u32 = \"call + 5\"}", "{ u32 = 5 }")) == "rank-lost");
  CHECK(in_all(w, text("{f32 = [1.0, 2.0]}", "{ f32 = [1.0] }")) == "rank-lost");
  CHECK(in_all(w, "ranks = 2\ncalls = 3\n" + memory() +
                      launch("\"put\"", "{memory = \"data\"}, {u32 = \"call + rank\"}") +
                      launch("\"same\"", "{memory = \"data\"}, {u32 = \"call + rank\"}")) ==
        "clean");
}

TEST_CASE("numbers that no argument can have are refused, with the rank and the call") {
  const Written w(kSame);
  const auto refused = [&](const std::string& number, const std::string& part) {
    const std::string text = w.refusal("ranks = 2\ncalls = 3\n" + memory() +
                                       launch("\"same\"", "{memory = \"data\"}, " + number));
    CAPTURE(text);
    CHECK(says(text, part));
  };
  refused("{u32 = [1, 2, 3]}", "3 entries for 2 ranks");
  refused("{u32 = \"call - 1\"}", "on rank 0 in call 0: -1 is no u32");
  refused("{u32 = \"4 / (1 - call)\"}", "in call 1: it divides by zero");
  refused("{u32 = \"s\"}", "'s': expected a formula");
  refused("{u32 = \"index\"}", "'index' is of a memory's elements");
  refused("{f32 = \"call\"}", "must be a number");
  refused("{struct = [{u16 = 1}]}", "argument 2 of kernel 'same' has 4 bytes, args gives 2");
}

TEST_CASE("each rank has a PTX, a kernel, a grid and a block of its own, or no launch") {
  const Written w(kSame);
  std::string other = ".version 8.6\n.target sm_90a\n.address_size 64\n" + kSame;
  other.replace(other.find("entry put("), 10, "entry own(");
  w.add("own.ptx", other);
  const std::string two = "ranks = 2\n" + memory();
  const std::string check =
      launch("\"same\"", "{memory = \"data\"}, {u32 = [1, 0]}") +
      launch("\"same\"", "{memory = \"data\"}, {u32 = 1}", "grid = [[1], [0]]\n");
  const std::string number = "{memory = \"data\"}, {u32 = 1}";
  // Rank 1 launches nothing that writes.
  CHECK(in_all(w, two + launch("\"put\"", number, "grid = [[1], [0]]\n") + check) == "clean");
  CHECK(in_all(w, two + launch("\"put\"", number) + check) == "rank-lost");
  CHECK(in_all(w, two + launch("[\"put\", \"same\"]", "{memory = \"data\"}, {u32 = [1, 0]}") +
                      check) == "clean");
  const std::string files =
      "[[launch]]\nptx = [\"k.ptx\", \"own.ptx\"]\nkernel = [\"put\", \"own\"]"
      "\ngrid = [1]\nblock = [1]\nargs = [ {memory = \"data\"}, "
      "{u32 = [1, 2]} ]\n";
  CHECK(in_all(w, two + files + launch("\"same\"", "{memory = \"data\"}, {u32 = \"rank + 1\"}")) ==
        "clean");
  CHECK(in_all(w, two + launch("\"put_first\"", number, "block = [[1], [64]]\n") +
                      launch("\"same\"", number)) == "clean");
  CHECK(says(w.refusal(two + launch("[\"put\"]", number)), "kernel has 1 entries for 2 ranks"));
  CHECK(says(w.refusal(two + launch("[\"put\", \"own\"]", number)), "own"));
  CHECK(says(w.refusal(two + launch("\"put\"", number, "block = [[64], [2048]]\n")), "1024"));
  CHECK(says(w.refusal(two + launch("\"put\"", number, "grid = [[1]]\n")), "1 entries"));
}

TEST_CASE("a memset and a copy are tasks of their stream, in the file's order") {
  const Written w(kSame);
  const std::string number = "{memory = \"data\"}, {u32 = 9}";
  const std::string two = "ranks = 2\n" + memory() +
                          "[memory.from]\nkind = \"local\"\nbytes = 8\n" +
                          "init = { u32 = [3, 9] }\n";
  const std::string copy =
      "[[host]]\ncopy = { from = {memory = \"from\", offset = 4}, to = {memory = \"data\"}, bytes "
      "= "
      "4 }\n";
  const std::string set = "[[host]]\nmemset = { to = {memory = \"data\"}, bytes = 4, value = 0 }\n";
  CHECK(in_all(w, two + copy + launch("\"same\"", number)) == "clean");
  CHECK(in_all(w, two + copy + set + launch("\"same\"", number)) == "rank-lost");
  CHECK(in_all(w, two + set + copy + launch("\"same\"", number)) == "clean");
  CHECK(in_all(w, two + launch("\"put\"", number) + launch("\"same\"", number) + set) == "clean");
  CHECK(in_all(w, two + launch("\"put\"", number) + set + launch("\"same\"", number)) ==
        "rank-lost");
  // A memset that races with a kernel of another stream.
  CHECK(in_all(w, two + launch("\"put\"", number) + "[[host]]\nstream = 1\n" + set.substr(9)) ==
        "data-race");
}

TEST_CASE("a copy to a peer is ordered with its kernel by an event, and by nothing else") {
  const Written w(kSame);
  const std::string number = "{memory = \"data\"}, {u32 = \"8 + 1 - rank\"}";
  const std::string two = "ranks = 2\n" + memory() +
                          "[memory.from]\nkind = \"local\"\nbytes = 4\n" +
                          "init = { u32 = \"8 + rank\" }\n";
  const std::string copy =
      "[[host]]\ncopy = { from = {memory = \"from\"}, to = {memory = \"data\", peer = 1}, bytes = "
      "4 "
      "}\n";
  const std::string record = "[[host]]\nrecord = \"copied\"\n";
  const std::string wait = "[[host]]\nwait_event = { event = \"copied\", peer = 1 }\n";
  CHECK(in_all(w, two + copy + record + wait + launch("\"same\"", number)) == "clean");
  CHECK(in_all(w, two + copy + launch("\"same\"", number)) == "data-race");
  // What is recorded before the copy says nothing of it.
  CHECK(in_all(w, two + record + copy + wait + launch("\"same\"", number)) == "data-race");
  CHECK(in_all(w, two + wait + copy + record + launch("\"same\"", number)) == "deadlock");
  CHECK(says(w.refusal(two + copy + "[[host]]\nrecord = \"copied\"\nranks = [0]\n" + wait +
                       launch("\"same\"", number)),
             "waits for the event 'copied', which rank 1 never records"));
}

TEST_CASE("an event orders two streams of a rank") {
  const Written w(kSame);
  const std::string number = "{memory = \"data\"}, {u32 = 4}";
  const std::string two = "ranks = 1\n" + memory();
  const std::string there = launch("\"same\"", number, "stream = 1\n");
  const std::string record = "[[host]]\nrecord = \"put\"\n";
  const std::string wait = "[[host]]\nwait_event = { event = \"put\" }\nstream = 1\n";
  CHECK(in_all(w, two + launch("\"put\"", number) + record + wait + there) == "clean");
  const std::string none = in_all(w, two + launch("\"put\"", number) + there);
  CAPTURE(none);
  CHECK(says(none, "data-race"));
}

TEST_CASE("a written value publishes what its stream did before, unless its fence is off") {
  const Written w(kSame);
  const std::string number = "{memory = \"data\", peer = 1}, {u32 = 6}";
  const auto text = [&](const std::string& write, const std::string& wait) {
    return "ranks = 2\ncalls = 2\n" + memory() +
           "[memory.flag]\nkind = \"symmetric\"\nbytes = 8\n" + launch("\"put\"", number) +
           "[[host]]\nwrite = { to = {memory = \"flag\", peer = 1, offset = 4}, u32 = \"2 * call + "
           "1\"" +
           write +
           " }\n[[host]]\nwait = { at = {memory = \"flag\", offset = 4}, u32 = \"2 * call + "
           "1\"" +
           wait + " }\n" + launch("\"same\"", "{memory = \"data\"}, {u32 = 6}") +
           "[[host]]\nwrite = { to = {memory = \"flag\", peer = 1, offset = 4}, u32 = \"2 * call + "
           "2\" }\n[[host]]\nwait = { at = {memory = \"flag\", offset = 4}, u32 = \"2 * call + "
           "2\", "
           "flush = true }\n";
  };
  CHECK(in_all(w, text("", ", flush = true")) == "clean");
  // A wait that does not flush acquires nothing; the end of its task does, where modes say so.
  CHECK(in(*w.open(text("", "")), Boundary::strict) == "data-race");
  CHECK(in(*w.open(text("", "")), Boundary::stream) == "clean");
  CHECK(in(*w.open(text(", fence = false", ", flush = true")), Boundary::strict) == "data-race");
}

TEST_CASE("a wait for a value that nobody writes is a deadlock that names its line") {
  const Written w(kSame);
  const auto program =
      w.open("ranks = 2\n" + memory() + "[[host]]\nwait = { at = {memory = \"data\"}, u32 = 1 }\n" +
             launch("\"same\"", "{memory = \"data\"}, {u32 = 1}"));
  const schedule::SearchResult r = fuzz(*program, Boundary::stream, 1);
  CHECK(found(r) == "deadlock");
  bool named = false;
  for (std::uint16_t site = 0; site < 40; ++site) {
    named = named || says(program->site_name(site), "case.toml:7: host: wait for a value in data");
  }
  CHECK(named);
}

TEST_CASE("steps of the host that cannot be made are refused") {
  const Written w(kSame);
  const auto refused = [&](const std::string& step, const std::string& part) {
    const std::string text = w.refusal("ranks = 2\n" + memory() + "[[host]]\n" + step +
                                       launch("\"same\"", "{memory = \"data\"}, {u32 = 1}"));
    CAPTURE(text);
    CHECK(says(text, part));
    CHECK(text.find('\n') == std::string::npos);
  };
  refused("stream = 1\n", "a [[host]] is one step: memset, copy");
  refused("record = \"a\"\nwait_event = { event = \"a\" }\n", "record or wait_event");
  refused("memset = { to = {memory = \"data\"}, bytes = 5 }\n", "reaches byte 4 of 'data'");
  refused("memset = { to = {memory = \"no\"}, bytes = 4 }\n", "no [memory.no]");
  refused("memset = { to = {peers = \"data\"}, bytes = 4 }\n", "to is {memory = NAME}");
  refused("write = { to = {memory = \"data\"}, u32 = \"call - 1\" }\n", "-1 is no u32");
  refused("wait = { at = {memory = \"data\"}, u32 = 1, compare = \"lt\" }\n", "known: geq, eq");
  refused("wait_event = { event = \"none\" }\n", "which rank 0 never records");
  refused("record = \"a\"\nranks = [2]\n", "from 0 to 1");
}
