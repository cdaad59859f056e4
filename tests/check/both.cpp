#include "tests/check/both.hpp"

#include "emulator/litmus/polls.hpp"
#include "emulator/litmus/printer.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/schedule/failure.hpp"
#include "tests/axiomatic/convert.hpp"

namespace ringfence::testing {

machine::Policy letter() {
  machine::Policy policy;
  policy.boundary = machine::Boundary::strict;
  policy.multicast_flag = machine::MulticastFlag::strict;
  policy.alias_data = machine::AliasData::fence_required;
  return policy;
}

namespace {

check::CheckSpec spec_of(const litmus::Test& test, const machine::Policy& policy, Races races) {
  check::CheckSpec spec;
  spec.run.policy = policy;
  if (litmus::is_asynchronous(test)) spec.run.policy.load_buffering = machine::LoadBuffering::off;
  for (int k = 0; k < machine::kFindingKinds; ++k) {
    const auto kind = static_cast<machine::FindingKind>(k);
    if (kind == machine::FindingKind::deadlock) continue;
    if (kind == machine::FindingKind::data_race && races == Races::end) continue;
    spec.run.ignore.push_back(kind);
  }
  spec.all = true;
  spec.straight = litmus::straight;
  return spec;
}

void search_one(Searched& out, const litmus::Test& test, std::uint32_t reversed, bool all_run,
                const check::CheckSpec& spec) {
  out.result = check::check(
      [&] {
        return std::make_unique<litmus::LitmusProgram>(test, reversed,
                                                       litmus::LitmusProgram::kBound, all_run);
      },
      spec, 1,
      [&](const check::Execution& e) {
        const auto& run = dynamic_cast<const litmus::LitmusProgram&>(e.program);
        out.bounded = out.bounded || run.bounded();
        const auto found = schedule::failure(e.outcome);
        if (found && found->kind == machine::FindingKind::data_race) {
          out.race_found = true;
          return;
        }
        const auto final_values = [&](machine::Address at, std::uint32_t n) {
          return e.final_values(at, n);
        };
        if (e.outcome.end != schedule::RunEnd::complete) {
          out.race_of_blocked = out.race_of_blocked || e.race();
          const auto who = run.hanging(final_values);
          if (!who.empty()) out.hangs.insert(who);
          return;
        }
        out.race = out.race || e.race();
        for (const litmus::State& s : run.final_states(final_values)) ++out.states[s];
      });
}

// Whether a search that ends each run at its first race finds one where there is one.
std::string difference_of_ends(bool raced, const Searched& ended) {
  if (!raced && ended.race_found) return "a race where races end a run\n";
  if (raced && !ended.race_found && ended.result.left_out.empty()) {
    return "no race where races end a run\n";
  }
  return "";
}

}  // namespace

Searched search(const litmus::Test& test, const machine::Policy& policy, bool fingerprints,
                std::uint64_t executions, bool all_run, Races races, bool sets) {
  Searched out;
  check::CheckSpec spec = spec_of(test, policy, races);
  spec.fingerprints = fingerprints;
  spec.executions = executions;
  spec.sets = sets;
  for (std::uint32_t reversed = 0; reversed < 1u << litmus::LitmusProgram::unordered(test);
       ++reversed) {
    search_one(out, test, reversed, all_run, spec);
  }
  return out;
}

Searched search_reversed(const litmus::Test& test, const machine::Policy& policy,
                         std::uint32_t reversed, bool sets) {
  Searched out;
  check::CheckSpec spec = spec_of(test, policy, Races::passed_over);
  spec.sets = sets;
  search_one(out, test, reversed, false, spec);
  return out;
}

std::string difference(const litmus::Test& test, machine::LoadBuffering buffering,
                       machine::AliasData aliases, int jumps) {
  if (litmus::is_asynchronous(test)) buffering = machine::LoadBuffering::off;
  machine::Policy policy = letter();
  policy.load_buffering = buffering;
  policy.alias_data = aliases;
  Searched searched = search(test, policy);
  axiomatic::Options options;
  options.max_backward_jumps = jumps;
  options.load_buffering = options.sc_against_reads_from = buffering == machine::LoadBuffering::on;
  const axiomatic::Result result =
      axiomatic::check(axiomatic::convert(test, aliases == machine::AliasData::cohere), options);
  litmus::States expected = axiomatic::states(test, result);
  const auto variables = litmus::observed_variables(test);
  const bool raced = searched.race || searched.race_of_blocked || result.race_unobserved;
  Searched ended = search(test, policy, false, 0, false, Races::end);
  // The two number addresses differently.
  for (litmus::States* states : {&searched.states, &expected, &ended.states}) {
    litmus::States plain;
    for (const auto& [state, n] : *states) {
      litmus::State s = state;
      for (std::size_t i = 0; i < variables.size(); ++i) {
        const litmus::Variable& v = variables[i];
        if (v.thread < 0) continue;
        const auto& registers = test.threads[static_cast<std::size_t>(v.thread)].registers;
        if (registers[static_cast<std::size_t>(v.id)].initial_address) s[i] = 0;
      }
      plain[s] += n;
    }
    *states = std::move(plain);
  }
  const auto text = [&](const litmus::State& s) {
    std::string line;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      line += " " + litmus::print(test, variables[i]) + "=" + std::to_string(s[i]);
    }
    return line;
  };
  std::string out;
  for (const auto& [s, n] : expected) {
    if (!searched.states.contains(s)) out += "only the axioms:" + text(s) + "\n";
  }
  for (const auto& [s, n] : searched.states) {
    if (!expected.contains(s)) out += "only the machine:" + text(s) + "\n";
  }
  out += difference_of_ends(raced, ended);
  for (const auto& [s, n] : expected) {
    if (raced || ended.states.contains(s)) continue;
    out += "not where races end a run:" + text(s) + "\n";
  }
  for (const auto& [s, n] : ended.states) {
    if (!raced && !expected.contains(s)) out += "only where races end a run:" + text(s) + "\n";
  }
  // The machine reports a race when the second access is about to be made, whatever it then reads:
  // where that ends well, another execution has the race. The axioms see it if that one is
  // complete.
  const bool elsewhere = searched.race && searched.race_of_blocked && !result.race_unobserved;
  if (!expected.empty() && !elsewhere && searched.race != result.race_unobserved) {
    out += searched.race ? "only the machine: a race\n"
                         : "only the axioms: a race, " + result.race_text + "\n";
  }
  return out;
}

std::string difference_of_waits(const litmus::Test& test) {
  // A look in vain, of loops that hold nothing else, is a read more: it changes no outcome, but may
  // race with what a look that sees more does not race with.
  constexpr int kJumps = 1;
  std::string out =
      difference(test, machine::LoadBuffering::off, machine::AliasData::fence_required, kJumps);
  machine::Policy policy = letter();
  policy.load_buffering = machine::LoadBuffering::off;
  const Searched searched = search(test, policy, true, 0, true);
  std::set<std::vector<int>> found;
  for (const std::vector<litmus::Waiting>& hang : searched.hangs) {
    std::vector<int> threads;
    for (const litmus::Waiting& w : hang) threads.push_back(static_cast<int>(w.thread));
    found.insert(threads);
  }
  axiomatic::Options options;
  options.load_buffering = options.sc_against_reads_from = false;
  options.hangs = true;
  options.max_backward_jumps = 0;
  const axiomatic::Result expected = axiomatic::check(axiomatic::convert(test, false), options);
  const auto tell = [&](const char* who, const std::vector<int>& threads) {
    out += std::string(who) + ": for ever wait";
    for (const int t : threads) out += " P" + std::to_string(t);
    out += "\n";
  };
  // Of writes that race several may be last, and to see which of them for ever is fair is open; nor
  // is it exact then what keeps an atomic from a write.
  const bool race = searched.race || searched.race_of_blocked;
  for (const auto& threads : expected.hangs) {
    if (!race && !found.contains(threads)) tell("only the axioms", threads);
  }
  for (const auto& threads : found) {
    if (!expected.hangs.contains(threads)) tell("only the machine", threads);
  }
  if (searched.result.repeated > 0 && !race) {
    out += std::to_string(searched.result.repeated) + " executions repeated\n";
  }
  return out;
}

namespace {

// What only the one of two searches of a test has: states, a race, sets of threads that wait for
// ever.
std::string only(const litmus::Test& test, const Searched& a, const Searched& b,
                 const std::string& who) {
  const auto variables = litmus::observed_variables(test);
  std::string out;
  for (const auto& [state, n] : a.states) {
    if (b.states.contains(state)) continue;
    out += "only " + who + ":";
    for (std::size_t i = 0; i < variables.size(); ++i) {
      out += " " + litmus::print(test, variables[i]) + "=" + std::to_string(state[i]);
    }
    out += "\n";
  }
  if (a.race && !b.race) out += "only " + who + ": a race\n";
  for (const auto& hang : a.hangs) {
    if (b.hangs.contains(hang)) continue;
    out += "only " + who + ": for ever wait";
    for (const litmus::Waiting& w : hang) out += " P" + std::to_string(w.thread);
    out += "\n";
  }
  return out;
}

}  // namespace

std::string difference_of_rules(const litmus::Test& test, bool& spared) {
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  const Searched with = search(test, policy);
  const Searched without = search(test, policy, false, 0, false, Races::passed_over, false);
  spared = with.result.complete < without.result.complete;
  const bool raced = without.race || without.race_of_blocked;
  return only(test, with, without, "with the rules") +
         only(test, without, with, "without the rules") +
         difference_of_ends(raced, search(test, policy, false, 0, false, Races::end));
}

std::string difference_of_parts(const litmus::Test& test, PartsCompared& done) {
  done = {};
  const std::uint32_t directions = 1u << litmus::LitmusProgram::unordered(test);
  if (directions < 2 || directions > 16) return {};
  machine::Policy policy;
  policy.boundary = machine::Boundary::strict;
  const Searched counted = search_reversed(test, policy, 0, true);
  if (!counted.result.left_out.empty()) {
    done.left_out = true;
    return {};
  }
  done.compared = true;
  const Searched all = search(test, policy, false, 0, false, Races::passed_over, false);
  std::string out =
      only(test, counted, all, "as counters") + only(test, all, counted, "in every order");
  const Searched ahead = search_reversed(test, policy, 0, false);
  done.handed_on = !ahead.result.left_out.empty();
  if (!done.handed_on) {
    out +=
        only(test, ahead, all, "in one direction") + only(test, all, ahead, "in both directions");
  }
  return out;
}

}  // namespace ringfence::testing
