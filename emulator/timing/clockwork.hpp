#pragma once
// Charges what agents do to their clocks, by a profile and over the machine's shared parts.
//
// It sees the machine's events, one for each cell that an access touches, and takes those of one
// program line between two points for one instruction. In the run's case a row is one vector of
// eight elements; it stands for a row of `Shape::hidden` (see simulate.hpp).
//
// What is modelled:
//  - loads are in flight together until something needs them; a kernel may issue a row's loads
//    rows ahead, which hides their latency and nothing else;
//  - stores are posted: they cost their issue, and what comes after a release waits for them;
//  - a block's load and store unit, each GPU's link in either direction, its memory and its atomic
//    units serve one request at a time;
//  - a signal is seen some time after it was given; a wait that finds it earlier waits for it.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/programs/operator_program.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/timing/profile.hpp"

namespace ringfence::timing {

enum class Transport : std::uint8_t {
  multimem,  // tokenweave: sums in the switch, stores that the switch multiplies
  peer,      // tokenweave: a load from and a store to each rank
  put,       // pypto: adds into the peers' tiles
};

// How a tokenweave kernel is written, as far as its time depends on it.
struct Kernel {
  bool ahead = true;         // the loads of a row are issued when those of the row before have come
  bool reads_again = false;  // the residual is read a second time, after the sum
};

struct Shape {
  Transport transport = Transport::multimem;
  Kernel kernel;
  std::uint32_t ranks = 2, gpus = 2;         // rank r is on GPU r * gpus / ranks
  std::uint32_t blocks = 8;                  // a rank
  double tokens = 0, hidden = 0, inner = 0;  // of one launch; inner: a rank's, 0 for no product
  bool beside = false;    // products after a rank's first run beside the protocol's blocks
  double run_hidden = 8;  // of the case that is run
};

class Clockwork final : public schedule::TimeOrderedStrategy, public machine::Listener {
 public:
  Clockwork(const Profile& profile, const Shape& shape, const programs::OperatorProgram& program);
  // Regions tell where memory is. Before the run.
  void bind(const machine::Machine& machine) { machine_ = &machine; }

  // How much of the time until `end` the busiest of a kind was busy.
  struct Busy {
    double link_in = 0, link_out = 0, memory = 0, block = 0;
  };
  Busy busy(Time end) const;

  void begin(std::uint32_t expected_points) override;
  bool takes_blocks() const override { return true; }
  void on_event(const machine::Event& event) override;

 private:
  using AgentId = schedule::AgentId;
  struct Gpu {
    Server in, out, memory, adds;
  };
  struct Unit {
    Server loads, both;
  };
  struct Doing {
    std::uint32_t rank = 0, unit = 0;
    schedule::Role role = schedule::Role::host;
    std::uint32_t index = 0;
    Time loaded = 0;  // when all loads so far have come
    Time stored = 0;  // when all stores so far are done, the block's where it met
    // From when on the next loads may be issued, -1: now. tokenweave: when those of the row before
    // had come; an operation of a graph: when its first were issued.
    Time ahead_from = -1;
    std::uint32_t rows = 0;  // that an operation of a graph has normed
    bool again = false;      // the residual is still to be read again for this row
  };
  // One instruction: its bytes of each rank's memory, as run.
  struct Part {
    std::uint32_t rank;
    double bytes;
  };

  void settle(AgentId id) override;
  void complete(AgentId id) override;
  void born(AgentId id, AgentId parent, std::uint64_t label) override;
  void met(std::span<const AgentId> all) override;
  void ordered(AgentId earlier, AgentId later) override;
  void ended(AgentId id, AgentId parent) override;

  void flush(AgentId id);
  void load(AgentId id, bool multicast);
  void load_own(AgentId id, Time from, double bytes);
  void store(AgentId id, bool multicast, bool add);
  void signal(AgentId id);
  void release(AgentId id);
  void product(AgentId id, double rows);
  Unit& unit(const Doing& d) {
    return units_[shape_.transport == Transport::put ? d.rank : d.rank * shape_.blocks + d.unit];
  }
  std::uint32_t gpu_of(std::uint32_t rank) const { return rank * shape_.gpus / shape_.ranks; }
  Time take_in(const Doing& d, Time from, double bytes);
  Time give_out(const Doing& d, Time from, double bytes);
  Time memory(std::uint32_t gpu, Time from, double bytes) {
    return gpus_[gpu].memory.book(from, time_of(bytes, profile_.memory.rate), now());
  }
  Time over_link(std::uint32_t from_gpu, std::uint32_t to_gpu, Time from, double bytes,
                 double rate);

  const Profile& profile_;
  const Shape shape_;
  const programs::OperatorProgram& program_;
  const machine::Machine* machine_ = nullptr;
  double mixed_load_;  // GB/s of loads while a block also stores
  std::vector<Gpu> gpus_;
  std::vector<Unit> units_;       // by rank and block; put: by rank, for all its blocks together
  double unit_blocks_ = 1;        // blocks of a unit
  std::vector<Server> products_;  // by rank
  std::vector<std::uint32_t> products_run_;  // by rank
  std::vector<Doing> doing_;                 // by agent
  // By step: when the signal that this step gave can be seen.
  std::unordered_map<std::uint32_t, Time> seen_;
  // The instruction at hand.
  machine::Event first_;
  std::vector<Part> parts_;
  bool row_sum_ = false;  // the block barrier at hand is one of a row's sum
};

}  // namespace ringfence::timing
