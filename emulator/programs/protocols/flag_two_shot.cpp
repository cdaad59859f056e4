// flag-two-shot (two-shot pull): a flag for start and one for mid. Each barrier first clears the
// own flag of the other one, then puts 1 and waits for EQ 1.

#include "emulator/programs/protocols/pull.hpp"

namespace ringfence::programs {

namespace {

using machine::Compare;

struct FlagTwoShotSwitches : TwoShotSwitches {
  bool shared = false;  // both barriers use one flag, cleared by who waited

  void list(SwitchList& list) {
    list_two_shot(list);
    list.word("flags", "shared", shared);
    list_scope(list);
  }
};

class FlagTwoShot final : public Pull {
 public:
  FlagTwoShot(const Config& config, const FlagTwoShotSwitches& switches)
      : Pull(config, switches, Shots::two, {.sets = 2}), switches_(switches) {}

 protected:
  void barrier(Turn& t) override {
    const std::uint32_t set = switches_.shared || t.start ? 0 : 1;
    if (!switches_.shared) put(t, ours(t, 1 - set), clearing(t), 0);
    put(t, theirs(t, set), 1);
    t.lane.agent.await(ours(t, set), t.poll, {Compare::eq, 1});
    if (switches_.shared) put(t, ours(t, set), clearing(t), 0);
  }
  std::uint32_t value_after(std::uint32_t, std::uint32_t set) const override {
    return switches_.shared ? 0 : set;
  }
  const char* set_name(std::uint32_t set) const override { return set == 0 ? "start " : "mid "; }

 private:
  const FlagTwoShotSwitches switches_;
};

}  // namespace

ProtocolDefinition flag_two_shot() {
  return define_protocol<FlagTwoShot, FlagTwoShotSwitches>(
      "flag-two-shot", "two-shot pull, its two barriers by 0/1 flags that clear each other",
      {machine::Boundary::coherent});
}

}  // namespace ringfence::programs
