#include "emulator/trace/cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "emulator/trace/cause_parts.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {

using machine::FindingKind;

namespace {

constexpr std::string_view kCalledAt = ", called at ";

// "zoo.cu:50, in sync.cuh:9, called at zoo.cu:71" of "zoo.ptx:513 (zoo.cu:50, ...): atom..."; empty
// where the site has no line of a source.
std::string source_of(const std::string& site_name) {
  const std::string head = site_name.substr(0, site_name.find(": "));
  const std::size_t open = head.find(" (");
  if (open == std::string::npos || head.back() != ')') return "";
  return head.substr(open + 2, head.size() - open - 3);
}

}  // namespace

std::string line_of(const std::string& site_name) {
  const std::string source = source_of(site_name);
  if (source.empty()) return site_name.substr(0, site_name.find(": "));
  return source.substr(0, std::min(source.find(", in "), source.find(kCalledAt)));
}

std::string caller_of(const std::string& site_name) {
  const std::string source = source_of(site_name);
  const std::size_t at = source.find(kCalledAt);
  return at == std::string::npos ? "" : source.substr(at + kCalledAt.size());
}

std::string Telling::event(const machine::Event& e) const {
  return fmt::format("{}, at {} (step {})", who(e.label, program), line(e), e.step);
}

namespace {

// As far as the reason says what is wrong.
std::string mend_of_bounds(const Telling& t) {
  const std::string numbers = t.program.last_mismatch();
  if (numbers.find("an offset of 32 bits that overflowed") != std::string::npos) {
    return fmt::format("compute the offset at {} in 64 bits", t.line(t.finding.second.site));
  }
  const std::size_t expected = numbers.find("the case has shared_bytes");
  if (expected != std::string::npos) {
    return "give the launch as much dynamic shared memory as the kernel uses";
  }
  if (numbers.find("it is too small for this launch") != std::string::npos) {
    return "a memory as large as the grid and the arguments need, or a smaller grid";
  }
  return "";
}

// Of kinds whose sentence is the cause.
std::string mend_of(const Telling& t) {
  const machine::Finding& f = t.finding;
  switch (f.kind) {
    case FindingKind::uninitialised_barrier:
      return "a block barrier after mbarrier.init (for a cluster fence.mbarrier_init and "
             "barrier.cluster) before any other thread uses it";
    case FindingKind::incoherent_read:
      return fmt::format(
          "a plain or volatile ld.global in place of ld.global.nc at {} (no __ldg, no "
          "const __restrict__)",
          t.line(f.second.proxy == machine::Proxy::readonly ? f.second.site : f.first.site));
    case FindingKind::cluster_exit:
      return "barrier.cluster.arrive and .wait (cluster.sync()) at the end of the kernel, so that "
             "no block ends while another accesses its shared memory";
    case FindingKind::cluster_entry:
      return "barrier.cluster.arrive and .wait (cluster.sync()) at the start of the kernel, before "
             "any access to another block's shared memory";
    case FindingKind::unrestored_signal:
      return "take every signal back that is put: a wait that resets, or a clear after the last "
             "wait";
    case FindingKind::barrier_misuse:
      return t.program.last_mismatch().find("without .shared::cluster") != std::string::npos
                 ? fmt::format(
                       "the form for a cluster at {}: "
                       "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [address]",
                       t.line(f.second.site))
                 : "";
    case FindingKind::multicast_misuse:
      return fmt::format("multimem.st (or .red, .ld_reduce) at {}, or the address of a replica",
                         t.line(f.second.site));
    case FindingKind::out_of_bounds:
      return mend_of_bounds(t);
    case FindingKind::uninitialised_read:
      return "an init of the memory in the case, or a store there before the read";
    default:
      return "";
  }
}

}  // namespace

Cause cause_of(const schedule::Outcome& outcome, const machine::Finding& finding,
               const schedule::Program& program, const machine::Policy& policy) {
  // Beyond this many events what is asked of them would take longer than the search.
  constexpr std::size_t kMost = 4'000'000;
  if (outcome.history.size() > kMost) return {};
  const History history(outcome.history, policy);
  const Telling telling{history, finding, program, policy};
  switch (finding.kind) {
    case FindingKind::data_race:
    case FindingKind::stale_read:
      return cause_of_race(telling);
    case FindingKind::deadlock:
    case FindingKind::residency:
    case FindingKind::livelock:
      return cause_of_wait(telling, outcome);
    case FindingKind::replica_mismatch:
    case FindingKind::numeric_mismatch:
      return cause_of_values(telling);
    case FindingKind::barrier_divergence:
      return cause_of_divergence(telling);
    case FindingKind::unrestored_signal: {
      Cause c = cause_of_left(telling);
      if (c.fix.empty()) c.fix = mend_of(telling);
      return c;
    }
    case FindingKind::uninitialised_read: {
      Cause c{"", mend_of(telling)};
      if (finding.has_second)
        c.hints.push_back({Hint::What::init, 0, false, finding.second.region});
      return c;
    }
    default:
      return {"", mend_of(telling)};
  }
}

}  // namespace ringfence::trace
