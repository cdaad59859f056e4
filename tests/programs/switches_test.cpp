#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "emulator/programs/config.hpp"
#include "emulator/programs/protocol.hpp"
#include "emulator/programs/protocols/pull.hpp"
#include "emulator/programs/protocols/pypto.hpp"
#include "emulator/programs/protocols/tokenweave.hpp"

using namespace ringfence;
using namespace ringfence::programs;

namespace {

std::string complaint(const Config& config) {
  try {
    validate(config);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

Config with(const std::string& protocol, const std::string& key, const std::string& value) {
  Config c;
  c.protocol = protocol;
  c.set[key] = value;
  return c;
}

bool one_line_with(const std::string& message, std::initializer_list<const char*> parts) {
  if (message.empty() || message.find('\n') != std::string::npos) return false;
  for (const char* part : parts) {
    if (message.find(part) == std::string::npos) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("switches: the defaults are the protocol's own orders") {
  const auto s = parse_switches<TokenWeaveSwitches>("tokenweave", {});
  CHECK(s.start_put == machine::Order::relaxed);
  CHECK(s.start_wait == machine::Order::relaxed);
  CHECK(s.end_put == machine::Order::release);
  CHECK(s.end_wait == machine::Order::acquire);
  CHECK(s.ld_reduce == machine::Order::relaxed);
  CHECK(s.st == machine::Order::relaxed);
  CHECK(s.scope == machine::Scope::sys);
  const auto p = parse_switches<PyPtoSwitches>("pypto", {});
  CHECK(p.tile_rows == 8);
  CHECK(p.data_limit == 209715200);
  CHECK(p.signal_limit == 1048576);
}

TEST_CASE("switches: each of a two-shot's barriers has its own") {
  struct Values : TwoShotSwitches {
    void list(SwitchList& list) { list_two_shot(list); }
  };
  const auto s = parse_switches<Values>(
      "flag-two-shot", {{"mid.put", "relaxed"}, {"mid.wait", "relaxed"}, {"start.put", "release"}});
  CHECK(s.second.put == machine::Order::relaxed);
  CHECK(s.second.wait == machine::Order::relaxed);
  CHECK(s.start.put == machine::Order::release);
  CHECK(s.start.wait == machine::Order::relaxed);
  CHECK(parse_switches<Values>("flag-two-shot", {{"mid", "none"}}).second.there == false);
  CHECK(one_line_with(complaint(with("flag-two-shot", "end.put", "relaxed")), {"mid.put=ORDER"}));
}

TEST_CASE("switches: every protocol takes each value that its list names, and only those") {
  for (const ProtocolDefinition& d : definitions()) {
    CAPTURE(std::string(d.name));
    SwitchList list = d.switches();
    for (const Switch& s : list.all()) {
      CAPTURE(s.key);
      CHECK_FALSE(s.set("no such value"));
      const std::string shown = s.value.substr(0, s.value.find('|'));
      const std::string value = s.order != nullptr   ? "relaxed"
                                : shown == "N,N"     ? "2,3"
                                : shown == "M,K,N"   ? "8,16,16"
                                : s.key == "threads" ? "64"
                                : shown == "N"       ? "2"
                                : shown == "BYTES"   ? "4096"
                                                     : shown;
      CHECK(s.set(value));
    }
    // A second list is bound to values of its own.
    const SwitchList own = d.switches();
    for (const Switch& s : own.all()) {
      if (s.scope != nullptr) CHECK(*s.scope == machine::Scope::sys);
    }
  }
}

TEST_CASE("switches: an unknown switch is an error that names those of the protocol") {
  CHECK(one_line_with(complaint(with("tokenweave", "strat", "none")),
                      {"--set strat=none", "tokenweave", "start=none", "end.put=ORDER", "grid="}));
  CHECK(one_line_with(complaint(with("pypto", "grid", "2,3")),
                      {"--set grid=2,3", "pypto", "wait.cmp=GE", "tile_rows="}));
  CHECK(one_line_with(complaint(with("tokenweave", "tile_rows", "8")), {"tile_rows=8"}));
}

TEST_CASE("switches: a value that an instruction cannot have names those it can") {
  CHECK(one_line_with(complaint(with("tokenweave", "start.put", "weak")),
                      {"start.put=weak", "relaxed, acquire, release or acq_rel"}));
  CHECK(one_line_with(complaint(with("tokenweave", "ld_reduce.order", "release")),
                      {"weak, relaxed or acquire"}));
  CHECK(one_line_with(complaint(with("tokenweave", "st.order", "acquire")),
                      {"weak, relaxed or release"}));
  CHECK(one_line_with(complaint(with("pypto", "signal.order", "acquire")), {"relaxed or release"}));
  CHECK(one_line_with(complaint(with("tokenweave", "start", "off")), {"start=off", "none"}));
  CHECK(one_line_with(complaint(with("tokenweave", "pads", "wet")), {"clean, dirty or late"}));
  CHECK(one_line_with(complaint(with("pypto", "wait.cmp", "LT")), {"EQ or GE"}));
  CHECK(one_line_with(complaint(with("pypto", "tile_rows", "0")), {"tile_rows=0", "1 to 65536"}));
  for (const char* grid : {"", "2,", ",2", "2,,3", "0", "2,x", "-1", "99999999999"}) {
    CHECK_MESSAGE(!complaint(with("tokenweave", "grid", grid)).empty(), grid);
  }
  CHECK(complaint(with("tokenweave", "grid", "2,3")).empty());
}

TEST_CASE("configurations: what cannot run is one line that says what would be right") {
  Config c;
  c.protocol = "nccl";
  CHECK(one_line_with(complaint(c), {"--protocol nccl", "tokenweave", "pypto"}));
  c = {};
  c.ranks = 0;
  CHECK(one_line_with(complaint(c), {"--ranks 0"}));
  c = {};
  c.tokens = 10;  // 4 ranks
  CHECK(one_line_with(complaint(c), {"tokens", "10"}));
  c.protocol = "pypto";
  CHECK(complaint(c).empty());
  c = {};
  c.inner = 66;
  CHECK(one_line_with(complaint(c), {"inner", "66"}));
  c = {};
  c.hidden = 60;
  CHECK(one_line_with(complaint(c), {"hidden", "60"}));
  c = {};
  c.dtype = "fp64";
  CHECK(one_line_with(complaint(c), {"--dtype fp64", "bf16, fp16 or fp32"}));
  c.dtype = "fp32";
  CHECK(complaint(c).empty());
  c.set["width"] = "8";
  CHECK(one_line_with(complaint(c), {"--set width=8", "at most 4 elements of fp32"}));
  c = {};
  c.protocol = "lamport";
  c.dtype = "fp32";
  CHECK(one_line_with(complaint(c), {"--dtype fp32", "lamport", "bf16 or fp16"}));
  c = {};
  c.protocol = "pypto";
  c.dtype = "fp16";
  CHECK(complaint(c).empty());
  c = {};
  c.payload = "zeros";
  CHECK(one_line_with(complaint(c), {"--payload zeros", "exact", "integers", "normal"}));
  c = {};
  c.summation = "sideways";
  CHECK(one_line_with(complaint(c), {"sideways", "rank-order"}));
  c = {};
  c.calls = 0;
  CHECK(one_line_with(complaint(c), {"--calls 0"}));
  c = {};
  c.blocks = 20000;
  c.set["groups"] = "4";
  CHECK(one_line_with(complaint(c), {"20000", "65535"}));
  c = {};
  c.input = "no-such-file.safetensors";
  CHECK(one_line_with(complaint(c), {"no-such-file.safetensors"}));
}

TEST_CASE("pypto: a tile that does not fit is an error that names the tile size to use") {
  Config c = with("pypto", "data_limit", "640");  // 64 columns of 2 bytes: five rows
  CHECK(
      one_line_with(complaint(c), {"tile_rows=8", "1024 bytes", "640", "use tile_rows=5 or less"}));
  c.set["tile_rows"] = "5";
  CHECK(complaint(c).empty());
  CHECK(one_line_with(complaint(with("pypto", "data_limit", "100")),
                      {"data_limit=100", "128 bytes"}));
  CHECK(one_line_with(complaint(with("pypto", "signal_limit", "3")), {"signal_limit=3"}));
  c = with("pypto", "tile_rows", "1");
  c.tokens = 200000;
  CHECK(one_line_with(complaint(c), {"200000 tiles", "use tile_rows=4 or more"}));
}
