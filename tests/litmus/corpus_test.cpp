// The files of the corpora as files; their verdicts are tested where something decides them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"

namespace {

using namespace ringfence::litmus;

std::set<std::string> read_folder(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".litmus") continue;
    INFO(entry.path().string());
    const Test test = parse_file(entry.path().string());
    CHECK(entry.path().stem().string() == test.name);
    CHECK_FALSE(test.comments.empty());
    const std::string text = print(test);
    CHECK(print(parse(text, test.name)) == text);
    names.insert(test.name);
  }
  return names;
}

}  // namespace

TEST_CASE("every test of the corpora is read, printed and read again, and has an expectation") {
  const std::pair<const char*, std::size_t> folders[] = {{"tests/litmus/corpus", 230},
                                                         {"tests/litmus/corpus-extended", 60},
                                                         {"tests/litmus/barriers", 14},
                                                         {"tests/litmus/asynchronous", 28}};
  for (const auto& [name, at_least] : folders) {
    const std::string folder = name;
    INFO(folder);
    const auto names = read_folder(folder);
    std::set<std::string> expected;
    for (const Expectation& e : parse_expectation_file(folder + "/expected.txt")) {
      expected.insert(e.name);
    }
    CHECK(names.size() >= at_least);
    CHECK(names == expected);
  }
}

TEST_CASE("the fuzzer's corpus is read, or refused with one line") {
  int read = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/litmus")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    INFO(entry.path().string());
    try {
      const std::string once = print(parse(text, "fuzz"));
      CHECK(print(parse(once, "again")) == once);
      ++read;
    } catch (const ParseError& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      ++refused;
    }
  }
  CHECK(read >= 5);
  CHECK(refused >= 5);
}
