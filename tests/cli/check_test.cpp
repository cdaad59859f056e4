#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "emulator/analysis/unknown.hpp"
#include "emulator/machine/location.hpp"
#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

const std::string kCase = " --ranks 2 --blocks 1 --tokens 2 --hidden 8 --inner 8";

TEST_CASE("check passes the mode that tokenweave claims and fails the others, with traces") {
  const Folder f;
  const Result r = ringfence(f, "check" + kCase + " --json r.json --junit r.xml");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  const auto j = json_of(f / "r.json");
  CHECK(j["command"] == "check");
  CHECK(j["verdict"] == "pass");
  CHECK(j["modes"]["coherent"] == "pass");
  CHECK(j["modes"]["strict"] == "finding");
  CHECK(j["modes"]["stream"] == "finding");
  CHECK(j["searches"]["coherent"]["complete"].get<int>() >= 1);
  CHECK(j["searches"]["coherent"]["blocked"] == 0);
  CHECK(j["searches"]["coherent"]["explored"] == 1.0);
  for (const auto& finding : j["findings"]) {
    CHECK(finding["confirmed"] == true);
    CHECK(ringfence(f, "replay " + finding["trace"].get<std::string>()).status == 1);
  }
  CHECK(r.out.find("PASS") != std::string::npos);
  CHECK(r.out.find("except load buffering") != std::string::npos);
}

TEST_CASE("check finds a signal relaxed, and a trace of it replays") {
  const Folder f;
  const Result r = ringfence(
      f, "check" + kCase + " --set end.put=relaxed --boundary coherent --trace t.trace.jsonl");
  CHECK_MESSAGE(r.status == 1, r.out, r.err);
  CHECK(r.out.find("data-race") != std::string::npos);
  CHECK(ringfence(f, "replay t.trace.jsonl").status == 1);
}

TEST_CASE("pypto passes in every mode, each by one execution, and fails without its pred edges") {
  const Folder f;
  const std::string pypto =
      "check --protocol pypto --ranks 3 --blocks 1 --tokens 6 --hidden 8 --inner 12 --calls 2";
  const Result r = ringfence(f, pypto + " --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  for (const auto& [mode, search] : json_of(f / "r.json")["searches"].items()) {
    CHECK(search["complete"] == 1);
    CHECK(search["ordered_cells"] == 0);
  }
  CHECK(
      ringfence(f, pypto + " --set pred_edges=none --payload integers --boundary strict").status ==
      1);
}

TEST_CASE("relax finds the least orders of tokenweave's barriers in each mode") {
  const Folder f;
  const Result r = ringfence(f, "relax" + kCase +
                                    " --calls 2 --set start.put=acq_rel --set start.wait=acq_rel"
                                    " --set end.put=acq_rel --set end.wait=acq_rel --json r.json");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  const auto modes = json_of(f / "r.json")["modes"];
  const auto least = [&](const std::string& mode) {
    std::string all;
    for (const auto& row : modes[mode]) {
      const std::string site = row["site"];
      if (site.find('.') == std::string::npos || site == "end.block_barrier") continue;
      all += row["jointly"].get<std::string>() + " ";
    }
    return all;
  };
  // start.put, start.wait, end.put, end.wait, ld_reduce.order, st.order
  CHECK(least("strict") == "release acquire release acquire weak weak ");
  CHECK(least("stream") == "relaxed acquire release relaxed weak weak ");
  CHECK(least("coherent") == "relaxed relaxed release relaxed relaxed relaxed ");
}

TEST_CASE("sums that come in any order are searched in each of them") {
  const Folder f;
  const std::string three =
      "check --ranks 3 --blocks 1 --tokens 3 --hidden 8 --inner 6 --boundary coherent --json "
      "r.json";
  REQUIRE(ringfence(f, three).status == 0);
  const auto search = [&] { return json_of(f / "r.json")["searches"]["coherent"]; };
  const int once = search()["complete"];
  CHECK(search()["sum_orders"] == 1);
  for (const std::string policy : {"seeded-order", "each-step", "truncate"}) {
    const Result r = ringfence(f, three + " --policy summation=" + policy + " --payload normal");
    CHECK_MESSAGE(r.status == 0, r.out, r.err);
    CHECK(search()["sum_orders"] == 6);
    CHECK(search()["complete"] == 6 * once);
  }
  // A bound that ends behind the first order is no proof.
  CHECK(ringfence(f, three + " --policy summation=each-step --schedules 2").status == 3);
  const Result resumed = ringfence(f, three + " --policy summation=each-step --resume s.check");
  CHECK(resumed.status == 2);
  CHECK(lines(resumed.err) == 1);
}

TEST_CASE("a finding of check is told with what would fix it, in its JSON too") {
  const Folder f;
  const Result r =
      ringfence(f, "check" + kCase + " --set end.put=relaxed --boundary coherent --json r.json");
  CHECK(r.status == 1);
  CHECK(r.out.find("end.put=release (it is relaxed)") != std::string::npos);
  const auto finding = json_of(f / "r.json")["findings"][0];
  CHECK(finding["remedies"]["found"][0]["changes"][0]["switch"] == "end.put");
  CHECK(finding["token"].get<std::string>().starts_with("rf1,tokenweave,"));
}

// " PASS ", " FAIL, data race ": what a search said of a mode, as docs/barriers.md has it.
std::string told(const nlohmann::json& j, const std::string& mode, bool with_executions) {
  const std::string verdict = j["modes"][mode];
  const auto complete = j["searches"][mode]["complete"].get<int>();
  std::string got = " ?";
  if (verdict == "pass") got = with_executions ? fmt::format(" PASS, {} ", complete) : " PASS ";
  if (verdict == "unknown") got = " UNKNOWN ";
  for (const auto& finding : j["findings"]) {
    if (finding["mode"] != mode) continue;
    std::string kind = finding["kind"];
    std::replace(kind.begin(), kind.end(), '-', ' ');
    got = " FAIL, " + kind + " ";
  }
  return got;
}

const char* const kModes[] = {"strict", "stream", "coherent"};

// The cells of a row of docs/barriers.md behind what is in its first one, between backquotes.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(2));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
  cells[0] = cells[0].substr(1, cells[0].rfind('`') - 1);
  return cells;
}

// "| `CASE OPTIONS` | strict | stream | coherent |"
TEST_CASE("the table of compiled barriers is what check says of their cases") {
  const Folder f;
  std::istringstream page(content("docs/barriers.md"));
  std::size_t rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `") || line.find(".toml") == std::string::npos) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (cells[0].find("--case") != std::string::npos) continue;
    ++rows;
    REQUIRE(cells.size() == 4);
    CAPTURE(cells[0]);
    const std::string folder = cells[0].starts_with("tests/") ? "" : "tests/cases/protocols/";
    ringfence(f, "check --case " + std::filesystem::absolute(folder + cells[0]).string() +
                     " --no-shrink --no-remedies --json r.json");
    const auto j = json_of(f / "r.json");
    for (std::size_t m = 0; m < 3; ++m) CHECK(told(j, kModes[m], true) == cells[1 + m]);
  }
  // Each case of the folder has a row.
  std::size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/cases/protocols")) {
    const std::string name = entry.path().filename().string();
    CHECK_MESSAGE(content("docs/barriers.md").find("| `" + name) != std::string::npos, name);
    ++cases;
  }
  CHECK(rows > cases);
}

TEST_CASE("what passes in mode stream passes in mode coherent by its executions, and says so") {
  const Folder f;
  const auto coherent = [&](const std::string& name, const std::string& options) {
    const std::string file = "tests/cases/protocols/" + name + ".toml";
    const Result r = ringfence(f, "check --case " + std::filesystem::absolute(file).string() +
                                      options + " --no-shrink --no-remedies --json r.json");
    const auto j = json_of(f / "r.json");
    const auto& search = j["searches"]["coherent"];
    CHECK(j["modes"]["coherent"] == "pass");
    const bool said = r.out.find("every execution there is one of mode stream") != r.out.npos;
    CHECK(said == search["of_stream"]);
    return std::pair(search["of_stream"].get<bool>(), search["complete"].get<int>());
  };
  CHECK(coherent("epoch-inbox", "") == std::pair(true, 1));
  CHECK(coherent("epoch-inbox", " --boundary coherent") == std::pair(true, 1));
  // Which races mode coherent excuses, and what accesses that are one see, is for its own search.
  CHECK_FALSE(coherent("epoch-inbox", " --ignore data-race").first);
  CHECK_FALSE(coherent("epoch-inbox", " --boundary coherent --ignore data-race").first);
  CHECK_FALSE(coherent("epoch-inbox", " --boundary coherent --policy vector=atomic").first);
  CHECK_FALSE(coherent("cas-slots-start-wait-relaxed", "").first);
  CHECK_FALSE(coherent("cas-slots-start-wait-relaxed", " --boundary coherent").first);
}

// "| `OPTIONS` | what | strict | stream | coherent |", as docs/barriers.md has them behind one
// command.
TEST_CASE("the table of barriers is what its commands say") {
  const Folder f;
  std::istringstream page(content("docs/barriers.md"));
  std::string command;
  std::size_t rows = 0;
  for (std::string line; std::getline(page, line);) {
    const std::string end = " --protocol ...";
    if (line.starts_with("    ringfence check ") && line.ends_with(end)) {
      command = line.substr(14, line.size() - 14 - end.size());
    }
    if (command.empty() || !line.starts_with("| `") || line.find(" --calls ") == std::string::npos)
      continue;
    ++rows;
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE(cells.size() >= 5);
    CAPTURE(cells[0]);
    ringfence(f, command + " --protocol " + cells[0] + " --no-shrink --no-remedies --json r.json");
    const auto j = json_of(f / "r.json");
    for (std::size_t m = 0; m < 3; ++m) CHECK(told(j, kModes[m], false) == cells[2 + m]);
  }
  CHECK(rows >= 16);
}

TEST_CASE(
    "docs/check.md has every reason for UNKNOWN that check knows, as check says it, and no other") {
  std::istringstream page(content("docs/check.md"));
  std::vector<std::string> listed;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `UNKNOWN: `") || line.starts_with("| `not explored: `")) {
      inside = true;
    } else if (!line.starts_with("| ")) {
      inside = false;
    } else if (inside && line.starts_with("| `")) {
      // What is between backquotes in the first cell.
      const std::string cell = line.substr(0, line.find(" |", 2));
      for (std::size_t at = cell.find('`'); at != std::string::npos;) {
        const std::size_t end = cell.find('`', at + 1);
        listed.push_back(cell.substr(at + 1, end - at - 1));
        at = cell.find('`', end + 1);
      }
    }
  }
  std::vector<std::string> known(std::begin(analysis::kUnknown), std::end(analysis::kUnknown));
  for (const std::string_view of : analysis::kLeftOut) {
    std::string line(of);
    for (const std::string hole : {"{0}", "{1}", "{2}", "{3}"}) {
      const std::size_t at = line.find(hole);
      const std::string most = std::to_string(machine::kMaxMessages);
      if (at != std::string::npos) line.replace(at, hole.size(), hole == "{3}" ? most : "...");
    }
    known.push_back(line);
  }
  std::sort(listed.begin(), listed.end());
  std::sort(known.begin(), known.end());
  CHECK(listed == known);
}

TEST_CASE(
    "a 64-bit atomic past a race with a smaller access is refused with status 2, in one line") {
  const Folder f;
  const auto kernel = [&](const std::string& size, const std::string& reg) {
    std::ofstream(f / "k.ptx")
        << ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 data)\n{\n"
           "  .reg .pred %p;\n  .reg .b32 %v, %id;\n  .reg .b64 %m, %t;\n"
           "  ld.param.u64 %m, [data];\n  mov.u32 %id, %ctaid.x;\n  setp.eq.u32 %p, %id, 1;\n"
           "  @%p bra B;\n  mov.u32 %v, 7;\n  st.relaxed.gpu.global.u32 [%m], %v;\n  ret;\nB:\n"
           "  atom.relaxed.gpu.global.exch."
        << size << " " << reg << ", [%m], 3;\n  ret;\n}\n";
  };
  std::ofstream(f / "k.toml")
      << "version = 1\nranks = 1\n[memory.data]\nkind = \"local\"\nbytes = 128\ninit = \"zero\"\n"
         "[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [2]\nblock = [1]\n"
         "args = [ {memory = \"data\"} ]\n";
  const std::string check = "check --case k.toml --boundary strict --ignore data-race";
  kernel("b64", "%t");
  const Result wide = ringfence(f, check);
  CHECK_MESSAGE(wide.status == 2, wide.out, wide.err);
  CHECK(lines(wide.err) == 1);
  kernel("b32", "%v");
  CHECK(ringfence(f, check).status == 0);
}

TEST_CASE("a bound makes the verdict unknown, and the search goes on from its file") {
  const Folder f;
  const std::string search =
      "check --protocol pypto --ranks 2 --blocks 1 --tokens 8 --hidden 8 "
      "--inner 8 --boundary strict --arrivals order";
  const Result whole = ringfence(f, search + " --json whole.json");
  CHECK_MESSAGE(whole.status == 0, whole.out, whole.err);
  const int all = json_of(f / "whole.json")["searches"]["strict"]["complete"];
  REQUIRE(all > 3);
  int status = 3, rounds = 0;
  while (status == 3 && rounds < 1000) {
    status = ringfence(f, search + " --schedules " + std::to_string(all / 2 + 1 + rounds * all) +
                              " --resume s.check --json part.json")
                 .status;
    ++rounds;
  }
  CHECK(status == 0);
  CHECK(rounds >= 2);
  CHECK(json_of(f / "part.json")["searches"]["strict"]["complete"] == all);
}

TEST_CASE("a file of another search is refused in one line") {
  const Folder f;
  std::ofstream(f / "s.check") << "ringfence check 2\nanother case\n";
  const Result other = ringfence(f, "check" + kCase + " --resume s.check");
  CHECK(other.status == 2);
  CHECK(lines(other.err) == 1);
  CHECK(other.err.find("another case") != std::string::npos);
  // What an earlier version left says nothing to this one.
  const std::string small =
      "check --protocol pypto --ranks 2 --blocks 1 --tokens 8 --hidden 8 --inner 8 --boundary "
      "strict "
      "--arrivals order --schedules 1 --resume u.check";
  REQUIRE(ringfence(f, small).status == 3);
  std::string left = content(f / "u.check");
  const std::size_t by = left.find("by 0.");
  REQUIRE(by != std::string::npos);
  left.replace(by, 5, "by 9.");
  std::ofstream(f / "u.check") << left;
  const Result newer = ringfence(f, small);
  CHECK(newer.status == 2);
  CHECK(lines(newer.err) == 1);
  CHECK(newer.err.find("another version of ringfence") != std::string::npos);
  std::ofstream(f / "t.check") << "nonsense\n";
  const Result bad = ringfence(f, "check" + kCase + " --resume t.check");
  CHECK(bad.status == 2);
  CHECK(bad.err.find("line 1") != std::string::npos);
}

TEST_CASE("a search does not go on with another kernel behind the same paths") {
  const Folder f;
  const auto kernel =
      [&](const char* order) {
        std::ofstream(f / "k.ptx")
            << ".version 8.0\n.target sm_90\n.address_size 64\n"
               ".visible .entry k(.param .u64 peers, .param .u32 rank)\n{\n.reg .b64 %rd<4>;\n"
               ".reg .b32 %r<4>;\n.reg .pred %p;\nld.param.u64 %rd1, [peers];\n"
               "ld.param.u32 %r1, [rank];\nld.global.u64 %rd2, [%rd1];\nsetp.ne.u32 %p, %r1, 0;\n"
               "mov.u32 %r2, 1;\n@%p bra W;\nst.global.u32 [%rd2], %r2;\nst."
            << order
            << ".global.u32 [%rd2+16], %r2;\nret;\nW:\nld.acquire.sys.global.u32 %r3, [%rd2+16];\n"
               "setp.ne.u32 %p, %r3, 1;\n@%p bra W;\nld.global.u32 %r3, [%rd2];\nret;\n}\n";
      };
  std::ofstream(f / "k.toml")
      << "version = 1\nranks = 2\n[memory.data]\nkind = \"symmetric\"\nbytes = 32\n"
         "[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [1]\nblock = [1]\n"
         "args = [{peers = \"data\"}, \"rank\"]\n";
  kernel("release.sys");
  const std::string search = "check --case k.toml --boundary strict --resume left";
  const Result right = ringfence(f, search);
  CHECK_MESSAGE(right.status == 0, right.out, right.err);
  CHECK(ringfence(f, search).status == 0);
  kernel("relaxed.sys");
  const Result other = ringfence(f, search);
  CHECK(other.status == 2);
  CHECK(lines(other.err) == 1);
  CHECK(other.err.find("a file of the case has changed since") != std::string::npos);
  std::filesystem::remove(f / "left");
  CHECK(ringfence(f, search).status == 1);
}

}  // namespace
}  // namespace ringfence::cli
