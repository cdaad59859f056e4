// What the kernels are compiled for. Requests beyond these are errors before any launch.
#pragma once

namespace ringfence::cuda {

inline constexpr int kMaxRanks = 8;       // one NVLink domain of one host
inline constexpr int kMaxHidden = 16384;  // a row is kept in registers: 2 vectors a thread
inline constexpr int kMaxThreads = 1024;

enum class DataType { bf16, fp16 };
/// How data moves between the ranks of tokenweave.
///   peer      loads from and stores to every rank's replica, between two barriers
///   multimem  the same through a multicast address
///   push      stores into the peers' mailboxes, no barriers: for few tokens (push.hpp)
enum class Transport { peer, multimem, push };

/// How a launch follows the one before it on its stream.
///   cooperative  its blocks start together or not at all
///   dependent    its blocks may take up free multiprocessors while the launch before is still
///                running, and wait there for its end (programmatic dependent launch): the start of
///                the launch costs less. It cannot be cooperative at once; see TokenweaveOptions.
enum class Launch { cooperative, dependent };

/// Orders of the start barrier's put and wait. The end barrier is always release/acquire.
///   relaxed  relaxed/relaxed, as the original: right where strong accesses meet at a point of
///            coherence and kernel boundaries fence
///   strict   release/acquire: right by the letter of the memory model
enum class StartOrder { relaxed, strict };

}  // namespace ringfence::cuda
