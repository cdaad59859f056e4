// Whether the logged signal events of a run are an execution that the protocol and the memory model
// allow. An event is an interval [begin, end] in which an operation took effect: a successful CAS
// of a put or a wait, or a poll that saw the value it waited for.
//
// Rules, of which each names what breaks it:
//   pairing     the k-th wait at a slot reads from the k-th put there (slots alternate 0 -> 1 -> 0:
//               read-modify-writes of one location, so there is one order of them), and there are
//               as many puts as waits, of the peer that the slot belongs to
//   reads-from  a wait does not end before the put that it reads from began
//   alternation a put finds the slot free: it does not end before the wait that freed it began
//   program     a thread's operations of a call follow one another: start put, start wait, end put,
//               end wait; calls do too
//   barrier     pypto, n-th tile: no wait for a tile's signals ends before every block of every
//               rank has passed the tile's barrier; no tile's barrier ends before the tile `lag`
//               earlier was waited for everywhere (lag: the tiles that may be open at once)
// Reads-from, alternation and barrier compare times of different multiprocessors of one clock.
// Events of several GPUs have a clock each: then only pairing and program are checked.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

/// One line for each violation, none for an execution that is allowed.
std::vector<std::string> check_signal_events(const std::vector<SignalEvent>& events, int world,
                                             bool one_clock = true);
std::vector<std::string> check_tile_events(const std::vector<SignalEvent>& events, int lag);

/// For each event the index of the put that it reads from, or -1: puts, and waits without one.
std::vector<int64_t> reads_from(const std::vector<SignalEvent>& events);

}  // namespace ringfence::cuda
