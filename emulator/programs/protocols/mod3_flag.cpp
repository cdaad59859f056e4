// mod3-flag (one-shot pull): put: store (n + 1) mod 3; wait until the slot differs from the value
// of the barrier before, n mod 3: a peer that is one barrier ahead is taken for arrived.

#include "emulator/programs/protocols/pull.hpp"

namespace ringfence::programs {

namespace {

using machine::Compare;

struct Mod3FlagSwitches : PullSwitches {
  std::uint32_t modulus = 3;

  void list(SwitchList& list) {
    list_one_shot(list);
    list.number(
        "modulus", "2", "2 or 3", 2, 3,
        [this](std::uint64_t n) { modulus = static_cast<std::uint32_t>(n); }, true);
    list_scope(list);
  }
};

class Mod3Flag final : public Pull {
 public:
  Mod3Flag(const Config& config, const Mod3FlagSwitches& switches)
      // A flag may go on before everybody saw a value; so it means to.
      : Pull(config, switches, Shots::one, {Slots::counters}), switches_(switches) {}

 protected:
  void barrier(Turn& t) override {
    put(t, theirs(t, 0), (t.n + 1) % switches_.modulus);
    t.lane.agent.await(ours(t, 0), t.poll, {Compare::ne, t.n % switches_.modulus});
  }
  std::uint32_t value_after(std::uint32_t barriers, std::uint32_t) const override {
    return barriers % switches_.modulus;
  }

 private:
  const Mod3FlagSwitches switches_;
};

}  // namespace

ProtocolDefinition mod3_flag() {
  using enum machine::Boundary;
  return define_protocol<Mod3Flag, Mod3FlagSwitches>(
      "mod3-flag", "one-shot pull between barriers by flags that count mod 3",
      {strict, stream, coherent});
}

}  // namespace ringfence::programs
