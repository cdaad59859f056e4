#pragma once
// The execution graph of one run as the axioms see it: events, program order and what else orders
// threads without memory, reads-from, dependencies. Written down as the run goes; axioms.hpp judges
// it. Needed where the order of execution is not part of what a run shows (load buffering, fence-sc
// order).

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/check/foresight.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::check {

// One access to one cell, a fence, a proxy fence (bridge), or a point where threads meet. A
// read-modify-write is two.
struct Node {
  enum class Kind : std::uint8_t { initial, read, write, fence, bridge, meeting };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  Kind kind = Kind::initial;
  machine::ThreadId thread = machine::kNoThread;
  machine::Placement at;
  machine::Order order = machine::Order::weak;
  machine::Scope scope = machine::Scope::cta;
  machine::Proxy proxy = machine::Proxy::generic;
  std::uint8_t element = 0;
  bool sc = false;        // fence.sc
  bool boundary = false;  // meetings: the begin of a launch, which carries across proxies
  machine::Machine::ProxyFence bridge = machine::Machine::ProxyFence::alias;  // bridges
  bool reduction = false;  // reads: never acquires
  bool foreseen = false;   // reads
  std::uint32_t location = kNone;
  std::uint32_t source = kNone;  // reads: the write that they return
  std::uint32_t other = kNone;   // the other half of a read-modify-write
  std::uint32_t step = 0;
  Place place;
  std::uint64_t value = 0;
  std::uint64_t depends = 0;   // see machine::Access
  std::uint32_t nth_read = 0;  // of its thread; reads
};

class Record final : public machine::Listener {
 public:
  // Before a run of `machine` under this policy.
  void start(const machine::Machine& machine, const machine::Policy& policy);

  void on_event(const machine::Event& event) override;
  // bar.arrive, where it does not complete its barrier; bar.sync as the machine executes it.
  void on_arrive(machine::ThreadId thread);
  void on_block_barrier(std::span<const machine::ThreadId> arriving,
                        std::span<const machine::ThreadId> syncing);

  // The accesses of that label so far.
  std::uint32_t count(std::uint64_t label) const;

  // -- after the run --------------------------------------------------------------------------
  enum class Resolved : std::uint8_t {
    yes,
    otherwise,  // but some write wrote something else than was foreseen
    no          // some read was not made, or its write was not
  };
  // Gives the foreseen reads their sources.
  Resolved resolve(const Foresight& foresight);
  // Whether the axioms can judge it: no cells of different sizes overlap.
  bool plain() const { return plain_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // Edges between threads: launches, task graphs, bar.sync.
  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges() const { return edges_; }
  // Each thread's nodes in program order.
  const std::vector<std::vector<std::uint32_t>>& threads() const { return threads_; }
  const std::vector<CellKey>& locations() const { return locations_; }
  std::uint32_t find_write(std::uint32_t step, std::uint32_t location) const;
  const machine::Policy& policy() const { return policy_; }

 private:
  struct Stream {
    std::uint32_t live = 0;
    std::vector<std::uint32_t> ended, earlier;  // last nodes of threads: of this launch, of others
  };
  std::uint32_t add(Node node, machine::ThreadId thread);
  std::uint32_t location(const machine::Event& e);
  void access(const machine::Event& e);
  std::uint32_t meet(machine::ThreadId thread);
  void add_bridge(const machine::Event& e);
  void fence(const machine::Event& e, machine::Order order, machine::Scope scope, bool sc);

  const machine::Machine* machine_ = nullptr;
  machine::Policy policy_;
  bool plain_ = true;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
  std::vector<std::vector<std::uint32_t>> threads_;
  std::vector<std::uint32_t> reads_;  // accesses that read, by thread
  std::vector<CellKey> locations_;
  std::map<CellKey, std::uint32_t> location_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> writes_;  // by step and location
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;                  // by label
  std::unordered_map<std::uint64_t, machine::ThreadId> thread_of_;           // by label
  std::unordered_map<machine::ThreadId, std::vector<std::uint32_t>> arrived_;
  std::unordered_map<machine::ThreadId, std::uint32_t> completed_;  // arrivals still to be told
  std::unordered_map<machine::StreamId, Stream> streams_;
  std::uint64_t last_label_ = 0;
  std::uint32_t last_step_ = 0;
};

}  // namespace ringfence::check
