// check and relax of compiled kernels, what would fix them, and edits by --set.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "tests/cli/command.hpp"
#include "tests/support/says.hpp"

namespace ringfence::cli {
namespace {

std::string zoo(const std::string& name) {
  return " --case " + std::filesystem::absolute("tests/zoo/" + name + ".toml").string();
}

TEST_CASE("check passes a kernel, fails its twin with a trace that replays, and knows its bound") {
  const Folder f;
  const Result fixed = ringfence(f, "check" + zoo("scope-fixed") + " --json r.json");
  CHECK_MESSAGE(fixed.status == 0, fixed.out, fixed.err);
  CHECK(json_of(f / "r.json")["modes"]["strict"] == "pass");
  const Result fault =
      ringfence(f, "check" + zoo("scope-fault") + " --boundary coherent --trace t.jsonl");
  CHECK_MESSAGE(fault.status == 1, fault.out, fault.err);
  CHECK(says(fault.out, "zoo.cu:"));
  const Result again = ringfence(f, "replay t.jsonl --no-remedies");
  CHECK(again.status == 1);
  CHECK(says(again.out, "the recorded run, bit for bit"));
  const std::string many =
      std::filesystem::absolute("tests/cases/files/tokenweave-peer-2.toml").string();
  const Result bound = ringfence(f, "check --case " + many + " --boundary coherent --schedules 2");
  CHECK(bound.status == 3);
  CHECK(says(bound.out, "UNKNOWN"));
}

TEST_CASE("relax finds what a kernel's exchange needs, by PTX and CUDA line, and replays why") {
  const Folder f;
  std::filesystem::create_directory(f.path() / "why");
  const Result r =
      ringfence(f, "relax" + zoo("scope-fixed") + " --boundary strict --traces why --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  const auto rows = json_of(f / "r.json")["modes"]["strict"];
  // The exchange puts by a release CAS and waits by an acquire one, before the data is read; the
  // same again behind it, where the kernel ends and nothing is written any more.
  std::map<std::string, int> needed;
  for (const auto& row : rows) {
    const std::string where = row["where"], site = row["site"];
    CHECK(says(where, "zoo.cu:"));
    CHECK(says(site, "zoo.ptx:"));
    if (row["alone"] != row["present"]) continue;
    ++needed[site.substr(site.rfind('/') + 1) + " " + row["present"].get<std::string>()];
    const std::string trace = row["trace"];
    REQUIRE(!trace.empty());
    CHECK(ringfence(f, "replay " + trace + " --no-remedies").status == 1);
  }
  CHECK(needed["order release"] >= 1);
  CHECK(needed["order acquire"] >= 1);
  CHECK(needed["scope sys"] >= 2);
  CHECK(needed["barrier there"] >= 2);
}

TEST_CASE("relax falls back on random schedules where the bound ends, and says so") {
  const Folder f;
  const Result r = ringfence(f, "relax" + zoo("counter-reset-fixed") +
                                    " --boundary strict --schedules 3 --fuzz 40 --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(says(r.out, "fuzz: a limit ended the exhaustive search"));
  bool searched = false;
  const auto j = json_of(f / "r.json");
  for (const auto& row : j["modes"]["strict"]) {
    searched |= row["exhaustive"] == false;
  }
  CHECK(searched);
  const Result program =
      ringfence(f,
                "relax --protocol multimem-counter --ranks 3 --blocks 1 --tokens 3 --hidden 8 "
                "--inner 6 --calls 2 --boundary strict --schedules 3 --fuzz 40");
  CHECK(program.status == 0);
  CHECK(says(program.out, "fuzz: a limit ended the exhaustive search"));
}

TEST_CASE("a kernel's fault is told with the instruction that mends it") {
  const Folder f;
  const Result r =
      ringfence(f, "fuzz" + zoo("scope-fault") +
                       " --schedules 50 --boundary coherent --trace t.jsonl --json r.json");
  CHECK(r.status == 1);
  CHECK(says(r.out, "What would make it pass"));
  const auto found = json_of(f / "r.json")["findings"][0]["remedies"]["found"];
  REQUIRE(!found.empty());
  std::string set;
  for (const auto& change : found[0]["changes"]) {
    set += " --set " + change["switch"].get<std::string>() + "=" + change["to"].get<std::string>();
  }
  const Result mended =
      ringfence(f, "fuzz" + zoo("scope-fault") +
                       " --schedules 100 --boundary coherent --executor inline" + set);
  CHECK_MESSAGE(mended.status == 0, mended.out, mended.err);
}

TEST_CASE("an edit of a kernel that is none is bad input, in one line") {
  const Folder f;
  for (const std::string set : {"zoo.ptx:1/order=relaxed", "end.put=relaxed"}) {
    const Result r = ringfence(f, "fuzz" + zoo("scope-fixed") + " --set " + set);
    CHECK(r.status == 2);
    CHECK(lines(r.err) == 1);
    CHECK(says(r.err, "no such site"));
  }
}

}  // namespace
}  // namespace ringfence::cli
