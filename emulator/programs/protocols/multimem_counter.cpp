// multimem-counter (one-shot pull): thread 0: multimem.red.add 1 on all ranks' counter; wait until
// the own one is GE R * (n + 1).

#include <fmt/format.h>

#include "emulator/programs/protocols/pull.hpp"

namespace ringfence::programs {

namespace {

using machine::Compare;

struct MultimemCounterSwitches : PullSwitches {
  bool exactly = false;  // a wait for EQ

  void list(SwitchList& list) {
    list_one_shot(list);
    list.add({"wait.cmp", "EQ", "EQ or GE",
              [this](std::string_view v) {
                exactly = v == "EQ";
                return v == "EQ" || v == "GE";
              },
              true});
    list_scope(list);
  }
};

class MultimemCounter final : public Pull {
 public:
  MultimemCounter(const Config& config, const MultimemCounterSwitches& switches)
      : Pull(config, switches, Shots::one, {.one_sender = true}), switches_(switches) {}

 protected:
  void barrier(Turn& t) override {
    if (t.lane.thread != 0) return;  // one thread signals and waits for all
    t.signal.proxy = machine::Proxy::multicast;
    {
      const schedule::Agent::OneInstruction multimem_red(t.lane.agent, t.signal,
                                                         machine::AccessKind::rmw, counter_of(t, 0),
                                                         sizeof(std::uint32_t));
      const std::uint32_t one = 1;
      for (std::uint16_t r = 0; r < ranks(); ++r) {
        t.signal.share = machine::share_of(r, ranks());
        t.lane.agent.reduce(
            counter_of(t, r), t.signal, std::as_bytes(std::span(&one, 1)),
            [](std::uint64_t old, std::uint64_t operand) { return (old + operand) & 0xffffffffu; });
      }
    }
    t.lane.agent.await(counter_of(t, t.lane.place.rank), t.poll,
                       {switches_.exactly ? Compare::eq : Compare::ge, (t.n + 1) * ranks()});
  }
  std::uint32_t value_after(std::uint32_t barriers, std::uint32_t) const override {
    return barriers * ranks();
  }
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override {
    const std::uint64_t block = offset / kSlotBytes;
    schedule::SlotName name;
    name.text = fmt::format("counter of rank {}, block {}", region.rank, block);
    name.writer = fmt::format("every rank's b{}.t0", block);
    return name;
  }
  const char* signal_instruction() const override { return "multimem.red.add"; }

 private:
  const MultimemCounterSwitches switches_;
};

}  // namespace

ProtocolDefinition multimem_counter() {
  using enum machine::Boundary;
  return define_protocol<MultimemCounter, MultimemCounterSwitches>(
      "multimem-counter", "one-shot pull between barriers of one counter, added to by multicast",
      {strict, stream, coherent});
}

}  // namespace ringfence::programs
