// Small PTX kernels as data, for comparing the searches over compiled kernels with each other and
// with the axioms: made at random (generate.hpp), printed (print.hpp), made smaller (shrink.hpp).
//
// A thread here is a warp of which only the first lane (two where it votes) goes on: the others
// exit at once. Each reads into registers of its own and stores them in the end, so that the words
// of the results and of the global locations are an execution's outcome.
#pragma once

#include <cstdint>
#include <vector>

namespace ringfence::oracle {

enum class Order : std::uint8_t { weak, relaxed, volatile_, acquire, release, acq_rel, sc };
enum class Scope : std::uint8_t { cta, cluster, gpu, sys };

// A word in a rank's replica of the global memory, or in a block's shared memory.
struct Location {
  bool shared = false;
  int owner = 0;  // rank, or block (counted over all ranks)
};

// An mbarrier in a block's shared memory, initialised before any thread's code begins.
struct Mbarrier {
  int owner = 0;  // block
  int count = 1;  // arrivals of a phase
};

struct Step {
  enum class Kind : std::uint8_t {
    load,
    store,           // value
    add,             // atom.add of value
    exch,            // atom.exch of value
    cas,             // atom.cas of compare, value
    red,             // red.add of value
    fence,           //
    poll,            // until the word is value
    poll_ne,         // until it is not
    poll_ge,         // until it is at least value
    poll_add,        // the same with atom.add of 0
    poll_cas,        // the same with atom.cas of value by value
    poll_ahead,      // the same, and it looks once or twice (count) before the loop
    poll_told,       // the same once; the result tells which look found it
    poll_twice,      // two looks an iteration; count 1: the result tells which one found it; count
                     // 2: the second one is relaxed. These three with compare: by atom.cas of value
                     // by compare
    bounded_poll,    // value looks at most, until the word is not 0
    vote,            // ballot of the two lanes over location and other, each != 0
    vote_poll,       // until both lanes see a value that is not 0, at location and at other
    bar_sync,        // barrier, count
    bar_arrive,      //
    bar_red,         // bar.red.popc over whether the last value read was not 0
    cluster_arrive,  //
    cluster_wait,    //
    mbar_arrive,     // location is an mbarrier
    mbar_wait,       // value: parity; until the phase is over
    mbar_test,       // value: parity; one look
    bulk_load,       // 16 bytes from other, of global memory, to location, of the block's shared
                     // memory; barrier is the mbarrier, which this arrives at, expecting the bytes
    bulk_store,      // the other way, and its group is committed
    bulk_add,        // the same with add
    bulk_wait,    // for the thread's groups but the last value / 2; odd: for what they read alone
    fence_async,  // fence.proxy.async
    trigger,      // griddepcontrol.launch_dependents
    after,        // griddepcontrol.wait
  };
  Kind kind = Kind::load;
  Order order = Order::relaxed;
  Scope scope = Scope::gpu;
  int location = 0;
  int other = 0;  // vote, vote_poll: of the second lane
  std::uint32_t value = 0;
  std::uint32_t compare = 0;
  int barrier = 0;
  int count = 0;  // warps
};

bool is_loop(Step::Kind kind);
bool has_result(Step::Kind kind);

struct Kernel {
  std::uint64_t seed = 0;
  int ranks = 1;
  int blocks = 1;        // of a rank
  int warps = 1;         // of a block
  bool cluster = false;  // all blocks of a rank are one
  // Two of the warps that a block has here are the first lanes of one; no barriers and no votes.
  bool paired = false;
  std::vector<Location> locations;
  std::vector<Mbarrier> mbarriers;
  // By rank, block and warp.
  std::vector<std::vector<Step>> threads;
  // Steps of each thread that are in the first of two launches, the second of them dependent;
  // empty: there is one.
  std::vector<int> cut;

  int block_of(int thread) const { return thread / warps; }
  int rank_of(int thread) const { return thread / warps / blocks; }
  int events() const;
};

// At most so many steps of a thread: each has its word of the results.
inline constexpr int kMostSteps = 32;

}  // namespace ringfence::oracle
