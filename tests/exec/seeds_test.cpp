// A program under another seed: once more, as often as was asked for, until it fails.
#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/exec/programs.hpp"

namespace ringfence::cli {

TEST_CASE(
    "--explore tries other schedules of each stretch, a seed draws the one that the program gets") {
  if (!made("all_reduce") || !made("seeds")) return;
  const Folder folder;
  right(folder, "all_reduce 1", "0 wrong", "--explore 20 --seed 7");
  found(folder, "all_reduce 1 relaxed", "data-race", "--explore 20 --ignore stale-read");
  right(folder, "seeds", "seeds: right", "--explore 20");
  right(folder, "seeds late", "seeds: right");
  found(folder, "seeds late", "data-race", "--explore 20");
}

namespace {

// What fails by some seeds alone, the default not among them: the run that failed, and its seed.
std::pair<Result, std::string> failed_by_a_seed(const Folder& folder, const std::string& command,
                                                const std::string& options = "") {
  CHECK(exec(folder, command).status == 0);
  Result r = exec(folder, command, "--schedules 40 " + options);
  CAPTURE(command);
  CAPTURE(r.err);
  const std::string before = "the last run failed; --seed ";
  const std::size_t at = r.err.find(before);
  REQUIRE(at != std::string::npos);
  const std::string number =
      r.err.substr(at + before.size(), r.err.find(' ', at + before.size()) - at - before.size());
  CHECK(says(r.err, " runs, seeds 0 to " + number));
  CHECK(std::stoi(number) > 0);
  return {r, number};
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("--schedules runs the program again until it fails, and that seed shows it again") {
  if (!made("seeds")) return;
  const Folder folder;
  // A right one runs as often as that.
  Result r = exec(folder, "seeds", "--schedules 12 --seed 3 --gpus 1");
  CHECK(r.status == 0);
  CHECK(times(r.out, "seeds: right\n") == 13);
  CHECK(says(r.err, " of 13 runs, seeds 3 to 15\n"));
  // One that its own check finds wrong: its exit status, and nothing runs behind it.
  const auto [lost, seed] = failed_by_a_seed(folder, "seeds lost");
  CHECK(lost.status == 4);
  CHECK(times(lost.out, "not so: sum == 2") == 1);
  CHECK(times(lost.out, "seeds: right\n") == std::stoul(seed));
  r = exec(folder, "seeds lost", "--seed " + seed);
  CHECK(r.status == 4);
  CHECK(says(r.out, "not so: sum == 2"));
  // A finding, with what the run with it captured and no more.
  const auto [late, other] = failed_by_a_seed(folder, "seeds late", "--capture run");
  CHECK(late.status == 1);
  CHECK(says(late.err, "FINDING: data-race"));
  CHECK(exec(folder, "seeds late", "--capture again --seed " + other).status == 1);
  const auto names = [&](const std::string& path) {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(folder / path))
      out.push_back(e.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  };
  CHECK(names("run") == names("again"));
  CHECK(content(folder / "run/001.toml") == content(folder / "again/001.toml"));
  // A function that is not there is named once for all runs.
  if (!made("forms")) return;
  r = exec(folder, "forms", "--schedules 2");
  CHECK(times(r.err, "cudaGraphCreate is not supported") == 1);
  CHECK(says(r.err, "called but not supported: cudaGraphCreate, cudaMallocArray"));
}

TEST_CASE("by the seed a query is answered that its work is not over yet, and the loop ends") {
  if (!made("waits") || !made("seeds")) return;
  const Folder folder;
  Result r = exec(folder, "waits query", "--schedules 12");
  CHECK(r.status == 0);
  CHECK(times(r.out, "waits: right\n") == 13);
  CHECK(exec(folder, "waits query-copy", "--schedules 12").status == 0);
  CHECK(exec(folder, "waits query-idle", "--schedules 12").status == 0);
  // Who takes the first answer for the last fails by some seed.
  const auto [once, seed] = failed_by_a_seed(folder, "seeds once");
  CHECK(once.status == 3);
  CHECK(says(once.out, "device not ready"));
  CHECK(says(exec(folder, "seeds once", "--seed " + seed).out, "device not ready"));
  // And so does who takes one stream's end for another's.
  const auto [other, second] = failed_by_a_seed(folder, "waits query-other");
  CHECK(other.status == 4);
  CHECK(says(other.out, "not so: *pinned == 5"));
}

TEST_CASE("Ctrl-C ends all runs of a program, and nothing is left") {
  const Folder folder;
  std::filesystem::create_directory(folder / "tmp");
  const auto ended = [&](int number) {
    Command c(folder, "exec --schedules 1000000 -- sleep 30");
    for (int i = 0; i < 500 && c.processes() < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    c.signal(number);
    const auto began = std::chrono::steady_clock::now();
    const Result r = c.wait();
    CHECK(r.status == 4);
    CHECK(says(r.err, "ringfence: interrupted\n"));
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
    CHECK_FALSE(c.left_behind());
  };
  setenv("TMPDIR", (folder / "tmp").c_str(), 1);
  ended(SIGINT);
  ended(SIGTERM);
  unsetenv("TMPDIR");
  CHECK(std::filesystem::is_empty(folder / "tmp"));
}

}  // namespace ringfence::cli
