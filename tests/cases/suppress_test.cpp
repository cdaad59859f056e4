// [[ignore]]: what it passes over, what it does not, and which entries were of no use.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// Two ranks write rank 0's word; `put_other` writes another number.
const std::string kPut = R"(
.visible .entry put(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ret;
}
.visible .entry put_late(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ld.global.u32 %n, [%d];
  ret;
}
)";

std::string put(const std::string& ignore, const std::string& numbers = "[7, 7]",
                const std::string& kernel = "put(") {
  return R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 4
[memory.other]
kind = "symmetric"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = ")" +
         std::string(kernel == "put(" ? "put" : kernel) + R"("
grid = [1]
block = [1]
args = [ {memory = "data", rank = 0}, {u32 = )" +
         numbers + "} ]\n" + (ignore.empty() ? "" : "[[ignore]]\nreason = \"known\"\n" + ignore);
}

std::string of(const Written& w, const std::string& text) {
  return found(fuzz(*w.open(text), Boundary::stream, 40));
}

}  // namespace

TEST_CASE("an entry passes over what it describes, and nothing else") {
  const Written w(kPut);
  CHECK(of(w, put("")) == "data-race");
  const std::string race = "kind = \"data-race\"\n";
  CHECK(of(w, put(race)) == "clean");
  CHECK(of(w, put(race + "memory = \"data\"\n")) == "clean");
  CHECK(of(w, put(race + "memory = \"other\"\n")) == "data-race");
  // The store is the fourth line of its body.
  CHECK(of(w, put(race + "line = \"k.ptx:11\"\n")) == "clean");
  CHECK(of(w, put(race + "line = \"k.ptx:1\"\n")) == "data-race");
  CHECK(of(w, put(race + "line = \"k.ptx:12\"\n")) == "data-race");
  CHECK(of(w, put(race + "kernel = \"put\"\n")) == "clean");
  CHECK(of(w, put(race + "kernel = \"get\"\n")) == "data-race");
  // Both ranks take part in each pair.
  CHECK(of(w, put(race + "rank = 1\n")) == "clean");
  CHECK(says(w.refusal(put(race + "rank = 2\n")), "rank 2: the case has 2 ranks"));
  CHECK(of(w, put("kind = \"stale-read\"\n")) == "data-race");
}

TEST_CASE("writes of one value are told apart from others") {
  const Written w(kPut);
  const std::string same = "kind = \"data-race\"\nsame_value = true\n";
  CHECK(of(w, put(same)) == "clean");
  CHECK(of(w, put(same, "[7, 8]")) == "data-race");
  for (const bool equal : {true, false}) {
    const auto program = w.open(put("", equal ? "[7, 7]" : "[7, 8]"));
    const schedule::SearchResult r = fuzz(*program, Boundary::stream, 40);
    REQUIRE(r.found);
    CHECK(schedule::failure(r.outcome)->same_value == equal);
  }
}

TEST_CASE("a race that is passed over hides none of the same access") {
  const Written w(kPut);
  // The load races with the other rank's store of the same value, too.
  const std::string same = "kind = \"data-race\"\nsame_value = true\n";
  CHECK(of(w, put(same, "[7, 7]", "put_late")) == "data-race");
  CHECK(of(w, put("kind = \"data-race\"\n", "[7, 7]", "put_late")) == "clean");
}

TEST_CASE("an entry that passed nothing over is named") {
  const Written w(kPut);
  const std::string ignore =
      "kind = \"data-race\"\nmemory = \"data\"\n[[ignore]]\nkind = \"data-race\"\nmemory = "
      "\"other\"\nreason = \"of no use\"\n";
  const auto program = w.open(put(ignore));
  CHECK(found(fuzz(*program, Boundary::stream, 10)) == "clean");
  const std::vector<std::string> unused = program->unused_suppressions();
  REQUIRE(unused.size() == 1);
  CHECK(says(unused[0], "data-race in other: of no use"));
}

TEST_CASE("entries that say nothing sensible are refused") {
  const Written w(kPut);
  const auto refused = [&](const std::string& ignore, const std::string& part) {
    const std::string text = w.refusal(put(ignore));
    CAPTURE(text);
    CHECK(says(text, part));
    CHECK(text.find('\n') == std::string::npos);
  };
  refused("kind = \"deadlock\"\n", "kind 'deadlock'; known: data-race");
  refused("memory = \"data\"\n", "lacks the key 'kind'");
  refused("kind = \"data-race\"\nmemory = \"none\"\n", "no [memory.none]");
  refused("kind = \"data-race\"\nline = \"12\"\n", "FILE:LINE");
  refused("kind = \"data-race\"\nfile = \"x\"\n", "unknown key 'file'");
  refused("kind = \"stale-read\"\nsame_value = true\n", "applies only to data-race");
  const std::string none = w.refusal(put("") + "[[ignore]]\nkind = \"data-race\"\n");
  CHECK(says(none, "lacks the key 'reason'"));
}
