#pragma once
// The --set switches of the protocols, as values. parse_switches with nothing set gives the
// protocol to the letter; each field names one thing that a broken variant gets wrong.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/scope.hpp"

namespace ringfence::programs {

// What the signal slots hold when the ranks start.
enum class Pads : std::uint8_t {
  clean,  // zero everywhere
  dirty,  // one slot of rank 0 holds 1, as an aborted run leaves it
  late,   // the last rank zeroes its slots in its first launch, when peers may have signalled
          // already
};

struct Switches {
  // all protocols
  machine::Scope scope = machine::Scope::sys;  // of barriers, signals and their waits
  bool wrong_slot = false;                     // signals go to a slot that nobody waits on rightly
  Pads pads = Pads::clean;
  std::uint32_t groups = 1;  // operators that run at once on the same ranks
  bool waves = false;        // the groups are waves of one operator, one after the other

  // tokenweave, cas-slots, and those that pull; `end` is the barrier between the phases of a
  // two-shot
  bool start = true, mid = true, end = true;  // the barriers
  machine::Order start_put = machine::Order::relaxed, start_wait = machine::Order::relaxed;
  machine::Order end_put = machine::Order::release, end_wait = machine::Order::acquire;
  machine::Order ld_reduce = machine::Order::relaxed, st = machine::Order::relaxed;
  bool end_block_barrier = true;    // false: put before the block barrier
  std::vector<std::uint32_t> grid;  // blocks of rank r: grid[r % size]; empty: --blocks

  // those that pull, lamport, put-notify
  machine::Order load = machine::Order::relaxed;  // of peers' data; lamport: of its polls
  bool epoch_restarts = false;  // epoch-inbox: each call counts from 1, as a replayed graph would
  bool flags_shared = false;    // flag-two-shot: both barriers use one flag, cleared by who waited
  bool one_flag_set = false;    // counter-two-shot: consecutive barriers use one slot
  bool total_exactly = false;   // multimem-counter: a wait for EQ
  std::uint32_t modulus = 3;    // mod3-flag
  std::uint32_t buffers = 3;    // lamport
  machine::Order clear = machine::Order::relaxed;
  bool clear_own_size = false;  // lamport: clears the rows of this call, not of the one before
  bool second_notify = true;    // put-notify

  // pypto, and what others share with it
  bool clear_data = true, clear_signal = true, barrier_all = true;
  machine::Order put = machine::Order::relaxed;
  machine::Order signal = machine::Order::release, wait = machine::Order::acquire;
  machine::Order barrier_signal = machine::Order::release;
  machine::Order barrier_wait = machine::Order::acquire;
  machine::Compare wait_compare = machine::Compare::eq;
  bool shmem_edges = true, pred_edges = true;
  std::uint32_t tile_rows = 8;
  std::uint64_t data_limit = std::uint64_t{200} << 20;  // bytes a rank, for data slots
  std::uint64_t signal_limit = std::uint64_t{1}
                               << 20;  // bytes a rank, for signal and barrier slots
};

// "start.put=ORDER", ...: the switches that a protocol takes.
std::vector<std::string> switch_names(const std::string& protocol);

// One change to a set of switches that makes the protocol synchronise more.
struct Strengthening {
  std::string key;
  std::string from;  // the value in force
  std::string to;    // empty: leave the switch out, which is the protocol to the letter
};

// Every single step up from `set`: an order to each stronger one that its instruction can have (the
// weakest first), a scope to each wider one, and a barrier, clearing or edge that `set` takes away
// put back. Switches that `set` names come first. Legal settings only.
std::vector<Strengthening> strengthenings(const std::string& protocol,
                                          const std::map<std::string, std::string>& set);

// One change that makes it synchronise less: an order to a weaker one that its instruction can
// have, a narrower scope, a barrier, clearing or edge left out. Grouped by switch, the weakest
// first.
struct Weakening {
  std::string key;
  std::string from;  // the value in force; "there" where nothing is left out
  std::string to;
};
std::vector<Weakening> weakenings(const std::string& protocol,
                                  const std::map<std::string, std::string>& set);

// Throws std::invalid_argument naming the switch, and what would be right: the values it takes, or
// for an unknown one the switches of the protocol.
Switches parse_switches(const std::string& protocol, const std::map<std::string, std::string>& set);

}  // namespace ringfence::programs
