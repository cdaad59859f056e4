#include <doctest/doctest.h>

#include <filesystem>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

namespace fs = std::filesystem;

TEST_CASE("every recorded trace is its finding, bit for bit, over processes and inline") {
  const Folder f;
  const std::string stories = content("traces/README.md");
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("traces")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".trace.jsonl")) continue;
    ++count;
    CAPTURE(name);
    CHECK_MESSAGE(stories.find("`" + name + "`") != std::string::npos, "no story of ", name);
    for (const std::string executor : {"processes", "inline"}) {
      const Result r =
          ringfence(f, "replay " + fs::absolute(entry.path()).string() + " --executor " + executor);
      CHECK_MESSAGE(r.status == 1, r.out, r.err);
      CHECK(r.out.find("the recorded run, bit for bit") != std::string::npos);
    }
  }
  CHECK(count >= 6);
}

}  // namespace
}  // namespace ringfence::cli
