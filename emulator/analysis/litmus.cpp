#include "emulator/analysis/litmus.hpp"

#include <fmt/format.h>

#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/analysis/unknown.hpp"
#include "emulator/check/explorer.hpp"
#include "emulator/litmus/polls.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::analysis {

machine::Policy litmus_policy(const std::string& boundary,
                              const std::map<std::string, std::string>& policies) {
  machine::Policy policy;
  policy.load_buffering = machine::LoadBuffering::on;
  policy.multicast_flag = machine::MulticastFlag::strict;
  policy.alias_data = machine::AliasData::fence_required;
  std::string summation;
  const auto set_boundary = [&](const std::string& value) {
    const auto mode = machine::parse_boundary(value);
    if (!mode) {
      throw InputError(fmt::format("--boundary {}: expected strict, stream or coherent", value));
    }
    policy.boundary = *mode;
  };
  set_boundary(boundary);
  for (const auto& [name, value] : policies) {
    if (name == "boundary") {
      set_boundary(value);
    } else {
      apply_policy(name + "=" + value, policy, summation);
    }
  }
  refuse_kernel_policies(policy);
  return policy;
}

LitmusOutcome explore_litmus(const litmus::Test& test, const std::string& file,
                             const LitmusSpec& of) {
  LitmusOutcome r;
  check::CheckSpec spec;
  spec.run.policy = of.policy;
  for (int k = 0; k < machine::kFindingKinds; ++k) {
    const auto kind = static_cast<machine::FindingKind>(k);
    if (kind != machine::FindingKind::deadlock) spec.run.ignore.push_back(kind);
  }
  // What no thread executes in program order has no dependencies on reads: in order alone.
  if (litmus::is_asynchronous(test)) spec.run.policy.load_buffering = machine::LoadBuffering::off;
  spec.all = true;
  spec.executions = of.executions;
  spec.seconds = of.seconds;
  spec.straight = litmus::straight;
  const schedule::TimeLimit limit(of.seconds);
  r.searched = true;
  r.load_buffering = spec.run.policy.load_buffering == machine::LoadBuffering::on &&
                     of.policy.boundary != machine::Boundary::coherent;
  const auto visit = [&](const check::Execution& e) {
    const auto& run = dynamic_cast<const litmus::LitmusProgram&>(e.program);
    const auto final_values = [&](machine::Address at, std::uint32_t bytes) {
      return e.final_values(at, bytes);
    };
    for (const litmus::Waiting& loop : run.given_up()) ++r.given_up[loop];
    if (e.outcome.end != schedule::RunEnd::complete) {
      const std::vector<litmus::Waiting> who = run.hanging(final_values);
      if (!who.empty()) ++r.hangs[who];
      return;
    }
    r.race = r.race || e.race();
    for (const litmus::State& s : run.final_states(final_values)) ++r.states[s];
  };
  try {
    // Accesses of one instruction are in no order: both directions, where it can show.
    const std::uint32_t directions = 1u << litmus::LitmusProgram::unordered(test);
    for (std::uint32_t reversed = 0; reversed < directions; ++reversed) {
      const check::CheckResult one = check::check(
          [&] { return std::make_unique<litmus::LitmusProgram>(test, reversed, of.bound); }, spec,
          of.jobs, visit);
      r.complete += one.complete;
      r.blocked += one.blocked;
      r.seconds += one.seconds;
      r.out_of_order += one.out_of_order;
      r.load_buffering = r.load_buffering && one.unjudged == 0;
      r.searched = r.searched && one.explored == 1 && one.bounded == 0;
      if (r.left_out.empty() && !one.left_out.empty()) {
        const litmus::LitmusProgram program(test, reversed, of.bound);
        r.left_out = left_out_texts(one.left_out, program);
      }
    }
  } catch (const litmus::NotModelled& e) {
    r.not_modelled = fmt::format("{}: {}", file, e.what());
    return r;
  } catch (const schedule::ProgramError& e) {
    // Behind the label of the thread that ran into it.
    const std::string what = e.what();
    r.error = fmt::format("{}:{}", file, what.substr(what.find(": ") + 2));
    return r;
  }
  r.verdict = litmus::judge(test, r.states, !r.hangs.empty());
  return r;
}

}  // namespace ringfence::analysis
