// fuzz --corpus.
#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::set<std::string> traces(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".trace.jsonl")) {
      names.insert(entry.path().filename().string());
    }
  }
  return names;
}

// Two ranks count with loads and stores: very many runs. With `goal` 1 none of them is wrong.
void write_case(const Folder& f, const std::string& goal) {
  std::string text = content("tests/rare/lost.toml");
  const auto put = [&](const std::string& old, const std::string& fresh) {
    const std::size_t at = text.find(old);
    REQUIRE(at != std::string::npos);
    text.replace(at, old.size(), fresh);
  };
  put("kernels.ptx", fs::absolute("tests/rare/kernels.ptx").string());
  put("{u32 = 2}", "{u32 = " + goal + "}");
  std::ofstream(f / "case.toml") << text;
}
const std::string kSearch =
    "fuzz --case case.toml --executor inline --strategy portfolio --corpus c --seed 3 ";
const std::string kCase = kSearch + "--boundary strict ";

TEST_CASE("a corpus keeps schedules that replay, and a search begins with those of its own case") {
  const Folder f;
  write_case(f, "1");
  const Result first = ringfence(f, kCase + "--schedules 300 --json r.json");
  REQUIRE(first.status == 0);
  const json search = json_of(f / "r.json")["searches"]["strict"];
  CHECK(search["executions"] == 301);
  CHECK(search["distinct"] > 100);
  CHECK(search["distinct"] <= 301);
  const std::set<std::string> kept = traces(f / "c");
  REQUIRE(kept.size() > 3);
  for (const std::string& name : kept) {
    CAPTURE(name);
    CHECK(ringfence(f, "replay c/" + name).status == 0);
  }
  // Another mode has schedules of its own; they are kept beside the others.
  const Result other = ringfence(f, kSearch + "--boundary stream --schedules 200");
  REQUIRE(other.status == 0);
  CHECK(traces(f / "c").size() > kept.size());
  // The first ones are not kept again: another search from the same seed adds little.
  const std::size_t before = traces(f / "c").size();
  REQUIRE(ringfence(f, kCase + "--schedules 300").status == 0);
  CHECK(traces(f / "c").size() < before + kept.size());
}

TEST_CASE("a schedule of the corpus that fails is the first one found, and told as such") {
  const Folder f;
  write_case(f, "2");
  const std::string found = kCase + "--no-shrink --schedules 200000 --trace found.trace.jsonl";
  REQUIRE(ringfence(f, found).status == 1);
  fs::remove_all(f / "c");
  fs::create_directory(f / "c");
  fs::copy(f / "found.trace.jsonl", f / "c/found.trace.jsonl");
  const Result again = ringfence(f, kCase + "--no-shrink --schedules 1 --json r.json");
  CHECK(again.status == 1);
  CHECK(again.out.find("the corpus, schedule 1") != std::string::npos);
  CHECK(json_of(f / "r.json")["findings"][0]["strategy"] == "replay");
}

TEST_CASE("a campaign's units share a corpus") {
  const Folder f;
  write_case(f, "1");
  const std::string campaign = kCase + "--schedules 100 --units 4 --campaign r ";
  REQUIRE(ringfence(f, campaign + "--shard 1/2").status == 0);
  const std::size_t half = traces(f / "c").size();
  CHECK(half > 3);
  REQUIRE(ringfence(f, campaign + "--shard 2/2").status == 0);
  CHECK(traces(f / "c").size() >= half);
  CHECK(ringfence(f, "merge r").status == 0);
}

TEST_CASE(
    "what is no schedule in a corpus, and a strategy that takes none, are refused in a line") {
  const Folder f;
  write_case(f, "1");
  fs::create_directory(f / "c");
  std::ofstream(f / "c/bad.trace.jsonl") << "{\"ringfence-trace\":1\n";
  const Result bad = ringfence(f, kCase + "--schedules 5");
  CHECK(bad.status == 2);
  CHECK(bad.err.find("bad.trace.jsonl") != std::string::npos);
  CHECK(lines(bad.err) == 1);
  const Result pct = ringfence(f, "fuzz --strategy pct --corpus d");
  CHECK(pct.status == 2);
  CHECK(pct.err.find("expected --strategy portfolio") != std::string::npos);
  CHECK(lines(pct.err) == 1);
  std::ofstream(f / "file") << "x";
  const Result file = ringfence(f, "fuzz --strategy portfolio --corpus file/c");
  CHECK(file.status == 2);
  CHECK(lines(file.err) == 1);
}

}  // namespace
}  // namespace ringfence::cli
