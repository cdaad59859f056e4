#pragma once
// Task graphs over symmetric memory: the operations a rank's graph is built of, and the edges
// between them.
//
// Memory. Every rank has three rings: data slots of one tile, signal slots and barrier slots of one
// counter each. They share one index: a tile takes the next, all wrap together at the smallest
// count, and go on across calls.
//
// Order. An operation is an agent of its own and runs once those it depends on have ended, whatever
// the program text says. It depends on
//   - its values: the operation whose result it takes (a put needs its matmul). Always.
//   - its `preds`, as given. Left out by Edges::pred = false.
//   - shmem regions: earlier operations of the tile on the same region, where a region is one
//     rank's slot of one ring and one of the two changes it; and, for the first operation on a
//     region, all operations of the slot's previous user on this rank. Left out by
//     Edges::shmem = false.
// An edge is happens-before, and no kernel boundary.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "emulator/machine/access.hpp"
#include "emulator/schedule/agent.hpp"
#include "verify/dtype.hpp"

namespace ringfence::programs::shmem {

inline constexpr std::uint64_t kSignalBytes = 4;

// Orders and scope of the operations; the defaults are the protocol's.
struct Orders {
  machine::Order put = machine::Order::relaxed;  // at sys scope
  machine::Order signal = machine::Order::release;
  machine::Order wait = machine::Order::acquire;
  machine::Order barrier_signal = machine::Order::release;
  machine::Order barrier_wait = machine::Order::acquire;
  machine::Scope scope = machine::Scope::sys;  // of signals, waits and barriers
};

struct Edges {
  bool pred = true;
  bool shmem = true;
};

// The symmetric memory of one group.
class World {
 public:
  // Elements of tiles are of `dtype`: bf16, f16 or f32.
  World(std::uint16_t ranks, std::uint64_t tile_bytes, std::uint32_t slots, const Orders& orders,
        verify::Dtype dtype = verify::Dtype::bf16)
      : ranks_(ranks), tile_bytes_(tile_bytes), slots_(slots), orders_(orders), dtype_(dtype) {}

  // How many slots each ring has: the smallest count that the limits (bytes a rank) give, and no
  // more than `tiles` in all need. 0 if not one fits.
  static std::uint32_t ring_slots(std::uint64_t tile_bytes, std::uint64_t data_limit,
                                  std::uint64_t signal_limit, std::uint64_t tiles);

  // The regions by rank: slots() tiles, slots() counters, slots() counters. Before any run.
  void bind(std::vector<machine::RegionId> data, std::vector<machine::RegionId> signal,
            std::vector<machine::RegionId> barrier);

  std::uint16_t ranks() const { return ranks_; }
  std::uint32_t slots() const { return slots_; }
  std::uint64_t tile_bytes() const { return tile_bytes_; }
  const Orders& orders() const { return orders_; }
  verify::Dtype dtype() const { return dtype_; }
  machine::Address data(std::uint32_t slot, std::uint16_t pe) const {
    return {data_[pe], slot * tile_bytes_};
  }
  machine::Address signal(std::uint32_t slot, std::uint16_t pe) const {
    return {signal_[pe], slot * kSignalBytes};
  }
  machine::Address barrier(std::uint32_t slot, std::uint16_t pe) const {
    return {barrier_[pe], slot * kSignalBytes};
  }

 private:
  std::uint16_t ranks_;
  std::uint64_t tile_bytes_;
  std::uint32_t slots_;
  Orders orders_;
  verify::Dtype dtype_;
  std::vector<machine::RegionId> data_, signal_, barrier_;
};

// Program lines of the operations, for findings and stories; a program's own start at kFirstOwn.
enum Site : std::uint16_t {
  kClearData = 1,
  kClearSignal,
  kBarrierSignal,
  kBarrierWait,
  kBarrierClear,
  kPut,
  kSignal,
  kWait,
  kWaitClear,
  kLoad,
  kFirstOwn,
};
std::string site_name(std::uint16_t site, const Orders& orders);

// add: one element at a time, rounded to the dtype; of a signal: of its number.
enum class PutOp : std::uint8_t { set, add };

using Op = std::uint32_t;
// What an operation gives to others: an edge that no switch removes.
struct Value {
  Op op = 0;
  std::span<const std::byte> bytes;
};
struct Tensor {
  std::uint32_t slot = 0;
  std::uint64_t bytes = 0;  // of the tile: the last one may be short
};
struct Signal {
  std::uint32_t slot = 0;
};

// The operations of one rank in one launch, in program order.
class Graph {
 public:
  using Preds = std::vector<Op>;
  using Body = std::function<void(schedule::Agent&)>;

  // `ring_index`: tiles taken on this rank so far, in earlier launches.
  Graph(const World& world, std::uint16_t my_pe, std::uint64_t ring_index, Edges edges);

  // Takes the next slot of the rings; what follows, until the next tensor, is one tile.
  Tensor create_shmem_tensor(std::uint64_t bytes);
  // The signal slot of that tile.
  Signal create_shmem_signal();
  std::uint16_t my_pe() const { return my_pe_; }

  // Own tile := +0, weak.
  Op shmem_clear_data(const Tensor& tensor, Preds preds = {});
  // Own signal := 0, relaxed.sys.
  Op shmem_clear_signal(const Signal& signal, Preds preds = {});
  // 1 added at every rank's barrier slot of this tile; waits for all, and clears its own.
  Op shmem_barrier_all(Preds preds = {});
  // `value` into the tile of rank `pe`: stored, or added element by element, each atomically.
  Op shmem_put(const Value& value, const Tensor& tensor, std::uint16_t pe, PutOp op,
               Preds preds = {});
  // `amount` into the signal of rank `pe`.
  Op shmem_signal(const Signal& signal, std::uint16_t pe, std::uint32_t amount, PutOp op,
                  Preds preds = {});
  // Until own signal compares so with `value`; then, if `clear`, own signal := 0, relaxed.sys.
  Op shmem_wait_until(const Signal& signal, machine::Compare compare, std::uint32_t value,
                      bool clear, Preds preds = {});
  // Own tile to `to` (of tensor.bytes), weak.
  Value shmem_load(const Tensor& tensor, std::span<std::byte> to, Preds preds = {});
  // Anything local. `result` is what it leaves for others.
  Value compute(Body body, std::span<const std::byte> result, const std::vector<Value>& values = {},
                Preds preds = {});

  std::size_t size() const { return operations_.size(); }
  // What each operation waits for, by index; sorted.
  std::vector<std::vector<std::uint32_t>> predecessors() const;

 private:
  friend void launch(schedule::Agent& host, machine::StreamId stream, std::uint16_t call,
                     std::span<Graph* const> graphs, std::uint16_t group);
  enum class Kind : std::uint8_t {
    compute,
    clear_data,
    clear_signal,
    barrier_all,
    put,
    signal,
    wait_until,
    load,
  };
  enum class Ring : std::uint8_t { data, signal, barrier };
  struct Use {
    Ring ring;
    std::uint16_t pe;
    bool changes;
  };
  struct Operation {
    Kind kind = Kind::compute;
    std::uint32_t tile = 0, index = 0;  // in this graph; in its tile
    std::uint32_t slot = 0;
    std::uint16_t pe = 0;
    PutOp op = PutOp::set;
    std::uint32_t value = 0;
    machine::Compare compare = machine::Compare::eq;
    bool clear = false;
    std::span<const std::byte> from;
    std::span<std::byte> to;
    std::uint64_t bytes = 0;
    Body body;
    std::vector<Use> uses;
    std::vector<Op> after;  // sorted
  };

  Op add(Operation operation, const Preds& preds, const std::vector<Value>& values);
  void add_region_edges(Operation& operation);
  void run(schedule::Agent& agent, const Operation& operation) const;
  void store_zeros(schedule::Agent& agent, machine::Address to, std::uint64_t bytes) const;

  const World& world_;
  std::uint16_t my_pe_;
  Edges edges_;
  std::uint64_t next_index_;
  std::uint32_t tiles_ = 0;    // begun in this graph
  std::uint32_t slot_ = 0;     // of the tile at hand
  std::uint32_t in_tile_ = 0;  // operations of the tile at hand
  Op first_of_tile_ = 0;
  std::vector<std::vector<Op>> users_;  // by slot: shmem operations of its latest tile
  std::vector<Op> previous_;            // those of the slot's user before the tile at hand
  std::deque<Operation> operations_;
};

// Runs graphs of one rank, of different groups, in one launch, whose labels have `group`.
void launch(schedule::Agent& host, machine::StreamId stream, std::uint16_t call,
            std::span<Graph* const> graphs, std::uint16_t group = 0);

}  // namespace ringfence::programs::shmem
