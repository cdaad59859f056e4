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

/// Up to so many tokens the mailboxes are faster than the barriers where each rank has a GPU of its
/// own. They spare two barriers and the way of a read, and take each byte through memory once more,
/// which costs the blocks time, unless there are so many of them that the link is what they wait
/// for. Two H200s, hidden 8192, bf16, us by push and by barriers (cuda/bench/results):
///   1 row a block    T 64, 32 blocks: 8.9, 10.6     T 256, 128 blocks: 16.6, 19.1
///   2 rows           T 64, 16 blocks: 11.0, 10.8    T 256, 64 blocks: 17.0, 19.2
///   4 rows           T 256, 32 blocks: 20.5, 19.8   T 1024, 128 blocks: 53.7, 55.9
///   16 rows                                         T 4096, 128 blocks: 208, 205
inline constexpr int64_t kPushTokens = 1024;  // the most whose mailboxes are worth their memory
constexpr int64_t push_limit(int world, int blocks) {
  const int64_t rows_a_block = blocks >= 128 ? 4 : 2;
  const int64_t limit = rows_a_block * blocks * world;
  return limit < kPushTokens ? limit : kPushTokens;
}

/// Blocks a rank that are fastest with nothing beside them: one for each of a rank's rows, up to
/// 128. From 32 rows on, 128 where each rank has a GPU of its own: two H200s, T 64, push, us by 32
/// and by 128 blocks in four runs: 8.68, 8.35; 8.37, 7.98; dependent 7.78, 7.80; 7.65, 7.26.
/// Virtual ranks share the multiprocessors of one GPU.
inline constexpr int kMaxBlocks = 128;
constexpr int blocks_for(int64_t max_tokens, int world, bool share, int multiprocessors) {
  const int64_t rows = owned_rows(max_tokens, world, 0).count;
  const int64_t most =
      share ? (multiprocessors < kMaxBlocks ? multiprocessors : kMaxBlocks) / world : kMaxBlocks;
  const int64_t wanted = !share && rows >= 32 ? most : rows;
  const int64_t blocks = wanted < most ? wanted : most;
  return blocks < 1 ? 1 : static_cast<int>(blocks);
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
cudaError_t launch_push(const PushArgs& args, DataType dtype, int ranks, Launch how,
                        cudaStream_t stream);

}  // namespace ringfence::cuda
