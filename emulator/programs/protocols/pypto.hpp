#pragma once
// pypto: push with atomic add. The token rows are cut into tiles; for each tile
//   clear own data and own signal; barrier_all; matmul, rounded to bf16;
//   for each peer, itself included: put with atomic ADD into the peer's tile, then signal ADD 1;
//   wait until own signal EQ R and clear it; load own tile; add the residual and norm in fp32.
// It is a task graph (emulator/programs/shmem.hpp): tiles, and the operations of a tile, run in any
// order that their edges allow.

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/programs/operator_program.hpp"
#include "emulator/programs/shmem.hpp"

namespace ringfence::programs {

struct PyPtoSwitches : Switches {
  bool clear_data = true, clear_signal = true, barrier_all = true;
  machine::Order put = machine::Order::relaxed;
  machine::Order signal = machine::Order::release, wait = machine::Order::acquire;
  machine::Order barrier_signal = machine::Order::release;
  machine::Order barrier_wait = machine::Order::acquire;
  machine::Compare wait_compare = machine::Compare::eq;
  bool shmem_edges = true, pred_edges = true;
  std::uint32_t tile_rows = 8;
  std::uint64_t data_limit = std::uint64_t{200} << 20;  // bytes a rank, for data slots
  // bytes a rank, for signal and barrier slots
  std::uint64_t signal_limit = std::uint64_t{1} << 20;

  void list(SwitchList& list);
  // Throws std::invalid_argument where a tile does not fit in the limits, or where there are more
  // tiles than can be named: the message has a tile size that is right.
  void check(const Config& config, const verify::Problem& problem) const;
};

class PyPto final : public OperatorProgram {
 public:
  PyPto(const Config& config, const PyPtoSwitches& switches);

  void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) override;
  std::string site_name(std::uint16_t site) const override;

  bool replicas_agree(const Payload::Call& call) const override { return call.exact; }
  SiteWork site_work(std::uint16_t site) const override;

 protected:
  // Where the order of the adds shows in the bits, ranks may differ in the last of them.
  bool residual_is_sharded() const override { return false; }
  void produce(schedule::Agent& agent, const Place& place) override;
  void run_protocol(schedule::Agent& host, std::uint16_t rank, std::uint32_t call) override {
    run_groups(host, rank, call, 0, payload().groups());
  }
  void run_wave(schedule::Agent& host, std::uint16_t rank, std::uint32_t call,
                std::uint32_t group) override {
    run_groups(host, rank, call, group, group + 1);
  }
  machine::Address out_row(const Place& place, std::int64_t row) const override {
    return row_of(out_, place, row);
  }
  machine::Address residual_out_row(const Place& place, std::int64_t row) const override {
    return row_of(residual_out_, place, row);
  }
  std::optional<std::uint64_t> dirty_slot(std::uint32_t region) const override;
  std::uint16_t zero_site() const override;
  std::uint16_t consume_site() const override;
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override;

 private:
  // Groups `first` to `last`, the latter not included.
  void run_groups(schedule::Agent& host, std::uint16_t rank, std::uint32_t call,
                  std::uint32_t first, std::uint32_t last);
  std::size_t index(const Place& p) const { return p.group * ranks() + p.rank; }
  machine::Address row_of(const std::vector<std::uint32_t>& regions, const Place& p,
                          std::int64_t row) const {
    return at(regions[index(p)], static_cast<std::uint64_t>(row) * row_bytes());
  }
  std::unique_ptr<shmem::Graph> build(const Place& place, std::uint64_t ring_index);
  void tile(shmem::Graph& graph, const Place& place, std::int64_t first, std::int64_t rows);
  void matmul(schedule::Agent& agent, const Place& place, std::int64_t first, std::int64_t rows);
  void norm(schedule::Agent& agent, const Place& place, std::int64_t first, std::int64_t rows);
  template <typename Bits>  // of the data's patterns
  void norm_of(schedule::Agent& agent, const Place& place, std::int64_t first, std::int64_t rows);
  machine::Access weak(std::uint16_t site) const {
    return {machine::Order::weak,
            machine::Scope::sys,
            element_bytes(),
            machine::Proxy::generic,
            false,
            site};
  }

  const PyPtoSwitches switches_;
  std::vector<shmem::World> worlds_;  // by group
  // regions, by group and rank
  std::vector<std::uint32_t> x_, residual_, out_, residual_out_, data_, signal_, barrier_;
  std::vector<std::vector<std::byte>> loaded_;         // by group and rank: tiles after the load
  std::vector<std::unique_ptr<shmem::Graph>> graphs_;  // by rank, call and group
};

}  // namespace ringfence::programs
