#include <doctest/doctest.h>

#include "verify/junit.hpp"

namespace ringfence::verify {
namespace {

TEST_CASE("a document counts its cases by status and says why each did not pass") {
  JunitSuite suite;
  suite.name = "fuzz";
  suite.properties = {{"seed", "7"}};
  using Status = JunitCase::Status;
  suite.cases = {{"fuzz", "strict", Status::passed, 0.25, "", ""},
                 {"fuzz", "stream", Status::failed, 1, "data race", "line 1\nline 2"},
                 {"fuzz", "coherent", Status::error, 0, "rank 2 died", ""},
                 {"gpu", "run", Status::skipped, 0, "no GPU", ""}};
  CHECK(junit_xml({suite}) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"ringfence\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" "
        "time=\"1.250\">\n"
        "  <testsuite name=\"fuzz\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" "
        "time=\"1.250\">\n"
        "    <properties>\n"
        "      <property name=\"seed\" value=\"7\"/>\n"
        "    </properties>\n"
        "    <testcase classname=\"fuzz\" name=\"strict\" time=\"0.250\"/>\n"
        "    <testcase classname=\"fuzz\" name=\"stream\" time=\"1.000\">\n"
        "      <failure message=\"data race\">line 1\nline 2</failure>\n"
        "    </testcase>\n"
        "    <testcase classname=\"fuzz\" name=\"coherent\" time=\"0.000\">\n"
        "      <error message=\"rank 2 died\"></error>\n"
        "    </testcase>\n"
        "    <testcase classname=\"gpu\" name=\"run\" time=\"0.000\">\n"
        "      <skipped message=\"no GPU\"></skipped>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        "</testsuites>\n");
}

TEST_CASE("text is escaped, and what XML forbids is replaced") {
  JunitSuite suite;
  suite.name = "a<b>&\"c\"";
  JunitCase test;
  test.name = "two\nlines\x01\xff\xc3\xa9";
  test.detail = "<&>\n\x0b";
  suite.cases = {test};
  const std::string xml = junit_xml({suite});
  CHECK(xml.find("name=\"a&lt;b&gt;&amp;&quot;c&quot;\"") != std::string::npos);
  CHECK(xml.find("name=\"two&#10;lines\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9\"") != std::string::npos);
  CHECK(xml.find("<system-out>&lt;&amp;&gt;\n\xef\xbf\xbd</system-out>") != std::string::npos);
}

TEST_CASE("a comparison becomes a case, and a mismatch a failure with the first element") {
  Comparison c;
  c.name = "out";
  c.shape = {2, 8};
  c.elements = 16;
  Comparison bad = c;
  bad.mismatches = 2;
  bad.has_mismatch = true;
  bad.first = {9, 1.5, 1.25, 0.01, 0x3fc0, 0x3fa0};
  const JunitSuite suite = junit_suite("run", {c, bad});
  REQUIRE(suite.cases.size() == 2);
  CHECK(suite.cases[0].status == JunitCase::Status::passed);
  CHECK(suite.cases[1].status == JunitCase::Status::failed);
  CHECK(suite.cases[1].message ==
        "2 of 16 elements mismatch, first [1, 1]: got 1.25 (0x3fa0), expected 1.5 (0x3fc0), bound "
        "0.01");
}

}  // namespace
}  // namespace ringfence::verify
