// Generated kernels through check and fuzz, and through the axioms:
//   kernel_oracle FIRST COUNT [--schedules N] [--seconds S] [--axioms] [--write FOLDER]
//                 [--without shared|barriers|mbarriers|clusters|forms|loops|votes]...
//                 [--with copies|dependent|paired|waits]...
//                 [--boundary strict|coherent] [--verbose]
//   kernel_oracle show SEED [--without ...]... [--with ...]...
// --with waits: kernels that count and wait (waits.hpp), which the other words leave as they are.
// --axioms: kernels without loops, the outcomes of check against those of the axioms. Prints each
// disagreement, shrunk, as a case and its PTX, and writes them into FOLDER; exit status 1 if there
// was one, or if more than 2 % stay undecided.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <utility>

#include "tests/oracle/axioms.hpp"
#include "tests/oracle/compare.hpp"
#include "tests/oracle/generate.hpp"
#include "tests/oracle/print.hpp"
#include "tests/oracle/shrink.hpp"
#include "tests/oracle/waits.hpp"

using namespace ringfence;

namespace {

struct Options {
  std::uint64_t first = 1, count = 0;
  oracle::Limits limits;
  oracle::GeneratorOptions generator;
  bool waits = false;  // generate_waits
  bool axioms = false;
  bool verbose = false;
  std::string folder;
};

oracle::Kernel kernel_of(std::uint64_t seed, const Options& o) {
  return o.waits ? oracle::generate_waits(seed) : oracle::generate(seed, o.generator);
}

// Empty: all agree. Throws oracle::Unsupported where the axioms do not judge.
std::string difference(const oracle::Kernel& kernel, const Options& o, oracle::Judged* judged) {
  if (o.axioms) return oracle::difference_from_axioms(kernel, o.limits);
  oracle::Judged j = oracle::judge(kernel, o.limits);
  std::string text = j.difference;
  if (judged != nullptr) *judged = std::move(j);
  return text;
}

void tell(const oracle::Kernel& kernel, const Options& o) {
  const oracle::Kernel small = oracle::shrink(kernel, [&](const oracle::Kernel& k) {
    try {
      return !difference(k, o, nullptr).empty();
    } catch (const std::exception&) {
      return false;
    }
  });
  oracle::Judged j;
  const std::string text = difference(small, o, &j);
  const char* verdict = o.axioms                             ? ""
                        : j.verdict == oracle::Verdict::pass ? "check says PASS\n"
                                                             : "check says FAIL\n";
  std::printf("shrunk: %s%s%s\n%s\n", text.c_str(), verdict,
              oracle::to_case(small, "kernel.ptx").c_str(), oracle::to_ptx(small).c_str());
  std::fflush(stdout);
  if (o.folder.empty()) return;
  const std::string name = "kernel-" + std::to_string(kernel.seed);
  std::ofstream(o.folder + "/" + name + ".toml") << oracle::to_case(small, name + ".ptx");
  std::ofstream(o.folder + "/" + name + ".ptx") << oracle::to_ptx(small);
}

bool set(const std::string& what, bool on, Options& o) {
  oracle::GeneratorOptions& g = o.generator;
  const std::pair<const char*, bool*> all[] = {
      {"shared", &g.shared},     {"barriers", &g.barriers}, {"mbarriers", &g.mbarriers},
      {"clusters", &g.clusters}, {"forms", &g.forms},       {"loops", &g.loops},
      {"votes", &g.votes},       {"copies", &g.copies},     {"dependent", &g.dependent},
      {"paired", &g.paired},     {"waits", &o.waits}};
  for (const auto& [name, option] : all) {
    if (what != name) continue;
    *option = on;
    return true;
  }
  return false;
}

int run(const Options& o) {
  std::uint64_t differ = 0, pass = 0, fail = 0, unknown = 0, broken = 0;
  std::uint64_t judged = 0, passed_over = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t seed = o.first; seed < o.first + o.count; ++seed) {
    const oracle::Kernel kernel = kernel_of(seed, o);
    try {
      oracle::Judged j;
      const std::string text = difference(kernel, o, &j);
      const bool decided = j.verdict != oracle::Verdict::unknown && (j.whole || j.undefined);
      ++(o.axioms ? judged : !decided ? unknown : j.verdict == oracle::Verdict::pass ? pass : fail);
      if (!o.axioms && !decided && o.verbose) {
        std::printf("seed %llu undecided: %s\n", static_cast<unsigned long long>(seed),
                    j.left_out.empty() ? "a bound" : j.left_out.c_str());
      }
      if (text.empty()) continue;
      ++differ;
      std::printf("seed %llu differs: %s", static_cast<unsigned long long>(seed), text.c_str());
      std::fflush(stdout);
      tell(kernel, o);
    } catch (const oracle::Unsupported&) {
      ++passed_over;
    } catch (const std::exception& e) {
      ++broken;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), e.what());
      std::fflush(stdout);
    }
    if (differ + broken >= 10) break;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto n = [](std::uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf("kernels from seed %llu: ", n(o.first));
  if (o.axioms) {
    std::printf("%llu judged by the axioms, %llu beyond them", n(judged), n(passed_over));
  } else {
    std::printf("%llu pass, %llu fail, %llu undecided", n(pass), n(fail), n(unknown));
  }
  std::printf("; %llu differ, %llu broken; %.0f s\n", n(differ), n(broken), took.count());
  return differ + broken > 0 || unknown * 50 > o.count ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bool right = argc >= 3;
  const bool shows = right && std::string(argv[1]) == "show";
  if (shows) {
    o.first = std::strtoull(argv[2], nullptr, 10);
  } else if (right) {
    o.first = std::strtoull(argv[1], nullptr, 10);
    o.count = std::strtoull(argv[2], nullptr, 10);
  }
  for (int i = 3; i < argc && right; ++i) {
    const std::string name = argv[i];
    if (name == "--axioms") {  // those that they can judge
      o.axioms = true;
      o.generator.loops = o.generator.votes = false;
    } else if (name == "--verbose") {
      o.verbose = true;
    } else if (++i == argc) {
      right = false;
    } else if (name == "--schedules") {
      o.limits.schedules = std::strtoull(argv[i], nullptr, 10);
    } else if (name == "--seconds") {
      o.limits.seconds = std::strtod(argv[i], nullptr);
    } else if (name == "--boundary") {
      o.limits.boundary = std::string(argv[i]) == "coherent" ? machine::Boundary::coherent
                                                             : machine::Boundary::strict;
    } else if (name == "--without" || name == "--with") {
      right = set(argv[i], name == "--with", o);
    } else if (name == "--write") {
      o.folder = argv[i];
    } else {
      right = false;
    }
  }
  if (!right) {
    std::fprintf(stderr,
                 "usage: kernel_oracle FIRST COUNT [--schedules N] [--seconds S] [--axioms] "
                 "[--write FOLDER] [--boundary strict|coherent] [--verbose] [--without FEATURE]... "
                 "[--with copies|dependent|paired|waits]...\n       "
                 "kernel_oracle show SEED [--without FEATURE]... [--with FEATURE]...\n");
    return 2;
  }
  // In the other modes the machine's memory has all orders of a warp's lanes, however they step.
  if (o.generator.paired) o.limits.boundary = machine::Boundary::coherent;
  if (!shows) return run(o);
  const oracle::Kernel k = kernel_of(o.first, o);
  std::printf("%s\n%s", oracle::to_case(k, "kernel.ptx").c_str(), oracle::to_ptx(k).c_str());
  return 0;
}
