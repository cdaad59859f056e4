#pragma once
// What the protocols have in common: a call is three launches on the rank's stream, product,
// protocol, consumer. The consumer keeps what it reads. After the run that is compared with what is
// expected, the replicas have to agree and the signal slots to be back at zero: a wrong result that
// a race made is so reported as the race, which tells more.
//
// Several groups are so many operators with memory and payload of their own. They share the
// launches: their blocks run at once. With `waves=yes` they are the waves of one operator instead:
// a launch each, and the product of one beside the protocol of the one before, on two streams.

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "emulator/programs/config.hpp"
#include "emulator/programs/payload.hpp"
#include "emulator/programs/switches.hpp"
#include "emulator/schedule/agent.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::programs {

// What an access of a program line stands for besides itself, for those who ask how long it takes.
enum class SiteWork : std::uint8_t {
  access,   // nothing else
  product,  // the matrix product, or a tile's share of it
  row_sum,  // the arithmetic of a row, and half of its sum over the block
  aside,    // made ahead or read afterwards: no part of the operator
};

class OperatorProgram : public schedule::Program {
 public:
  const Payload& payload() const { return payload_; }

  // Results of the last run, [T, H] of that call's T. out: as `rank` read it. residual_out: as
  // sharded (tokenweave: the same for every `rank`), or as `rank` has it (pypto).
  const std::byte* out(std::uint32_t group, std::uint32_t call, std::uint32_t rank) const;
  const std::byte* residual_out(std::uint32_t group, std::uint32_t call, std::uint32_t rank) const;

  std::uint16_t ranks() const final { return ranks_; }
  std::uint64_t shared_bytes() const final;
  void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) override;
  void before_run(machine::Machine& machine) final;
  void host(schedule::Agent& agent, std::uint16_t rank) final;
  void after_run(machine::Machine& machine) final;
  std::string region_name(machine::RegionId region) const final;
  schedule::SlotName slot_name(machine::Address at) const final;
  std::string last_mismatch() const final;

  // Whether all ranks must end with the same bits. Where each rank's sum has an order of its own,
  // only inputs whose sums are exact make them agree.
  virtual bool replicas_agree(const Payload::Call& call) const = 0;
  virtual SiteWork site_work(std::uint16_t) const { return SiteWork::access; }

 protected:
  struct RegionInfo {
    const char* name;
    std::uint16_t rank;
    std::uint32_t group;
    machine::RegionSpec spec;
    bool slots;               // 4-byte slots that start at zero; otherwise tensors
    std::uint8_t weight = 1;  // how much more of the model's state than usual it takes
  };
  // One operator on one rank in one call.
  struct Place {
    std::uint32_t group;
    std::uint16_t rank;
    std::uint32_t call;
  };

  // What is in a data region before anything was written: NaN in every dtype, so that a sum that
  // takes it in shows.
  static constexpr std::uint16_t kNeverWritten = 0xffff;

  OperatorProgram(const Config& config, const Switches& switches);

  // In the constructor of the protocol: the index by which `at` finds it again.
  std::uint32_t add_region(const char* name, std::uint16_t rank, std::uint32_t group,
                           machine::RegionKind kind, std::uint64_t bytes);
  // Slots whose newest value stands for the earlier ones: that one is overwritten before it was
  // waited for is no lost signal.
  std::uint32_t add_counters(const char* name, std::uint16_t rank, std::uint64_t bytes);
  // Its words are waited for one by one: the model keeps a cell for each, with its readers.
  void polled_by_word(std::uint32_t region) { regions_[region].weight = kPolledWeight; }
  machine::Address at(std::uint32_t region, std::uint64_t offset) const {
    return {first_region_ + region, offset};
  }
  const RegionInfo& info(machine::RegionId region) const {
    return regions_[region - first_region_];
  }
  machine::StreamId stream(std::uint16_t rank) const { return shared_->streams[rank]; }
  // Of the products, where they run beside the protocol (Switches::waves).
  machine::StreamId product_stream(std::uint16_t rank) const {
    return shared_->product_streams[rank];
  }
  const Payload::Call& call_of(const Place& p) const { return payload_.call(p.group, p.call); }
  std::uint64_t row_bytes() const { return row_bytes_; }
  // Of an element of the data: 2, or 4 of fp32.
  std::uint8_t element_bytes() const { return element_bytes_; }
  // "" or ", group 1"
  std::string group_text(std::uint32_t group) const;
  // The "zero late" of pads=late: weak stores of zero over the rank's signal regions.
  void zero_late(schedule::Agent& agent, std::uint16_t rank, std::uint16_t site);

  // Which rows of residual_out a rank has.
  virtual bool residual_is_sharded() const = 0;

  virtual void produce(schedule::Agent& agent, const Place& place) = 0;
  // One launch for all groups.
  virtual void run_protocol(schedule::Agent& host, std::uint16_t rank, std::uint32_t call) = 0;
  // One launch for one of them; of protocols that take the switch `waves`.
  virtual void run_wave(schedule::Agent& host, std::uint16_t rank, std::uint32_t call,
                        std::uint32_t group);
  virtual machine::Address out_row(const Place& place, std::int64_t row) const = 0;
  virtual machine::Address residual_out_row(const Place& place, std::int64_t row) const = 0;
  // The slot of this region (of rank 0) that pads=dirty leaves at 1, if it has one.
  virtual std::optional<std::uint64_t> dirty_slot(std::uint32_t region) const = 0;
  virtual std::uint16_t zero_site() const = 0;
  virtual std::uint16_t consume_site() const = 0;
  virtual schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const = 0;
  // What a slot has to hold after the last launch.
  virtual std::uint32_t slot_at_end(const RegionInfo&, std::uint64_t /*offset*/) const { return 0; }

 private:
  static constexpr std::size_t kResultAlignment = 64;
  static constexpr std::uint8_t kPolledWeight = 8;
  enum class What : std::uint8_t { nothing, wrong_value, replicas_differ, wrong_slot };
  // The fault that the end checks of the last run found.
  struct Mismatch {
    What what = What::nothing;
    bool is_residual = false;
    Place place{};                            // whose value `got` is
    std::uint16_t base = 0;                   // replicas_differ: whose value `expected` is
    std::size_t element = 0;                  // of the [T, H] tensor
    double expected = 0, bound = 0, got = 0;  // replicas_differ: `expected` is the base's
    std::uint32_t expected_bits = 0, got_bits = 0;
    machine::Address slot;
    std::uint32_t due = 0;  // in the slot
  };
  struct Shared {
    machine::StreamId streams[verify::kMaxRanks] = {};
    machine::StreamId product_streams[verify::kMaxRanks] = {};
  };

  schedule::Agent::ChildSpec product_of(std::uint32_t group);
  void add_late_zeroing(std::vector<schedule::Agent::ChildSpec>& children, std::uint16_t rank,
                        std::uint32_t call);
  void run_waves(schedule::Agent& agent, std::uint16_t rank, std::uint32_t call);
  void consume(schedule::Agent& agent, const Place& place);
  // The end checks: false, after reporting it, if there is a fault.
  bool check_results(machine::Machine& machine);
  bool check_values(machine::Machine& machine, const Place& place, bool is_residual);
  bool check_replicas(machine::Machine& machine);
  bool check_slots(machine::Machine& machine);
  machine::AccessInfo consumed(const Place& place, bool is_residual, std::size_t element) const;
  std::size_t out_at(std::uint32_t group, std::uint32_t call, std::uint32_t rank) const;
  std::size_t residual_at(std::uint32_t group, std::uint32_t call, std::uint32_t rank) const;

  const Switches common_;
  Payload payload_;
  std::uint16_t ranks_;
  std::uint8_t element_bytes_;
  std::uint64_t row_bytes_;
  std::vector<RegionInfo> regions_;
  machine::RegionId first_region_ = 0;
  std::vector<std::size_t> first_result_;  // by group and call, in bytes
  std::size_t result_bytes_ = 0;
  Shared* shared_ = nullptr;
  std::byte* results_ = nullptr;  // in shared memory too
  Mismatch mismatch_;
  std::vector<std::uint32_t> slots_;  // scratch of the end checks
};

}  // namespace ringfence::programs
