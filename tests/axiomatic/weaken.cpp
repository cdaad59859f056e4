#include "tests/axiomatic/weaken.hpp"

#include <utility>
#include <variant>
#include <vector>

#include "tests/axiomatic/check.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/random.hpp"

namespace ringfence::axiomatic {
namespace {

namespace lit = ringfence::litmus;

struct Access {
  std::size_t thread = 0;
  std::size_t instruction = 0;
};

bool races(const lit::Test& test) { return check(convert(test, false)).race_unobserved; }

// The order of a load or a store; null for anything else.
lit::Order* order_of(lit::Test& test, const Access& at) {
  lit::Instruction& i = test.threads[at.thread].instructions[at.instruction];
  if (auto* load = std::get_if<lit::Load>(&i.what)) return &load->order;
  if (auto* store = std::get_if<lit::Store>(&i.what)) return &store->order;
  return nullptr;
}

void widen(lit::Test& test) {
  for (lit::Thread& thread : test.threads) {
    for (lit::Instruction& i : thread.instructions) {
      if (auto* load = std::get_if<lit::Load>(&i.what)) load->scope = lit::Scope::sys;
      if (auto* store = std::get_if<lit::Store>(&i.what)) store->scope = lit::Scope::sys;
      if (auto* atomic = std::get_if<lit::Atomic>(&i.what)) atomic->scope = lit::Scope::sys;
    }
  }
}

}  // namespace

lit::Test weaken(const lit::Test& test, std::uint64_t seed) {
  Random random(seed);
  lit::Test out = test;
  std::vector<Access> accesses;
  for (std::size_t t = 0; t < out.threads.size(); ++t) {
    for (std::size_t i = 0; i < out.threads[t].instructions.size(); ++i) {
      lit::Order* const order = order_of(out, {t, i});
      if (order == nullptr) continue;
      if (*order == lit::Order::weak) *order = lit::Order::relaxed;
      accesses.push_back({t, i});
    }
  }
  if (races(out)) widen(out);
  while (!accesses.empty()) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<int>(accesses.size())));
    lit::Test weaker = out;
    *order_of(weaker, accesses[at]) = lit::Order::weak;
    if (!races(weaker)) out = std::move(weaker);
    accesses.erase(accesses.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return out;
}

}  // namespace ringfence::axiomatic
