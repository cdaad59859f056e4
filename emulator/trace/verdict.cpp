#include "emulator/trace/verdict.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/cause.hpp"

namespace ringfence::trace {

namespace {

using machine::AccessInfo;
using machine::AccessKind;
using machine::Finding;
using machine::FindingKind;

machine::Address address(const AccessInfo& a) { return {a.region, a.offset}; }

std::string byte_of(machine::Address at, const schedule::Program& program) {
  if (at.region == ~0U) return at.offset == 0 ? "no memory" : fmt::format("0x{:x}", at.offset);
  return fmt::format("{}, byte {}", program.region_name(at.region), at.offset);
}

std::string place_of(const Finding& f, const AccessInfo& a, const schedule::Program& program) {
  // What lies behind the end of a memory is none of the slots in it.
  if (f.kind == FindingKind::out_of_bounds) return byte_of(address(a), program);
  return place(address(a), program);
}

SideNames names_of(const Finding& f, const AccessInfo& a, const schedule::Program& program) {
  return {program.site_name(a.site), a.kind == AccessKind::none ? "" : place_of(f, a, program)};
}

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::read:
      return "reads";
    case AccessKind::write:
      return "writes";
    case AccessKind::rmw:
      return "updates";
    case AccessKind::none:
      return "comes to";
  }
  return "";
}

std::string side(const AccessInfo& a, const schedule::Program& program) {
  return fmt::format("{} {}", who(a.label, program), verb(a.kind));
}

// " of KERNEL", where the two are of different ones.
std::string kernel_of(const AccessInfo& a, const AccessInfo& other,
                      const schedule::Program& program) {
  const auto of_thread = [](const AccessInfo& x) {
    return schedule::unpack(x.label).role == schedule::Role::thread;
  };
  const std::string name = program.launch_name(a.label);
  if (name.empty() || !of_thread(a)) return "";
  return of_thread(other) && program.launch_name(other.label) == name ? "" : " of " + name;
}

// "the inputs of call 1 are written": what a launch that the program makes itself does.
std::string own_launch(std::uint64_t label, const schedule::Program& program) {
  const schedule::AgentLabel l = schedule::unpack(label);
  if (l.role != schedule::Role::product && l.role != schedule::Role::consumer) return "";
  const std::string name = program.launch_name(label);
  const std::size_t space = name.find(' ');
  if (space == std::string::npos) return "";
  return fmt::format("the {} of call {}{}", name.substr(0, space), l.call, name.substr(space));
}

// " at zoo.cu:50"; empty where what a program says of its site is no line.
std::string at_line(const AccessInfo& a, const schedule::Program& program) {
  const std::string name = program.site_name(a.site);
  const std::string line = line_of(name);
  if (line.find(':') == std::string::npos) return "";
  const bool copies = name.find(": cp.async") != std::string::npos;
  const std::string caller = caller_of(name);
  return fmt::format(" {}at {}{}", copies ? "by an asynchronous copy " : "", line,
                     caller.empty() ? "" : " (called at " + caller + ")");
}

// One side of a race: "rank 1, block 0, thread 3 of reduce writes WHAT at zoo.cu:50".
std::string race_side(const AccessInfo& a, const AccessInfo& other, const std::string& what,
                      const schedule::Program& program) {
  if (const std::string own = own_launch(a.label, program); !own.empty()) {
    return fmt::format("rank {} {} {} as {}", schedule::unpack(a.label).rank, verb(a.kind), what,
                       own);
  }
  const std::uint16_t call = schedule::unpack(a.label).call;
  const std::string in_call =
      call == schedule::unpack(other.label).call ? std::string() : fmt::format(" in call {}", call);
  return fmt::format("{}{} {} {}{}{}", who(a.label), kernel_of(a, other, program), verb(a.kind),
                     what, at_line(a, program), in_call);
}

// Threads that stand at different barriers, or nowhere: what an executor says of both.
std::string divergence(const Finding& f, const schedule::Program& program) {
  const std::string numbers = program.last_mismatch();
  const bool exited = numbers.find("has exited") != std::string::npos;
  if (!f.has_first || !f.has_second ||
      (!exited && numbers.find("comes to it from") == std::string::npos)) {
    return "";
  }
  return fmt::format("{} waits at a barrier of all threads of its block{}, and {} {}{}",
                     who(f.second.label), at_line(f.second, program), who(f.first.label),
                     exited ? "has exited" : "has come to another barrier",
                     at_line(f.first, program));
}

// What a kind of finding says of the access that made it; two accesses for the kinds that have two.
std::string sentence(const Finding& f, const schedule::Program& program) {
  const AccessInfo& a = f.has_second ? f.second : f.first;
  const bool placed = f.has_second || f.has_first;
  const std::string at = placed ? place_of(f, a, program) : "";
  const auto told = [&](const char* what) {
    return placed ? fmt::format("{} {}: {}", side(a, program), at, what) : std::string(what);
  };
  switch (f.kind) {
    case FindingKind::data_race:
      return fmt::format("{}, and {}: no synchronisation orders the two{}",
                         race_side(f.first, a, place_of(f, a, program), program),
                         race_side(a, f.first, "it", program),
                         f.same_value ? " (both write the same value)" : "");
    case FindingKind::stale_read:
      return told(
          "it got an old value, although a newer one was written before, and the result uses it");
    case FindingKind::deadlock:
      if (placed && a.bytes == 0) {  // no look at memory
        return fmt::format("{} waits for ever at a barrier of its block", who(a.label, program));
      }
      return placed ? fmt::format("{} waits for ever for {}", who(a.label, program), at)
                    : "no agent can go on";
    case FindingKind::livelock:
      return told("the loop repeats its state for ever");
    case FindingKind::lost_signal:
      return told("a signal that nobody had waited for is overwritten");
    case FindingKind::unrestored_signal:
      return placed ? fmt::format("{} is not back to its initial value at the end", at)
                    : "a signal slot is not back to its initial value at the end";
    case FindingKind::barrier_divergence:
      if (std::string both = divergence(f, program); !both.empty()) return both;
      return placed && a.kind != AccessKind::none
                 ? fmt::format("{} does not take part in a block barrier that others wait at",
                               who(a.label, program))
                 : "threads of a block do not meet at the same barrier";
    case FindingKind::out_of_bounds:
      return told("the access ends outside the memory it names");
    case FindingKind::misaligned:
      return told("the address is no multiple of the access's size");
    case FindingKind::uninitialised_read:
      return told("nothing has been written there");
    case FindingKind::multicast_misuse:
      return told("a multicast address takes ld_reduce, st and red of multimem only");
    case FindingKind::replica_mismatch:
      return placed ? fmt::format("the replicas of {} differ", at) : "the ranks' replicas differ";
    case FindingKind::numeric_mismatch:
      return placed ? fmt::format("{} differs from the reference", at)
                    : "the result differs from the reference";
    case FindingKind::uninitialised_barrier:
      return f.has_first ? fmt::format("{}, and {}: no synchronisation orders the two",
                                       race_side(f.first, a, "an mbarrier", program),
                                       race_side(a, f.first, "it", program))
                         : told("an mbarrier is used before anything orders its init");
    case FindingKind::barrier_misuse:
      return told("a barrier is used against its rules");
    case FindingKind::incoherent_read:
      return f.second.proxy == machine::Proxy::readonly
                 ? fmt::format("{} {} by ld.global.nc, although {} {} it while the kernel runs",
                               side(a, program), at, who(f.first.label, program),
                               verb(f.first.kind))
                 : fmt::format("{} {} while the kernel runs in which {} reads it by ld.global.nc",
                               side(a, program), at, who(f.first.label, program));
    case FindingKind::residency:
      return placed ? fmt::format(
                          "{} waits for ever for {}, and there is no room on the GPU for "
                          "blocks that it waits for",
                          who(a.label, program), at)
                    : "blocks wait for others for which there is no room on the GPU";
    case FindingKind::cluster_entry:
      return told("nothing orders this after the start of its block");
    case FindingKind::cluster_exit: {
      const AccessInfo& access = f.second.kind == AccessKind::none ? f.first : f.second;
      return fmt::format("{} {}: its block may have ended before", side(access, program),
                         place(address(access), program));
    }
    case FindingKind::rank_lost:
      return "a rank's process was lost";
  }
  return "";
}

// What an executor says of a fault is "WHAT: WHY; WHO, LINE: 'INSTRUCTION'" and advice: the
// sentence has all but the reason and the advice.
std::string reason_of(const std::string& numbers) {
  std::size_t begin = numbers.find(": ");
  begin = begin == std::string::npos ? 0 : begin + 2;
  const std::size_t who = numbers.find("; rank ", begin);
  std::string reason = numbers.substr(begin, who == std::string::npos ? who : who - begin);
  if (who == std::string::npos) return reason;
  const std::size_t quote = numbers.rfind('\'');
  if (quote != std::string::npos && quote > who) reason += numbers.substr(quote + 1);
  return reason;
}

// "kernel.cu:12" of the same: the line of the source, or of the PTX.
std::string place_in(const std::string& numbers) {
  const std::size_t who = numbers.find("; rank ");
  const std::size_t path = numbers.find(", ", numbers.find("thread ", who));
  const std::size_t end = numbers.find(": \'", path);
  if (who == std::string::npos || path == std::string::npos || end == std::string::npos) return "";
  const std::string place = line_of(numbers.substr(path + 2, end - path - 2));
  return place.substr(place.rfind('/') + 1);
}

bool is_fault(FindingKind kind) {
  return kind == FindingKind::out_of_bounds || kind == FindingKind::misaligned ||
         kind == FindingKind::multicast_misuse || kind == FindingKind::barrier_misuse ||
         kind == FindingKind::cluster_entry || kind == FindingKind::cluster_exit;
}

// A fault that an executor met, whose reason is known.
std::string fault_sentence(const Finding& f, const schedule::Program& program,
                           const std::string& numbers) {
  const bool at_second = f.second.kind != AccessKind::none || !f.has_first;
  const AccessInfo& a = at_second ? f.second : f.first;
  const std::string line = line_of(program.site_name(a.site));
  const bool placed = a.kind != AccessKind::none && (a.region != ~0U || a.offset != 0);
  const std::string what = placed ? fmt::format("{} {}", side(a, program), place_of(f, a, program))
                           : a.kind == AccessKind::none ? who(a.label)
                                                        : fmt::format("{}'s access", who(a.label));
  std::string reason = reason_of(numbers);
  // An executor knows the line of the PTX at which a block ended.
  const AccessInfo& end = at_second ? f.first : f.second;
  const std::size_t ptx = reason.rfind(" (line ");
  if (f.kind == FindingKind::cluster_exit && f.has_first && ptx != std::string::npos &&
      reason.ends_with(")") && end.kind == AccessKind::none) {
    reason = reason.substr(0, ptx) + at_line(end, program);
  }
  return fmt::format("{} at {}: {}", what, line, reason);
}

// What a stuck agent's place would have to hold.
std::string needed(const Finding& f, const schedule::Outcome& outcome,
                   const schedule::Program& program) {
  for (const schedule::StuckAgent& s : outcome.stuck) {
    if (s.status != schedule::AgentStatus::awaiting || s.label != f.second.label) continue;
    if (s.await.at.region != f.second.region || s.await.at.offset != f.second.offset) continue;
    if (s.await.wanted.condition != nullptr || !program.barrier_name(s.label).text.empty()) {
      return "";
    }
    return fmt::format(" {} {}, and {} is there", name(s.await.wanted.compare),
                       s.await.wanted.value, s.value_there);
  }
  return "";
}

StuckNames stuck_names(const schedule::StuckAgent& s, const schedule::Program& program) {
  StuckNames n;
  n.label = s.label;
  n.there = s.value_there;
  const schedule::SlotName phase = program.barrier_name(s.label);
  if (s.status == schedule::AgentStatus::awaiting && !phase.text.empty()) {
    n.slot = phase.text;
    n.needs = phase.writer;
  } else if (s.status == schedule::AgentStatus::awaiting) {
    n.slot = place(s.await.at, program);
    n.needs = fmt::format("{} {}", name(s.await.wanted.compare), s.await.wanted.value);
    n.writer = program.slot_writer(s.await.at, s.await.wanted);
  } else if (s.status == schedule::AgentStatus::at_barrier) {
    const schedule::SlotName barrier = program.barrier_name(s.label);
    n.slot = barrier.text.empty() ? "block barrier" : barrier.text;
    n.needs = barrier.text.empty() ? "the block's other threads" : barrier.writer;
  } else if (s.status == schedule::AgentStatus::joining) {
    n.slot = "end of its launch";
    n.needs = "the launch's threads";
  } else {
    n.slot = phase.text.empty() ? "earlier operations" : phase.text;
    n.needs = phase.text.empty() ? "to be run after them" : phase.writer;
  }
  return n;
}

}  // namespace

std::string place(machine::Address at, const schedule::Program& program) {
  const std::string slot = program.slot_name(at).text;
  if (!slot.empty()) return slot;
  return byte_of(at, program);
}

std::string who(std::uint64_t packed) {
  const schedule::AgentLabel l = schedule::unpack(packed);
  const std::string rank = fmt::format("rank {}", l.rank);
  switch (l.role) {
    case schedule::Role::host:
      return rank + "'s host";
    case schedule::Role::product:
      return rank + "'s product";
    case schedule::Role::consumer:
      return rank + "'s consumer";
    case schedule::Role::thread:
      return fmt::format("{}, block {}, thread {}", rank, l.block, l.index);
    case schedule::Role::task:
      return fmt::format("{}, tile {}, operation {}", rank, l.block, l.index);
  }
  return rank;
}

std::string who(std::uint64_t packed, const schedule::Program& program) {
  const schedule::AgentLabel l = schedule::unpack(packed);
  if (l.role == schedule::Role::product || l.role == schedule::Role::consumer) {
    const std::string what = own_launch(packed, program);
    if (!what.empty()) return fmt::format("rank {} (as {})", l.rank, what);
  }
  return who(packed);
}

std::string order_text(machine::Order order, machine::Scope scope) {
  if (order == machine::Order::weak) return "weak";
  return fmt::format("{}.{}", machine::name(order), machine::name(scope));
}

std::string missing_text(const Finding& f) {
  using machine::Missing;
  const auto scope_of = [](const AccessInfo& a, const AccessInfo& other) {
    return fmt::format("{} has scope .{}, which does not reach {}", who(a.label),
                       machine::name(a.scope), who(other.label));
  };
  switch (f.missing) {
    case Missing::none:
      return "";
    case Missing::synchronisation:
      return "a release by the first that the second acquires";
    case Missing::first_scope:
      // Of the access itself, or of a release after it that the second has met.
      if (machine::is_strong(f.first.order)) return scope_of(f.first, f.second);
      return fmt::format("the release that publishes the first has too narrow a scope to reach {}",
                         who(f.second.label));
    case Missing::second_scope:
      return scope_of(f.second, f.first);
    case Missing::strength:
      return "a chain of strong accesses leads from the first to the second, but not every link of "
             "it "
             "is a release that the next thread acquires";
    case Missing::complete_overlap:
      return "both are strong, but of different sizes, so they do not overlap completely";
    case Missing::same_proxy:
      return "both are strong, but through different virtual addresses of the location";
    case Missing::proxy_fence:
      return "the first is ordered before the second, but the second goes through the async proxy, "
             "and no fence.proxy.async stands between them";
    case Missing::completion:
      return "the first is part of an asynchronous operation, and nobody has waited for its end: "
             "by "
             "its mbarrier's phase, or by wait_group (without .read for what it writes) in the "
             "thread that issued it";
    case Missing::one_proxy:
      return "both are strong, but one goes through the async proxy and the other through the "
             "generic one";
  }
  return "";
}

std::string lost_text(const schedule::LostRank& lost) {
  if (lost.stalled) return "stalled";
  if (WIFSIGNALED(lost.wait_status)) {
    const int signal = WTERMSIG(lost.wait_status);
    return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(lost.wait_status));
}

std::string fault_text(const schedule::AppliedFault& f, const schedule::Program& program) {
  using schedule::FaultKind;
  const std::string agent = schedule::text(schedule::unpack(f.label));
  switch (f.kind) {
    case FaultKind::kill:
      return fmt::format("rank {} was killed after step {}, at {}", f.rank, f.step, agent);
    case FaultKind::restart:
      return fmt::format("rank {} was restarted after step {}, at {}", f.rank, f.step, agent);
    case FaultKind::pause:
      return fmt::format("rank {} was paused for {} points after step {}", f.rank, f.span, f.step);
    case FaultKind::delay:
      return fmt::format("{} was delayed for {} points after step {}", agent, f.span, f.step);
    case FaultKind::late_signal:
      return fmt::format("the signal of {} to {} came {} points late", agent, place(f.at, program),
                         f.span);
    case FaultKind::dirty_pad:
      return fmt::format("{} held {} at the start: the protocol needs its initial value there",
                         place(f.at, program), f.holds);
  }
  return {};
}

namespace {

bool was_killed(const schedule::Outcome& outcome, std::uint32_t rank) {
  for (const schedule::AppliedFault& f : outcome.faults) {
    if (f.kind == schedule::FaultKind::kill && f.rank == rank) return true;
  }
  return false;
}

// A killed rank writes nothing any more: "r1.b0.t0 (killed)"; "every rank's ... (rank 1 killed)".
void mark_killed(std::string& writer, const schedule::Outcome& outcome) {
  if (writer.empty()) return;
  unsigned rank = 0;
  if (std::sscanf(writer.c_str(), "r%u.", &rank) == 1) {
    if (was_killed(outcome, rank)) writer += " (killed)";
    return;
  }
  for (const schedule::AppliedFault& f : outcome.faults) {
    if (f.kind == schedule::FaultKind::kill) writer += fmt::format(" (rank {} killed)", f.rank);
  }
}

}  // namespace

void explain(Verdict& verdict, const schedule::Outcome& outcome, const schedule::Program& program,
             const machine::Policy& policy) {
  if (!verdict.finding || outcome.history.empty()) return;
  Cause cause = cause_of(outcome, *verdict.finding, program, policy);
  verdict.cause = std::move(cause.text);
  verdict.fix = std::move(cause.fix);
  verdict.cause_steps = std::move(cause.steps);
  verdict.hints = std::move(cause.hints);
}

Verdict make_verdict(const schedule::Outcome& outcome, const schedule::Program& program) {
  Verdict v;
  v.end = outcome.end;
  v.points = outcome.points;
  v.steps = outcome.steps;
  v.digest = outcome.digest;
  v.finding = schedule::failure(outcome);
  if (v.finding) {
    const std::string numbers = program.last_mismatch();
    if (is_fault(v.finding->kind) && v.finding->has_second && !numbers.empty()) {
      v.message = fault_sentence(*v.finding, program, numbers);
    } else {
      v.message = sentence(*v.finding, program);
      if (v.finding->kind == FindingKind::deadlock && v.finding->has_second) {
        v.message += needed(*v.finding, outcome, program);
      }
      const FindingKind kind = v.finding->kind;
      const bool placed = numbers.find("; rank ") != std::string::npos && v.finding->has_second;
      const bool told =
          (kind == FindingKind::uninitialised_barrier && v.finding->has_first) ||
          (kind == FindingKind::barrier_divergence && !divergence(*v.finding, program).empty());
      if (placed && (kind == FindingKind::rank_lost || kind == FindingKind::livelock)) {
        v.message = fmt::format("{} {} at {}: {}", who(v.finding->second.label),
                                kind == FindingKind::livelock ? "loops for ever" : "stops",
                                place_in(numbers), reason_of(numbers));
      } else if (placed && kind == FindingKind::barrier_divergence && !told) {
        // Not only threads that miss a barrier: whatever a warp does that is undefined.
        v.message = fmt::format("{} at {}: {}", who(v.finding->second.label), place_in(numbers),
                                reason_of(numbers));
      } else if (!numbers.empty() && !told) {
        v.message += ": " + numbers;
      }
    }
    if (v.finding->has_first) v.first = names_of(*v.finding, v.finding->first, program);
    if (v.finding->has_second) v.second = names_of(*v.finding, v.finding->second, program);
  } else {
    v.message = outcome.end == schedule::RunEnd::complete   ? "clean"
                : schedule::stopped_by_fault(outcome)       ? "stopped by a fault"
                : outcome.end == schedule::RunEnd::deadlock ? "stuck, which is passed over"
                                                            : "ended without a verdict";
  }
  for (const schedule::LostRank& l : outcome.lost) {
    v.message += fmt::format("; rank {} {} after step {} ({})", l.rank, lost_text(l), l.last_step,
                             l.last_agent);
  }
  for (const schedule::AppliedFault& f : outcome.faults) {
    v.message += "; " + fault_text(f, program);
  }
  for (const schedule::StuckAgent& s : outcome.stuck) {
    // Hosts that wait for their launch say nothing that its threads do not.
    if (s.status == schedule::AgentStatus::joining) continue;
    // Of a loop that waits for a strong access, what it looks up on the way is no wait.
    const bool looked_up =
        s.status == schedule::AgentStatus::awaiting && !machine::is_strong(s.await.access.order) &&
        std::any_of(outcome.stuck.begin(), outcome.stuck.end(), [&](const auto& other) {
          return other.label == s.label && machine::is_strong(other.await.access.order);
        });
    if (looked_up) continue;
    v.stuck.push_back(stuck_names(s, program));
    mark_killed(v.stuck.back().writer, outcome);
  }
  return v;
}

}  // namespace ringfence::trace
