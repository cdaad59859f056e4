// A PTX litmus test as data: what the reader (parser.hpp) gives and the checkers take.
//
// The syntax is the herd-like one of the public PTX collections:
//
//     PTX MP-release-acquire
//     "why the verdict is what it is"
//     {
//     data=0; flag=0;                     locations
//     P1:r0=0; P0:r1=&data;               registers, the second one holds an address
//     head=&data;                         a location that holds an address
//     m @ generic aliases data;           a second name: another virtual address
//     t @ texture aliases data;           a handle for the texture proxy, of data's address
//     }
//      P0@cta 0,gpu 0         | P1@cta 0,gpu 1          ;
//      st.weak data, 1        | ld.acquire.sys r0, flag ;
//      st.release.sys flag, 1 | ld.weak r1, data        ;
//     ~exists (P1:r0 == 1 /\ P1:r1 == 0)
//
// Extensions beyond the public syntax, each as small as it could be made:
//
//   types        `b64 x=0;` declares the width and `ld.weak.b32 r0, x` overrides it; kinds b, u, s,
//                bits 8, 16, 32, 64; without one a location is b32, or b64 where the file has a
//                number of more than 31 bits. A load of kind u extends by zeros, the others by the
//                sign. Registers hold 64 bits.
//   arrays       `b32 buf[4]=0;` or `b32 buf[4]={1,2,3,4};`, an element is `buf[2]`.
//   offsets      `x+4`: bytes from the start of x; `[r1]`, `[r1+4]`: the address that r1 holds
//                (an address dependency); `[x]` is x.
//   vectors      `ld.weak.v2 {r0,r1}, buf` and `st.weak.v4.b32 buf, {1,2,3,r0}`.
//   multimem     `m @ multicast aliases x0, x1;` declares the multicast address whose replica on
//                gpu i is the i-th location named; `multimem.ld_reduce.ORDER.SCOPE.OP r0, m`,
//                `multimem.st.ORDER.SCOPE m, v`, `multimem.red.ORDER.SCOPE.OP m, v`. Without order
//                ld_reduce and st are weak and red is relaxed.sys.
//   launches     `launch` in a cell ends the thread's kernel and starts the next one of the same
//                stream; the n-th launches of all threads of a gpu are one launch.
//   clusters     `P0@cta 0,cluster 0,gpu 0`, scope `.cluster`. Without one, each cta is a cluster
//                of its own (cta numbers count within a gpu).
//   fences       `fence.acquire.SCOPE` and `fence.release.SCOPE`; `fence.proxy.async`.
//   mbarriers    `mbarrier m=2;` declares one whose phases take two arrivals;
//                `mbarrier.arrive.ORDER.SCOPE m`, `mbarrier.arrive.expect_tx.ORDER.SCOPE m, 16`,
//                `mbarrier.try_wait.parity.ORDER.SCOPE m, 0` (which stands for the loop round it)
//                and `mbarrier.test_wait.parity.ORDER.SCOPE r0, m, 0` (one look). Without order and
//                scope: .release.cta, .acquire.cta.
//   cluster      `barrier.cluster.arrive` (or .relaxed) and `barrier.cluster.wait`.
//   copies       `cp.async.bulk x, y, m` copies y to x, 16 bytes that complete at m;
//                `cp.async.bulk x, y` and `cp.reduce.async.bulk.add x, y` are a bulk group each,
//                for which `cp.async.bulk.wait_group N` waits (or `.wait_group.read N`),
//                but for the last N of them.
//   volatile     `ld.volatile r0, x` is read as relaxed.sys, so is `st.volatile`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "emulator/machine/vocabulary.hpp"

namespace ringfence::litmus {

// A place in the file, both from 1; 0 means none (a test that was built, not read).
struct Position {
  int line = 0;
  int column = 0;
};

inline std::size_t index(int i) { return static_cast<std::size_t>(i); }

// A weak access has no scope; what stands in its field means nothing.
using machine::Combine;
using machine::Compare;
using machine::Order;
using machine::Scope;
// Which proxy an access goes through is its instruction's: tld texture, suld, sust, suatom and
// sured surface, cold (ldc) constant, all others generic, whatever name they use.
enum class Proxy { Generic, Constant, Texture, Surface };
enum class LocalOp { Move, Add, Sub, Mul, Div, And, Or, Xor };

// bits is 8, 16, 32 or 64; in an instruction 0 means "as the location is declared".
struct Type {
  char kind = 'b';
  int bits = 0;
  bool operator==(const Type&) const = default;
};

// An index into Test::locations or Thread::registers.
using LocationId = int;
using RegisterId = int;

struct Location {
  std::string name;
  Type type{'b', 32};
  // The declaration says the type; else it has 32 bits, or 64 in a file with numbers of more
  // than 31.
  bool typed = false;
  // Elements; is_array tells `x[1]` from `x`.
  int length = 1;
  bool is_array = false;
  // One value an element, or the address of another location.
  std::vector<std::int64_t> initial;
  std::optional<LocationId> initial_address;
  // A second name of locations[alias_of], reached through proxy.
  std::optional<LocationId> alias_of;
  Proxy proxy = Proxy::Generic;
  // Arrivals of a phase of an mbarrier; 0: it is none. Nothing else may access one.
  int arrivals = 0;
  // A multicast address: the replica on gpu i is locations[replicas[i]]. Empty for all others.
  std::vector<LocationId> replicas;
  Position at;

  bool is_memory() const { return !alias_of && replicas.empty(); }
  int element_bytes() const { return type.bits / 8; }
};

struct Constant {
  std::int64_t value = 0;
  bool operator==(const Constant&) const = default;
};
struct Register {
  RegisterId id = 0;
  bool operator==(const Register&) const = default;
};
using Operand = std::variant<Constant, Register>;

// base is a location, or a register that holds an address; offset is in bytes.
struct Address {
  std::variant<LocationId, Register> base = 0;
  std::int64_t offset = 0;
  bool operator==(const Address&) const = default;
};

// ld, suld, tld, cold and multimem.ld_reduce. destinations has 1, 2 or 4 registers.
struct Load {
  Order order = Order::weak;
  Scope scope = Scope::sys;
  Proxy proxy = Proxy::Generic;
  Type type;
  std::vector<RegisterId> destinations;
  Address address;
  // multimem.ld_reduce combines the replicas with this.
  std::optional<Combine> multimem;
};

// st, sust and multimem.st. values has 1, 2 or 4 elements.
struct Store {
  Order order = Order::weak;
  Scope scope = Scope::sys;
  Proxy proxy = Proxy::Generic;
  Type type;
  Address address;
  std::vector<Operand> values;
  bool multimem = false;
};

// atom (with a destination), red and multimem.red (without). cas compares with value, stores
// desired.
struct Atomic {
  Order order = Order::relaxed;
  Scope scope = Scope::sys;
  Proxy proxy = Proxy::Generic;
  Combine op = Combine::add;
  Type type;
  std::optional<RegisterId> destination;
  Address address;
  Operand value = Constant{};
  std::optional<Operand> desired;
  bool multimem = false;
};

// order is Acquire, Release, AcqRel or Sc.
struct Fence {
  Order order = Order::acq_rel;
  Scope scope = Scope::sys;
};

struct ProxyFence {
  enum class Kind { Alias, Constant, Texture, Surface, Async };
  Kind kind = Kind::Alias;
};

// bar.cta.sync waits for the others, bar.cta.arrive does not. Barriers of one cta match when their
// instance and id are equal; without count every thread of the cta that has such a barrier takes
// part, with one a generation is complete when that many have arrived. Registers are read when the
// barrier is reached. PTX's own spelling, `bar.sync ID, COUNT` without `.cta`, has instance 0.
struct Barrier {
  bool arrive = false;
  Operand instance = Constant{};
  std::optional<Operand> id;
  std::optional<Operand> count;
};

// Which accesses are an mbarrier's: see `mbarriers` above. A wait is over once a phase of that
// parity is.
struct Mbarrier {
  enum class Form { Arrive, Wait, Test };
  Form form = Form::Arrive;
  Order order = Order::release;
  Scope scope = Scope::cta;
  LocationId object = 0;
  std::int64_t bytes = 0;      // Arrive: that its phase waits for besides
  int parity = 0;              // Wait, Test
  RegisterId destination = 0;  // Test: 1 or 0
};

// order is Release or Relaxed of an arrival, Acquire of a wait.
struct ClusterBarrier {
  bool wait = false;
  Order order = Order::release;
};

// What a thread issues and does not wait for, through the async proxy: one element of `from` is
// written or added to one of `to`, both locations by name.
struct Copy {
  bool adds = false;
  Address to;
  Address from;
  // The mbarrier at which its bytes complete; without one it is a bulk group.
  std::optional<LocationId> signals;
};
inline constexpr std::int64_t kCopyBytes = 16;

// For the thread's bulk groups but the last `pending` ones: all of each, or what it reads alone.
struct GroupWait {
  bool reads_only = false;
  std::int64_t pending = 0;
};

// destination = a op b; Move takes a.
struct Local {
  LocalOp op = LocalOp::Move;
  RegisterId destination = 0;
  Operand a = Constant{};
  Operand b = Constant{};
};

// Without comparison the jump is always taken. target is an index into the thread's instructions
// (of the Label).
struct Branch {
  std::optional<Compare> comparison;
  Operand a = Constant{};
  Operand b = Constant{};
  int target = 0;
};

struct Label {
  std::string name;
};

struct Launch {};

struct Instruction {
  std::variant<Load, Store, Atomic, Fence, ProxyFence, Barrier, Mbarrier, ClusterBarrier, Copy,
               GroupWait, Local, Branch, Label, Launch>
      what;
  Position at;
};

struct RegisterInfo {
  std::string name;
  std::int64_t initial = 0;
  std::optional<LocationId> initial_address;
  // In the state section; all others are declared by the instruction that writes them.
  bool declared = false;
};

// Thread n of Test::threads is Pn.
struct Thread {
  int cta = 0;
  int gpu = 0;
  std::optional<int> cluster;
  std::vector<RegisterInfo> registers;
  std::vector<Instruction> instructions;
  Position at;
};

// A variable of a condition: a register of a thread, or an element of a location.
struct Variable {
  // -1 for a location.
  int thread = -1;
  // RegisterId or LocationId.
  int id = 0;
  // The element; 0 for all but arrays.
  int element = 0;
  auto operator<=>(const Variable&) const = default;
};

using Term = std::variant<Constant, Variable>;

struct Formula {
  enum class Kind { Compare, And, Or, Not };
  Kind kind = Kind::Compare;
  // Compare
  Term left = Constant{};
  Compare comparison = Compare::eq;
  Term right = Constant{};
  // And, Or: two or more; Not: one.
  std::vector<Formula> children;
};

enum class Quantifier { Exists, NotExists, Forall };

struct Test {
  std::string name;
  // The quoted lines, one string a quotation (it may span lines).
  std::vector<std::string> comments;
  std::vector<Location> locations;
  // Names of locations that only the table or the condition has; they start at 0.
  std::vector<std::string> undeclared;
  std::vector<Thread> threads;
  // `locations [x; P0:r1]`: shown in the states besides the condition's variables.
  std::vector<Variable> observed;
  // Only executions that satisfy it count.
  std::optional<Formula> filter;
  Quantifier quantifier = Quantifier::Exists;
  Formula condition;
};

}  // namespace ringfence::litmus
