#pragma once
// What an access to memory is made of: where, how, and what a wait wants of it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/finding.hpp"
#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

using RegionId = std::uint32_t;
using StreamId = std::uint32_t;

struct Address {
  RegionId region = 0;
  std::uint64_t offset = 0;
};

struct AsOne;

// Which of an instruction's accesses this is, where it makes one at each of several replicas.
// Nothing orders those: what one of them releases came before the instruction.
enum class Share : std::uint8_t { whole, first, inner, last };

constexpr Share share_of(std::size_t replica, std::size_t replicas) {
  if (replicas < 2) return Share::whole;
  return replica == 0 ? Share::first : replica + 1 == replicas ? Share::last : Share::inner;
}

// How an access is made. `element` is the size in bytes of one scalar operation: a vector access
// is a set of scalar ones (PTX ISA 8.2.4), and packed halves are 2-byte ones (8.2.5).
struct Access {
  Order order = Order::weak;
  Scope scope = Scope::sys;
  std::uint8_t element = 4;  // a power of two
  Proxy proxy = Proxy::generic;
  bool reaches_output = false;  // a stale value would reach a result: report it as a stale read
  std::uint16_t site = 0;       // the caller's number for the program line
  // Axiom No-Thin-Air: the thread's earlier reads that this access depends on. Bit n is its n-th
  // access that reads, from 0; bit 63 also stands for all later ones. A read depends on what its
  // address does, a write also on what its value and the branches before it do. Used where load
  // buffering is on; by default an access depends on every earlier read.
  std::uint64_t read_depends = ~std::uint64_t{0};
  std::uint64_t write_depends = ~std::uint64_t{0};
  // Of a reduction: how it combines. An exhaustive search takes reductions that agree for a set.
  Combine combine = Combine::none;
  // A step of a barrier, or a look at one: order of execution is its coherence order, and it races
  // with nothing, publishes nothing and takes nothing in. What the barrier orders, a Meeting does.
  bool of_barrier = false;
  // Bytes of one operation where a policy makes that more than an element; else 0.
  std::uint8_t operation = 0;
  // What it is part of; null: it stands by itself. Only for as long as the call takes.
  AsOne* as_one = nullptr;
  Share share = Share::whole;  // of a strong write
  // A weak read that a policy lets see all that precedes it in observed time (FreshLines).
  bool fresh = false;
};

// What has to be equal for two accesses to overlap completely (PTX ISA 8.2.1).
constexpr std::uint8_t operation_bytes(const Access& a) {
  return a.operation != 0 ? a.operation : a.element;
}

enum class RegionKind : std::uint8_t {
  data,    // a replica of a symmetric tensor, or a tensor of one rank
  signal,  // a pad of slots: watched for lost signals
};

struct RegionSpec {
  std::uint16_t rank = 0;
  RegionKind kind = RegionKind::data;
  std::uint64_t bytes = 0;
  // Zero, or what set_initial gives; otherwise reading a line to which that gave nothing is a
  // finding.
  bool initialised = true;
  // Shared memory of a block: most of it is kept elsewhere as plain bytes. It has storage once
  // open_region() was called, and a line of it is used from adopt() on.
  bool shared = false;
  // What the region costs is what is touched of it, not its bytes: for large ones, as each line
  // that came to be plain bytes again is kept for the next run (lazy_array.hpp). Added before rank
  // processes are.
  bool sparse = false;
};

// An access that was made before its line came under the model (Machine::adopt).
struct Earlier {
  ThreadId thread = kNoThread;
  std::uint32_t time = 0;  // Machine::time_of the thread, then
  std::uint16_t site = 0;
  std::uint8_t offset = 0;  // in the line
  std::uint8_t bytes = 0;
  bool write = false;
  Proxy proxy = Proxy::generic;
};

// A condition that no comparison says; it may be asked as long as somebody holds it.
class Condition : public std::enable_shared_from_this<Condition> {
 public:
  virtual ~Condition() = default;
  virtual bool holds(std::uint64_t value) const = 0;
  // Whether the atomic that waits writes where it finds this.
  virtual bool writes(std::uint64_t /*value*/) const { return true; }
  // Of two values, or one twice, that end the wait: whether who waits goes on alike behind either,
  // and only to what does not depend on which it was that is there in the end.
  virtual bool alike(std::uint64_t /*a*/, std::uint64_t /*b*/) const { return false; }
};

// The condition that a wait needs; values are compared as unsigned.
struct Wanted {
  Compare compare = Compare::eq;
  std::uint64_t value = 0;
  std::uint64_t mask = ~std::uint64_t{0};  // of the bits that are compared
  // In place of the comparison, where all that ask are in the process that made it.
  const Condition* condition = nullptr;
  bool told = true;  // no: who waits is not told which value ended it, and never asks again
  bool alike(std::uint64_t a, std::uint64_t b) const {
    return condition != nullptr ? condition->alike(a, b) : !told;
  }
  bool holds(std::uint64_t v) const {
    if (condition != nullptr) return condition->holds(v);
    v &= mask;
    if (compare == Compare::eq) return v == value;  // most waits; the rest may take a jump table
    switch (compare) {
      case Compare::eq:
        break;
      case Compare::ne:
        return v != value;
      case Compare::lt:
        return v < value;
      case Compare::le:
        return v <= value;
      case Compare::gt:
        return v > value;
      case Compare::ge:
        return v >= value;
    }
    return false;
  }
};

// Accesses that a policy takes for one (VectorAccess, LineAccess). Writes have the number of their
// group, and reads see all of such a group or nothing.
struct AsOne {
  std::uint32_t group = 0;  // of writes: the first one's step; 0: it is still to come
  // Of reads: groups that what was read so far is part of or newer than, and others.
  std::vector<std::uint32_t> seen, unseen;
  // A read that a wait has led to sees something else at one place: where, and what.
  Address changed_at;
  std::optional<Wanted> changed;
};

// old value, operand -> new value, of one element
using CombineFunction = std::uint64_t (*)(std::uint64_t old, std::uint64_t operand);

}  // namespace ringfence::machine
