// fuzz --faults: what befalls ranks is drawn, judged, recorded, shrunk and replayed.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

const std::string kSmall = " --ranks 2 --blocks 1 --tokens 2 --hidden 8 --inner 4 --calls 2";
const std::string kTokenweave = "fuzz" + kSmall + " --boundary coherent --executor inline";
const std::string kPypto =
    "fuzz --protocol pypto" + kSmall + " --boundary strict --executor inline";

std::string zoo(const std::string& name) {
  return (std::filesystem::current_path() / "tests/zoo" / name).string();
}

// Lines of a trace that record a fault.
int faults_of(const std::string& trace) {
  std::istringstream in(trace);
  std::string line;
  int n = 0;
  while (std::getline(in, line)) {
    const auto j = nlohmann::json::parse(line);
    n += j.contains("agent") && (j.contains("fault") || j.contains("late") || j.contains("dirty"));
  }
  return n;
}

TEST_CASE("both protocols keep their promise under kills, pauses, delays and late signals") {
  for (const std::string& fuzz : {kTokenweave, kPypto}) {
    const Folder f;
    const Result r = ringfence(f, fuzz +
                                      " --faults kill,pause=2,delay=2,late-signal=2 "
                                      "--schedules 1500 --json r.json");
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    const auto faults = json_of(f / "r.json")["faults"];
    CHECK(faults["all"]["findings"] == 0);
    for (const char* kind : {"kill", "pause", "delay", "late-signal"}) {
      CAPTURE(kind);
      CHECK(faults["kinds"][kind]["runs"].get<int>() > 100);
      CHECK(faults["kinds"][kind]["right"].get<int>() > 0);
    }
    CHECK(faults["kinds"]["kill"]["stopped"].get<int>() > 0);
    // Who waits for which slot of which rank, and that this one was killed.
    CHECK(r.out.find("was killed after step") != std::string::npos);
    CHECK(r.out.find("killed)") != std::string::npos);
    CHECK(f.files() == std::vector<std::string>{"r.json"});
  }
}

TEST_CASE("without kills nothing may stop: pauses, delays and late signals end") {
  const Folder f;
  CHECK(ringfence(f, kPypto + " --faults pause=2,delay=2,late-signal=4 --schedules 800 "
                              "--json r.json")
            .status == 0);
  CHECK(json_of(f / "r.json")["faults"]["all"]["stopped"] == 0);
}

TEST_CASE(
    "a hang after a kill is a finding with --survive, shrunk to the kill alone and replayed") {
  const Folder f;
  const Result r = ringfence(f, kTokenweave + " --faults kill,delay=3 --survive --trace t.jsonl");
  CHECK_MESSAGE(r.status == 1, r.out, r.err);
  CHECK(r.out.find("fault     kill: rank ") != std::string::npos);
  CHECK(r.out.find("is gone") != std::string::npos);
  const std::string trace = content(f / "t.jsonl");
  CHECK(faults_of(trace) == 1);
  CHECK(trace.find("\"fault\":\"kill\"") != std::string::npos);
  CHECK(trace.find("\"survive\":true") != std::string::npos);
  for (const char* executor : {"inline", "processes"}) {
    const Result again = ringfence(
        f, "replay t.jsonl --no-remedies --json r.json --executor " + std::string(executor));
    CHECK_MESSAGE(again.status == 1, again.out, again.err);
    CHECK(json_of(f / "r.json")["kind"] == "deadlock");
    CHECK(json_of(f / "r.json")["reproduced"] == true);
  }
}

TEST_CASE("a protocol that needs zeroed pads says which word was dirty") {
  const Folder f;
  const Result r = ringfence(f, kTokenweave + " --faults dirty-pad --trace t.jsonl --json r.json");
  CHECK_MESSAGE(r.status == 1, r.out, r.err);
  CHECK(r.out.find(" at the start: the protocol needs its initial value there") !=
        std::string::npos);
  CHECK(r.out.find("start/end pad of rank ") != std::string::npos);
  CHECK(faults_of(content(f / "t.jsonl")) == 1);
  CHECK(json_of(f / "r.json")["findings"][0]["confirmed"] == true);
  CHECK(ringfence(f, "replay t.jsonl --no-remedies").status == 1);
}

TEST_CASE("a restart that goes silently wrong is found, and its trace replays the same finding") {
  const Folder f;
  const Result r =
      ringfence(f, kPypto + " --faults restart --schedules 3000 --trace t.jsonl --json r.json");
  CHECK_MESSAGE(r.status == 1, r.out, r.err);
  CHECK(json_of(f / "r.json")["findings"][0]["confirmed"] == true);
  CHECK(content(f / "t.jsonl").find("\"fault\":\"restart\"") != std::string::npos);
  CHECK(ringfence(f, "replay t.jsonl --no-remedies").status == 1);
}

TEST_CASE("the same seed draws the same faults over processes, inline and with more jobs") {
  const Folder f;
  const std::string search = "fuzz --protocol pypto" + kSmall +
                             " --boundary strict --faults restart,delay=2 --schedules 3000 "
                             "--no-shrink --no-remedies --trace ";
  const auto body = [&](const char* name) {
    const std::string trace = content(f / name);
    return trace.substr(trace.find('\n') + 1);
  };
  REQUIRE(ringfence(f, search + "a.jsonl --executor inline").status == 1);
  CHECK(ringfence(f, search + "b.jsonl --executor processes").status == 1);
  CHECK(ringfence(f, search + "c.jsonl --executor inline --jobs 3").status == 1);
  CHECK(body("a.jsonl") == body("b.jsonl"));
  CHECK(body("a.jsonl") == body("c.jsonl"));
}

TEST_CASE("faults befall the ranks of a compiled kernel too") {
  const Folder f;
  const std::string fixed = "fuzz --case " + zoo("wait-equal-fixed.toml") + " --executor inline";
  const Result r = ringfence(f, fixed +
                                    " --faults kill,pause,delay,late-signal=2 --schedules 300 "
                                    "--json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  const auto kinds = json_of(f / "r.json")["faults"]["kinds"];
  for (const char* kind : {"kill", "pause", "delay", "late-signal"}) {
    CAPTURE(kind);
    CHECK(kinds[kind]["runs"].get<int>() > 20);
  }
  const Result hang = ringfence(f, fixed + " --faults kill --survive --trace t.jsonl");
  CHECK_MESSAGE(hang.status == 1, hang.out, hang.err);
  CHECK(hang.out.find("was killed after step") != std::string::npos);
  CHECK(ringfence(f, "replay t.jsonl").status == 1);
}

TEST_CASE("a campaign's units draw faults in swarm mode, and print them") {
  const Folder f;
  const Result r = ringfence(
      f, "fuzz --campaign c --swarm --units 12 --schedules 20 --executor inline --seed 3");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(r.out.find(", faults ") != std::string::npos);
  CHECK(content(f / "c/shard-1-of-1.results.jsonl").find("\"faults\":\"") != std::string::npos);
}

TEST_CASE("wrong faults are one line that says what would be right") {
  const Folder f;
  for (const char* bad :
       {"--faults kil", "--faults kill=0", "--faults kill=9", "--faults kill,kill", "--survive"}) {
    CAPTURE(bad);
    const Result r = ringfence(f, "fuzz --schedules 1 " + std::string(bad));
    CHECK(r.status == 2);
    CHECK(lines(r.err) == 1);
  }
  const Result r = ringfence(f, "fuzz --schedules 1 --faults kil");
  CHECK(r.err.find("kill, restart, pause, delay, late-signal and dirty-pad") != std::string::npos);
}

TEST_CASE("a trace with a broken fault is refused with its line") {
  const Folder f;
  REQUIRE(ringfence(f, kPypto + " --faults kill --survive --no-remedies --trace t.jsonl").status ==
          1);
  const std::string good = content(f / "t.jsonl");
  const std::size_t at = good.find("\"fault\":\"kill\"");
  REQUIRE(at != std::string::npos);
  for (const char* bad :
       {"\"fault\":\"stop\"", "\"fault\":\"pause\"", "\"fault\":\"pause\",\"for\":0",
        "\"fault\":\"kill\",\"for\":3", "\"late\":0", "\"dirty\":0", "\"dirty\":0,\"holds\":5"}) {
    CAPTURE(bad);
    std::string broken = good;
    broken.replace(at, std::string("\"fault\":\"kill\"").size(), bad);
    std::ofstream(f / "bad.jsonl") << broken;
    const Result r = ringfence(f, "replay bad.jsonl");
    CHECK(r.status == 2);
    CHECK(r.err.find("bad.jsonl:") != std::string::npos);
    CHECK(lines(r.err) == 1);
  }
}

}  // namespace
}  // namespace ringfence::cli
