// cas-slots: tokenweave with the orders of its waits exchanged: the start barrier acquires, the end
// barrier does not.

#include "emulator/programs/protocol.hpp"
#include "emulator/programs/protocols/tokenweave.hpp"

namespace ringfence::programs {

namespace {

struct CasSlotsSwitches : TokenWeaveSwitches {
  CasSlotsSwitches() {
    start_wait = machine::Order::acquire;
    end_wait = machine::Order::relaxed;
  }
};

}  // namespace

ProtocolDefinition cas_slots() {
  using enum machine::Boundary;
  return define_protocol<TokenWeave, CasSlotsSwitches>(
      "cas-slots", "tokenweave with an acquire start wait and a relaxed end wait",
      {stream, coherent});
}

}  // namespace ringfence::programs
