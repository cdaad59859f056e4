// What a waiting kernel shares with the host: the time limit, the report of who gave up waiting for
// whom, and the trace of the barrier's events. Plain structs, read by device and host code.
#pragma once

#include <cstdint>

namespace ringfence::cuda {

/// What a thread was doing at a slot of a signal pad.
enum class SignalKind : uint32_t {
  start_put = 0,
  start_wait = 1,
  end_put = 2,
  end_wait = 3,
  tile_barrier = 4,  // pypto: barrier_all of a tile
  tile_signal = 5,   // pypto: wait_until of a tile
  data_wait = 6,     // push: a vector of a row that a peer sends; the slot is the row
};

/// A thread that left a spin loop by the time limit.
struct SpinTimeout {
  static constexpr uint32_t kAnyPeer = 0xffffffffu;  // the slot counts all ranks
  uint32_t rank;                                     // who waited
  uint32_t block;                                    // in which block of that rank
  uint32_t peer;  // for whom: the owner of the pad (put) or the writer of the slot (wait)
  uint32_t slot;  // index in the pad
  SignalKind kind;
  uint32_t value;  // last value seen in the slot
};

/// Lies in host memory that the device can write. Written by waiting threads with system-scope
/// atomics, read by the host after the launch has ended.
struct SpinReport {
  static constexpr uint32_t kCapacity = 256;
  uint32_t count;  // may exceed kCapacity: the rest was dropped
  SpinTimeout entry[kCapacity];
};

/// One signal operation in time (globaltimer, nanoseconds). `end` is when the operation succeeded.
struct SignalEvent {
  uint64_t begin_ns;
  uint64_t end_ns;
  uint32_t rank;
  uint32_t block;
  uint32_t peer;
  uint32_t slot;
  SignalKind kind;
  uint32_t call;
};

/// Limits and logs of the waiting loops of one launch; all optional.
struct SpinControl {
  uint64_t timeout_ns = 0;       // 0: wait for ever
  SpinReport* report = nullptr;  // must be set where timeout_ns is
  // Events are stored without atomics: each has a place of its own, call * trace_stride plus what
  // the kernel derives from rank, block and thread. Beyond trace_capacity they are dropped.
  SignalEvent* trace = nullptr;
  uint32_t trace_capacity = 0;
  uint32_t trace_stride = 0;  // events a call
  uint32_t blocks = 0;        // a rank
  uint32_t call = 0;          // goes into the events
};

}  // namespace ringfence::cuda
