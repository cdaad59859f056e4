#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

const std::string kCase = " --ranks 4 --blocks 2 --tokens 8 --hidden 64 --inner 64";

// The decisions and the verdict, without the header that says how it was found.
std::string body(const std::string& trace) { return trace.substr(trace.find('\n') + 1); }

TEST_CASE("the correct barrier is clean in the mode that it claims, and exit 0 judges that one") {
  const Folder f;
  const Result r = ringfence(f, "fuzz" + kCase + " --schedules 200 --json r.json --junit r.xml");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  const auto j = json_of(f / "r.json");
  CHECK(j["verdict"] == "pass");
  CHECK(j["modes"]["coherent"] == "pass");
  CHECK(j["modes"]["strict"] == "finding");
  CHECK(j["modes"]["stream"] == "finding");
  CHECK(j["executions"].get<int>() >= 203);
  CHECK(j["searches"]["coherent"]["executions"] == 201);
  for (const auto& finding : j["findings"]) {
    CHECK(finding["claimed"] == false);
    CHECK(finding["confirmed"] == true);
    const std::string trace = finding["trace"];
    CHECK(std::filesystem::exists(f / trace));
  }
  CHECK(r.out.find("multicast-flag=cohere") != std::string::npos);
  CHECK(r.out.find("except load buffering") != std::string::npos);
  CHECK(content(f / "r.xml").find("failures=\"0\"") != std::string::npos);
}

TEST_CASE("naming a mode judges it, claimed or not") {
  const Folder f;
  CHECK(ringfence(f, "fuzz" + kCase + " --schedules 50 --boundary strict").status == 1);
  CHECK(ringfence(f, "fuzz" + kCase + " --schedules 50 --boundary coherent").status == 0);
}

TEST_CASE("a broken barrier is found, told on one screen, and recorded under its content's name") {
  const Folder f;
  const Result r = ringfence(f, "fuzz" + kCase + " --set end.put=relaxed --boundary coherent");
  CHECK(r.status == 1);
  CHECK(f.files() == std::vector<std::string>{"ringfence-findings"});
  const auto recorded = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(f / "ringfence-findings")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  };
  const auto files = recorded();
  REQUIRE(files.size() == 1);
  CHECK(files[0].rfind("data-race-", 0) == 0);
  CHECK(files[0].size() == std::string("data-race-0123456789abcdef.trace.jsonl").size());
  CHECK(r.out.find("replay: ringfence replay ringfence-findings/" + files[0] + "\n") !=
        std::string::npos);
  CHECK(r.out.find("no release") != std::string::npos);
  CHECK(lines(r.out) <= 40);
  // Found again, it has the same name.
  ringfence(f, "fuzz" + kCase + " --set end.put=relaxed --boundary coherent");
  CHECK(recorded() == files);
}

TEST_CASE("the story that is printed is in the result as JSON, too") {
  const Folder f;
  const Result r =
      ringfence(f, "fuzz" + kCase + " --set end.put=relaxed --boundary coherent --json r.json");
  CHECK(r.status == 1);
  const auto result = nlohmann::json::parse(content(f / "r.json"));
  REQUIRE(result["findings"].size() == 1);
  const std::string story = result["findings"][0]["story"];
  CHECK(story.find("no release") != std::string::npos);
  CHECK(r.out.find(story) != std::string::npos);
  const std::string trace = result["findings"][0]["trace"];
  CHECK(ringfence(f, "replay " + trace + " --no-remedies --json again.json").status == 1);
  const std::string again = nlohmann::json::parse(content(f / "again.json"))["story"];
  CHECK(again.substr(0, again.find('\n')) == story.substr(0, story.find('\n')));
  CHECK(ringfence(f, "run" + kCase + " --json run.json").status == 0);
  CHECK(nlohmann::json::parse(content(f / "run.json"))["story"] == "");
}

TEST_CASE("with --progress-json each line of standard error is an object that says how far it is") {
  const Folder f;
  const Result r = ringfence(
      f, "fuzz --progress-json" + kCase + " --boundary coherent --schedules 100000000 --time 3");
  CHECK(r.status == 0);
  REQUIRE(!r.err.empty());
  std::istringstream text(r.err);
  for (std::string line; std::getline(text, line);) {
    const auto progress = nlohmann::json::parse(line);
    CHECK(progress["progress"] == "coherent");
    CHECK(progress["unit"] == "schedules");
    CHECK(progress["of"] == 100000000);
    CHECK(progress["done"] > 0);
    CHECK(progress["done"] < 100000000);
  }
}

TEST_CASE("the same seed gives the same trace over processes, inline and with more jobs") {
  const Folder f;
  // Needs a choice: the default schedule is clean. Not shrunk, so the choices are the search's.
  const std::string search =
      "fuzz" + kCase +
      " --set scope=gpu --boundary stream --ignore data-race --schedules 3000 "
      "--seed 5 --no-shrink --trace ";
  const int status = ringfence(f, search + "a.jsonl --executor inline").status;
  REQUIRE(status == 1);
  CHECK(ringfence(f, search + "b.jsonl --executor processes").status == 1);
  CHECK(ringfence(f, search + "c.jsonl --executor inline --jobs 3").status == 1);
  CHECK(body(content(f / "a.jsonl")) == body(content(f / "b.jsonl")));
  CHECK(body(content(f / "a.jsonl")) == body(content(f / "c.jsonl")));
}

TEST_CASE(
    "--executor auto is inline where the schedule is chosen, with the same outcome, and processes "
    "for run") {
  const Folder f;
  const std::string relaxed = kCase + " --set end.put=relaxed";
  for (const std::string& command :
       {"fuzz" + relaxed + " --boundary coherent --schedules 500 --seed 5 --trace t.jsonl",
        "fuzz" + kCase + " --boundary coherent --schedules 50", std::string("replay t.jsonl")}) {
    CAPTURE(command);
    const auto with = [&](const std::string& executor) {
      const Result r = ringfence(f, command + " --json r.json --executor " + executor);
      nlohmann::json j = json_of(f / "r.json");
      CHECK(j["executor"] == (executor == "processes" ? "processes" : "inline"));
      return std::tuple(r.status, j["verdict"], j.value("findings", nlohmann::json()).size(),
                        j.value("executions", 0), body(content(f / "t.jsonl")));
    };
    const auto over_processes = with("processes");
    CHECK(with("auto") == over_processes);
  }
  CHECK(ringfence(f, "run" + kCase + " --executor auto --json r.json").status == 0);
  CHECK(json_of(f / "r.json")["executor"] == "processes");
}

TEST_CASE("with races ignored, a relaxed end signal hands old bits to the result") {
  const Folder f;
  const Result r =
      ringfence(f, "fuzz" + kCase +
                       " --set end.put=relaxed --boundary coherent "
                       "--ignore data-race --schedules 2000 --executor inline --json r.json");
  CHECK(r.status == 1);
  const std::string kind = json_of(f / "r.json")["findings"][0]["kind"];
  CHECK((kind == "stale-read" || kind == "numeric-mismatch" || kind == "replica-mismatch"));
}

TEST_CASE("findings in several modes get files of their own beside the one asked for") {
  const Folder f;
  const Result r =
      ringfence(f, "fuzz" + kCase + " --set slot=wrong --executor inline --trace x.trace.jsonl");
  CHECK(r.status == 1);
  CHECK(f.files() ==
        std::vector<std::string>{"x.stream.trace.jsonl", "x.strict.trace.jsonl", "x.trace.jsonl"});
  CHECK(content(f / "x.trace.jsonl").find("\"boundary\":\"coherent\"") != std::string::npos);
}

TEST_CASE("time alone bounds a search if only time is given") {
  const Folder f;
  const Result r = ringfence(f, "fuzz" + kCase +
                                    " --boundary coherent --time 0.5 --executor inline "
                                    "--json r.json");
  CHECK(r.status == 0);
  const double seconds = json_of(f / "r.json")["seconds"];
  CHECK(seconds > 0.4);  // the command's clock runs a little before the search's own
  CHECK(seconds < 10);
}

TEST_CASE("a finding is told, with its token, where its trace cannot be written") {
  const Folder f;
  const std::string name(300, 'x');  // longer than any file system takes
  const Result r =
      ringfence(f, "fuzz --set end.put=relaxed --boundary strict --schedules 200 --trace " + name);
  CHECK(r.status == 1);  // a finding all the same
  CHECK(r.err.find(name) != std::string::npos);
  CHECK(r.out.find("What would make it pass") != std::string::npos);
  const std::string replay = "ringfence replay ";
  const std::size_t at = r.out.find(replay + "rf1,");
  REQUIRE(at != std::string::npos);
  const std::size_t end = r.out.find('\n', at);
  const std::string token = r.out.substr(at + replay.size(), end - at - replay.size());
  CHECK(ringfence(f, "replay " + token).status == 1);
  CHECK(f.files().empty());
}

}  // namespace
}  // namespace ringfence::cli
