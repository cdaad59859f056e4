#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "emulator/analysis/swarm.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/shard.hpp"
#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

using nlohmann::json;

const std::string kSmall =
    " --ranks 2 --blocks 1 --tokens 2 --hidden 64 --inner 64 --executor inline "
    "--boundary coherent --schedules 10 ";

std::vector<json> units_of(const std::string& file) {
  std::istringstream in(content(file));
  std::vector<json> out;
  std::string line;
  while (std::getline(in, line)) {
    json j = json::parse(line);
    if (j.contains("unit")) out.push_back(std::move(j));
  }
  return out;
}

Shard with(const std::map<std::string, std::string>& variables, const std::string& given = "") {
  return find_shard(given, [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST_CASE("a shard comes from the option, else from the first pair of variables that is whole") {
  CHECK(with({}).count == 1);
  CHECK(with({}, "3/8").index == 2);
  CHECK(with({{"TEST_SHARD_INDEX", "0"}, {"TEST_TOTAL_SHARDS", "4"}}, "3/8").count == 8);
  CHECK(with({{"TEST_SHARD_INDEX", "3"}, {"TEST_TOTAL_SHARDS", "4"}}).index == 3);
  CHECK(with({{"GTEST_SHARD_INDEX", "1"}, {"GTEST_TOTAL_SHARDS", "2"}}).index == 1);
  CHECK(with({{"TEST_SHARD_INDEX", "3"}}).count == 1);
  const Shard slurm = with({{"SLURM_ARRAY_TASK_ID", "12"},
                            {"SLURM_ARRAY_TASK_MIN", "10"},
                            {"SLURM_ARRAY_TASK_COUNT", "5"}});
  CHECK(slurm.index == 2);
  CHECK(slurm.count == 5);
  CHECK(with({{"JOB_COMPLETION_INDEX", "5"}, {"TEST_TOTAL_SHARDS", "6"}}).index == 5);
  for (const char* bad : {"0/4", "5/4", "1", "x/4", "1/", "1/0", "-1/3", "1/4/2"}) {
    CHECK_THROWS_AS(with({}, bad), UsageError);
  }
  CHECK_THROWS_AS(with({{"TEST_SHARD_INDEX", "4"}, {"TEST_TOTAL_SHARDS", "4"}}), UsageError);
  CHECK_THROWS_AS(with({{"TEST_SHARD_INDEX", "a"}, {"TEST_TOTAL_SHARDS", "4"}}), UsageError);
}

TEST_CASE("shards run each unit once, and come to what one process comes to") {
  const Folder f;
  const std::string campaign = "fuzz" + kSmall + "--units 7 --campaign ";
  REQUIRE(ringfence(f, campaign + "whole").status == 0);
  for (const std::string shard : {"1/3", "2/3", "3/3"}) {
    REQUIRE(ringfence(f, campaign + "parts --shard " + shard).status == 0);
  }
  std::map<int, json> parts;
  for (const std::string i : {"1", "2", "3"}) {
    for (const json& u : units_of(f / ("parts/shard-" + i + "-of-3.results.jsonl"))) {
      CHECK(parts.emplace(u["unit"].get<int>(), u).second);
    }
  }
  const auto whole = units_of(f / "whole/shard-1-of-1.results.jsonl");
  REQUIRE(whole.size() == 7);
  REQUIRE(parts.size() == 7);
  for (const json& u : whole) {
    const json& same = parts.at(u["unit"].get<int>());
    for (const char* key : {"seed", "verdict", "schedules", "points"}) CHECK(u[key] == same[key]);
  }
  // Added up, from one folder or several; a unit that ran twice counts once.
  REQUIRE(ringfence(f, "merge parts --json p.json").status == 0);
  REQUIRE(ringfence(f, "merge whole parts --json both.json").status == 0);
  const json p = json_of(f / "p.json"), both = json_of(f / "both.json");
  CHECK(p["units"]["done"] == 7);
  CHECK(p["executions"] == 7 * 11);
  CHECK(both["executions"] == 7 * 11);
  CHECK(both["units"]["again"] == 7);
}

TEST_CASE("a campaign goes on where it stopped; a line that was cut off did not happen") {
  const Folder f;
  const std::string command = "fuzz" + kSmall + "--units 4 --campaign c --json r.json";
  REQUIRE(ringfence(f, command).status == 0);
  const std::string file = f / "c/shard-1-of-1.results.jsonl";
  const std::string all = content(file);
  CHECK(ringfence(f, command).status == 0);
  CHECK(json_of(f / "r.json")["units"] == json({{"ran", 0}, {"resumed", 4}, {"left", 0}}));
  CHECK(content(file) == all);
  // As a power cut leaves it: in the middle of the last unit's line.
  std::ofstream(file, std::ios::binary | std::ios::trunc) << all.substr(0, all.size() - 40);
  CHECK(ringfence(f, "merge c").status == 3);
  CHECK(ringfence(f, command).status == 0);
  CHECK(json_of(f / "r.json")["units"]["ran"] == 1);
  CHECK(units_of(file).size() == 4);
  // In the middle of the first line: nothing happened.
  std::ofstream(file, std::ios::binary | std::ios::trunc) << all.substr(0, 20);
  CHECK(ringfence(f, command).status == 0);
  CHECK(json_of(f / "r.json")["units"]["ran"] == 4);
  // Another campaign's folder is refused, and left as it was.
  const std::string now = content(file);
  const Result other = ringfence(f, command + " --seed 2");
  CHECK(other.status == 2);
  CHECK(other.err.find("another campaign") != std::string::npos);
  CHECK(content(file) == now);
}

TEST_CASE("a finding that many units meet is one trace and one line of merge") {
  const Folder f;
  const Result r =
      ringfence(f, "fuzz" + kSmall + "--set end.put=relaxed --units 3 --campaign c --canary");
  CHECK(r.status == 1);
  CHECK(r.out.find("canary found") != std::string::npos);
  std::set<std::string> traces;
  for (const auto& entry : std::filesystem::directory_iterator(f / "c")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".trace.jsonl")) traces.insert(name);
  }
  REQUIRE(traces.size() == 1);
  CHECK(ringfence(f, "replay c/" + *traces.begin()).status == 1);
  CHECK(ringfence(f, "merge c --json m.json --junit m.xml").status == 1);
  const json m = json_of(f / "m.json");
  CHECK(m["canary"] == true);
  REQUIRE(m["findings"].size() == 1);
  CHECK(m["findings"][0]["units"] == 3);
  CHECK(m["findings"][0]["id"].get<std::string>() + ".trace.jsonl" == *traces.begin());
  CHECK(content(f / "m.xml").find("failures=\"1\"") != std::string::npos);
}

TEST_CASE("merge says which units are missing, and refuses what is no result") {
  const Folder f;
  REQUIRE(ringfence(f, "fuzz" + kSmall + "--units 6 --campaign c --shard 2/3").status == 0);
  const Result partial = ringfence(f, "merge c");
  CHECK(partial.status == 3);
  CHECK(partial.out.find("missing units: 0, 2-3, 5") != std::string::npos);
  std::filesystem::create_directory(f / "empty");
  CHECK(ringfence(f, "merge empty").status == 2);
  CHECK(ringfence(f, "merge nowhere").status == 2);
  std::ofstream(f / "c/x.results.jsonl") << "{\"campaign\":7}\n";
  const Result bad = ringfence(f, "merge c");
  CHECK(bad.status == 2);
  CHECK(bad.err.find("x.results.jsonl:1:") != std::string::npos);
  CHECK(lines(bad.err) == 1);
}

TEST_CASE("merge refuses a unit whose verdict, modes and findings contradict each other") {
  const Folder f;
  REQUIRE(ringfence(f, "fuzz" + kSmall + "--units 1 --campaign c").status == 0);
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(f / "c")) file = entry.path();
  const std::string whole = content(file);
  REQUIRE(whole.find("\"verdict\":\"pass\"") != std::string::npos);
  const auto refused = [&](const std::string& from, const std::string& to) {
    CAPTURE(to);
    std::string text = whole;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    std::ofstream(file) << text;
    const Result r = ringfence(f, "merge c");
    CHECK(r.status == 2);
    CHECK(lines(r.err) == 1);
    CHECK(r.err.find(":2:") != std::string::npos);
  };
  refused("\"verdict\":\"pass\"", "\"verdict\":\"finding\"");
  refused("\"verdict\":\"pass\"", "\"verdict\":\"unknown\"");
  refused("\"coherent\":\"pass\"", "\"coherent\":\"finding\"");
  refused("\"coherent\":\"pass\"", "\"coherent\":\"perhaps\"");
  refused("\"findings\":[]",
          "\"findings\":[{\"id\":\"x\",\"kind\":\"data-race\",\"mode\":\"coherent\","
          "\"message\":\"\",\"trace\":\"x\",\"judged\":true}]");
  std::ofstream(file) << whole;
  CHECK(ringfence(f, "merge c").status == 0);
}

TEST_CASE("swarm draws legal configurations, of both protocols, the same for equal seeds") {
  std::map<std::string, int> protocols;
  std::set<std::uint32_t> ranks, calls;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const SwarmChoice a = draw_swarm({}, {}, seed, true);
    const SwarmChoice b = draw_swarm({}, {}, seed, true);
    CHECK_NOTHROW(programs::validate(a.config));
    CHECK(command_options(a.config) == command_options(b.config));
    ++protocols[a.config.protocol];
    ranks.insert(a.config.ranks);
    calls.insert(a.config.calls);
    CHECK(draw_swarm({}, {}, seed, false).config.protocol == programs::Config{}.protocol);
  }
  CHECK(protocols.size() == 2);
  CHECK(ranks.size() == 4);
  CHECK(calls.size() == 3);
}

TEST_CASE("cases are units: of searches, round and round, and of check, one each") {
  const Folder f;
  const auto path = [](const std::string& name) {
    return " " + std::filesystem::absolute("tests/zoo/" + name + ".toml").string();
  };
  const std::string cases = " --cases" + path("wait-equal-fixed") + path("wait-equal-fault") +
                            " --executor inline --no-shrink --json r.json --campaign ";
  CHECK(ringfence(f, "fuzz --schedules 60 --units 4" + cases + "s").status == 1);
  std::vector<json> units = units_of(f / "s/shard-1-of-1.results.jsonl");
  REQUIRE(units.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(units[i]["verdict"] == (i % 2 == 0 ? "pass" : "finding"));
  }
  CHECK(units[0]["seed"] != units[2]["seed"]);

  CHECK(ringfence(f, "fuzz --exhaustive" + cases + "e").status == 1);
  units = units_of(f / "e/shard-1-of-1.results.jsonl");
  REQUIRE(units.size() == 2);
  CHECK(units[0]["verdict"] == "pass");
  CHECK(units[0]["strategy"]["name"] == "check");
  CHECK(units[1]["verdict"] == "finding");
  CHECK(units[1]["findings"][0]["strategy"] == "check");
  CHECK(ringfence(f, "replay e/" + units[1]["findings"][0]["trace"].get<std::string>()).status ==
        1);
  CHECK(ringfence(f, "merge e").status == 1);
  const Result bounded =
      ringfence(f, "fuzz --exhaustive --schedules 1" + cases + "b --faults pause=1");
  CHECK(bounded.status == 2);
  CHECK(bounded.err.find("--exhaustive") != std::string::npos);
  // Another list is another campaign.
  CHECK(ringfence(f, "fuzz --exhaustive --cases" + path("wait-equal-fixed") + " --campaign e")
            .status == 2);
  CHECK(ringfence(
            f, "fuzz --campaign g --case" + path("reuse-fixed") + " --cases" + path("reuse-fixed"))
            .status == 2);
}

TEST_CASE("a swarm campaign prints what each unit drew, and is clean on the correct protocols") {
  const Folder f;
  const Result r =
      ringfence(f, "fuzz --swarm --units 6 --schedules 5 --executor inline --campaign c");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(r.out.find("unit 5, seed ") != std::string::npos);
  CHECK(ringfence(f, "fuzz --swarm --units 1").status == 2);
  CHECK(ringfence(f, "fuzz --campaign d --trace t.jsonl").status == 2);
}

TEST_CASE("the example for GNU parallel runs as it is") {
  if (std::system("parallel --version > /dev/null 2>&1") != 0) {
    MESSAGE("not run: GNU parallel is not installed");
    return;
  }
  const Folder f;
  const std::string tree = std::filesystem::current_path().string();
  const std::string command =
      "cd " + f.path().string() + " && RINGFENCE=" RINGFENCE_BINARY " JOBS=2 " + tree +
      "/docs/examples/parallel.sh c 2 --units 4 --schedules 5 --ranks 2 --tokens 2 > log 2>&1";
  CHECK_MESSAGE(std::system(command.c_str()) == 0, content(f / "log"));
  CHECK(json_of(f / "c/merged.json")["units"]["done"] == 4);
}

}  // namespace
}  // namespace ringfence::cli
