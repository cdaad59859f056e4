// The push kernel: the operator of tokenweave, in place in the same symmetric buffer, for few
// tokens, where the two barriers and the round trips of reading cost more than the bytes. Nobody
// reads from a peer and nobody waits at a barrier: partials and finished rows are stored into the
// peers' mailboxes, and each 32-bit word says by its own value whether it has come.
#pragma once

#include "cuda/kernels/tokenweave.hpp"

namespace ringfence::cuda {

/// A mailbox word that has not come: two NaN of a kind that no arithmetic gives. A pair of elements
/// that is these bits is sent as two NaN of the usual kind.
inline constexpr uint32_t kNotCome = 0xffffffffu;

/// Memory of a rank's mailbox, all words kNotCome before and after each launch. Two halves, which
/// the launches use in turn; in each the partials for own rows, [world][rows_each][hidden], and the
/// finished rows of others, [max_tokens][hidden].
constexpr int64_t push_rows_each(int64_t max_tokens, int world) {
  return (max_tokens + world - 1) / world;
}
constexpr int64_t push_half_rows(int64_t max_tokens, int world) {
  return push_rows_each(max_tokens, world) * world + max_tokens;
}

/// Orders: all accesses to mailboxes are relaxed.sys, and no fence is used. That is right in the
/// boundary modes `stream` and `coherent` and wrong in `strict`: a word is cleared in launch n and
/// written by a peer again in launch n + 2, and what orders these is the end of launch n, the
/// rank's own words of launch n + 1, and the end of the peer's launch n + 1.
struct PushArgs {
  TokenweaveArgs common;  // replica: only the own is used; pad and multicast are not
  void* mailbox[kMaxRanks];
  uint32_t* state[kMaxRanks];  // of the launched ranks: launches so far, blocks that have ended
  int64_t max_tokens;          // that the mailboxes were made for
};

/// Null where there is none: hidden % 8 != 0.
const void* push_kernel(DataType dtype, int world, int hidden);

/// As launch_tokenweave. All ranks launch with the same tokens and blocks; tokens 0 launches
/// nothing.
cudaError_t launch_push(const PushArgs& args, DataType dtype, int ranks, bool cooperative,
                        cudaStream_t stream);

}  // namespace ringfence::cuda
