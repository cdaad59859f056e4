// README and docs, held against the program and the tree: the example is what it prints, links lead
// somewhere.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExample = "docs/examples/";

// The indented lines after the one that shows `command`, up to the end of its block; "..." stands
// for any lines.
std::vector<std::string> shown_output(const std::string& page, const std::string& command) {
  std::vector<std::string> lines;
  std::istringstream in(page);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (inside && line.empty()) continue;
    if (inside && !line.starts_with("    ")) break;
    if (inside && line != "    ...") lines.push_back(line.substr(4));
    if (line == "    $ " + command) inside = true;
  }
  return lines;
}

void check_in_order(const std::vector<std::string>& shown, const std::string& out) {
  std::size_t from = 0;
  for (const std::string& line : shown) {
    CAPTURE(line);
    const std::size_t at = out.find(line + "\n", from);
    REQUIRE(at != std::string::npos);
    from = at;
  }
}

TEST_CASE("the finding that README shows is what its command prints") {
  const Folder f;
  const std::string command = "ringfence fuzz --case docs/examples/all_reduce_broken.toml";
  const auto shown = shown_output(content("README.md"), command);
  REQUIRE(shown.size() >= 6);
  const Result r =
      ringfence(f, "fuzz --case " + fs::absolute(kExample).string() + "all_reduce_broken.toml");
  CHECK(r.status == 1);
  // The case is named as it was given, so here by another path.
  const std::string out =
      std::regex_replace(r.out, std::regex(fs::absolute(kExample).string()), std::string(kExample));
  check_in_order(shown, out);
  // "Here the first one fails".
  CHECK(out.find("(by the default schedule)") != std::string::npos);
}

TEST_CASE("the finding that docs/tour.md shows is what its command prints") {
  const Folder f;
  fs::create_directory(f / "build");
  const std::string first =
      "ringfence fuzz --protocol tokenweave --ranks 4 --blocks 2 --tokens 8 --hidden 64 --inner "
      "64 ";
  auto shown = shown_output(content("docs/tour.md"), first + "\\");
  REQUIRE(shown.size() >= 20);
  const std::string rest = shown.front();
  shown.erase(shown.begin());
  const Result r = ringfence(f, first.substr(std::string("ringfence ").size()) + rest);
  CHECK(r.status == 1);
  check_in_order(shown, r.out);
}

// The default number of schedules, 2,000.
TEST_CASE("README's example with its last barrier is clean, and its result is judged") {
  const Folder f;
  const std::string file = fs::absolute(kExample).string() + "all_reduce.toml";
  const Result clean = ringfence(f, "fuzz --boundary stream --executor inline --case " + file);
  CHECK(clean.status == 0);
  CHECK(clean.out.find(" 2001 ") != std::string::npos);
  CHECK(clean.out.find("not judged") == std::string::npos);
}

TEST_CASE("README fits on three screens, and links of README and docs lead somewhere") {
  const std::string readme = content("README.md");
  CHECK(std::count(readme.begin(), readme.end(), '\n') <= 150);
  const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  std::size_t links = 0;
  const auto look = [&](const fs::path& page) {
    const std::string text = content(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string to = (*it)[1];
      if (to.find("://") != std::string::npos) continue;
      ++links;
      CHECK_MESSAGE(fs::exists(page.parent_path() / to), page.string(), ": ", to);
    }
  };
  for (const char* page : {"README.md", "CONTRIBUTING.md", "traces/README.md"}) look(page);
  for (const auto& entry : fs::directory_iterator("docs")) {
    if (entry.path().extension() == ".md") look(entry.path());
  }
  CHECK(links > 40);
}

TEST_CASE("docs/check.md names each file of the search, and no other") {
  const std::string page = content("docs/check.md");
  const std::regex row(R"(\n\| `([a-z_]+)\.[ch]pp` \|)");
  std::set<std::string> named, there;
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    named.insert((*it)[1]);
  }
  for (const auto& entry : fs::directory_iterator("emulator/check")) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".cpp" || ending == ".hpp") there.insert(entry.path().stem().string());
  }
  CHECK(named == there);
}

TEST_CASE("every page of docs is in its index") {
  const std::string index = content("docs/README.md");
  for (const auto& entry : fs::directory_iterator("docs")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".md" || name == "README.md") continue;
    CHECK_MESSAGE(index.find("(" + name + ")") != std::string::npos, name);
  }
}

}  // namespace
}  // namespace ringfence::cli
