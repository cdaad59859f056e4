// Generated litmus tests through both checkers, load buffering on; or variants of a folder's tests:
//   check_differential [OPTION…] FIRST COUNT [FOLDER]
//   check_differential [OPTION…] file TEST
// --in-order: without load buffering. --aliases, --proxies: programs with second names of
// locations, with the constant, texture and surface proxies. --cohere: all names of a location are
// one address. Prints each disagreement, shrunk; exit status 1 if there was one.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/axiomatic/mutate.hpp"
#include "tests/axiomatic/shrink.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

int main(int argc, char** argv) {
  machine::LoadBuffering buffering = machine::LoadBuffering::on;
  machine::AliasData aliases = machine::AliasData::fence_required;
  axiomatic::GeneratorOptions options;
  for (; argc > 1 && std::string(argv[1]).starts_with("--"); --argc, ++argv) {
    const std::string option = argv[1];
    if (option == "--in-order") buffering = machine::LoadBuffering::off;
    if (option == "--cohere") aliases = machine::AliasData::cohere;
    if (option == "--aliases") options.aliases = true;
    if (option == "--proxies") options.proxies = true;
  }
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: check_differential [--in-order] [--cohere] [--aliases] [--proxies] FIRST "
                 "COUNT [FOLDER to mutate]\n"
                 "       check_differential [--in-order] [--cohere] file TEST\n");
    return 2;
  }
  const auto difference = [&](const litmus::Test& test) {
    return testing::difference(test, buffering, aliases);
  };
  if (std::string(argv[1]) == "file") {
    std::printf("%s", difference(litmus::parse_file(argv[2])).c_str());
    return 0;
  }
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  std::vector<litmus::Test> corpus;
  if (argc > 3) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[3])) {
      if (entry.path().extension() == ".litmus") {
        corpus.push_back(litmus::parse_file(entry.path().string()));
      }
    }
  }
  int differ = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const litmus::Test test = corpus.empty()
                                  ? axiomatic::generate(seed, options)
                                  : axiomatic::mutate(corpus[seed % corpus.size()], seed);
    try {
      if (difference(test).empty()) continue;
    } catch (const axiomatic::Unsupported&) {
      continue;
    } catch (const std::exception& e) {
      std::printf("seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed), e.what(),
                  litmus::print(test).c_str());
      ++differ;
      continue;
    }
    ++differ;
    std::printf("seed %llu differs; shrunk:\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    // A disagreement that takes load buffering shrinks to one that does.
    const auto in_order = [aliases](const litmus::Test& t) {
      return testing::difference(t, machine::LoadBuffering::off, aliases).empty();
    };
    const bool agree_in_order = in_order(test);
    const litmus::Test small = axiomatic::shrink(test, [&](const litmus::Test& t) {
      try {
        return !difference(t).empty() && (!agree_in_order || in_order(t));
      } catch (const std::exception&) {
        return false;
      }
    });
    std::printf("%s%s\n", litmus::print(small).c_str(), difference(small).c_str());
    std::fflush(stdout);
    if (differ >= 5) break;
  }
  std::printf("%d of %llu differ\n", differ, static_cast<unsigned long long>(count));
  return differ > 0 ? 1 : 0;
}
