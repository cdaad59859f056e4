#include <doctest/doctest.h>

#include "emulator/cli/case_options.hpp"

namespace ringfence::cli {
namespace {

TEST_CASE("options that a command line needs to repeat a configuration are those that differ") {
  programs::Config c;
  CHECK(command_options(c) == "--protocol tokenweave");
  c.ranks = 2;
  c.set["end.put"] = "relaxed";
  CHECK(command_options(c) == "--protocol tokenweave --ranks 2 --set end.put=relaxed");
}

}  // namespace
}  // namespace ringfence::cli
