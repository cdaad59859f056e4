// The HTML page, read as a program would: its data, and that it needs nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

using nlohmann::json;

json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"run\">";
  const std::size_t from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

const std::string kFound =
    "fuzz --ranks 2 --blocks 1 --tokens 2 --hidden 64 --inner 64 --executor inline "
    "--boundary coherent --schedules 50 --html p.html --trace t.jsonl --set ";

TEST_CASE("the page of a race holds the run: equal columns, the pair in place, agents and words") {
  const Folder f;
  REQUIRE(ringfence(f, kFound + "end.put=relaxed").status == 1);
  const std::string page = content(f / "p.html");
  const json d = data_of(page);
  CHECK(d["format"] == 1);
  CHECK(d["kind"] == "data-race");
  CHECK(d["replay"] == "ringfence replay t.jsonl");
  CHECK(d["remedy"].get<std::string>().find("end.put=release") != std::string::npos);
  const json& e = d["events"];
  const std::size_t n = e["kind"].size();
  REQUIRE(n > 20);
  for (const auto& [name, column] : e.items()) CHECK_MESSAGE(column.size() == n, name);
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(e["agent"][i].get<std::size_t>() < d["agents"].size());
    if (i > 0) CHECK(e["step"][i].get<int>() >= e["step"][i - 1].get<int>());
    const int source = e["source"][i];
    CHECK(source < static_cast<int>(i));
    if (source < 0) continue;
    // What was read is a write there, and its value what the read returned.
    const std::size_t s = static_cast<std::size_t>(source);
    CHECK(e["region"][s] == e["region"][i]);
    const int kind = e["kind"][s];
    CHECK((kind == 1 || kind == 2));
  }
  // A race: two accesses of different agents to one place, one of them a write.
  const std::size_t a = d["pair"][0], b = d["pair"][1];
  REQUIRE(a < n);
  REQUIRE(b < n);
  CHECK(e["agent"][a] != e["agent"][b]);
  CHECK(e["region"][a] == e["region"][b]);
  CHECK((e["kind"][a] == 1 || e["kind"][b] == 1));
  CHECK(d["sites"][std::to_string(e["site"][a].get<int>())].get<std::string>().find(
            "multimem.st") != std::string::npos);
}

TEST_CASE("a finding's page lays it beside the nearest schedule that passes") {
  const Folder f;
  const std::string trace =
      std::filesystem::absolute("traces/put-before-block-barrier.trace.jsonl").string();
  REQUIRE(ringfence(f, "replay --no-remedies --html p.html " + trace).status == 1);
  const json d = data_of(content(f / "p.html"));
  const json& beside = d["beside"];
  REQUIRE(beside.is_object());
  CHECK(beside["steps"].get<int>() > 0);
  REQUIRE(!beside["rows"].empty());
  bool differs = false;
  for (const json& row : beside["rows"]) {
    CHECK(row["event"].get<std::size_t>() < d["events"]["kind"].size());
    for (const json& word : row["differs"]) {
      CHECK(std::set<std::string>{"value", "writer", "order", "missing"}.contains(
          word.get<std::string>()));
      differs = true;
    }
  }
  CHECK(differs);
  // Where every schedule fails there is none beside it.
  REQUIRE(ringfence(f, kFound + "slot=wrong").status == 1);
  CHECK(data_of(content(f / "p.html"))["beside"] == nullptr);
}

TEST_CASE("the page names what the kernel uses and the verdict leaves out") {
  // Both warps store to one word; the fence is one that the model does not follow.
  const auto kernel = [](const std::string& fence) {
    return ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n"
           "{\n  .reg .b32 %t;\n  .reg .b64 %m;\n  " +
           fence +
           "\n  ld.param.u64 %m, [data];\n  mov.u32 %t, %tid.x;\n  shr.u32 %t, %t, 5;\n"
           "  st.global.u32 [%m], %t;\n  ret;\n}\n";
  };
  const Folder f;
  std::ofstream(f / "case.toml")
      << "version = 1\nranks = 1\n[memory.data]\nkind = \"local\"\nbytes = 4\n[[launch]]\n"
         "ptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [1]\nblock = [64]\n"
         "args = [ {memory = \"data\"} ]\n";
  const std::string command = "fuzz --case case.toml --schedules 20 --no-remedies --html p.html";
  const std::string fence = "fence.proxy.tensormap::generic.release.gpu";
  std::ofstream(f / "k.ptx") << kernel(fence + ";");
  const Result r = ringfence(f, command);
  REQUIRE_MESSAGE(r.status == 1, r.out, r.err);
  const json d = data_of(content(f / "p.html"));
  CHECK(d["kind"] == "data-race");
  REQUIRE(d["notes"].size() == 1);
  CHECK(d["notes"][0].get<std::string>().starts_with("left out: k.ptx:8: " + fence));
  std::ofstream(f / "k.ptx") << kernel("");
  REQUIRE(ringfence(f, command).status == 1);
  CHECK(data_of(content(f / "p.html"))["notes"].empty());
}

TEST_CASE("the page loads nothing from elsewhere and has every part in it") {
  const Folder f;
  REQUIRE(ringfence(f, kFound + "end.put=relaxed").status == 1);
  const std::string page = content(f / "p.html");
  for (const char* elsewhere : {"http:", "https:", "src=", "@import", "url(", "<link"}) {
    CHECK_MESSAGE(page.find(elsewhere) == std::string::npos, elsewhere);
  }
  for (const char* mark : {"@TITLE@", "@STYLE@", "@SCRIPT@", "@DATA@"}) {
    CHECK_MESSAGE(page.find(mark) == std::string::npos, mark);
  }
}

TEST_CASE("the page of a deadlock names who waits for whom, with the cycle marked") {
  const Folder f;
  REQUIRE(ringfence(f, kFound + "slot=wrong").status == 1);
  const json d = data_of(content(f / "p.html"));
  CHECK(d["kind"] == "deadlock");
  std::set<std::string> on_cycle;
  for (const json& row : d["stuck"]) {
    if (row["cycle"] == true) on_cycle.insert(row["agent"].get<std::string>().substr(0, 2));
  }
  CHECK(on_cycle == std::set<std::string>{"r0", "r1"});
}

TEST_CASE("without a finding the page shows the default schedule; run and replay write one too") {
  const Folder f;
  const std::string small =
      " --ranks 2 --blocks 1 --tokens 2 --hidden 64 --inner 64 --html p.html ";
  REQUIRE(
      ringfence(f, "fuzz --boundary coherent --schedules 20 --executor inline" + small).status ==
      0);
  const json clean = data_of(content(f / "p.html"));
  CHECK(clean["kind"] == nullptr);
  CHECK(clean["pair"] == json({-1, -1}));
  // Every release of the end barrier is taken in by the peer's acquire.
  CHECK(clean["synchronises"].size() >= 4);
  REQUIRE(ringfence(f, "run" + small).status == 0);
  CHECK(data_of(content(f / "p.html"))["events"]["kind"].size() > 20);
  REQUIRE(ringfence(f, kFound + "end.put=relaxed").status == 1);
  std::filesystem::remove(f / "p.html");
  REQUIRE(ringfence(f, "replay t.jsonl --html p.html").status == 1);
  CHECK(data_of(content(f / "p.html"))["kind"] == "data-race");
}

TEST_CASE("text of a case cannot end the page's data: '<' is escaped") {
  const Folder f;
  REQUIRE(ringfence(f, kFound + "end.put=relaxed").status == 1);
  std::filesystem::create_directory(f / "a<");
  std::filesystem::rename(f / "t.jsonl", f / "a</script>.jsonl");
  REQUIRE(ringfence(f, "replay a</script>.jsonl --html p.html").status == 1);
  const json d = data_of(content(f / "p.html"));  // up to the first "</script>"
  CHECK(d["replay"] == "ringfence replay 'a</script>.jsonl'");
}

}  // namespace
}  // namespace ringfence::cli
