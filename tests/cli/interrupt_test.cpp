#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

using namespace std::chrono_literals;

// The process of a rank, once it has said which it is.
pid_t running_rank(const Command& c, int number) {
  pid_t rank = -1;
  for (int i = 0; i < 500 && rank < 0; ++i) {
    rank = c.rank(number);
    std::this_thread::sleep_for(10ms);
  }
  REQUIRE(rank > 0);
  return rank;
}

// Under a limit of so many blocks of 512 bytes for each file; what it prints goes through a pipe.
Result with_file_limit(const Folder& f, int blocks, const std::string& arguments) {
  const std::string file = f / "output-limited";
  const std::string command = "cd '" + f.path().string() + "' && { sh -c 'ulimit -f " +
                              std::to_string(blocks) + "; exec " RINGFENCE_BINARY " " + arguments +
                              "' 2>&1; echo $?; } | cat > '" + file + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  Result r;
  r.out = content(file);
  r.out.pop_back();
  const std::size_t last = r.out.rfind('\n');
  r.status = std::stoi(r.out.substr(last + 1));
  r.out.resize(last + 1);
  return r;
}

// Waits until the ranks are there.
void until_running(const Command& c, std::size_t processes) {
  for (int i = 0; i < 6000 && c.processes() < processes; ++i) std::this_thread::sleep_for(10ms);
  REQUIRE(c.processes() >= processes);
}

TEST_CASE("Ctrl-C ends a campaign with 4 and leaves no process and no file") {
  const Folder f;
  Command c(f, "fuzz --ranks 4 --boundary coherent --time 120 --json r.json");
  until_running(c, 5);
  const auto began = std::chrono::steady_clock::now();
  c.signal(SIGINT);
  const Result r = c.wait();
  CHECK(r.status == 4);
  CHECK(r.err == "ringfence: interrupted\n");
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  CHECK_FALSE(c.left_behind());
  CHECK(f.files().empty());
}

TEST_CASE("a signal to the whole group, as timeout or a closed terminal sends it, is no finding") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(number);
    const Folder f;
    Command c(f, "fuzz --ranks 4 --boundary coherent --time 120");
    until_running(c, 5);
    const pid_t rank = running_rank(c, 2);
    ::kill(-getpgid(rank), number);
    const Result r = c.wait();
    CHECK(r.status == 4);
    CHECK(r.err == "ringfence: interrupted\n");
    CHECK(r.out.find("rank-lost") == std::string::npos);
    CHECK_FALSE(c.left_behind());
    CHECK(f.files().empty());
  }
}

TEST_CASE("SIGKILL of the parent takes the rank processes with it") {
  const Folder f;
  Command c(f, "fuzz --ranks 4 --boundary coherent --time 120");
  until_running(c, 5);
  c.signal(SIGKILL);
  CHECK(c.wait().status == 128 + SIGKILL);
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("a rank that is killed from outside is no finding: its schedule runs again") {
  const Folder f;
  Command c(f, "fuzz --ranks 4 --boundary coherent --time 4 --json r.json");
  until_running(c, 5);
  ::kill(running_rank(c, 2), SIGKILL);
  const Result r = c.wait();
  CHECK(r.status == 0);
  CHECK(r.out.find("rank-lost") == std::string::npos);
  CHECK(json_of(f / "r.json")["verdict"] == "pass");
  CHECK_FALSE(c.left_behind());
}

// A case k.toml of so many blocks of one thread each, whose kernel gets 128 zeroed bytes in %m.
void write_case(const Folder& f, const std::string& kernel, int blocks) {
  std::ofstream(f / "k.ptx")
      << ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 data)\n{\n"
         "  .reg .b32 %v, %id;\n  .reg .b64 %m;\n  .reg .pred %p;\n  ld.param.u64 %m, [data];\n"
      << kernel << "  ret;\n}\n";
  std::ofstream(f / "k.toml")
      << "version = 1\nranks = 1\ncalls = 1\n[memory.data]\nkind = \"local\"\nbytes = 128\n"
         "init = \"zero\"\n[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = ["
      << blocks << "]\nblock = [1]\nargs = [ {memory = \"data\"} ]\n";
}

// Nothing is found in it, and its search takes as long as one likes: adds of the blocks in each
// order that they can have, by one process.
std::string endless() {
  std::string adds;
  for (int i = 0; i < 8; ++i) {
    adds +=
        "  atom.relaxed.gpu.global.add.u32 %v, [%m+64], 1;\n"
        "  red.relaxed.gpu.global.max.u32 [%m+68], %v;\n";
  }
  return adds;
}

TEST_CASE(
    "a search that a signal ends in a mode that is not claimed does not say that others pass") {
  const Folder f;
  write_case(f, endless(), 4);  // the first mode is not one that a case claims
  Command c(f, "check --case k.toml --json r.json");
  until_running(c, 1);
  std::this_thread::sleep_for(1s);
  c.signal(SIGTERM);
  const Result r = c.wait();
  CHECK(r.status == 4);
  CHECK(r.out.find("UNKNOWN: interrupted in ") != std::string::npos);
  CHECK(r.out.find("PASS") == std::string::npos);
  const auto json = json_of(f / "r.json");
  CHECK(json["verdict"] == "unknown");
  CHECK(json["modes"].size() == 3);
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("relax that --time or a signal ends where the case itself is not decided says so") {
  const Folder f;
  write_case(f, endless(), 4);
  const std::string relax =
      "relax --case k.toml --boundary strict --variant-time 600 --executions 1000000000 --json "
      "r.json";
  const Result over = ringfence(f, relax + " --time 1");
  CHECK_MESSAGE(over.status == 3, over.out, over.err);
  CHECK(over.out.find("mode strict: --time is over: not decided") != std::string::npos);
  CHECK(over.out.find("UNKNOWN: --time ended it before all was tried") != std::string::npos);
  CHECK(json_of(f / "r.json")["verdict"] == "unknown");
  CHECK(json_of(f / "r.json")["modes"]["strict"].is_null());
  Command c(f, relax);
  until_running(c, 1);
  std::this_thread::sleep_for(1s);
  c.signal(SIGTERM);
  const Result r = c.wait();
  CHECK(r.status == 4);
  CHECK(r.out.find("UNKNOWN: interrupted before all was tried") != std::string::npos);
  CHECK(json_of(f / "r.json")["verdict"] == "unknown");
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("relax that --time or a signal ends prints the table so far") {
  const Folder f;
  // A release that the kernel needs: made weak it fails, and is recorded; made relaxed, each reader
  // may see the old value, and goes where nothing fails and no search ends.
  write_case(f,
             "  mov.u32 %id, %ctaid.x;\n  setp.ne.u32 %p, %id, 0;\n  @%p bra READER;\n"
             "  st.relaxed.gpu.global.u32 [%m], 1;\n  st.release.gpu.global.u32 [%m+4], 1;\n"
             "  ret;\nREADER:\n  ld.acquire.gpu.global.u32 %v, [%m+4];\n"
             "  setp.ne.u32 %p, %v, 1;\n  @%p bra READER;\n"
             "  ld.relaxed.gpu.global.u32 %v, [%m];\n  setp.eq.u32 %p, %v, 1;\n"
             "  @%p bra DONE;\n" +
                 endless() + "DONE:\n",
             5);
  std::filesystem::create_directory(f.path() / "why");
  const std::string relax =
      "relax --case k.toml --boundary strict --variant-time 600 --executions 1000000000 --traces "
      "why --json r.json";
  const auto table_so_far = [&](const Result& r, const std::string& reason) {
    CAPTURE(r.out);
    CAPTURE(r.err);
    const std::size_t row = r.out.find("k.ptx:13/order");
    CHECK(row != std::string::npos);  // the relaxed store, which may be weak
    CHECK(r.out.find(reason + ": ") > row);
    CHECK(r.out.find(" more sites were not tried") > row);
    CHECK(r.out.find("k.ptx:14/order") == std::string::npos);
    const auto json = json_of(f / "r.json");
    CHECK(json["verdict"] == "unknown");
    REQUIRE(!json["modes"]["strict"].empty());
    CHECK(json["modes"]["strict"][0]["alone"] == "weak");
    CHECK(json["modes"]["strict"][0]["jointly"] == "");
  };
  const Result over = ringfence(f, relax + " --time 5");
  CHECK(over.status == 3);
  table_so_far(over, "--time is over");
  std::filesystem::remove_all(f.path() / "why");
  std::filesystem::create_directory(f.path() / "why");
  Command c(f, relax);
  // It comes to the search that does not end behind the one that is recorded.
  for (int i = 0; i < 6000 && std::filesystem::is_empty(f.path() / "why"); ++i) {
    std::this_thread::sleep_for(10ms);
  }
  c.signal(SIGINT);
  const Result r = c.wait();
  CHECK(r.status == 4);
  table_so_far(r, "interrupted");
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("a search that loses its ranks in a mode that is not claimed does not say it is clean") {
  const Folder f;
  // Its schedules take long enough to be met.
  Command c(f, "fuzz --ranks 2 --tokens 512 --hidden 4096 --inner 2 --time 60 --json r.json");
  Result r;
  {
    // Each time it tries again.
    const std::jthread killer([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (const pid_t rank = c.rank(1); rank > 0) ::kill(rank, SIGKILL);
        std::this_thread::sleep_for(1ms);
      }
    });
    r = c.wait();
  }
  CHECK(r.status == 3);
  CHECK(r.out.find("no verdict in ") != std::string::npos);
  CHECK(r.out.find("clean") == std::string::npos);
  const auto json = json_of(f / "r.json");
  CHECK(json["verdict"] == "unknown");
  CHECK(json["modes"].size() == 3);
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("run ends with 3 where a rank was killed, and tells its number, last step and signal") {
  const Folder f;
  Command c(f, "run --ranks 2 --tokens 512 --hidden 4096 --inner 2 --calls 64 --json r.json");
  until_running(c, 3);
  const auto began = std::chrono::steady_clock::now();
  ::kill(running_rank(c, 1), SIGKILL);
  const Result r = c.wait();
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  CHECK(r.status == 3);
  CHECK(r.out.find("rank 1 killed by signal 9 (Killed) after step ") != std::string::npos);
  CHECK(r.out.find("this is not a finding") != std::string::npos);
  CHECK(r.out.find("FINDING") == std::string::npos);
  CHECK(json_of(f / "r.json")["verdict"] == "unknown");
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("a rank that is stopped stalls a run, which ends with 3 and tells of the machine") {
  const Folder f;
  Command c(f, "run --ranks 2 --tokens 512 --hidden 4096 --inner 2 --calls 64 --stall 0.5");
  until_running(c, 3);
  ::kill(running_rank(c, 1), SIGSTOP);
  const Result r = c.wait();
  CHECK(r.status == 3);
  CHECK(r.out.find("rank 1 stalled after step ") != std::string::npos);
  CHECK(r.out.find("processors with a load of") != std::string::npos);
  CHECK(r.out.find("FINDING") == std::string::npos);
  CHECK_FALSE(c.left_behind());
}

TEST_CASE("--time ends a search in the middle of a schedule, and one schedule is no verdict") {
  for (const char* command :
       {"fuzz --executor inline --protocol pypto --ranks 8 --tokens 512 --hidden 4096 --inner 8 "
        "--boundary strict --time 1",
        "check --protocol pypto --ranks 8 --tokens 512 --hidden 4096 --inner 8 --boundary strict "
        "--time 1"}) {
    CAPTURE(command);
    const Folder f;
    const Result r = ringfence(f, command);
    CHECK(r.status == 3);
    CHECK((r.out + r.err).find("UNKNOWN") != std::string::npos);
    CHECK(f.files().empty());
  }
}

TEST_CASE("--time is for all modes of a check together") {
  const Folder f;
  const auto began = std::chrono::steady_clock::now();
  const Result r = ringfence(f,
                             "check --protocol multimem-counter --ranks 4 --blocks 1 --tokens 4 "
                             "--hidden 8 --inner 8 --calls 2 --arrivals order --time 0.9 --json "
                             "r.json");
  // Far less than once for each of three modes.
  CHECK(std::chrono::steady_clock::now() - began < 2s);
  CHECK(r.status == 3);
  for (const auto& [mode, verdict] : json_of(f / "r.json")["modes"].items()) {
    CAPTURE(mode);
    CHECK(verdict == "unknown");
  }
}

TEST_CASE("a finding keeps its status where its trace cannot be written") {
  const Folder f;
  const Result r =
      with_file_limit(f, 0, "fuzz --boundary coherent --set slot=wrong --executor inline");
  CHECK(r.status == 1);
  CHECK(r.out.find("deadlock in boundary mode coherent") != std::string::npos);
  CHECK(r.out.find("replay: ringfence replay ") == std::string::npos);
  CHECK(r.out.find("File too large: the finding above has no trace there") != std::string::npos);
  CHECK(f.files().empty());
}

TEST_CASE("a limit of file sizes ends a run with one line, status 2, and leaves nothing") {
  const Folder f;
  const Result r = with_file_limit(
      f, 8, "run --ranks 2 --tokens 64 --hidden 512 --inner 2 --output out.safetensors");
  CHECK(r.status == 2);
  CHECK(r.out.find("\nringfence: ") != std::string::npos);
  CHECK(r.out.find("File too large\n") == r.out.size() - 15);
  CHECK(f.files().empty());
}

TEST_CASE("--verbose tells on standard error how a finding was made small") {
  const Folder f;
  const Result r = ringfence(f, "fuzz -v --boundary coherent --set slot=wrong --executor inline");
  CHECK(r.status == 1);
  CHECK(r.err.find("choices shrunk to") != std::string::npos);
  CHECK(r.out.find("choices shrunk to") == std::string::npos);
}

TEST_CASE("two campaigns run at once") {
  const Folder f, g;
  Command a(f, "fuzz --ranks 2 --boundary coherent --schedules 300");
  Command b(g, "fuzz --ranks 2 --boundary coherent --schedules 300");
  CHECK(a.wait().status == 0);
  CHECK(b.wait().status == 0);
}

}  // namespace
}  // namespace ringfence::cli
