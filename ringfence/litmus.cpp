#include "ringfence/litmus.hpp"

#include <algorithm>

#include "emulator/analysis/litmus.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "ringfence/running.hpp"

namespace ringfence {

namespace {

LitmusResult explore(const litmus::Test& test, const std::string& file, const Options& o) {
  analysis::LitmusSpec spec;
  spec.policy = analysis::litmus_policy(
      o.modes.empty() ? "strict" : std::string(name(o.modes.front())), o.policies);
  spec.executions = o.executions;
  spec.seconds = o.seconds;
  spec.jobs = std::max(o.jobs, 1u);
  const analysis::LitmusOutcome r = analysis::explore_litmus(test, file, spec);
  if (schedule::interrupted()) throw analysis::Interrupted();
  if (!r.error.empty()) throw analysis::InputError(r.error);
  LitmusResult out;
  out.name = test.name;
  out.not_modelled = r.not_modelled;
  if (!r.not_modelled.empty()) return out;
  out.holds = r.verdict.ok;
  out.observation = litmus::to_string(r.verdict.observation);
  out.complete = r.whole();
  out.race = r.race;
  out.hangs = !r.hangs.empty();
  out.executions = r.complete + r.blocked;
  for (const auto& [state, count] : r.states) out.states[litmus::state_text(test, state)] = count;
  return out;
}

}  // namespace

LitmusResult explore_litmus(const std::string& text, const std::string& file, const Options& o) {
  return detail::analysed(
      o, false, [&](const detail::Tell&) { return explore(litmus::parse(text, file), file, o); });
}

std::vector<LitmusResult> explore_litmus_file(const std::string& path, const Options& o) {
  return detail::analysed(o, false, [&](const detail::Tell&) {
    std::vector<LitmusResult> out;
    for (const litmus::Test& test : litmus::parse_tests(path)) {
      out.push_back(explore(test, path, o));
    }
    return out;
  });
}

}  // namespace ringfence
