// The program's JSON against the published schemas.
#include <doctest/doctest.h>

#include <sstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "tests/cli/command.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {
namespace {

using nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

// What is wrong, one line; empty if the schema accepts it. The tests run in the tree's root.
std::string wrong(const std::string& schema_name, const json& document) {
  const json text = json_of("docs/schema/" + schema_name + ".schema.json");
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(text), schema);
  valijson::ValidationResults results;
  valijson::Validator validator;
  if (validator.validate(schema, Adapter(document), &results)) return "";
  std::string out = "rejected";
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    out += "; ";
    for (const std::string& part : error.context) out += part;
    out += " " + error.description;
  }
  return out;
}

const std::string kSmall =
    " --ranks 2 --blocks 1 --tokens 2 --hidden 64 --inner 64 --executor inline ";

TEST_CASE("run, fuzz and replay write what their schemas say, with findings and without") {
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

TEST_CASE("check, relax and litmus write what their schemas say") {
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
  file.add("gamma", in.gamma);
  verify::write_safetensors(f / "in.safetensors", file);
  REQUIRE(ringfence(f, "run --input in.safetensors --output a.safetensors").status == 0);
  const std::string diff =
      "diff a.safetensors b.safetensors --reference in.safetensors --json d.json";
  verify::Safetensors b = verify::read_safetensors(f / "a.safetensors");
  verify::write_safetensors(f / "b.safetensors", b);
  REQUIRE(ringfence(f, diff).status == 0);
  CHECK(wrong("diff", json_of(f / "d.json")) == "");
  b.tensors[0].second.bits()[100] = 0x7f80;  // an infinity
  verify::write_safetensors(f / "b.safetensors", b);
  REQUIRE(ringfence(f, diff).status == 1);
  CHECK(wrong("diff", json_of(f / "d.json")) == "");
}

TEST_CASE("the schemas refuse what is missing, of another type or another word") {
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
