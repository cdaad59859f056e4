#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "emulator/schedule/failure.hpp"
#include "tests/trace/samples.hpp"

namespace ringfence::trace {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse("t.jsonl", text);
  } catch (const TraceError& e) {
    const std::string what = e.what();
    CHECK_MESSAGE(what.find('\n') == std::string::npos, "one line: ", what);
    return what;
  }
  return "no error";
}

std::string broken(const std::string& from, const std::string& to) {
  return error_of(replaced(to_text(sample()), from, to));
}

TEST_CASE("reading gives back everything that was written") {
  const Trace a = sample();
  const Trace b = parse("t.jsonl", to_text(a));
  CHECK(to_text(b) == to_text(a));
  CHECK(b.header.config.ranks() == 2);
  CHECK(b.header.config.set() == a.header.config.set());
  REQUIRE(b.header.config.protocol() != nullptr);
  CHECK(b.header.config.protocol()->input == "in.safetensors");
  CHECK(b.header.input_digest == a.header.input_digest);
  CHECK(b.header.policy.boundary == machine::Boundary::stream);
  CHECK(b.header.policy.alias_data == machine::AliasData::fence_required);
  CHECK(b.header.policy.multicast_flag == machine::MulticastFlag::cohere);
  CHECK(b.header.ignore == a.header.ignore);
  CHECK(b.header.seed == 0xffffffffffffffffu);
  CHECK(b.decisions == a.decisions);
  CHECK(b.header.faults == a.header.faults);
  CHECK(b.header.survive);
  REQUIRE(b.verdict.finding);
  CHECK(schedule::same_finding(*b.verdict.finding, *a.verdict.finding));
  CHECK(b.verdict.message == a.verdict.message);
  CHECK(b.verdict.stuck.size() == 1);
  CHECK(b.verdict.stuck[0].writer == "r0.b1");
  CHECK(b.verdict.digest == 0x00c0ffee00c0ffeeu);
}

// One line of a header, with this as its configuration.
std::string with_config(const std::string& config) {
  Trace t = sample();
  t.header.config = programs::Config{};
  const std::string text = to_text(t);
  const std::size_t begin = text.find("\"config\":") + 9;
  return text.substr(0, begin) + config + text.substr(text.find(",\"boundary\"", begin));
}

TEST_CASE("a trace of a case, and one of somebody's own program, are read as what they are") {
  const std::string of_case =
      R"({"case":"a.toml","case_digest":"00112233445566ff","ranks":2,"calls":3,"payload_seed":4,)"
      R"("summation":"exact","set":{"k.ptx:4/order":"weak"},"suppress":"[[ignore]]"})";
  const Trace a = parse("t.jsonl", with_config(of_case));
  REQUIRE(a.header.config.kernels() != nullptr);
  const CaseConfig& kernels = *a.header.config.kernels();
  CHECK(kernels.file == "a.toml");
  CHECK(kernels.digest == "00112233445566ff");
  CHECK(kernels.ranks == 2);
  CHECK(kernels.calls == 3);
  CHECK(kernels.payload_seed == 4);
  CHECK(kernels.summation == "exact");
  CHECK(kernels.set.at("k.ptx:4/order") == "weak");
  CHECK(kernels.suppress == "[[ignore]]");
  CHECK(a.header.config.name() == "case");
  CHECK(case_text(a.header.config) == "case a.toml, 2 ranks, 3 calls, k.ptx:4/order=weak");
  CHECK(to_text(a) == with_config(of_case));

  const std::string of_own =
      R"({"program":"lock","ranks":2,"calls":1,"payload_seed":1,"summation":"rank-order"})";
  const Trace b = parse("t.jsonl", with_config(of_own));
  REQUIRE(b.header.config.own() != nullptr);
  CHECK(b.header.config.own()->name == "lock");
  CHECK(b.header.config.ranks() == 2);
  CHECK(case_text(b.header.config) == "lock, 2 ranks");
  CHECK(to_text(b) == with_config(of_own));

  // What is another program, and what the same with other settings.
  CHECK_FALSE(a.header.config.is_of(b.header.config));
  CHECK_FALSE(b.header.config.is_of(Configuration(programs::Config{})));
  CaseConfig moved = kernels;
  moved.file = "elsewhere/a.toml";
  moved.calls = 1;
  CHECK(a.header.config.is_of(moved));
  moved.digest = "ff00112233445566";
  CHECK_FALSE(a.header.config.is_of(moved));
}

TEST_CASE("a clean run's trace has no finding") {
  Trace t = sample();
  t.verdict = {};
  programs::Config without_input = *t.header.config.protocol();
  without_input.input.clear();
  t.header.config = without_input;
  const Trace b = parse("t.jsonl", to_text(t));
  CHECK_FALSE(b.verdict.finding);
  CHECK(b.verdict.end == schedule::RunEnd::complete);
  CHECK(b.header.config.protocol()->input.empty());
}

TEST_CASE("text that is no trace is refused with the line and what would be right") {
  CHECK(error_of("") == "t.jsonl:1: the file is empty; a trace has at least two lines");
  CHECK(error_of("{]\n") == "t.jsonl:1: not JSON at byte 2 of the line; each line is one object");
  CHECK(error_of("[]\n") == "t.jsonl:1: expected an object here, not array");
  CHECK(error_of("{}\n") ==
        "t.jsonl:1: not a trace: expected an object with the key 'ringfence-trace' in the first "
        "line");
  CHECK(error_of("{\"ringfence-gpu-trace\":1}\n").find("which cannot be replayed") !=
        std::string::npos);
  CHECK(error_of("\n").find("t.jsonl:1: not JSON") == 0);
  CHECK(error_of(std::string("{\"a\":\"\xff\"}\n")).find("not JSON") != std::string::npos);
}

TEST_CASE("a trace of another version is refused before anything else in it is looked at") {
  CHECK(error_of("{\"ringfence-trace\":2,\"news\":1}\n") ==
        "t.jsonl:1: trace version 2; this ringfence reads version 1");
}

std::ptrdiff_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST_CASE("every truncation of a trace is refused") {
  const std::string whole = to_text(sample());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CHECK_THROWS_AS(parse("t.jsonl", whole.substr(0, n)), TraceError);
  }
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  const std::string before = std::to_string(lines(whole) - 1);
  CHECK(error_of(whole.substr(0, last)) ==
        "t.jsonl:" + before + ": the last line is not a verdict; the file is truncated");
  CHECK(error_of(whole.substr(0, last - 1)) ==
        "t.jsonl:" + before + ": the line does not end; the file is truncated");
}

TEST_CASE("nothing may follow the verdict") {
  const std::string whole = to_text(sample());
  CHECK(error_of(whole + "{}\n") ==
        "t.jsonl:" + std::to_string(lines(whole) + 1) + ": nothing may follow the verdict");
}

TEST_CASE("unknown keys are named, wherever they are") {
  CHECK(broken("\"seed\":", "\"speed\":1,\"seed\":") ==
        "t.jsonl:1: unknown key 'speed' (this ringfence reads trace version 1)");
  CHECK(
      broken("\"ranks\":", "\"rankz\":1,\"ranks\":").find("t.jsonl:1: in 'config': unknown key") ==
      0);
  CHECK(broken("\"alias-data\":", "\"x\":1,\"alias-data\":").find("in 'policy': unknown key 'x'") !=
        std::string::npos);
  CHECK(broken("\"pick\":", "\"why\":1,\"pick\":").find("t.jsonl:2: unknown key 'why'") == 0);
  CHECK(broken("\"needs\":", "\"x\":1,\"needs\":").find("t.jsonl:15: in 'stuck': unknown key") ==
        0);
  CHECK(broken("\"access\":", "\"x\":1,\"access\":").find("t.jsonl:15: in 'first': unknown key") ==
        0);
  CHECK(broken("\"message\":", "\"x\":1,\"message\":").find("t.jsonl:15: unknown key") == 0);
}

TEST_CASE("missing keys, keys given twice and wrong types are named") {
  CHECK(broken("\"seed\":18446744073709551615,", "") ==
        "t.jsonl:1: key 'seed' is missing (a number)");
  CHECK(broken("\"ranks\":2", "\"ranks\":2,\"ranks\":3") ==
        "t.jsonl:1: key 'ranks' is given twice");
  CHECK(broken("\"ranks\":2", "\"ranks\":\"2\"") ==
        "t.jsonl:1: in 'config': 'ranks' is a whole number from 0 to 4294967295, not string");
  CHECK(broken("\"ranks\":2", "\"ranks\":-2").find("not -2") != std::string::npos);
  CHECK(broken("\"ranks\":2", "\"ranks\":4294967296").find("not 4294967296") != std::string::npos);
  CHECK(broken("\"ranks\":2", "\"ranks\":2.5").find("not 2.5") != std::string::npos);
  CHECK(broken("\"ranks\":2", "\"ranks\":0") ==
        "t.jsonl:1: in 'config': 'ranks' is at least 1, not 0");
  CHECK(broken("\"eps\":1e-06", "\"eps\":\"small\"").find("'eps' is a number") !=
        std::string::npos);
  CHECK(broken("\"protocol\":\"tokenweave\"", "\"protocol\":7").find("'protocol' is a string") !=
        std::string::npos);
  CHECK(broken("\"set\":{\"end.put\":\"relaxed\"", "\"set\":{\"end.put\":1")
            .find("in 'config': in 'set': 'end.put' is a string, not number") != std::string::npos);
  CHECK(broken("\"ignore\":[\"lost-signal\"]", "\"ignore\":{}").find("'ignore' is an array") !=
        std::string::npos);
  CHECK(
      broken("\"ignore\":[\"lost-signal\"]", "\"ignore\":[\"bad-luck\"]").find("'ignore' lists") !=
      std::string::npos);
}

TEST_CASE("words of the format are checked against their lists") {
  CHECK(broken("\"boundary\":\"stream\"", "\"boundary\":\"streams\"") ==
        "t.jsonl:1: 'boundary' is strict, stream or coherent, not 'streams'");
  CHECK(broken("\"kind\":\"data-race\"", "\"kind\":\"data race\"").find("not 'data race'") !=
        std::string::npos);
  CHECK(broken("\"verdict\":\"finding\"", "\"verdict\":\"bad\"").find("pass, finding or unknown") !=
        std::string::npos);
  const std::string odd =
      broken("\"boundary\":\"stream\"", "\"boundary\":\"" + std::string(90, 'x') + "\\n\"");
  CHECK(odd.find(std::string(40, 'x') + "...'") != std::string::npos);
}

TEST_CASE("agents that cannot be of the configuration are refused") {
  CHECK(broken("{\"agent\":\"r1.c0.b2.t3\"", "{\"agent\":\"rank one\"") ==
        "t.jsonl:2: unknown agent 'rank one'; agents are named like r1.c0.b2.t3 or r1.host");
  CHECK(broken("{\"agent\":\"r1.c0.b2.t3\"", "{\"agent\":\"r2.c0.b2.t3\"") ==
        "t.jsonl:2: agent 'r2.c0.b2.t3' is of rank 2, but the configuration has ranks 0 to 1");
  CHECK(broken("\"pick\":\"r0.host\"", "\"pick\":\"r9.host\"").find("is of rank 9") !=
        std::string::npos);
}

TEST_CASE("a number that no double holds is refused") {
  CHECK(broken("\"eps\":1e-06", "\"eps\":1e999") ==
        "t.jsonl:1: a number is beyond what a double holds");
}

TEST_CASE("a decision has exactly one kind") {
  CHECK(broken("\"pick\":\"r0.host\"", "\"pick\":\"r0.host\",\"read\":1") ==
        "t.jsonl:2: a decision: expected exactly one of the keys pick, read, coherence, miss, sum, "
        "split, timeout, looks, behind, overlap, fault, late or dirty");
  CHECK(broken(",\"pick\":\"r0.host\"", "").find("exactly one") != std::string::npos);
}

TEST_CASE("digests are 16 hexadecimal digits") {
  CHECK(broken("\"digest\":\"00c0ffee00c0ffee\"", "\"digest\":\"c0ffee\"") ==
        "t.jsonl:15: 'digest' is 16 hexadecimal digits, not 'c0ffee'");
  CHECK(broken("\"input_digest\":\"00112233445566ff\"", "\"input_digest\":\"00112233445566FG\"")
            .find("hexadecimal") != std::string::npos);
}

TEST_CASE("a file that cannot be read is named with the reason") {
  CHECK_THROWS_WITH_AS(read_file("/nonexistent/t.jsonl"),
                       "/nonexistent/t.jsonl: cannot read: No such file or directory", TraceError);
}

TEST_CASE("the fuzzer's corpus is read or refused, never worse") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/trace")) {
    ++files;
    try {
      read_file(entry.path().string());
    } catch (const TraceError&) {
    }
  }
  CHECK(files > 10);
}

}  // namespace
}  // namespace ringfence::trace
