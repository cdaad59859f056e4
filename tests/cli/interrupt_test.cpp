#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
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

// Waits until the ranks are there.
void until_running(const Command& c, std::size_t processes) {
  for (int i = 0; i < 500 && c.processes() < processes; ++i) std::this_thread::sleep_for(10ms);
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

TEST_CASE("SIGINT and SIGTERM to the whole group, as timeout sends them, make no finding") {
  for (const int number : {SIGINT, SIGTERM}) {
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

TEST_CASE("a rank that is killed is reported with its number, its last step and the signal") {
  const Folder f;
  Command c(f, "fuzz --ranks 4 --boundary coherent --time 120 --json r.json");
  until_running(c, 5);
  const pid_t rank = running_rank(c, 2);
  const auto began = std::chrono::steady_clock::now();
  ::kill(rank, SIGKILL);
  const Result r = c.wait();
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  CHECK(r.status == 1);
  CHECK(r.out.find("rank-lost in boundary mode coherent") != std::string::npos);
  CHECK(r.out.find("rank 2 killed by signal 9 (Killed) after step ") != std::string::npos);
  CHECK(json_of(f / "r.json")["findings"][0]["kind"] == "rank-lost");
  CHECK_FALSE(c.left_behind());
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
