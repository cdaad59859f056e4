#pragma once
// What a listener is told of a run's steps.

#include <cstdint>

#include "emulator/machine/access.hpp"
#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

// One step as a listener sees it. `from_step` is the step of the write that a read returned.
// launch, end_launch and dependency are no steps: they carry the step before them, no address, and
// the order weak. A dependency says that all that `from_label` did so far happens before what
// `label` does from now on (Machine::order_after).
struct Event {
  enum class Kind : std::uint8_t {
    read,
    write,
    rmw,
    failed_cas,
    fence,
    barrier,
    launch,
    end_launch,
    dependency
  };
  Kind kind = Kind::read;
  ThreadId thread = kNoThread;
  std::uint64_t label = 0;
  std::uint32_t step = 0;
  std::uint16_t site = 0;
  Order order = Order::weak;
  Scope scope = Scope::cta;
  Proxy proxy = Proxy::generic;
  Address address;
  std::uint32_t bytes = 0;
  std::uint64_t value = 0;      // the first element
  std::uint64_t old_value = 0;  // read-modify-writes
  std::uint32_t from_step = 0;
  std::uint64_t from_label = 0;
  bool stale = false;              // a newer message existed
  bool reduction = false;          // a read-modify-write without a result: it never acquires
  bool foreseen = false;           // the read returned a later write (Arbiter::foreseen)
  const Access* access = nullptr;  // of an access, while on_event runs
};

// Whether it is an access to memory.
constexpr bool is_access(Event::Kind kind) { return kind <= Event::Kind::failed_cas; }
// Whether it is a step at all.
constexpr bool is_step(Event::Kind kind) { return kind <= Event::Kind::barrier; }

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(const Event& event) = 0;
  // Whether one event may stand for the access of one thread to kBlockBytes at once: its value is
  // that of the first element. Else all are told line by line, and all accesses are made so.
  virtual bool takes_blocks() const { return false; }
};

}  // namespace ringfence::machine
