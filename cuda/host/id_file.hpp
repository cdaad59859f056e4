// A few bytes from rank 0 to all others by a file: how an ncclUniqueId travels where ranks share a
// folder and no socket (ranks of several hosts, or of a launcher that sets no common job name).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace ringfence::cuda {

/// Rank 0 writes `bytes` to `path` (a file beside it, renamed, so that no one reads half of it) and
/// returns them; the others wait until the file is there and return what it holds. A file of an
/// earlier run would be taken for this run's: rank 0 refuses to overwrite one, and removes its own
/// by remove_id when all have joined.
/// Throws Error(communication): the file is there already, cannot be written, does not come in
/// time, or has another length than `bytes`.
std::vector<std::byte> share_id(const std::string& path, int rank,
                                const std::vector<std::byte>& bytes,
                                std::chrono::milliseconds timeout);
void remove_id(const std::string& path, int rank);

}  // namespace ringfence::cuda
