// check and relax of compiled kernels, what would fix them, and edits by --set.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
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

TEST_CASE("relax searches each order that a sum may have") {
  const Folder f;
  const std::string three =
      "relax --ranks 3 --blocks 1 --tokens 3 --hidden 8 --inner 6 --boundary coherent --fuzz 5 "
      "--executions 2 --json r.json --policy summation=";
  const auto all_by_check = [&](const std::string& order) {
    const Result r = ringfence(f, three + order);
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    bool all = true;
    const auto j = json_of(f / "r.json");
    for (const auto& row : j["modes"]["coherent"]) {
      all = all && (row["exhaustive"] == true || row["alone"] == row["present"]);
    }
    return all;
  };
  // One execution in one order; six orders are more than the bound.
  CHECK(all_by_check("rank-order"));
  CHECK_FALSE(all_by_check("each-step"));
}

TEST_CASE("what check does not decide, a time-out that is not taken, relax does not call proved") {
  const auto kernel = [](const std::string& local) {
    return ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n"
           "{\n  .reg .pred %p;\n  .reg .b32 %v, %w, %n, %id;\n  .reg .b64 %m, %t0, %t1;\n"
           "  .local .align 4 .b8 own[4];\n  ld.param.u64 %m, [data];\n  mov.u32 %id, %ctaid.x;\n"
           "  setp.eq.u32 %p, %id, 1;\n  @%p bra WRITER;\n  mov.u64 %t0, %globaltimer;\nL:\n"
           "  ld.acquire.gpu.global.u32 %v, [%m+64];\n  ld.acquire.gpu.global.u32 %w, [%m+68];\n"
           "  add.u32 %v, %v, %w;\n  setp.eq.u32 %p, %v, 2;\n  @%p bra DONE;\n"
           "  mov.u64 %t1, %globaltimer;\n  sub.u64 %t1, %t1, %t0;\n"
           "  setp.lt.u64 %p, %t1, 1000000;\n" +
           local +
           "  @%p bra L;\nDONE:\n  ret;\nWRITER:\n  st.release.gpu.global.u32 [%m+64], 1;\n"
           "  st.release.gpu.global.u32 [%m+68], 1;\n  ret;\n}\n";
  };
  const Folder f;
  std::ofstream(f / "k.toml")
      << "version = 1\nranks = 1\n[memory.data]\nkind = \"local\"\nbytes = 128\ninit = \"zero\"\n"
         "[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [2]\nblock = [1]\n"
         "args = [ {memory = \"data\"} ]\n";
  const auto proved = [&](const std::string& local) {
    std::ofstream(f / "k.ptx") << kernel(local);
    const Result check = ringfence(f, "check --case k.toml --boundary strict");
    const Result r = ringfence(f, "relax --case k.toml --boundary strict --fuzz 20 --json r.json");
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    bool any = false;
    const auto j = json_of(f / "r.json");
    for (const auto& row : j["modes"]["strict"]) {
      any = any || (row["exhaustive"] == true && row["alone"] != row["present"]);
    }
    CHECK(any == (check.status == 0));
    std::filesystem::remove_all(f.path() / "c");
    CHECK(ringfence(f, "fuzz --exhaustive --cases k.toml --boundary strict --campaign c").status ==
          check.status);
    return any;
  };
  CHECK(proved(""));
  CHECK_FALSE(proved("  ld.local.u32 %n, [own];\n"));
}

TEST_CASE("--variant-time ends the search of each variant, and schedules take its place") {
  const Folder f;
  const Result r =
      ringfence(f,
                "relax --protocol multimem-counter --ranks 4 --blocks 1 --tokens 4 --hidden 8 "
                "--inner 8 --calls 2 --boundary strict --variant-time 0.1 --executions 1000000000 "
                "--fuzz 20 --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(says(r.out, "fuzz: a limit ended the exhaustive search"));
  const auto j = json_of(f / "r.json");
  std::size_t by_fuzz = 0;
  for (const auto& row : j["modes"]["strict"]) by_fuzz += row["exhaustive"] == false ? 1 : 0;
  CHECK(by_fuzz >= 1);
  CHECK(by_fuzz < j["modes"]["strict"].size());  // the search goes on with the next
}

TEST_CASE("what fails unchanged is not relaxed, and where no mode is left relax ends with 3") {
  const Folder f;
  const std::string relax =
      "relax --protocol flag-two-shot --ranks 2 --blocks 1 --tokens 2 --hidden 8 --inner 4 "
      "--boundary ";
  const Result r = ringfence(f, relax + "strict");
  CHECK(r.status == 3);
  CHECK(says(r.out, "mode strict: it fails unchanged"));
  CHECK(ringfence(f, relax + "coherent").status == 0);
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
