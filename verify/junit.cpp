#include "verify/junit.hpp"

#include <fmt/core.h>

#include "verify/report.hpp"

namespace ringfence::verify {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Length of the UTF-8 sequence at text[i], 0 where there is none that XML allows.
std::size_t sequence_length(const std::string& text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) return 0;
  std::uint32_t code = lead & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i + k) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool forbidden = (code >= 0xd800 && code <= 0xdfff) || code == 0xfffe || code == 0xffff;
  return overlong || forbidden || code > 0x10ffff ? 0 : length;
}

// Text for an attribute or an element. In an attribute a line break must be a reference, or a
// reader makes it a space.
std::string escaped(const std::string& text, bool attribute) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = sequence_length(text, i);
    if (length != 1) {
      result += length == 0 ? kReplacement : text.substr(i, length);
      i += length == 0 ? 1 : length;
      continue;
    }
    ++i;
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\n' || c == '\t' || c == '\r') {
      result +=
          attribute || c == '\r' ? fmt::format("&#{};", static_cast<int>(c)) : std::string(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += kReplacement;
    } else {
      result += c;
    }
  }
  return result;
}

std::string attribute(const char* name, const std::string& value) {
  return fmt::format(" {}=\"{}\"", name, escaped(value, true));
}

std::string case_xml(const JunitCase& test) {
  std::string xml = "    <testcase" + attribute("classname", test.classname) +
                    attribute("name", test.name) + fmt::format(" time=\"{:.3f}\"", test.seconds);
  using Status = JunitCase::Status;
  if (test.status == Status::passed && test.detail.empty()) return xml + "/>\n";
  xml += ">\n";
  const char* element = test.status == Status::failed    ? "failure"
                        : test.status == Status::error   ? "error"
                        : test.status == Status::skipped ? "skipped"
                                                         : nullptr;
  if (element != nullptr) {
    xml += fmt::format("      <{}{}>{}</{}>\n", element, attribute("message", test.message),
                       escaped(test.detail, false), element);
  } else {
    xml += fmt::format("      <system-out>{}</system-out>\n", escaped(test.detail, false));
  }
  return xml + "    </testcase>\n";
}

struct Totals {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;

  void add(const JunitSuite& suite) {
    for (const JunitCase& test : suite.cases) {
      ++tests;
      failures += test.status == JunitCase::Status::failed;
      errors += test.status == JunitCase::Status::error;
      skipped += test.status == JunitCase::Status::skipped;
      seconds += test.seconds;
    }
  }
  std::string text() const {
    return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"",
                       tests, failures, errors, skipped, seconds);
  }
};

}  // namespace

JunitSuite junit_suite(std::string name, const std::vector<Comparison>& comparisons) {
  JunitSuite suite;
  for (const Comparison& c : comparisons) {
    JunitCase test;
    test.classname = name;
    test.name = c.name;
    if (!c.passed()) {
      test.status = JunitCase::Status::failed;
      test.message =
          fmt::format("{} of {} elements mismatch, {}", c.mismatches, c.elements, mismatch_text(c));
    }
    test.detail = comparison_header() + "\n" + comparison_line(c);
    suite.cases.push_back(std::move(test));
  }
  suite.name = std::move(name);
  return suite;
}

std::string junit_xml(const std::vector<JunitSuite>& suites) {
  Totals all;
  for (const JunitSuite& suite : suites) all.add(suite);
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml += fmt::format("<testsuites name=\"ringfence\"{}>\n", all.text());
  for (const JunitSuite& suite : suites) {
    Totals totals;
    totals.add(suite);
    xml += "  <testsuite" + attribute("name", suite.name) + totals.text() + ">\n";
    if (!suite.properties.empty()) {
      xml += "    <properties>\n";
      for (const auto& [key, value] : suite.properties) {
        xml += "      <property" + attribute("name", key) + attribute("value", value) + "/>\n";
      }
      xml += "    </properties>\n";
    }
    for (const JunitCase& test : suite.cases) xml += case_xml(test);
    xml += "  </testsuite>\n";
  }
  return xml + "</testsuites>\n";
}

}  // namespace ringfence::verify
