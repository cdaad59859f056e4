#include <doctest/doctest.h>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

// Where the CUDA part is built in, `gpu` has a parser of its own and the page is the same.
TEST_CASE("docs/commands.md is what --help says; ./dev docs writes it anew") {
  const Folder f;
  const Result r = ringfence(f, "help --markdown");
  CHECK(r.status == 0);
  CHECK_MESSAGE(r.out == content("docs/commands.md"), "stale: run ./dev docs");
}

TEST_CASE("the page names every subcommand, every option with its default, and the exit statuses") {
  const Folder f;
  const std::string page = ringfence(f, "help --markdown").out;
  for (const char* part :
       {"## ringfence run\n", "## ringfence fuzz\n", "## ringfence check\n",
        "## ringfence replay\n", "## ringfence litmus\n", "## ringfence ptx\n", "`--faults TEXT`",
        "`--shrink, --no-shrink`", "(default: 2000)", "Exit status: 0 no finding"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
}

TEST_CASE("--model gives a model's sizes, as far as they are not given") {
  const Folder f;
  const std::string run = "fuzz --schedules 1 --boundary coherent --executor inline --json r.json ";
  REQUIRE(ringfence(f, run + "--model llama-3.1-70b --inner 32 --ranks 2 --tokens 2").status == 0);
  auto c = json_of(f / "r.json")["configuration"];
  CHECK(c["hidden"] == 8192);
  CHECK(c["inner"] == 32);
  CHECK(c["eps"] == 1e-5);
  REQUIRE(
      ringfence(f, run + "--model qwen3-32b/attention --hidden 64 --ranks 2 --tokens 2").status ==
      0);
  c = json_of(f / "r.json")["configuration"];
  CHECK(c["hidden"] == 64);
  CHECK(c["inner"] == 8192);
  const Result bad = ringfence(f, "fuzz --model llama-9");
  CHECK(bad.status == 2);
  CHECK(lines(bad.err) == 1);
  CHECK(bad.err.find("llama-3.1-70b") != std::string::npos);
}

}  // namespace
}  // namespace ringfence::cli
