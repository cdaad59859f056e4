// The barriers of a litmus test: who takes part, who meets whom, and who has ended without.

#include <set>

#include "emulator/litmus/run.hpp"
#include "emulator/litmus/values.hpp"

namespace ringfence::litmus {

// A barrier's operand, where it is the same whenever the barrier is reached.
std::optional<std::int64_t> LitmusProgram::fixed(std::size_t thread, const Operand& operand) const {
  if (const auto* c = std::get_if<Constant>(&operand)) return c->value;
  const RegisterId id = std::get<Register>(operand).id;
  if (written_[thread][index(id)]) return std::nullopt;
  return test_.threads[thread].registers[index(id)].initial;
}

// The barrier that the thread has reached, by the values that its operands have now. Without a
// count those threads take part of which some instruction may name it.
schedule::BlockBarrier& LitmusProgram::barrier(schedule::Agent& agent, std::size_t thread,
                                               const Barrier& b, std::uint16_t site) {
  const Thread& mine = test_.threads[thread];
  const std::int64_t instance = value(thread, b.instance), id = b.id ? value(thread, *b.id) : 0;
  std::set<std::size_t> participants;
  std::int64_t count = b.count ? value(thread, *b.count) : 0;
  for (std::size_t t = 0; t < test_.threads.size(); ++t) {
    if (test_.threads[t].gpu != mine.gpu || test_.threads[t].cta != mine.cta) continue;
    for (const Instruction& i : test_.threads[t].instructions) {
      const auto* x = std::get_if<Barrier>(&i.what);
      if (x == nullptr || fixed(t, x->instance).value_or(instance) != instance ||
          (x->id ? fixed(t, *x->id).value_or(id) : 0) != id) {
        continue;
      }
      participants.insert(t);
      if (count == 0 && x->count) count = fixed(t, *x->count).value_or(0);
    }
  }
  const auto expected = static_cast<std::uint32_t>(
      count > 0 ? count : static_cast<std::int64_t>(participants.size()));
  const std::int64_t generation = expected < participants.size()
                                      ? generation_of(agent, thread, instance, id, expected, site)
                                      : 0;
  const std::size_t launch = states_[thread].launches;
  Meeting& meeting = barriers_[{mine.gpu, mine.cta, instance, id, expected, generation,
                                static_cast<std::int64_t>(launch)}];
  if (meeting.barrier == nullptr) {
    meeting.barrier = std::make_unique<schedule::BlockBarrier>(expected);
    if (count == 0) meeting.waited_for = participants;
  }
  if (!meeting.used) {
    meeting.used = true;
    for (const std::size_t t : meeting.waited_for) {
      if (states_[t].launches > launch) agent.leave(*meeting.barrier);
    }
  }
  return *meeting.barrier;
}

// PTX, exit: barriers that wait for all threads of the block wait no more for one that has ended.
void LitmusProgram::exit(schedule::Agent& agent, std::size_t thread) {
  const std::size_t launch = states_[thread].launches++;
  for (auto& [key, meeting] : barriers_) {
    if (!meeting.used || key.back() != static_cast<std::int64_t>(launch)) continue;
    if (meeting.waited_for.contains(thread)) agent.leave(*meeting.barrier);
  }
}

// Where more threads come than a generation needs, who meets whom is open: whoever comes first. The
// arrivals are counted by atomics of a cell of the barrier's own, which order nothing else, so that
// the search has each of their orders. What follows in the thread depends on its turn.
std::int64_t LitmusProgram::generation_of(schedule::Agent& agent, std::size_t thread,
                                          std::int64_t instance, std::int64_t id,
                                          std::uint32_t expected, std::uint16_t site) {
  constexpr std::uint64_t kBytes = 4;
  const Type word{'u', 32};
  const std::uint64_t block = bits_of(test_.threads[thread].gpu) * blocks_ + block_of_[thread];
  machine::Access a;
  a.order = Order::relaxed;
  a.scope = Scope::cta;
  a.element = kBytes;
  a.site = site;
  ThreadState& s = states_[thread];
  const std::uint64_t mine = next_read(thread);
  a.read_depends = 0;
  a.write_depends = mine;
  const machine::Address at{arrivals_,
                            ((block * kBarriers + (bits_of(id) % kBarriers)) * kBarriers +
                             bits_of(instance) % kBarriers) *
                                kBytes};
  const std::uint64_t turn = agent.rmw(at, a, 1, combine(Combine::add, word));
  s.control |= mine;
  straight_ = false;
  return static_cast<std::int64_t>(turn / expected);
}

}  // namespace ringfence::litmus
