// The reporter `numerics`, run as a user runs it: this executable with --reporters=numerics on the
// test cases below that only serve as its subject.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/verify/throws.hpp"
#include "verify/doctest.hpp"

namespace ringfence::verify {
namespace {

Comparison of(const char* name, std::uint16_t actual) {
  const std::uint16_t values[8] = {actual};
  const double expected[8] = {};
  const double bound[8] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
  return compare(name, Dtype::bf16, {8}, values, expected, bound, 8);
}

constexpr std::uint16_t kQuarter = 0x3e80;
constexpr std::uint16_t kTwo = 0x4000;

TEST_CASE("subject of the reporter: passes" * doctest::skip()) {
  RINGFENCE_CHECK_COMPARISON(of("out", kQuarter));
  SUBCASE("first") { RINGFENCE_CHECK_COMPARISON(of("residual_out", 0)); }
  SUBCASE("second") {
    RINGFENCE_CHECK_COMPARISON(of("residual_out", 0));
    RINGFENCE_CHECK_COMPARISON(of("residual_out", kQuarter));
    SUBCASE("inner") { RINGFENCE_CHECK_COMPARISON(of("partial", 0)); }
  }
}

TEST_CASE("subject of the reporter: fails" * doctest::skip()) {
  RINGFENCE_CHECK_COMPARISON(of("out", kTwo));
}

struct Run {
  int status;
  std::string output;
};

Run run_subject(const char* which) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  REQUIRE(length > 0);
  const std::string command = "'" + std::string(path.data()) +
                              "' --reporters=numerics --no-skip --no-colors=true --test-case='" +
                              which + "' 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Run run{0, ""};
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) run.output += part.data();
  const int status = ::pclose(pipe);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

TEST_CASE("the reporter prints one row for each tensor of a test case and its subcases") {
  const Run run = run_subject("subject of the reporter: passes");
  CHECK(run.status == 0);
  CHECK_MESSAGE(
      tests::contains(
          run.output,
          "numerics: subject of the reporter: passes\n"
          "tensor                   dtype   elements mismatches error/bound   max abs   max rel"
          "      rmse    cosine\n"
          "out                       bf16         16          0       0.500 "),
      run.output);
  CHECK_MESSAGE(tests::contains(run.output, "\nfirst/residual_out        bf16          8 "),
                run.output);
  CHECK_MESSAGE(tests::contains(run.output, "\nsecond/residual_out       bf16         16 "),
                run.output);
  CHECK_MESSAGE(tests::contains(run.output, "\nsecond/inner/partial      bf16          8 "),
                run.output);
  CHECK_FALSE(tests::contains(run.output, "MISMATCH"));
}

TEST_CASE("the reporter shows a mismatch, and the failure as the console does") {
  const Run run = run_subject("subject of the reporter: fails");
  CHECK(run.status == 1);
  CHECK_MESSAGE(tests::contains(run.output, "\nout: first [0]: got 2 (0x4000)"), run.output);
  CHECK_MESSAGE(tests::contains(run.output, "ERROR: CHECK"), run.output);
  CHECK_MESSAGE(tests::contains(run.output, "out: 1 of 8 elements mismatch"), run.output);
}

}  // namespace
}  // namespace ringfence::verify
