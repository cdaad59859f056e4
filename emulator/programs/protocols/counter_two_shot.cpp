// counter-two-shot (two-shot pull): put: store n + 1 into the slot of set n mod 2; wait: EQ n + 1.
// A peer one barrier ahead writes to the other set. Its data is moved by relaxed accesses; a
// compiled kernel that moves it by weak ones, as vLLM's, is another one (ld.order=weak:
// docs/barriers.md).

#include "emulator/programs/protocols/pull.hpp"

namespace ringfence::programs {

namespace {

using machine::Compare;

struct CounterTwoShotSwitches : TwoShotSwitches {
  bool one_set = false;  // consecutive barriers use one slot

  void list(SwitchList& list) {
    list_two_shot(list);
    list.word("flags", "one-set", one_set);
    list_scope(list);
  }
};

class CounterTwoShot final : public Pull {
 public:
  CounterTwoShot(const Config& config, const CounterTwoShotSwitches& switches)
      : Pull(config, switches, Shots::two, {.sets = 2}), switches_(switches) {}

 protected:
  void barrier(Turn& t) override {
    const std::uint32_t set = switches_.one_set ? 0 : t.n % 2;
    put(t, theirs(t, set), t.n + 1);
    t.lane.agent.await(ours(t, set), t.poll, {Compare::eq, t.n + 1});
  }
  std::uint32_t value_after(std::uint32_t barriers, std::uint32_t set) const override {
    return switches_.one_set ? (set == 0 ? barriers : 0) : barriers - 1 + set;
  }
  const char* set_name(std::uint32_t set) const override { return set == 0 ? "even " : "odd "; }

 private:
  const CounterTwoShotSwitches switches_;
};

}  // namespace

ProtocolDefinition counter_two_shot() {
  return define_protocol<CounterTwoShot, CounterTwoShotSwitches>(
      "counter-two-shot", "two-shot pull, its barriers by counters in two sets of slots",
      {machine::Boundary::coherent});
}

}  // namespace ringfence::programs
