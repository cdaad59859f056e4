#pragma once
// tokenweave: reduce-scatter, residual add, RMSNorm and all-gather in one pass over a symmetric
// buffer that holds the partial products on entry and the result on exit.
//
// Rank r owns token rows r*T/R .. (r+1)*T/R. Block b of B walks rows b, b+B, ... of that slice; a
// thread moves vectors of 8 elements (4 of fp32): thread t has vectors t, t + threads, ... of a
// row. Per block:
//   1. barrier(start); block barrier
//   2. v = multimem.ld_reduce of the row; z = v + residual, stored; sum of squares over the block
//   3. y = z * rsqrt(mean + eps) * gamma; multimem.st of y to the row on all ranks
//   4. block barrier; barrier(end)
// barrier: thread t serves peer t. put: CAS 0 -> 1 on pad[t][block*R + rank]; wait: CAS 1 -> 0 on
// pad[rank][block*R + t]; both spin. Start is relaxed/relaxed, end is release/acquire, at sys
// scope.
//
// Threads of the kernel that touch no memory (those beyond the vectors of a row, and beyond R) are
// no agents: they add zero to the sums and wait at the same block barriers as all others.

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/programs/operator_program.hpp"
#include "verify/rows.hpp"

namespace ringfence::programs {

struct TokenWeaveSwitches : Switches {
  bool start = true, end = true;  // the barriers
  machine::Order start_put = machine::Order::relaxed, start_wait = machine::Order::relaxed;
  machine::Order end_put = machine::Order::release, end_wait = machine::Order::acquire;
  machine::Order ld_reduce = machine::Order::relaxed, st = machine::Order::relaxed;
  bool end_block_barrier = true;    // false: put before the block barrier
  std::vector<std::uint32_t> grid;  // blocks of rank r: grid[r % size]; empty: --blocks

  void list(SwitchList& list);
  // A launch may have no more blocks than can be named.
  void check(const Config& config, const verify::Problem& problem) const;
};

class TokenWeave final : public OperatorProgram {
 public:
  TokenWeave(const Config& config, TokenWeaveSwitches switches);

  std::string site_name(std::uint16_t site) const override;
  // A put waits for 0, which the pad's owner writes; a wait for 1, which its peer does.
  std::string slot_writer(machine::Address at, const machine::Wanted& wanted) const override;

  bool replicas_agree(const Payload::Call&) const override { return true; }
  SiteWork site_work(std::uint16_t site) const override;

 protected:
  bool residual_is_sharded() const override { return true; }
  void produce(schedule::Agent& agent, const Place& place) override;
  void run_protocol(schedule::Agent& host, std::uint16_t rank, std::uint32_t call) override {
    run_groups(host, rank, call, 0, payload().groups());
  }
  void run_wave(schedule::Agent& host, std::uint16_t rank, std::uint32_t call,
                std::uint32_t group) override {
    run_groups(host, rank, call, group, group + 1);
  }
  machine::Address out_row(const Place& place, std::int64_t row) const override {
    return at(buffer_[place.group * ranks() + place.rank],
              static_cast<std::uint64_t>(row) * row_bytes());
  }
  machine::Address residual_out_row(const Place& place, std::int64_t row) const override;
  std::optional<std::uint64_t> dirty_slot(std::uint32_t region) const override;
  std::uint16_t zero_site() const override;
  std::uint16_t consume_site() const override;
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override;

 private:
  // Groups `first` to `last`, the latter not included.
  void run_groups(schedule::Agent& host, std::uint16_t rank, std::uint32_t call,
                  std::uint32_t first, std::uint32_t last);
  // What the threads of a block share: its bar.sync, and its shared memory, which is made when it
  // has its first row.
  struct Block {
    explicit Block(std::uint32_t agents) : barrier(agents), threads(agents) {}
    schedule::BlockBarrier barrier;
    std::vector<machine::ThreadId> threads;  // of the agents, by index
    std::vector<float> lanes;  // each thread's sum of squares; 0 of those that are no agents
    float scale = 0;           // 1/rms of the row at hand
    std::vector<std::byte> z;  // the row at hand; each thread its own vectors
  };
  // It, as patterns.
  template <typename Bits>
  static Bits* row_at_hand(Block& block) {
    return reinterpret_cast<Bits*>(block.z.data());
  }
  struct Lane;  // a thread at work

  std::uint32_t grid(std::uint32_t rank) const { return grid_[rank % grid_.size()]; }
  void kernel(schedule::Agent& agent);
  void barrier(Lane& lane, bool start);
  // By the type of the data's patterns.
  template <typename Bits>
  void row(Lane& lane, std::int64_t row);
  template <typename Bits>
  void row_by_warps(Lane& lane, std::int64_t row);
  template <typename Bits>
  void load_warp(Lane& lane, std::int64_t row, std::int64_t first);
  template <typename Bits>
  void store_warp(Lane& lane, std::int64_t row, std::int64_t first);
  static verify::Norm norm_of(const Payload::Call& call);
  template <typename Bits>
  void sum(Lane& lane, std::int64_t row, std::int64_t vector, const Bits* const* parts, Bits* v);
  template <typename Bits>
  void ld_reduce(Lane& lane, std::int64_t row, std::int64_t vector, Bits* v);
  const int* sum_order(Lane& lane, std::int64_t row, std::int64_t vector, int* order);
  static float block_sum(const Block& block);

  const TokenWeaveSwitches switches_;
  std::uint32_t threads_;  // of a block
  std::uint32_t agents_;   // those that touch memory
  std::vector<std::uint32_t> grid_;
  std::vector<std::uint32_t> buffer_, residual_, pad_;       // regions, by group and rank
  std::vector<std::vector<std::unique_ptr<Block>>> blocks_;  // by rank; then by group and block
};

}  // namespace ringfence::programs
