// The edges of task graphs, and a graph of one's own.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>

#include "emulator/programs/shmem.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/program.hpp"

using namespace ringfence;
using namespace ringfence::programs::shmem;
using machine::Compare;

namespace {

using Edge = std::vector<std::uint32_t>;

// clear, barrier, put to both ranks, signal to both, wait, load: ids 0 .. 7.
void add_tile(Graph& g, std::span<const std::byte> bytes) {
  const auto data = g.create_shmem_tensor(32);
  const auto signal = g.create_shmem_signal();
  const Op clear = g.shmem_clear_data(data);
  const Op barrier = g.shmem_barrier_all({clear});
  const Value made = g.compute([](schedule::Agent&) {}, bytes);
  for (std::uint16_t pe = 0; pe < 2; ++pe) {
    const Op put = g.shmem_put(made, data, pe, PutOp::add, {barrier});
    g.shmem_signal(signal, pe, 1, PutOp::add, {put});
  }
  const Op arrived = g.shmem_wait_until(signal, Compare::eq, 2, true);
  g.shmem_load(data, {}, {arrived});
}

// A ring of messages: rank r stores its number into rank r+1's tile and tells it.
class Neighbours final : public schedule::Program {
 public:
  static constexpr std::uint16_t kRanks = 3;
  explicit Neighbours(bool with_wait) : world_(kRanks, 16, 1, Orders{}), with_wait_(with_wait) {}

  std::uint16_t ranks() const override { return kRanks; }
  std::uint64_t shared_bytes() const override { return 4096; }
  void set_up(machine::Machine& m, std::pmr::memory_resource*) override {
    std::vector<machine::RegionId> ids[3];
    for (std::uint16_t r = 0; r < kRanks; ++r) {
      ids[0].push_back(m.add_region({r, machine::RegionKind::data, 16, true}));
      ids[1].push_back(m.add_region({r, machine::RegionKind::signal, 4, true}));
      ids[2].push_back(m.add_region({r, machine::RegionKind::signal, 4, true}));
    }
    world_.bind(ids[0], ids[1], ids[2]);
    for (std::uint16_t r = 0; r < kRanks; ++r) {
      graphs_[r] = std::make_unique<Graph>(world_, r, 0, Edges{});
      Graph& g = *graphs_[r];
      mine_[r].fill(static_cast<std::uint16_t>(r + 1));
      const Tensor data = g.create_shmem_tensor(16);
      const Signal signal = g.create_shmem_signal();
      const auto next = static_cast<std::uint16_t>((g.my_pe() + 1) % kRanks);
      const Value value = g.compute([](schedule::Agent&) {}, std::as_bytes(std::span(mine_[r])));
      const Op put = g.shmem_put(value, data, next, PutOp::set);
      g.shmem_signal(signal, next, 7, PutOp::set, {put});
      Graph::Preds arrived;
      if (with_wait_) arrived = {g.shmem_wait_until(signal, Compare::ge, 7, true)};
      g.shmem_load(data, std::as_writable_bytes(std::span(got_[r])), arrived);
    }
  }
  void before_run(machine::Machine& m) override {
    for (std::uint16_t r = 0; r < kRanks; ++r) streams_[r] = m.add_stream(r);
  }
  void host(schedule::Agent& agent, std::uint16_t rank) override {
    Graph* const graphs[] = {graphs_[rank].get()};
    launch(agent, streams_[rank], 0, graphs);
  }
  void after_run(machine::Machine&) override {}
  std::string site_name(std::uint16_t site) const override {
    return programs::shmem::site_name(site, world_.orders());
  }
  std::string region_name(machine::RegionId) const override { return "region"; }
  schedule::SlotName slot_name(machine::Address) const override { return {}; }

  std::array<std::array<std::uint16_t, 8>, kRanks> mine_{}, got_{};

 private:
  World world_;
  bool with_wait_;
  std::array<std::unique_ptr<Graph>, kRanks> graphs_;
  std::array<machine::StreamId, kRanks> streams_{};
};

}  // namespace

TEST_CASE("shmem: an operation waits for its values, its preds, and earlier users of its regions") {
  const std::array<std::byte, 32> bytes{};
  const World world(2, 32, 4, Orders{});
  Graph g(world, 0, 0, Edges{});
  add_tile(g, bytes);
  const auto p = g.predecessors();
  REQUIRE(p.size() == 9);
  CHECK(p[0] == Edge{});         // clear
  CHECK(p[1] == Edge{0});        // barrier_all: pred
  CHECK(p[2] == Edge{});         // compute
  CHECK(p[3] == Edge{0, 1, 2});  // put to itself: the clear of that region, pred, value
  CHECK(p[4] == Edge{3});        // signal to itself
  CHECK(p[5] == Edge{1, 2});     // put to the peer: another region
  CHECK(p[6] == Edge{5});
  CHECK(p[7] == Edge{4});        // wait: its own signal's region; its only pred is the input
  CHECK(p[8] == Edge{0, 3, 7});  // load
}

TEST_CASE("shmem: without shmem edges the preds and values are left, and the other way round") {
  const std::array<std::byte, 32> bytes{};
  const World world(2, 32, 4, Orders{});
  Graph preds(world, 0, 0, Edges{true, false});
  add_tile(preds, bytes);
  CHECK(preds.predecessors() == std::vector<Edge>{{}, {0}, {}, {1, 2}, {3}, {1, 2}, {5}, {}, {7}});
  Graph regions(world, 0, 0, Edges{false, true});
  add_tile(regions, bytes);
  CHECK(regions.predecessors() == std::vector<Edge>{{}, {}, {}, {0, 2}, {}, {2}, {}, {4}, {0, 3}});
}

TEST_CASE(
    "shmem: the first operations on a slot wait for all of its previous user, not of others") {
  const std::array<std::byte, 32> bytes{};
  const World two(2, 32, 2, Orders{});
  Graph g(two, 0, 0, Edges{});
  for (int i = 0; i < 3; ++i) add_tile(g, bytes);
  const auto p = g.predecessors();
  CHECK(p[9] == Edge{});                             // the second tile has a slot of its own
  CHECK(p[18] == Edge{0, 1, 3, 4, 5, 6, 7, 8});      // the third takes the first one's
  CHECK(p[19] == Edge{0, 1, 3, 4, 5, 6, 7, 8, 18});  // barrier_all: another region of it
  CHECK(p[20] == Edge{});                            // compute uses none
  // The ring goes on across launches: the next tile takes slot 1.
  Graph later(two, 0, 3, Edges{});
  CHECK(later.create_shmem_tensor(32).slot == 1);
  CHECK(later.create_shmem_tensor(32).slot == 0);
}

TEST_CASE("shmem: rings wrap at the smallest count") {
  CHECK(World::ring_slots(1024, 4096, 1 << 20, 100) == 4);
  CHECK(World::ring_slots(1024, 1 << 20, 12, 100) == 3);
  CHECK(World::ring_slots(1024, 1 << 20, 1 << 20, 5) == 5);
  CHECK(World::ring_slots(1024, 1023, 1 << 20, 5) == 0);
}

TEST_CASE("shmem: a graph of one's own passes what it orders, and races where it does not") {
  for (const auto mode : {machine::Boundary::strict, machine::Boundary::coherent}) {
    Neighbours right(true);
    schedule::InlineExecutor executor(right);
    schedule::RunSpec spec;
    spec.policy.boundary = mode;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      spec.strategy.seed = seed;
      const schedule::Outcome o = executor.run(spec);
      REQUIRE(o.end == schedule::RunEnd::complete);
      REQUIRE(o.findings.empty());
      for (std::uint16_t r = 0; r < Neighbours::kRanks; ++r) {
        CHECK(right.got_[r][0] == (r + Neighbours::kRanks - 1) % Neighbours::kRanks + 1);
      }
    }
    Neighbours wrong(false);
    schedule::InlineExecutor other(wrong);
    const schedule::Outcome o = other.run(spec);
    REQUIRE(!o.findings.empty());
    CHECK(o.findings.front().kind == machine::FindingKind::data_race);
  }
}
