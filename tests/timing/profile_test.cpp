// Profiles: what is in the one that ringfence brings along, and what is refused.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "emulator/timing/profile.hpp"

namespace ringfence::timing {
namespace {

std::string h200() {
  std::ifstream f("cuda/profiles/h200.toml");
  std::ostringstream text;
  text << f.rdbuf();
  REQUIRE(!text.str().empty());
  return text.str();
}

// The file with `from` replaced, and the number of the line where it was.
std::string edited(const std::string& from, const std::string& to, int& line) {
  std::string text = h200();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  line = 1;
  for (std::size_t i = 0; i < at; ++i) line += text[i] == '\n' ? 1 : 0;
  return text.replace(at, from.size(), to);
}

void refused(const std::string& from, const std::string& to,
             std::initializer_list<std::string> said, bool at_line = true) {
  int line = 0;
  const std::string text = edited(from, to, line);
  std::string message;
  try {
    parse_profile(text, "mine.toml");
  } catch (const ProfileError& e) {
    message = e.what();
  }
  CAPTURE(message);
  if (at_line) CHECK(message.rfind("mine.toml:" + std::to_string(line) + ":", 0) == 0);
  CHECK(message.find('\n') == std::string::npos);
  for (const std::string& s : said) CHECK(message.find(s) != std::string::npos);
}

TEST_CASE("the profile inside the program is the file of cuda/profiles") {
  const Profile inside = read_profile("h200"), file = read_profile("cuda/profiles/h200.toml");
  CHECK(inside.name == "h200");
  CHECK(file.name == inside.name);
  CHECK(file.link.read == inside.link.read);
  CHECK(file.product.tile_columns == inside.product.tile_columns);
  CHECK(file.signal.fence == inside.signal.fence);
}

TEST_CASE("a figure is read from where it stands") {
  int line = 0;
  CHECK(parse_profile(edited("load_gb_s = [130.7,", "load_gb_s = [131.5,", line), "f").block.load ==
        131.5);
  CHECK(parse_profile(edited("read_gb_s = [334,", "read_gb_s = [1,", line), "f").link.read == 1);
}

TEST_CASE("a bad profile is refused with the key, the line and what would be right") {
  refused("sync_ns = [39,", "sync_ms = [39,", {"unknown key 'sync_ms'", "[block]", "sync_ns"});
  refused("[memory]", "[memry]", {"unknown key 'memry'", "memory"});
  refused("read_gb_s = [334,", "read_gb_s = [0,", {"link.read_gb_s", "above 0"});
  refused("read_gb_s = [334,", "read_gb_s = [-3,", {"link.read_gb_s", "above 0"});
  refused("read_gb_s = [334,", "read_gb_s = [nan,", {"link.read_gb_s", "number"});
  refused("read_gb_s = [334,", "read_gb_s = [\"fast\",", {"link.read_gb_s", "number"});
  refused("multiprocessors = [132,", "multiprocessors = [13.5,", {"multiprocessors", "whole"});
  refused("swap_ns = [900, \"2026-11-29e-h200x2-costs.txt: peer compare-and-swap\"]",
          "swap_ns = 900", {"link.swap_ns", "[value, \"source\"]"});
  refused("\"taken to be square\"", "\"\"", {"product.tile_columns", "source"});
  refused("version = 1", "version = 2", {"version", "expected 1"});
  refused("name = \"h200\"", "name = \"\"", {"name"});
  refused("copy_gb_s = [48.2,", "copy_gb_s = [70,", {"block.copy_gb_s", "41.9", "61.6"});
  refused("[launch]", "[launch", {"mine.toml"});
}

TEST_CASE("a key or table that is missing is named") {
  refused("fence_ns = ", "# fence_ns = ", {"signal.fence_ns is missing"}, false);
  refused("[switch]  # multimem\n", "[switch]\n#", {"switch.gb_s is missing"}, false);
  refused("version = 1\n", "", {"version"}, false);
}

TEST_CASE("every figure has a source, and no source is a fused time over several ranks") {
  std::istringstream lines(h200());
  int figures = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" = [") == std::string::npos) continue;
    ++figures;
    CAPTURE(line);
    CHECK(line.find(", \"") != std::string::npos);
    // The one that names a fused time is of a single rank.
    if (line.find("fused 4.89") != std::string::npos) CHECK(line.find("R 1") != std::string::npos);
    const std::size_t file = line.find("2026-");
    if (file == std::string::npos) continue;
    const std::string name = line.substr(file, line.find(".txt", file) + 4 - file);
    CHECK_MESSAGE(std::ifstream("cuda/bench/results/" + name).good(), name);
  }
  CHECK(figures == 26);
}

TEST_CASE("a profile that is not there is refused with what there is") {
  CHECK_THROWS_WITH_AS(read_profile("no/such.toml"),
                       doctest::Contains("no/such.toml: cannot be read"), ProfileError);
  CHECK_THROWS_WITH_AS(read_profile("h100"), doctest::Contains("h200"), ProfileError);
}

}  // namespace
}  // namespace ringfence::timing
