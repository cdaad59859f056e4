// A finding's trace as one word, and how short it is told.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

// The word behind "ringfence replay " in the line that begins with "or:".
std::string token_in(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("or:")) return line.substr(line.rfind(' ') + 1);
  }
  return "";
}

// The paragraph of steps.
std::size_t lines_of_steps(const std::string& text) {
  const std::size_t begin = text.find("The steps that matter");
  REQUIRE(begin != std::string::npos);
  return lines(text.substr(begin, text.find("\n\n", begin) + 1 - begin));
}

const std::string kFour = " --ranks 4 --blocks 1 --tokens 4 --hidden 8 --inner 8 --no-remedies";

TEST_CASE("a relaxed CAS barrier of four ranks is told in twelve lines and replayed by one word") {
  for (const std::string set :
       {"--set end.put=relaxed", "--set end.put=relaxed --set end.wait=relaxed",
        "--set start=none"}) {
    const Folder f;
    const Result r = ringfence(
        f, "check" + kFour + " --boundary coherent --no-shrink " + set + " --trace t.jsonl");
    CHECK_MESSAGE(r.status == 1, r.out, r.err);
    CHECK(r.out.find("4 ranks") != std::string::npos);
    CHECK(lines_of_steps(r.out) <= 12);
    const std::string token = token_in(r.out);
    REQUIRE_MESSAGE(token.starts_with("rf1,tokenweave,"), r.out);
    // In another folder, without the file.
    const Folder elsewhere;
    const Result again = ringfence(elsewhere, "replay " + token + " --no-remedies");
    CHECK_MESSAGE(again.status == 1, again.out, again.err);
    CHECK(again.out.find("the recorded run, bit for bit") != std::string::npos);
  }
}

TEST_CASE("a word holds choices, and a changed one is a divergence") {
  const Folder f;
  const Result r = ringfence(f,
                             "check --protocol mod3-flag --set modulus=2 --ranks 2 --blocks 1 "
                             "--tokens 2 --hidden 8 --inner 4 --boundary strict --no-remedies");
  REQUIRE(r.status == 1);
  std::string token = token_in(r.out);
  REQUIRE(token.find(",do:") != std::string::npos);
  CHECK(ringfence(f, "replay " + token + " --no-remedies").status == 1);
  const std::size_t digest = token.find("digest=") + 7;
  token[digest] = token[digest] == '0' ? '1' : '0';
  const Result other = ringfence(f, "replay " + token + " --no-remedies");
  CHECK(other.status == 5);
  CHECK(other.out.find("DIVERGED") != std::string::npos);
}

TEST_CASE("a word of a compiled kernel finds its case") {
  const Folder f;
  const std::string path = std::filesystem::absolute("tests/zoo/scope-fault.toml").string();
  const Result r =
      ringfence(f, "check --case " + path + " --boundary coherent --no-remedies --trace t.jsonl");
  REQUIRE(r.status == 1);
  CHECK(ringfence(f, "replay " + token_in(r.out) + " --no-remedies").status == 1);
}

TEST_CASE("a word that is no trace is bad input, in one line that says what was expected") {
  const Folder f;
  for (const std::string token :
       {"rf1,", "rf1,tokenweave", "rf1,tokenweave,boundary=coherent,end=complete,digest=12",
        "rf1,tokenweave,ranks=x,boundary=coherent,end=complete,digest=0011223344556677",
        "rf1,tokenweave,sideways=1,boundary=coherent,end=complete,digest=0011223344556677",
        "rf1,tokenweave,boundary=%4,end=complete,digest=0011223344556677",
        "rf1,tokenweave,boundary=coherent,end=complete,digest=0011223344556677,do:r0.c0",
        "rf1,case,boundary=coherent,end=complete,digest=0011223344556677"}) {
    CAPTURE(token);
    const Result r = ringfence(f, "replay " + token);
    CHECK(r.status == 2);
    CHECK(lines(r.err) == 1);
  }
}

}  // namespace
}  // namespace ringfence::cli
