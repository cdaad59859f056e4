#pragma once
// The operator over the transports and barriers that other libraries use, each written from its
// description. What they share is here: each rank's partial product in `input`, a whole residual a
// rank, blocks whose threads walk rows, and what a row computes. A subclass is one way to bring the
// partials together (protocols/pull.hpp, lamport.cpp, put_notify.cpp).
//
// Block b of B walks rows b, b+B, ... of those at hand; its thread t every A-th of them, where A is
// the number of threads. Thread t also serves peer t in barriers: so the thread that moved data is
// not always the one that signals, and the block barrier between the two counts. Elements are
// 4-byte words, as of a 16-byte access of four.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/programs/operator_program.hpp"

namespace ringfence::programs {

class Exchange : public OperatorProgram {
 public:
  bool replicas_agree(const Payload::Call&) const override { return true; }
  std::string site_name(std::uint16_t site) const final;

 protected:
  static constexpr std::uint64_t kSlotBytes = 4;
  static constexpr std::uint64_t kWordBytes = 4;
  static constexpr std::uint64_t kVectorBytes = 16;

  enum Site : std::uint16_t {
    kEndCheck,
    kZeroPads,
    kProductPartial,
    kProductResidual,
    kLoadResidual,
    kStoreResidual,
    kStoreOut,
    kConsume,
    kFirstOwn,  // of a subclass
  };

  struct Lane {
    schedule::Agent& agent;
    schedule::BlockBarrier& block;
    const Payload::Call& call;
    Place place;
    std::uint32_t block_index;
    std::uint32_t thread;
  };

  Exchange(const Config& config, const Switches& switches);

  bool residual_is_sharded() const override { return true; }
  void produce(schedule::Agent& agent, const Place& place) override;
  void run_protocol(schedule::Agent& host, std::uint16_t rank, std::uint32_t call) override;
  machine::Address out_row(const Place& p, std::int64_t row) const override {
    return row_of(out_, p.rank, row);
  }
  machine::Address residual_out_row(const Place& p, std::int64_t row) const override {
    return row_of(residual_, p.rank, row);
  }
  std::optional<std::uint64_t> dirty_slot(std::uint32_t) const override { return std::nullopt; }
  std::uint16_t zero_site() const override { return kZeroPads; }
  std::uint16_t consume_site() const override { return kConsume; }

  virtual void kernel(Lane& lane) = 0;
  // "pull.cpp: load of a peer's input (relaxed.sys)"
  virtual std::string own_site_name(std::uint16_t site) const = 0;

  std::uint32_t blocks() const { return blocks_; }
  machine::Address row_of(const std::vector<std::uint32_t>& regions, std::uint32_t rank,
                          std::int64_t row) const {
    return at(regions[rank], static_cast<std::uint64_t>(row) * row_bytes());
  }
  static machine::Access words(machine::Order order, std::uint16_t site) {
    return {order, machine::Scope::sys, kWordBytes, machine::Proxy::generic, false, site};
  }
  // Calls f(row) for this thread's rows of a range.
  template <class F>
  void for_rows(const Lane& lane, verify::RowRange rows, F&& f) const {
    const std::int64_t step = std::int64_t{blocks_} * threads_;
    for (std::int64_t r = rows.begin + lane.block_index + std::int64_t{lane.thread} * blocks_;
         r < rows.end; r += step) {
      f(r);
    }
  }
  // 16 bytes at a time, each as one instruction.
  void load_row(Lane& lane, machine::Address from, const machine::Access& access,
                std::span<std::uint16_t> row) const;
  void store_row(Lane& lane, machine::Address to, const machine::Access& access,
                 std::span<const std::uint16_t> row) const;
  // The sum of the parts (R rows, one behind the other) by the summation policy in rank order,
  // residual add and norm: residual_out is stored, the row of out returned.
  std::vector<std::uint16_t> compute(Lane& lane, std::int64_t row,
                                     const std::vector<std::uint16_t>& parts);
  std::size_t hidden() const { return static_cast<std::size_t>(payload().problem().hidden); }
  static std::string how(machine::Order order, machine::Scope scope);

  std::vector<std::uint32_t> input_, residual_, out_;  // regions, by rank

 private:
  std::uint32_t blocks_, threads_;
  std::vector<std::vector<std::unique_ptr<schedule::BlockBarrier>>> barriers_;  // by rank, block
};

}  // namespace ringfence::programs
