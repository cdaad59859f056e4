#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

TEST_CASE("--version names version and toolchain, --help the subcommands that exist and no other") {
  const Folder f;
  const Result version = ringfence(f, "--version");
  CHECK(version.status == 0);
  CHECK(version.out.rfind("ringfence 0.", 0) == 0);
  CHECK(lines(version.out) == 2);
  const Result help = ringfence(f, "--help");
  CHECK(help.status == 0);
  const std::set<std::string> expected{"check", "diff",   "exec",   "nvcc",     "fuzz",
                                       "gpu",   "help",   "litmus", "merge",    "ptx",
                                       "relax", "replay", "run",    "simulate", "switches"};
  std::set<std::string> listed;
  std::istringstream in(help.out.substr(help.out.find("Subcommands:")));
  std::string line, word;
  std::getline(in, line);
  while (std::getline(in, line)) {
    if (std::istringstream(line) >> word) listed.insert(word);
  }
  CHECK(listed == expected);
}

TEST_CASE("the switches that are listed of a protocol are those that --set takes") {
  const Folder f;
  const Result protocols = ringfence(f, "switches");
  CHECK(protocols.status == 0);
  for (const std::string protocol : {"tokenweave", "put-notify"}) {
    CHECK(("\n" + protocols.out).find("\n" + protocol + " ") != std::string::npos);
    const Result listed = ringfence(f, "switches " + protocol);
    CHECK(listed.status == 0);
    std::istringstream in(listed.out.substr(listed.out.find("default")));
    std::string line, key;
    std::getline(in, line);
    int keys = 0;
    while (std::getline(in, line) && std::istringstream(line) >> key) {
      // None takes this value; a key that is not there is refused by its name.
      const Result r =
          ringfence(f, "run --protocol " + protocol + " --set " + key + "=no-such-value");
      CHECK(r.status == 2);
      CHECK_MESSAGE(r.err.find("no-such-value: expected ") != std::string::npos, r.err);
      ++keys;
    }
    CHECK(keys >= 7);
  }
  const Result none = ringfence(f, "switches nothing");
  CHECK(none.status == 2);
  CHECK(none.err.find("expected one of tokenweave, pypto") != std::string::npos);
}

TEST_CASE("both protocols compute the reference's numbers over rank processes") {
  const Folder f;
  for (const std::string protocol : {"tokenweave", "pypto"}) {
    for (const std::string ranks : {"1", "2", "4", "8"}) {
      CAPTURE(protocol);
      CAPTURE(ranks);
      const Result r = ringfence(f, "run --protocol " + protocol + " --ranks " + ranks +
                                        " --tokens 16 --hidden 64 --inner 64 --blocks 2 --calls 2 "
                                        "--json r.json --junit r.xml");
      CHECK_MESSAGE(r.status == 0, r.out, r.err);
      const auto j = json_of(f / "r.json");
      CHECK(j["command"] == "run");
      CHECK(j["verdict"] == "pass");
      CHECK(j["version"] == 1);
      CHECK(j["replicas_agree"] == true);
      CHECK(j["configuration"]["ranks"] == std::stoi(ranks));
      CHECK(j["tensors"].size() == 6);  // partial, out, residual_out of each call
      for (const auto& t : j["tensors"]) {
        CHECK(t["mismatches"] == 0);
        CHECK(t["elements"] > 0);
        for (const char* key : {"name", "max_error_over_bound", "max_ulp"}) CHECK(t.contains(key));
      }
      CHECK(content(f / "r.xml").find("<testsuite") != std::string::npos);
      CHECK(r.out.find('\x1b') == std::string::npos);
    }
  }
}

TEST_CASE("fp16 and rounding inputs pass within their bounds") {
  const Folder f;
  CHECK(ringfence(f, "run --dtype fp16 --payload normal").status == 0);
  CHECK(ringfence(f, "run --payload normal --policy summation=each-step").status == 0);
  CHECK(ringfence(f, "run --protocol pypto --payload normal --tokens 20 --hidden 40").status == 0);
}

TEST_CASE("more blocks than rows are legal: idle blocks do both barriers") {
  const Folder f;
  CHECK(ringfence(f, "run --ranks 4 --tokens 4 --blocks 6").status == 0);
}

TEST_CASE("a broken operator's run ends with 1 and names what it found") {
  const Folder f;
  const Result r = ringfence(f, "run --set slot=wrong --executor inline --json r.json");
  CHECK(r.status == 1);
  CHECK(r.out.find("deadlock") != std::string::npos);
  CHECK(json_of(f / "r.json")["kind"] == "deadlock");
  CHECK(json_of(f / "r.json")["verdict"] == "finding");
}

TEST_CASE("real inputs pass at every layer with 2, 4 and 8 ranks") {
  const Folder f;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/inputs")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    const std::string input = std::filesystem::absolute(entry.path()).lexically_normal().string();
    for (const std::string protocol : {"tokenweave", "pypto"}) {
      for (const std::string ranks : {"2", "4", "8"}) {
        CAPTURE(input);
        CAPTURE(protocol);
        CAPTURE(ranks);
        const Result r =
            ringfence(f, "run --protocol " + protocol + " --ranks " + ranks + " --input " + input);
        CHECK_MESSAGE(r.status == 0, r.out, r.err);
      }
    }
  }
  CHECK(files == 5);
}

}  // namespace
}  // namespace ringfence::cli
