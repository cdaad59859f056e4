#pragma once
// Faults that befall ranks in a run: drawn by the strategy, recorded, replayed and shrunk like any
// other choice. (What befalls a rank's *process* is schedule::Fault, of the executor.)
//
//   kill         The rank of the agent that stands at a point ends there, all its agents with it.
//                What it stored stays and is seen as the model says; nothing more comes of it.
//   restart      As kill, and the rank's host code begins anew, in the call that it was in
//                (Agent::first_call). Memory keeps what was stored there; registers, block
//                barriers, shared memory and the host's variables are lost. What the old
//                incarnation did happens before what the new one does, as an earlier launch of the
//                same stream.
//   pause        No agent of the rank steps until the run has passed so many points, or until
//                nobody else can step.
//   delay        The same for the one agent that stands at the point.
//   late-signal  A strong write of at most 8 bytes (store, reduction, read-modify-write) is
//                performed and its writer goes on, but who waits for that place, or reads it and
//                need not see the write, does not see it for so many points, or until nobody else
//                can step.
//   dirty-pad    A word of a rank's signal memory does not hold its initial value at the start.
//
// What a protocol promises under them, and so what counts as a finding:
//   all          No silent wrong result: a race, a stale read, wrong numbers, replicas that differ
//                and the like are findings as without the fault.
//   pause, delay, late-signal
//                They end, so the run has to complete: a deadlock is a finding.
//   kill, restart
//                The run completes right, or stops with the stuck agents named (whom the others
//                wait for, the killed rank marked): a deadlock keeps the promise, unless the search
//                asks for survival. Results and slots of a killed rank are not judged, nor the
//                slots of the others, which a new start has to zero in any case.
//   dirty-pad    A protocol that requires zeroed pads hangs, or goes wrong: both are findings,
//   which
//                name the word. One that the run leaves as it was is not held against it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "emulator/machine/access.hpp"

namespace ringfence::schedule {

enum class FaultKind : std::uint8_t { kill, restart, pause, delay, late_signal, dirty_pad };
inline constexpr int kFaultKinds = 6;

std::string_view name(FaultKind kind);

// How often the strategy draws a kind: up to `count` times in a run, at points spread over it; or
// with `chance` wherever it could happen.
struct FaultRate {
  std::uint32_t count = 0;
  double chance = 0;
  bool any() const { return count > 0 || chance > 0; }
};

struct FaultSpec {
  static constexpr std::uint32_t kMostOfAKind = 8;
  std::array<FaultRate, kFaultKinds> rates{};
  FaultRate& operator[](FaultKind k) { return rates[static_cast<std::size_t>(k)]; }
  const FaultRate& operator[](FaultKind k) const { return rates[static_cast<std::size_t>(k)]; }
  bool any() const;
};

// "kill,pause=2,late-signal=0.01": a number from 1 is a count, one below 1 a chance; 1 if left out.
// Throws std::invalid_argument, one line.
FaultSpec parse_faults(const std::string& text);
std::string text(const FaultSpec& spec);  // empty: none

// One fault that took effect.
struct AppliedFault {
  FaultKind kind = FaultKind::kill;
  std::uint64_t label = 0;  // of the agent at whose point it was drawn
  std::uint16_t rank = 0;   // that it befell
  std::uint32_t step = 0;   // of the machine, when it happened
  std::uint32_t span = 0;   // pause, delay, late_signal: points
  machine::Address at;      // late_signal, dirty_pad
  std::uint32_t holds = 0;  // dirty_pad: the word's content
};

// Answers to the questions of kind DecisionKind::fault: what befalls who stands at a point.
struct StepFault {
  FaultKind kind = FaultKind::kill;  // kill, restart, pause or delay
  std::uint32_t span = 0;
};
inline constexpr std::uint32_t kMostSpan = (1u << 24) - 1;
inline constexpr std::uint32_t kStepFaultOptions = 1u << 27;
std::uint32_t encode(const StepFault& fault);  // never 0
std::optional<StepFault> decode_step_fault(std::uint64_t answer);

// Answers to the questions of kind DecisionKind::dirty: which word of the rank's signal memory, in
// the order of the regions, and what it holds.
struct DirtyWord {
  std::uint32_t word = 0;
  std::uint32_t holds = 0;  // one of kDirtyValues
};
inline constexpr std::array<std::uint32_t, 3> kDirtyValues{1, 2, ~std::uint32_t{0}};
inline std::uint32_t dirty_options(std::uint32_t words) {
  return 1 + words * static_cast<std::uint32_t>(kDirtyValues.size());
}
std::optional<std::uint32_t> encode(const DirtyWord& dirty);  // none: no such value
std::optional<DirtyWord> decode_dirty(std::uint64_t answer);

}  // namespace ringfence::schedule
