// The program's JSON against the published schemas.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulator/machine/names.hpp"
#include "emulator/trace/names.hpp"
#include "tests/cli/command.hpp"
#include "tests/cli/schemas.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {
namespace {

using nlohmann::json;

// A check that cannot be made is said to be none.
#define NEEDS_VALIDATOR                                      \
  if (!have_validator()) {                                   \
    MESSAGE("not run: python3-jsonschema is not installed"); \
    return;                                                  \
  }

const std::string kSmall =
    " --ranks 2 --blocks 1 --tokens 2 --hidden 64 --inner 64 --executor inline ";

TEST_CASE("run, fuzz and replay write what their schemas say, with findings and without") {
  NEEDS_VALIDATOR
  const Folder f;
  ringfence(f, "run" + kSmall + "--json r.json");
  CHECK(wrong("run", json_of(f / "r.json")) == "");
  ringfence(f, "run" + kSmall + "--set end.block_barrier=none --set start=none --json r.json");
  CHECK(wrong("run", json_of(f / "r.json")) == "");
  ringfence(f, "fuzz" + kSmall + "--schedules 30 --json r.json");
  CHECK(wrong("fuzz", json_of(f / "r.json")) == "");
  ringfence(f,
            "fuzz" + kSmall + "--boundary coherent --set slot=wrong --trace t.jsonl --json r.json");
  CHECK(wrong("fuzz", json_of(f / "r.json")) == "");
  CHECK(json_of(f / "r.json")["findings"].size() == 1);
  ringfence(f, "replay t.jsonl --json r.json");
  CHECK(wrong("replay", json_of(f / "r.json")) == "");
}

// Every line of a trace by the schema; how many there are.
int check_trace(const std::string& path) {
  std::istringstream in(content(path));
  std::string line;
  int lines = 0;
  while (std::getline(in, line)) {
    ++lines;
    CHECK_MESSAGE(wrong("trace", json::parse(line)) == "", line);
  }
  return lines;
}

TEST_CASE("a trace's lines are what their schema says, faults included") {
  NEEDS_VALIDATOR
  const Folder f;
  for (const auto& entry : std::filesystem::directory_iterator("traces")) {
    if (entry.path().extension() == ".jsonl") CHECK(check_trace(entry.path().string()) >= 2);
  }
  const std::string fuzz = "fuzz --protocol pypto" + kSmall +
                           "--boundary strict --no-shrink --no-remedies --trace t.jsonl --faults ";
  REQUIRE(ringfence(f, fuzz + "kill,delay=3,pause=3,late-signal=4 --survive").status == 1);
  CHECK(check_trace(f / "t.jsonl") > 2);
  CHECK(content(f / "t.jsonl").find("\"fault\":\"kill\"") != std::string::npos);
  REQUIRE(ringfence(f, fuzz + "dirty-pad").status == 1);
  CHECK(check_trace(f / "t.jsonl") > 2);
  CHECK(content(f / "t.jsonl").find("\"dirty\":") != std::string::npos);
  for (const std::string_view kind : trace::kDecisionWords) {
    CAPTURE(kind);
    if (kind == "dirty") continue;  // above
    json decision = {{"agent", "r0.host"}, {"point", 1}, {kind, 1}};
    if (kind == "pick") decision["pick"] = "r1.host";
    if (kind == "fault") decision["fault"] = "kill";
    CHECK(wrong("trace", decision) == "");
  }
  for (const char* bad :
       {R"({"agent":"r0.host","point":1,"fault":"stop"})",
        R"({"agent":"r0.host","point":1,"fault":"pause"})",
        R"({"agent":"r0.host","point":1,"fault":"kill","for":3})",
        R"({"agent":"r0.host","point":1,"late":0})", R"({"agent":"r0.host","point":1,"dirty":0})",
        R"({"agent":"r0.host","point":1})", R"({"agent":"r0.host","point":1,"read":1,"sum":1})",
        R"({"point":1,"read":1})"}) {
    CAPTURE(bad);
    CHECK(wrong("trace", json::parse(bad)) != "");
  }
}

TEST_CASE("fuzz writes what came of its faults as its schema says") {
  NEEDS_VALIDATOR
  const Folder f;
  ringfence(f, "fuzz" + kSmall + "--faults kill,pause=2 --schedules 60 --json r.json");
  json j = json_of(f / "r.json");
  CHECK(wrong("fuzz", j) == "");
  CHECK(j["faults"]["kinds"].size() == 2);
  j["faults"]["kinds"]["crash"] = j["faults"]["kinds"]["kill"];
  CHECK(wrong("fuzz", j) != "");
  ringfence(f, "fuzz" + kSmall + "--schedules 10 --json r.json");
  CHECK(json_of(f / "r.json")["faults"].is_null());
}

TEST_CASE("relax and ptx write what their schemas say, with something unsupported and without") {
  NEEDS_VALIDATOR
  const Folder f;
  ringfence(f,
            "relax --ranks 2 --blocks 1 --tokens 2 --hidden 8 --inner 2 --boundary coherent "
            "--json r.json");
  json j = json_of(f / "r.json");
  CHECK(wrong("relax", j) == "");
  REQUIRE(j["modes"]["coherent"].size() > 0);
  j["modes"]["coherent"][0].erase("alone");
  CHECK(wrong("relax", j) != "");

  const std::string ptx = (std::filesystem::current_path() / "traces/ptx/fused.ptx").string();
  CHECK(ringfence(f, "ptx " + ptx + " --json p.json --junit p.xml").status == 0);
  j = json_of(f / "p.json");
  CHECK(wrong("ptx", j) == "");
  CHECK(j["kernels"].size() > 0);
  CHECK(content(f / "p.xml").find("failures=\"0\"") != std::string::npos);
  std::ofstream(f / "odd.ptx") << ".version 8.0\n.target sm_90\n.address_size 64\n"
                                  ".visible .entry k()\n{\n  .reg .b32 %r<2>;\n"
                                  "  sqrt.rn.bf16 %r0, %r1;\n  ret;\n}\n";
  const Result odd = ringfence(f, "ptx odd.ptx --json p.json --junit p.xml");
  REQUIRE_MESSAGE(odd.status == 1, odd.out, odd.err);
  j = json_of(f / "p.json");
  CHECK(wrong("ptx", j) == "");
  CHECK(j["verdict"] == "finding");
  CHECK(j["kernels"][0]["unsupported"].size() >= 1);
  CHECK(content(f / "p.xml").find("failures=\"1\"") != std::string::npos);
  j["kernels"][0].erase("unsupported");
  CHECK(wrong("ptx", j) != "");
}

// Made on GPUs, by the CUDA part: here are its recorded results.
TEST_CASE("recorded results of gpu bench are what its schema says") {
  NEEDS_VALIDATOR
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("cuda/bench/results")) {
    if (entry.path().extension() != ".json") continue;
    json j = json_of(entry.path().string());
    if (!j.is_object() || j.value("command", "") != "gpu bench") continue;
    ++files;
    CHECK_MESSAGE(wrong("gpu-bench", j) == "", entry.path().string());
    j["rows"][0].erase("median_us");
    CHECK(wrong("gpu-bench", j) != "");
  }
  CHECK(files > 0);
}

TEST_CASE("check, relax and litmus write what their schemas say") {
  NEEDS_VALIDATOR
  const Folder f;
  ringfence(
      f,
      "check --ranks 2 --blocks 1 --tokens 2 --hidden 8 --inner 2 --schedules 200 --json r.json");
  CHECK(wrong("check", json_of(f / "r.json")) == "");
  CHECK(json_of(f / "r.json")["modes"]["strict"] == "finding");
  ringfence(f,
            "relax --ranks 2 --blocks 1 --tokens 2 --hidden 8 --inner 2 --boundary coherent "
            "--json r.json");
  CHECK(wrong("relax", json_of(f / "r.json")) == "");
  const std::string corpus = (std::filesystem::current_path() / "tests/litmus/corpus").string();
  ringfence(f, "litmus " + corpus + "/SB+relaxed.litmus --json r.json");
  CHECK(wrong("litmus", json_of(f / "r.json")) == "");
}

TEST_CASE("a campaign's lines and merge write what their schemas say") {
  NEEDS_VALIDATOR
  const Folder f;
  ringfence(f, "fuzz" + kSmall +
                   "--boundary coherent --set end.put=relaxed --campaign c --units 2 "
                   "--schedules 20 --canary --json r.json");
  CHECK(wrong("fuzz", json_of(f / "r.json")) == "");
  std::istringstream in(content(f / "c/shard-1-of-1.results.jsonl"));
  std::string line;
  int lines = 0;
  while (std::getline(in, line)) {
    ++lines;
    CHECK_MESSAGE(wrong("campaign", json::parse(line)) == "", line);
  }
  CHECK(lines == 4);
  ringfence(f, "merge c --json r.json");
  CHECK(wrong("merge", json_of(f / "r.json")) == "");
}

TEST_CASE("simulate writes what its schema says, with findings and without") {
  NEEDS_VALIDATOR
  const Folder f;
  const std::string small = "simulate --ranks 2 --tokens 8 --blocks 1 --hidden 64 ";
  ringfence(f, small + "--json r.json");
  CHECK(wrong("simulate", json_of(f / "r.json")) == "");
  ringfence(f, small + "--transport peer --set end=none --json r.json");
  CHECK(wrong("simulate", json_of(f / "r.json")) == "");
  nlohmann::json j = json_of(f / "r.json");
  j["cases"][0]["clean"] = true;
  CHECK(wrong("simulate", j) != "");
}

TEST_CASE("diff writes what its schema says, mismatch or not") {
  NEEDS_VALIDATOR
  const Folder f;
  verify::Problem p;
  p.tokens = 8;
  p.inner = 64;
  p.hidden = 64;
  const verify::Inputs in = verify::generate(p, verify::Fill::normal, 3, 0);
  verify::Safetensors file;
  file.add("x", in.x);
  file.add("weight", in.weight);
  file.add("residual", in.residual);
  file.add("norm", in.gamma);
  verify::write_safetensors(f / "in.safetensors", file);
  REQUIRE(
      ringfence(f, "run --input in.safetensors --map gamma=norm --output a.safetensors").status ==
      0);
  const std::string diff =
      "diff a.safetensors b.safetensors --reference in.safetensors --map gamma=norm --json d.json";
  verify::Safetensors b = verify::read_safetensors(f / "a.safetensors");
  verify::write_safetensors(f / "b.safetensors", b);
  REQUIRE(ringfence(f, diff).status == 0);
  CHECK(wrong("diff", json_of(f / "d.json")) == "");
  b.tensors[0].second.bits()[100] = 0x7f80;  // an infinity
  verify::write_safetensors(f / "b.safetensors", b);
  REQUIRE(ringfence(f, diff).status == 1);
  CHECK(wrong("diff", json_of(f / "d.json")) == "");
}

TEST_CASE("the schemas name the program's kinds of findings, in one place") {
  const json kinds = json_of("docs/schema/common.schema.json")["$defs"]["findingKind"]["enum"];
  CHECK(kinds.size() == machine::kFindingKinds);
  for (const json& kind : kinds) {
    CHECK(machine::parse_finding_kind(kind.get<std::string>()).has_value());
  }
  for (const auto& entry : std::filesystem::directory_iterator("docs/schema")) {
    if (entry.path().filename() == "common.schema.json") continue;
    CAPTURE(entry.path().string());
    CHECK(content(entry.path().string()).find("\"data-race\"") == std::string::npos);
  }
}

TEST_CASE("the schemas refuse what is missing, of another type or another word") {
  NEEDS_VALIDATOR
  const Folder f;
  ringfence(f,
            "fuzz" + kSmall + "--boundary coherent --set slot=wrong --trace t.jsonl --json r.json");
  const json good = json_of(f / "r.json");
  REQUIRE(wrong("fuzz", good) == "");
  json bad = good;
  bad.erase("findings");
  CHECK(wrong("fuzz", bad) != "");
  bad = good;
  bad["verdict"] = "ok";
  CHECK(wrong("fuzz", bad) != "");
  bad = good;
  bad["findings"][0]["kind"] = "race";
  CHECK(wrong("fuzz", bad) != "");
  bad = good;
  bad["executions"] = "12";
  CHECK(wrong("fuzz", bad) != "");
  bad = good;
  bad["configuration"].erase("protocol");
  CHECK(wrong("fuzz", bad) != "");
}

}  // namespace
}  // namespace ringfence::cli
