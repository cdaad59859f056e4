#include "emulator/cli/sarif.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cli/command.hpp"
#include "tests/trace/samples.hpp"

namespace ringfence::cli {
namespace {

using nlohmann::json;

TEST_CASE("a side with a source line has a place there, the CUDA line before the PTX line") {
  trace::Trace t = trace::sample();
  t.verdict.first.line = "push.ptx:120 (push.cu:34): st.relaxed.sys.global.u32 [%rd4], %r2;";
  t.verdict.second.line = "push.ptx:77: ld.acquire.sys.global.u32 %r5, [%rd6];";
  const json log = json::parse(sarif({{&t, "ringfence replay x", true}}));
  CHECK(log["version"] == "2.1.0");
  const json& run = log["runs"][0];
  std::set<std::string> rules;
  for (const json& rule : run["tool"]["driver"]["rules"]) {
    CHECK_FALSE(rule["shortDescription"]["text"].get<std::string>().empty());
    rules.insert(rule["id"]);
  }
  CHECK(rules.size() == static_cast<std::size_t>(machine::kFindingKinds));
  REQUIRE(run["results"].size() == 1);
  const json& r = run["results"][0];
  CHECK(rules.contains(r["ruleId"]));
  CHECK(r["level"] == "error");
  const auto place = [](const json& at) {
    const json& p = at["physicalLocation"];
    return p["artifactLocation"]["uri"].get<std::string>() + ":" +
           std::to_string(p["region"]["startLine"].get<int>());
  };
  CHECK(place(r["locations"][0]) == "push.ptx:77");  // the second access: where it failed
  CHECK(place(r["relatedLocations"][0]) == "push.cu:34");
  const json& flows = r["codeFlows"][0]["threadFlows"];
  REQUIRE(flows.size() == 2);
  CHECK(flows[0]["id"] == "r0.c0.product.b0.t0");  // in the order of the run
  CHECK(flows[0]["locations"][0]["executionOrder"] < flows[1]["locations"][0]["executionOrder"]);
  // A fingerprint is stable, and another finding's is another.
  trace::Trace other = t;
  other.decisions.pop_back();
  const auto print = [](const trace::Trace& of) {
    return json::parse(sarif({{&of, "", true}}))["runs"][0]["results"][0]["partialFingerprints"];
  };
  CHECK(print(t) == r["partialFingerprints"]);
  CHECK(print(t) != print(other));
}

TEST_CASE("files are named relative to the repository, as they lie beside the case's kernels") {
  const Folder f;
  namespace fs = std::filesystem;
  for (const char* folder : {".git", "cases", "kernels", "elsewhere"}) {
    fs::create_directory(f / folder);
  }
  fs::copy("traces/ptx/zoo.ptx", f / "kernels/zoo.ptx");
  fs::copy("tests/ptx/kernels/zoo.cu", f / "kernels/zoo.cu");
  std::string text = content("tests/zoo/scope-fault.toml");
  for (std::size_t at = 0; (at = text.find("../../traces/ptx/", at)) != std::string::npos;) {
    text.replace(at, 17, "../kernels/");
  }
  std::ofstream(f / "cases/scope.toml") << text;
  REQUIRE(ringfence(f,
                    "fuzz --executor inline --boundary stream --no-remedies --case "
                    "cases/scope.toml --sarif s.json --html p.html --perfetto p.json --json r.json")
              .status == 1);
  const json run = json_of(f / "s.json")["runs"][0];
  const std::string base = run["originalUriBaseIds"]["%SRCROOT%"]["uri"];
  CHECK(base == "file://" + fs::canonical(f / ".").string() + "/");
  const json& at = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
  CHECK(at["uri"] == "kernels/zoo.cu");
  CHECK(at["uriBaseId"] == "%SRCROOT%");

  // One finding, one id: of all that is made of it, and of its trace's name.
  const std::string id =
      run["results"][0]["partialFingerprints"]["ringfenceFinding/v1"].get<std::string>();
  const json finding = json_of(f / "r.json")["findings"][0];
  CHECK(finding["id"] == id);
  CHECK(finding["trace"] == "ringfence-findings/" + id + ".trace.jsonl");
  CHECK(content(f / "p.html").find("\"id\":\"" + id + "\"") != std::string::npos);
  CHECK(json_of(f / "p.json")["otherData"]["finding"] == id);
  // So does its replay, also where the case has gone elsewhere.
  fs::rename(f / "cases/scope.toml", f / "elsewhere/scope.toml");
  fs::rename(f / finding["trace"].get<std::string>(), f / "elsewhere/t.jsonl");
  REQUIRE(ringfence(f, "replay --no-remedies elsewhere/t.jsonl --json r.json").status == 1);
  CHECK(json_of(f / "r.json")["id"] == id);
}

TEST_CASE("a protocol's line without a file has a logical place; unclaimed findings are notes") {
  const Folder f;
  REQUIRE(ringfence(f,
                    "fuzz --ranks 2 --blocks 1 --tokens 2 --hidden 64 --inner 64 --executor inline "
                    "--schedules 20 --sarif s.json")
              .status == 0);
  const json results = json_of(f / "s.json")["runs"][0]["results"];
  REQUIRE(results.size() == 2);  // strict and stream
  for (const json& r : results) {
    CHECK(r["level"] == "note");
    CHECK(r["locations"][0].contains("logicalLocations"));
    CHECK_FALSE(r["locations"][0].contains("physicalLocation"));
  }
}

}  // namespace
}  // namespace ringfence::cli
