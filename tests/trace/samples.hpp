#pragma once
// Traces for tests, with every optional part in use.

#include <doctest/doctest.h>

#include <string>

#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

inline std::uint64_t label(const std::string& text) {
  return schedule::pack(schedule::parse_label(text));
}

inline Trace sample() {
  Trace t;
  t.header.made_by = "0.1.0 (abc)";
  programs::Config config;
  config.protocol = "tokenweave";
  config.ranks = 2;
  config.set = {{"end.put", "relaxed"}, {"grid", "1,2"}};
  config.input = "in.safetensors";
  t.header.config = config;
  t.header.input_digest = "00112233445566ff";
  t.header.policy.boundary = machine::Boundary::stream;
  t.header.policy.alias_data = machine::AliasData::fence_required;
  t.header.ignore = {machine::FindingKind::lost_signal};
  t.header.strategy = "pct";
  t.header.seed = 0xffffffffffffffffu;
  t.header.executor = "processes";
  t.header.faults = "kill,pause=2,late-signal=0.25";
  t.header.survive = true;

  schedule::Decision d;
  d.agent = label("r1.c0.b2.t3");
  d.point = 14;
  d.value = label("r0.host");
  t.decisions.push_back(d);
  d.kind = schedule::DecisionKind::read;
  d.nth = 2;
  d.value = 1;
  t.decisions.push_back(d);
  for (auto kind : {schedule::DecisionKind::coherence, schedule::DecisionKind::miss,
                    schedule::DecisionKind::sum}) {
    d.kind = kind;
    d.nth = 0;
    d.value = 3;
    t.decisions.push_back(d);
  }
  d.kind = schedule::DecisionKind::fault;
  for (const auto kind : {schedule::FaultKind::kill, schedule::FaultKind::restart}) {
    d.value = schedule::encode(schedule::StepFault{kind, 0});
    t.decisions.push_back(d);
  }
  for (const auto kind : {schedule::FaultKind::pause, schedule::FaultKind::delay}) {
    d.value = schedule::encode(schedule::StepFault{kind, schedule::kMostSpan});
    t.decisions.push_back(d);
  }
  d.kind = schedule::DecisionKind::late;
  d.value = 64;
  t.decisions.push_back(d);
  d.agent = label("r1.host");
  d.point = 0;
  d.kind = schedule::DecisionKind::dirty;
  for (const std::uint32_t holds : schedule::kDirtyValues) {
    d.value = *schedule::encode(schedule::DirtyWord{3, holds});
    t.decisions.push_back(d);
  }

  Verdict& v = t.verdict;
  v.end = schedule::RunEnd::finding;
  machine::Finding f;
  f.kind = machine::FindingKind::data_race;
  f.missing = machine::Missing::strength;
  f.has_first = f.has_second = true;
  f.first.kind = machine::AccessKind::write;
  f.first.label = label("r0.c0.product.b0.t0");
  f.first.step = 3;
  f.first.site = 2;
  f.first.region = 1;
  f.first.offset = 64;
  f.first.bytes = 2;
  f.second = f.first;
  f.second.kind = machine::AccessKind::read;
  f.second.order = machine::Order::relaxed;
  f.second.scope = machine::Scope::sys;
  f.second.proxy = machine::Proxy::multicast;
  f.second.label = label("r1.c0.b0.t5");
  f.second.step = 44;
  v.finding = f;
  v.message = "rank 1 reads \"x\"\nand nothing orders it";
  v.first = {"store partial", "buffer of rank 0, byte 64"};
  v.second = {"ld_reduce", "buffer of rank 0, byte 64"};
  v.stuck.push_back({label("r1.c0.b1.t0"), "end pad", "== 1", 0, "r0.b1"});
  v.points = 20;
  v.steps = 45;
  v.digest = 0x00c0ffee00c0ffeeu;
  return t;
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, "the sample has no ", from);
  return text.replace(at, from.size(), to);
}

}  // namespace ringfence::trace
