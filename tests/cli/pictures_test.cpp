// What other viewers open, checked by its structure and, where it is there, by the viewer's tool.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "emulator/trace/exports.hpp"
#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

using nlohmann::json;

const std::string kCase =
    " --ranks 2 --blocks 2 --tokens 4 --hidden 64 --inner 64 --executor inline "
    "--boundary coherent --perfetto p.json --dot d.dot --shiviz s.log ";

TEST_CASE(
    "Perfetto: slices nest on their tracks, flows lead forward, counters end as the pads do") {
  const Folder f;
  REQUIRE(ringfence(f, "fuzz --schedules 1" + kCase).status == 0);
  const json t = json_of(f / "p.json");
  std::map<std::pair<int, int>, std::vector<std::pair<long, long>>> tracks;
  std::map<int, std::pair<long, int>> flows;  // begin, ends
  std::map<std::string, long> counters;
  std::set<std::pair<int, int>> named;
  std::set<int> processes;
  int steps = 0, highest = 0;
  for (const json& e : t["traceEvents"]) {
    const std::string ph = e["ph"];
    if (ph == "M") {
      if (e["name"] == "process_name") processes.insert(e["pid"].get<int>());
      if (e["name"] == "thread_name") named.emplace(e["pid"].get<int>(), e["tid"].get<int>());
      continue;
    }
    const long ts = e["ts"];
    if (ph == "X") {
      tracks[std::pair(e["pid"].get<int>(), e["tid"].get<int>())].emplace_back(
          ts, ts + e["dur"].get<long>());
      steps += e["cat"] == "step";
    } else if (ph == "s") {
      flows[e["id"].get<int>()].first = ts;
    } else if (ph == "f") {
      auto& flow = flows[e["id"].get<int>()];
      ++flow.second;
      CHECK(flow.first < ts);
      CHECK(e["bp"] == "e");
    } else {
      REQUIRE(ph == "C");
      counters[e["name"].get<std::string>()] = e["args"]["signals"].get<long>();
      highest = std::max(highest, e["args"]["signals"].get<int>());
    }
  }
  CHECK(processes.size() == 3);  // two ranks and the counters
  CHECK(steps > 40);
  for (auto& [track, slices] : tracks) {
    CHECK(named.contains(track));
    // Sorted by start, longest first, each lies inside or after the one before it.
    std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<long> open;
    for (const auto& [begin, end] : slices) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      CHECK((open.empty() || end <= open.back()));
      open.push_back(end);
    }
  }
  // Two barriers of two blocks: each rank's wait takes the signal of the other and its own, from a
  // thread of its own or another; at least those between ranks are flows.
  CHECK(flows.size() >= 8);
  for (const auto& [id, flow] : flows) CHECK(flow.second == 1);
  // A clean run leaves the pads as they were, and had something in them between.
  CHECK(counters.size() == 2);
  for (const auto& [name, last] : counters) CHECK_MESSAGE(last == 0, name);
  CHECK(highest >= 1);
}

TEST_CASE("Perfetto: a case has flows and counters for its signals, and the names of its kernels") {
  const Folder f;
  REQUIRE(ringfence(f,
                    "fuzz --executor inline --schedules 1 --boundary stream --perfetto p.json "
                    "--case " +
                        std::filesystem::absolute("tests/zoo/scope-fixed.toml").string())
              .status == 0);
  const json t = json_of(f / "p.json");
  std::set<std::string> counters, launches;
  std::map<std::string, int> flows;
  std::map<int, int> from;  // rank, by flow
  int crossing = 0;
  for (const json& e : t["traceEvents"]) {
    if (e["ph"] == "C") counters.insert(e["name"]);
    if (e["ph"] == "s") {
      ++flows[e["name"]];
      from[e["id"].get<int>()] = e["pid"];
    }
    if (e["ph"] == "f") crossing += from[e["id"].get<int>()] != e["pid"].get<int>();
    if (e["ph"] == "X" && e["cat"] == "launch") launches.insert(e["name"]);
  }
  // Each rank has a pad of signals, and each wait took the peer's.
  CHECK(counters == std::set<std::string>{"pad of rank 0", "pad of rank 1"});
  CHECK(flows["signal"] >= 2);
  CHECK(crossing >= 2);
  CHECK(std::any_of(launches.begin(), launches.end(), [](const std::string& name) {
    return name.find("call 0 ") == 0 && name.find("exchange_rows") != std::string::npos;
  }));
}

TEST_CASE("ShiViz: each host counts its own lines, and takes in the releases that it acquired") {
  const Folder f;
  REQUIRE(ringfence(f, "fuzz --schedules 1" + kCase).status == 0);
  std::istringstream log(content(f / "s.log"));
  std::string line;
  std::getline(log, line);
  CHECK(line == trace::kShivizPattern);
  std::getline(log, line);
  CHECK(line.empty());
  std::map<std::string, int> own;
  bool crossed = false;
  while (std::getline(log, line)) {
    const std::size_t blank = line.find(' ');
    const std::string host = line.substr(0, blank);
    const json clock = json::parse(line.substr(blank + 1));
    CHECK(clock[host] == ++own[host]);
    for (const auto& [other, count] : clock.items()) {
      if (other != host) CHECK(count <= own[other]);
      crossed |= other[1] != host[1];
    }
    REQUIRE(std::getline(log, line));
    CHECK(line.rfind("step ", 0) == 0);
  }
  CHECK(own.size() >= 4);
  CHECK(crossed);  // the ranks' ends are ordered
}

TEST_CASE("ShiViz: without a release nothing of the other rank's is known") {
  const Folder f;
  REQUIRE(ringfence(f,
                    "fuzz --schedules 1 --set end.put=relaxed --set end.wait=relaxed --trace t"
                    " --no-shrink" +
                        kCase)
              .status == 1);
  std::istringstream log(content(f / "s.log"));
  std::string line;
  std::getline(log, line);
  std::getline(log, line);
  while (std::getline(log, line)) {
    const std::size_t blank = line.find(' ');
    const json clock = json::parse(line.substr(blank + 1));
    for (const auto& [other, count] : clock.items()) {
      CHECK(other[1] == line[1]);
    }
    std::getline(log, line);
  }
}

TEST_CASE("DOT: the finding's accesses are red, and Graphviz draws it") {
  const Folder f;
  REQUIRE(ringfence(f, "fuzz --set end.put=relaxed --trace t" + kCase).status == 1);
  const std::string dot = content(f / "d.dot");
  std::size_t red = 0;
  for (std::size_t at = 0; (at = dot.find("color=\"red\"", at)) != std::string::npos; ++at) ++red;
  CHECK(red >= 2);
  for (const char* edge : {"\"rf\"", "\"co\""}) CHECK(dot.find(edge) != std::string::npos);
  // A relaxed end signal synchronises with nothing.
  CHECK(dot.find("\"sync\"") == std::string::npos);
  REQUIRE(ringfence(f, "fuzz --schedules 1" + kCase).status == 0);
  CHECK(content(f / "d.dot").find("\"sync\"") != std::string::npos);
  if (std::system("dot -V > /dev/null 2>&1") != 0) {
    MESSAGE("not run: graphviz is not installed");
    return;
  }
  const std::string command =
      "dot -Tsvg " + (f / "d.dot") + " -o " + (f / "d.svg") + " 2> " + (f / "d.err");
  CHECK(std::system(command.c_str()) == 0);
  CHECK(content(f / "d.err").empty());
  CHECK(content(f / "d.svg").find("</svg>") != std::string::npos);
}

}  // namespace
}  // namespace ringfence::cli
