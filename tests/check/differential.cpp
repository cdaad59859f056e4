// Generated litmus tests through both checkers, load buffering on; or variants of a folder's tests:
//   check_differential [OPTION…] FIRST COUNT [FOLDER]
//   check_differential [OPTION…] file TEST
// --in-order: without load buffering. --aliases, --proxies: programs with second names of
// locations, with the constant, texture and surface proxies. --unread: with exchanges whose result
// nobody asks for. --unread-waits: the same of waits that several values end. --weakened: programs
// without a race, with as many weak accesses as can be.
// --waits: programs with
// waits by compare-and-swap, and who may wait for ever; in order. --counters: the same of programs
// that wait at counters. --alike: programs of waits that several writes end alike, in order if with
// --in-order; --rules: the same and programs of several flags, in mode coherent against the search
// without rules. --multimem: programs of multimem.red at several counters, the one direction of
// its parts against both. --order: strong
// accesses of scope sys alone, with waits, in mode coherent against the interleavings. --cohere:
// all names of a location are one address. Prints each disagreement, shrunk, and how many programs
// had what; exit status 1 if there was a disagreement.
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
#include "tests/axiomatic/weaken.hpp"
#include "tests/check/alike.hpp"
#include "tests/check/both.hpp"
#include "tests/check/counted.hpp"
#include "tests/check/interleaved.hpp"

using namespace ringfence;

namespace {

// Programs by what they have.
struct Count {
  std::uint64_t barriers = 0, names = 0, proxies = 0;

  void add(const litmus::Test& test) {
    bool barrier = false, proxy = false, name = false;
    const auto access = [&](const auto* x) {
      if (x == nullptr) return;
      proxy = proxy || x->proxy != litmus::Proxy::Generic;
      const auto* location = std::get_if<litmus::LocationId>(&x->address.base);
      if (location == nullptr) return;
      const litmus::Location& l = test.locations[static_cast<std::size_t>(*location)];
      name = name || (l.alias_of && l.proxy == litmus::Proxy::Generic);
    };
    for (const litmus::Thread& thread : test.threads) {
      for (const litmus::Instruction& i : thread.instructions) {
        barrier = barrier || std::holds_alternative<litmus::Barrier>(i.what);
        access(std::get_if<litmus::Load>(&i.what));
        access(std::get_if<litmus::Store>(&i.what));
        access(std::get_if<litmus::Atomic>(&i.what));
      }
    }
    barriers += barrier;
    names += name;
    proxies += proxy;
  }
};

}  // namespace

int main(int argc, char** argv) {
  machine::LoadBuffering buffering = machine::LoadBuffering::on;
  machine::AliasData aliases = machine::AliasData::fence_required;
  axiomatic::GeneratorOptions options;
  bool waits = false, weakened = false, counters = false, alike = false, rules = false,
       order = false, multimem = false;
  for (; argc > 1 && std::string(argv[1]).starts_with("--"); --argc, ++argv) {
    const std::string option = argv[1];
    if (option == "--in-order") buffering = machine::LoadBuffering::off;
    if (option == "--cohere") aliases = machine::AliasData::cohere;
    if (option == "--aliases") options.aliases = true;
    if (option == "--waits") {
      waits = options.atomic_awaits = true;
      options.barriers = false;
    }
    if (option == "--alike") alike = true;
    if (option == "--rules") alike = rules = true;
    if (option == "--order") alike = order = true;
    if (option == "--multimem") multimem = true;
    if (option == "--counters") waits = counters = true;
    if (option == "--proxies") options.proxies = true;
    if (option == "--unread") options.unread_exchanges = true;
    if (option == "--unread-waits") options.unread_awaits = true;
    if (option == "--weakened") weakened = true;
  }
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: check_differential [--in-order] [--cohere] [--aliases] [--proxies] "
                 "[--unread] [--unread-waits] [--weakened] [--waits] [--counters] [--alike] "
                 "[--rules] [--order] [--multimem] FIRST COUNT "
                 "[FOLDER to mutate]\n"
                 "       check_differential [--in-order] [--cohere] file TEST\n");
    return 2;
  }
  const auto written = [&](std::uint64_t seed) {
    if (counters) return testing::counted(seed);
    if (multimem) return testing::counted_by_multimem(seed);
    if (!alike) return axiomatic::generate(seed, options);
    if (order) return testing::with_waits(seed);
    return rules && seed % 2 == 0 ? testing::with_several_flags(seed / 2)
           : rules || order       ? testing::with_alike_ends(seed / 2)
                                  : testing::with_alike_ends(seed);
  };
  const auto difference = [&](const litmus::Test& test) {
    if (waits) return testing::difference_of_waits(test);
    if (order) return testing::difference_of_order(testing::all_strong(test));
    if (testing::PartsCompared done; multimem) return testing::difference_of_parts(test, done);
    if (bool spared; rules) return testing::difference_of_rules(test, spared);
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
  int differ = 0, unsupported = 0;
  Count count_of;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    litmus::Test test =
        corpus.empty() ? written(seed) : axiomatic::mutate(corpus[seed % corpus.size()], seed);
    std::string found;
    try {
      if (weakened) test = axiomatic::weaken(test, seed);
      count_of.add(test);
      found = difference(test);
      if (found.empty()) continue;
    } catch (const axiomatic::Unsupported&) {
      continue;
    } catch (const std::invalid_argument&) {
      ++unsupported;
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
    // A disagreement that takes load buffering shrinks to one that does, and executions met twice
    // to such.
    const auto repeats = [](const std::string& text) { return text.ends_with("repeated\n"); };
    const bool only_repeats = repeats(found) && found.find("only") == std::string::npos;
    const auto in_order = [aliases](const litmus::Test& t) {
      return testing::difference(t, machine::LoadBuffering::off, aliases).empty();
    };
    const bool agree_in_order = !rules && !order && in_order(test);
    const litmus::Test small = axiomatic::shrink(test, [&](const litmus::Test& t) {
      try {
        const std::string text = difference(t);
        return !text.empty() && (!only_repeats || (repeats(text) && !text.starts_with("only"))) &&
               (!agree_in_order || in_order(t));
      } catch (const std::exception&) {
        return false;
      }
    });
    std::printf("%s%s\n", litmus::print(small).c_str(), difference(small).c_str());
    std::fflush(stdout);
    if (differ >= 5) break;
  }
  std::printf(
      "%d of %llu differ; %llu have barriers, %llu access a second name of a location, %llu go "
      "through another proxy\n",
      differ, static_cast<unsigned long long>(count),
      static_cast<unsigned long long>(count_of.barriers),
      static_cast<unsigned long long>(count_of.names),
      static_cast<unsigned long long>(count_of.proxies));
  if (unsupported > 0) std::printf("%d of them were not compared\n", unsupported);
  return differ > 0 ? 1 : 0;
}
