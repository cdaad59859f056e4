// Edits to how a kernel synchronises: which sites there are, and that each edit is what it says.

#include "emulator/cases/edits.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using cases::CaseError;
using cases::Edits;
using cases::EditSite;
using cases::read_case;
using machine::Boundary;

namespace {

std::vector<EditSite> sites(const std::string& name, const Edits& edits = {}) {
  return cases::edit_sites(read_case("tests/zoo/" + name + ".toml"), edits);
}

// The sites whose key ends with /what and whose instruction begins with `text`.
std::vector<EditSite> sites_of(const std::string& name, const std::string& what,
                               const std::string& text = "") {
  std::vector<EditSite> out;
  for (const EditSite& s : sites(name)) {
    if (s.key.ends_with("/" + what) && s.text.starts_with(text)) out.push_back(s);
  }
  return out;
}

std::string verdict(const std::string& name, const Edits& edits, Boundary mode) {
  cases::Settings settings;
  settings.edits = edits;
  const auto program = cases::test::open("tests/zoo/" + name + ".toml", settings);
  return cases::test::found(cases::test::fuzz(*program, mode, 200));
}

std::string complaint(const Edits& edits) {
  cases::Settings settings;
  settings.edits = edits;
  try {
    cases::test::open("tests/zoo/scope-fixed.toml", settings);
  } catch (const CaseError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE(
    "a kernel's sites are its orders, scopes and barriers, with what is weaker and stronger") {
  const auto puts = sites_of("scope-fixed", "order", "atom.release");
  REQUIRE(!puts.empty());
  CHECK(puts.front().present == "release");
  CHECK(puts.front().weaker == std::vector<std::string>{"relaxed"});
  CHECK(puts.front().stronger == std::vector<std::string>{"acq_rel"});
  CHECK(puts.front().place.starts_with("zoo.cu:"));
  CHECK(puts.front().strong);
  const auto scopes = sites_of("scope-fixed", "scope", "atom.release");
  REQUIRE(!scopes.empty());
  CHECK(scopes.front().present == "sys");
  CHECK(scopes.front().weaker == std::vector<std::string>{"cta", "cluster", "gpu"});
  CHECK(!sites_of("scope-fixed", "barrier", "bar").empty());
  const auto stores = sites_of("scope-fixed", "order", "st.u32");
  REQUIRE(!stores.empty());
  CHECK(!stores.front().strong);
  CHECK(stores.front().weaker.empty());
  CHECK(stores.front().stronger == std::vector<std::string>{"relaxed", "release"});
}

TEST_CASE("narrower scopes make the fixed kernel the faulty one, and wider ones mend the fault") {
  Edits narrow, wide;
  for (const EditSite& s : sites_of("scope-fixed", "scope", "atom")) narrow[s.key] = "gpu";
  REQUIRE(!narrow.empty());
  CHECK(verdict("scope-fixed", {}, Boundary::strict) == "clean");
  CHECK(verdict("scope-fixed", narrow, Boundary::strict) == "data-race");
  for (const EditSite& s : sites_of("scope-fault", "scope", "atom")) wide[s.key] = "sys";
  REQUIRE(!wide.empty());
  CHECK(verdict("scope-fault", {}, Boundary::strict) == "data-race");
  CHECK(verdict("scope-fault", wide, Boundary::strict) == "clean");
}

TEST_CASE("each block barrier that is taken out is gone from the sites, and a race shows") {
  const auto barriers = sites_of("scope-fixed", "barrier");
  REQUIRE(barriers.size() >= 2);
  std::string first_race;
  for (const EditSite& s : barriers) {
    const auto left = sites("scope-fixed", {{s.key, "none"}});
    CHECK(std::count_if(left.begin(), left.end(), [](const EditSite& l) {
            return l.key.ends_with("/barrier");
          }) == static_cast<std::ptrdiff_t>(barriers.size()) - 1);
  }
  // The first one is between the data of all threads and the signals of some.
  CHECK(verdict("scope-fixed", {{barriers.front().key, "none"}}, Boundary::strict) == "data-race");
}

TEST_CASE("a relaxed put of the fixed kernel is a race in strict mode") {
  const auto puts = sites_of("scope-fixed", "order", "atom.release");
  CHECK(verdict("scope-fixed", {{puts.front().key, "relaxed"}}, Boundary::strict) == "data-race");
}

TEST_CASE("an edit that names no site, or a value it cannot have, is one line that says so") {
  const std::string none = complaint({{"zoo.ptx:1/order", "relaxed"}});
  CHECK(none.find("--set zoo.ptx:1/order=relaxed: the case's kernels have no such site") !=
        std::string::npos);
  CHECK(complaint({{"nonsense", "x"}}).find("FILE:LINE/WHAT") != std::string::npos);
  const EditSite put = sites_of("scope-fixed", "order", "atom.release").front();
  const std::string wrong = complaint({{put.key, "weak"}});
  CHECK(wrong.find("it can be relaxed, acq_rel") != std::string::npos);
  CHECK(wrong.find('\n') == std::string::npos);
}

TEST_CASE("an instruction that is put in is executed there, and mends what lacks it there alone") {
  // The store of the data, which all threads make; the signal of thread 0 follows it.
  const std::string stores = "zoo.ptx:2544", reads = "zoo.ptx:2593";
  CHECK(verdict("early-signal-fault", {{stores + "/after", "bar.sync"}}, Boundary::stream) ==
        "clean");
  CHECK(verdict("early-signal-fault", {{stores + "/before", "bar.sync"}}, Boundary::stream) ==
        "data-race");
  CHECK(verdict("early-signal-fault", {{reads + "/before", "bar.sync"}}, Boundary::stream) ==
        "data-race");
  // A fence is no barrier.
  CHECK(verdict("early-signal-fault", {{stores + "/after", "fence.sc.sys"}}, Boundary::stream) ==
        "data-race");
}

namespace {

const char* const kMemories = R"(
ranks = 1
calls = 2
[memory.data]
kind = "local"
bytes = 64
INIT
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [2]
block = [1]
args = [ {memory = "data"} ]
)";

// Each block counts itself and waits until there are two.
const char* const kCounts = R"(.visible .entry k(.param .u64 data) {
  .reg .pred %p; .reg .b32 %v; .reg .b64 %m;
  ld.param.u64 %m, [data];
  red.release.gpu.global.add.u32 [%m], 1;
W: ld.acquire.gpu.global.u32 %v, [%m];
  setp.ne.u32 %p, %v, 2;
  @%p bra W;
  ret;
})";

std::string judged(const cases::test::Written& w, const std::string& init, const Edits& edits) {
  std::string text = kMemories;
  text.replace(text.find("INIT"), 4, init);
  cases::Settings settings;
  settings.edits = edits;
  const auto program = w.open(text, settings);
  return cases::test::found(cases::test::fuzz(*program, Boundary::stream, 50));
}

}  // namespace

TEST_CASE("a memory that is cleared after each call is as at first in the next one") {
  const cases::test::Written w(kCounts);
  CHECK(judged(w, "", {}) == "deadlock");  // in call 1 the count goes on from 2
  CHECK(judged(w, "", {{"memory.data/clear", "call"}}) == "clean");
  CHECK(judged(w, "", {{"memory.data/clear", "launch"}}) == "clean");
}

TEST_CASE("a memory that is not initialised can be, and no other") {
  const cases::test::Written w(R"(.visible .entry k(.param .u64 data) {
  .reg .b32 %v; .reg .b64 %m;
  ld.param.u64 %m, [data];
  ld.global.u32 %v, [%m+32];
  red.global.add.u32 [%m], %v;
  ret;
})");
  CHECK(judged(w, "init = \"poison\"", {}) == "uninitialised-read");
  CHECK(judged(w, "init = \"poison\"", {{"memory.data/init", "zero"}}) == "clean");
  const auto refused = [&](const Edits& edits) -> std::string {
    try {
      judged(w, "", edits);
    } catch (const CaseError& e) {
      return e.what();
    }
    return "";
  };
  CHECK(refused({{"memory.data/init", "zero"}}).ends_with("'data' is initialised"));
  CHECK(refused({{"memory.pad/init", "zero"}}).ends_with("the case has no memory 'pad'"));
  CHECK(refused({{"memory.data/clear", "never"}}).find("expected memory.NAME/init=zero") !=
        std::string::npos);
}

TEST_CASE("what cannot be put in is refused with what can") {
  CHECK(complaint({{"zoo.ptx:1/before", "bar.sync"}}).find("bar.sync, fence.acq_rel.sys") !=
        std::string::npos);
  const std::string key = sites_of("scope-fixed", "order", "atom.release").front().key;
  const std::string line = key.substr(0, key.find('/'));
  CHECK(complaint({{line + "/after", "nonsense"}}).find("griddepcontrol.wait") !=
        std::string::npos);
  CHECK(complaint({{line + "/after", "bar.sync"}}).empty());
}
