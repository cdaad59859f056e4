// The programs that the axiomatic checker takes: what is left of a litmus test when every access
// is one scalar of one location.
//
// The checker is a second opinion on the emulator's memory model. It shares no code with
// emulator/machine; from emulator/litmus it takes the test's syntax only (convert.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringfence::axiomatic {

using Value = std::int64_t;

enum class Order { Weak, Relaxed, Acquire, Release, AcqRel, Sc };
enum class Scope { Cta, Cluster, Gpu, Sys };
enum class Op { Move, Add, Sub, Mul, Div, And, Or, Xor, Min, Max, Exch };
enum class Comparison { Eq, Ne, Lt, Le, Gt, Ge };

struct Operand {
  // A register, or else a constant.
  std::optional<int> reg;
  Value constant = 0;
};

// Which way to a location: a proxy, and one of its virtual addresses (Name).
enum class Proxy { Generic, Constant, Texture, Surface, Async };

// A location by name (Program::name), or one whose address (address_of) a register holds.
struct Address {
  int location = 0;
  std::optional<int> reg;
};

struct Instruction {
  enum class Kind {
    Load,
    Store,
    Rmw,
    Cas,
    Fence,
    BarSync,
    BarArrive,
    ClusterArrive,
    ClusterWait,
    MbarrierArrive,
    MbarrierWait,
    MbarrierTest,  // one look: destination gets 1 if the phase is over, or else 0
    // What a thread issues and does not wait for: the value at `source` is written, or added, to
    // `address`, both through the async proxy. With `signals`, its bytes then complete at the
    // mbarrier; else it is a bulk group of its own.
    Copy,
    // For the groups of the thread but the last `pending` ones: their reads alone (`reads_only`),
    // or all of each.
    GroupWait,
    Compute,
    Jump,
    Nothing,
    Bridge
  };
  Kind kind = Kind::Load;
  Order order = Order::Weak;
  Scope scope = Scope::Sys;
  // Of an access. Bridge is a proxy fence of that proxy; Generic stands for fence.proxy.alias.
  Proxy proxy = Proxy::Generic;
  // Load, Rmw, Cas, Compute; without one an Rmw is a reduction.
  std::optional<int> destination;
  Address address;
  // Store, Rmw: a; Cas: a is compared, b stored; Compute: a op b; Jump: a comparison b.
  Operand a;
  Operand b;
  Op op = Op::Move;
  // Jump; without one it is taken always. target is an instruction's index, or the code's size.
  std::optional<Comparison> comparison;
  int target = 0;
  // BarSync, BarArrive: barriers with one key of one cta belong together.
  Value barrier_instance = 0;
  Value barrier_id = 0;
  // Arrivals that complete a generation; without it, all threads of the cta with this barrier.
  std::optional<Value> barrier_count;
  // Mbarrier…, Copy: which one, and the phase's parity that is waited for.
  int mbarrier = 0;
  Value parity = 0;
  // MbarrierArrive: what it makes its phase expect, before it arrives. Copy: what completes.
  Value bytes = 0;
  // Copy: op is Move or Add.
  Address source;
  bool signals = false;
  bool reads_only = false;  // GroupWait
  Value pending = 0;        // GroupWait
};

struct Place {
  int gpu = 0;
  int cta = 0;
  // Without one the cta is a cluster of its own.
  std::optional<int> cluster;
};

struct Thread {
  Place place;
  // Initial values, one a register.
  std::vector<Value> registers;
  std::vector<Instruction> code;
};

struct Location {
  Value initial = 0;
  // Loads and stores wrap to this width, loads then extend by zeros or the sign.
  int bits = 32;
  bool zero_extends = false;
};

// What a load returns of a value that was stored to the location.
constexpr Value stored(const Location& location, Value value) {
  if (location.bits == 64) return value;
  const auto mask = (std::uint64_t{1} << location.bits) - 1;
  std::uint64_t v = static_cast<std::uint64_t>(value) & mask;
  if (!location.zero_extends && (v >> (location.bits - 1)) != 0) v |= ~mask;
  return static_cast<Value>(v);
}

// Initialised before anybody uses it.
struct Mbarrier {
  Value count = 1;  // arrivals of a phase
};

// A name of a location: names of one location that differ in `address` are virtual addresses.
struct Name {
  int location = 0;
  int address = 0;
};

struct Program {
  std::vector<Location> locations;
  std::vector<Mbarrier> mbarriers;
  // Empty: each location has one, in their order.
  std::vector<Name> names;
  std::vector<Thread> threads;

  int name_count() const {
    return static_cast<int>(names.empty() ? locations.size() : names.size());
  }
  Name name(int i) const { return names.empty() ? Name{i, 0} : names[static_cast<std::size_t>(i)]; }
};

// What a register holds that has the address of a location.
constexpr Value address_of(int location) { return Value{0x10000000} + Value{256} * location; }

}  // namespace ringfence::axiomatic
