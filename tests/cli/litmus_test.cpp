// litmus: what it prints, what it compares with, and how a batch of files ends.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

const std::string kCorpus = std::filesystem::absolute("tests/litmus/corpus").string();

using Json = nlohmann::json;

TEST_CASE("litmus prints herd7's block and compares with the expectation file") {
  const Folder f;
  const Result r = ringfence(f, "litmus " + kCorpus + "/MP+rel.sys+acq.sys.litmus " + kCorpus +
                                    "/SB+relaxed.litmus --expect " + kCorpus +
                                    "/expected.txt --json r.json --junit r.xml");
  CHECK_MESSAGE(r.status == 0, r.out, r.err);
  CHECK(r.out.find("Test MP+rel.sys+acq.sys Forbidden\n") != std::string::npos);
  CHECK(r.out.find("Observation MP+rel.sys+acq.sys Never 0 ") != std::string::npos);
  CHECK(r.out.find("Observation SB+relaxed Sometimes ") != std::string::npos);
  const auto j = json_of(f / "r.json");
  CHECK(j["verdict"] == "pass");
  CHECK(j["tests"].size() == 2);
  CHECK(j["tests"][0]["observation"] == "Never");
  CHECK(j["tests"][0]["race"] == true);
}

TEST_CASE("litmus shows load buffering, and says so where it is switched off") {
  const Folder f;
  const std::string test = "litmus " + kCorpus + "/LB+relaxed.litmus --json r.json";
  const Result on = ringfence(f, test);
  CHECK_MESSAGE(on.status == 0, on.out, on.err);
  CHECK(on.out.find("Observation LB+relaxed Sometimes 1 ") != std::string::npos);
  CHECK(on.out.find("of these 1 out of order") != std::string::npos);
  CHECK(json_of(f / "r.json")["tests"][0]["out_of_order"] == 1);
  CHECK(json_of(f / "r.json")["tests"][0]["load_buffering"] == true);
  const Result off = ringfence(f, test + " --policy load-buffering=off");
  CHECK(off.status == 1);
  CHECK(off.out.find("Observation LB+relaxed Never 0 ") != std::string::npos);
  CHECK(off.out.find("except load buffering") != std::string::npos);
  CHECK(json_of(f / "r.json")["tests"][0]["load_buffering"] == false);
  // In mode coherent order of execution is what the mode is about.
  const Result coherent = ringfence(f, test + " --boundary coherent");
  CHECK(coherent.out.find("except load buffering") != std::string::npos);
  const Result wrong = ringfence(f, test + " --policy load-buffering=maybe");
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("off or on") != std::string::npos);
}

TEST_CASE("a bound leaves a litmus test undecided, with status 3, and is named") {
  const Folder f;
  const std::string test = "litmus " + kCorpus + "/LB+relaxed.litmus";
  for (const std::string bound : {" --executions 1", " --time 0.000001"}) {
    const Result r = ringfence(f, test + bound);
    CHECK(r.status == 3);
    CHECK(r.out.find("1 undecided") != std::string::npos);
    CHECK(r.out.find("; a limit ended the search, so there may be more") != std::string::npos);
  }
  const Result whole = ringfence(f, test);
  CHECK(whole.status == 0);
  CHECK(whole.out.find("a limit ended the search") == std::string::npos);
}

TEST_CASE("where accesses of different sizes are not followed litmus says so, and of no limit") {
  const Folder f;
  const auto sizes = [&](const std::string& size) {
    std::ofstream(f / "s.litmus")
        << "PTX s\n{\nb32 buf[2]={0,0}; y=0;\n}\n P0@cta 0,gpu 0             | P1@cta 0,gpu 1 ;\n"
           " ld.relaxed.sys." +
               size +
               " r0, buf | ld.relaxed.sys r0, y ;\n"
               " st.relaxed.sys y, 1        | st.relaxed.sys.b32 buf[1], 1 ;\nexists\n(P1:r0=2)\n";
    return ringfence(f, "litmus s.litmus --json r.json");
  };
  const Result r = sizes("b64");
  CHECK(r.status == 3);
  CHECK(r.out.find("a limit ended the search") == std::string::npos);
  CHECK(r.out.find("Not explored: ") != std::string::npos);
  CHECK(r.out.find("its place was accessed in other sizes since; there may be more") !=
        std::string::npos);
  const Json one = json_of(f / "r.json")["tests"][0];
  CHECK(one["whole"] == false);
  CHECK(one["load_buffering"] == false);
  CHECK(one["left_out"].size() == 1);
  const Result same = sizes("b32");
  CHECK(same.status == 1);
  CHECK(same.out.find("Not explored") == std::string::npos);
  CHECK(json_of(f / "r.json")["tests"][0]["whole"] == true);
}

TEST_CASE("litmus says of each asynchronous test that it excepts load buffering") {
  const Folder f;
  const Result r =
      ringfence(f, "litmus " + std::filesystem::absolute("tests/litmus/asynchronous").string() +
                       " --json r.json");
  const Json tests = json_of(f / "r.json")["tests"];
  REQUIRE(tests.size() >= 20);
  std::size_t said = 0;
  for (std::size_t at = 0; (at = r.out.find(", except load buffering", at)) != std::string::npos;
       ++at) {
    ++said;
  }
  CHECK(said == tests.size());
  for (const Json& one : tests) CHECK(one["load_buffering"] == false);
}

TEST_CASE("a litmus test that is not as expected is a mismatch") {
  const Folder f;
  std::ofstream(f / "expected.txt") << "SB+relaxed Never\n";
  const Result r = ringfence(f, "litmus " + kCorpus + "/SB+relaxed.litmus --expect expected.txt");
  CHECK(r.status == 1);
  CHECK(r.out.find("DIFFERS") != std::string::npos);
}

TEST_CASE("a litmus file that cannot be read is bad input: file, line, column, what was expected") {
  const Folder f;
  std::ofstream(f / "bad.litmus") << "PTX bad\n{\nx=0;\n}\n P0@cta 0,gpu 0 ;\n ld.strange r0, x ;\n"
                                     "exists (P0:r0 == 1)\n";
  const Result r = ringfence(f, "litmus bad.litmus");
  CHECK(r.status == 2);
  CHECK(lines(r.err) == 1);
  CHECK(r.err.find("bad.litmus:6:") != std::string::npos);
  const Result none = ringfence(f, "litmus missing.litmus");
  CHECK(none.status == 2);
}

const std::string kHang =
    "PTX lost\n{ x=0; }\n P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n L0: | st.relaxed.sys x, 1 ;\n"
    " ld.relaxed.sys r0, x | st.relaxed.sys x, 2 ;\n bne r0, 1, L0 | ;\n";

TEST_CASE("a hang is a verdict of its own: who, where, and what was expected of it") {
  const Folder f;
  std::ofstream(f / "lost.litmus") << kHang << "forall (P0:r0 == 1)\n";
  const Result r = ringfence(f, "litmus lost.litmus --json r.json");
  CHECK(r.status == 1);
  CHECK(r.out.find("Hang a thread never ends: P0 at line 5 (ld.relaxed.sys r0, x)") !=
        std::string::npos);
  const Json hangs = json_of(f / "r.json")["tests"][0]["hangs"];
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0]["threads"] == Json::array({{{"thread", 0}, {"line", 5}}}));
  CHECK(ringfence(f, "litmus lost.litmus --expect hang").status == 0);
  CHECK(ringfence(f, "litmus lost.litmus --expect no-hang").status == 1);
  CHECK(ringfence(f, "litmus lost.litmus --ask termination").status == 1);
  std::ofstream(f / "e.txt") << "lost Always hang\n";
  CHECK(ringfence(f, "litmus lost.litmus --expect e.txt").status == 0);
  std::ofstream(f / "e.txt") << "lost.litmus,0\n";
  CHECK(ringfence(f, "litmus lost.litmus --expect e.txt").status == 0);
  CHECK(ringfence(f, "litmus lost.litmus --ask termination --expect e.txt").status == 0);
  std::ofstream(f / "e.txt") << "lost.litmus,1\n";
  CHECK(ringfence(f, "litmus lost.litmus --expect e.txt").status == 1);
  const Result none = ringfence(f, "litmus lost.litmus --expect hangs");
  CHECK(none.status == 2);
  CHECK(none.err.find("--expect hangs: expected the file of expectations, hang or no-hang") !=
        std::string::npos);
}

TEST_CASE("files that cannot be judged end a batch with 2, after the others were judged") {
  const Folder f;
  std::ofstream(f / "bad.litmus") << "PTX bad\n{ x=0; }\n P0@cta 0,gpu 0 ;\n ld.strange r0, x ;\n"
                                     "exists (x == 1)\n";
  std::ofstream(f / "wild.litmus") << "PTX wild\n{ x=0; P0:r1=4096; }\n P0@cta 0,gpu 0 ;\n"
                                      " st.weak [r1], 1 ;\nexists (x == 1)\n";
  std::ofstream(f / "good.litmus") << "PTX good\n{ }\n P0@cta 0,gpu 0 ;\n st.weak x, 1 ;\n"
                                      "exists (x == 1)\n";
  const Result r =
      ringfence(f, "litmus bad.litmus wild.litmus missing.litmus good.litmus --json r.json");
  CHECK(r.status == 2);
  CHECK(lines(r.err) == 3);
  CHECK(r.err.find("bad.litmus:4:") != std::string::npos);
  CHECK(r.err.find("wild.litmus:4:2: P0:r1 holds 4096, where no location is") != std::string::npos);
  CHECK(r.err.find("missing.litmus") != std::string::npos);
  CHECK(r.out.find("Observation good Always 1 0") != std::string::npos);
  CHECK(r.out.find("Undeclared, so 0 at first: x\n") != std::string::npos);
  CHECK(r.out.find("1 tests: 1 Ok, 0 not, 0 undecided; 3 could not be judged") !=
        std::string::npos);
  const Json tests = json_of(f / "r.json")["tests"];
  REQUIRE(tests.size() == 4);
  CHECK(tests[1]["verdict"] == "error");
  CHECK(tests[3]["verdict"] == "pass");
}

TEST_CASE("of a folder all tests are judged, by name; one without any is bad input") {
  const Folder f;
  const std::string body = "{ }\n P0@cta 0,gpu 0 ;\n st.weak x, 1 ;\nexists (x == 1)\n";
  for (const char* name : {"suite/b", "suite/a/two", "suite/a/one"}) {
    std::filesystem::create_directories((f / name).substr(0, (f / name).rfind('/')));
    std::ofstream(f / (std::string(name) + ".litmus")) << "PTX " << name << "\n" << body;
  }
  std::ofstream(f / "suite/notes.txt") << "no test";
  std::filesystem::create_directories(f / "none");
  const Result r = ringfence(f, "litmus suite --json r.json");
  CHECK(r.status == 0);
  CHECK(r.out.find("3 tests: 3 Ok") != std::string::npos);
  CHECK(json_of(f / "r.json")["tests"][0]["file"] == "suite/a/one.litmus");
  const Result none = ringfence(f, "litmus none");
  CHECK(none.status == 2);
  CHECK(none.err ==
        "ringfence: none: a folder without *.litmus and *.test files; expected a test\n");
  CHECK(ringfence(f, "litmus suite --expect suite").status == 2);
}

TEST_CASE(
    "the policies that a verdict holds for are printed, and are the manual's letter at first") {
  const Folder f;
  std::ofstream(f / "a.litmus") << "PTX a\n{ x=0; y @ generic aliases x; }\n P0@cta 0,gpu 0 ;\n"
                                   " st.weak x, 1 ;\n ld.weak r0, y ;\nexists (P0:r0 == 0)\n";
  const Result letter = ringfence(f, "litmus a.litmus");
  CHECK(letter.status == 0);
  CHECK(letter.out.find("Policy alias-data=fence-required, boundary=strict, load-buffering=on, "
                        "multicast-flag=strict\n") != std::string::npos);
  const Result cohere = ringfence(f, "litmus a.litmus --policy alias-data=cohere");
  CHECK(cohere.status == 1);
  CHECK(cohere.out.find("Policy alias-data=cohere") != std::string::npos);
}

TEST_CASE(
    "a witness decides whatever the bound; without one, the bound and what it left are named") {
  const Folder f;
  const std::string loop =
      "PTX a\n{ x=0; P0:r1=0; }\n P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n L0: | st.relaxed.sys x, 1 ;\n"
      " add r1, r1, 1 | ;\n ld.relaxed.sys r0, x | ;\n bne r0, 1, L0 | ;\n";
  std::ofstream(f / "w.litmus") << loop << "exists (P0:r1 == 2)\n";
  std::ofstream(f / "n.litmus") << loop << "exists (P0:r1 == 7)\n";
  CHECK(ringfence(f, "litmus w.litmus").status == 0);
  const Result r = ringfence(f, "litmus n.litmus");
  CHECK(r.status == 3);
  CHECK(r.out.find("Left after --bound 3 turns: P0 at line 7") != std::string::npos);
  CHECK(ringfence(f, "litmus n.litmus --bound 7").status == 0);
}

}  // namespace
}  // namespace ringfence::cli
