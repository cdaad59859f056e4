// epoch-inbox (one-shot pull): an inbox of one slot a peer. put: store n + 1 into the peer's inbox;
// wait: own slot GE n + 1. Nothing is ever reset.

#include "emulator/programs/protocols/pull.hpp"

namespace ringfence::programs {

namespace {

using machine::Compare;

struct EpochInboxSwitches : PullSwitches {
  bool epoch_restarts = false;  // each call counts from 1, as a replayed graph would

  void list(SwitchList& list) {
    list_one_shot(list);
    list.word("epoch", "restarts", epoch_restarts);
    list_scope(list);
  }
};

class EpochInbox final : public Pull {
 public:
  EpochInbox(const Config& config, const EpochInboxSwitches& switches)
      // An inbox may go on before everybody saw a value; so it means to.
      : Pull(config, switches, Shots::one, {Slots::counters}), switches_(switches) {}

 protected:
  void barrier(Turn& t) override {
    const std::uint32_t epoch = (switches_.epoch_restarts ? t.n % 2 : t.n) + 1;
    put(t, theirs(t, 0), epoch);
    t.lane.agent.await(ours(t, 0), t.poll, {Compare::ge, epoch});
  }
  std::uint32_t value_after(std::uint32_t barriers, std::uint32_t) const override {
    return switches_.epoch_restarts ? 2 : barriers;
  }

 private:
  const EpochInboxSwitches switches_;
};

}  // namespace

ProtocolDefinition epoch_inbox() {
  using enum machine::Boundary;
  return define_protocol<EpochInbox, EpochInboxSwitches>(
      "epoch-inbox", "one-shot pull between barriers of epochs that only grow",
      {strict, stream, coherent});
}

}  // namespace ringfence::programs
