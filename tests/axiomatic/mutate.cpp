#include "tests/axiomatic/mutate.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tests/axiomatic/random.hpp"

namespace ringfence::axiomatic {
namespace {

namespace lit = ringfence::litmus;

class Mutator {
 public:
  Mutator(const lit::Test& test, std::uint64_t seed) : random_(seed), test_(test) {
    test_.name += "-variant-" + std::to_string(seed);
  }

  lit::Test run() {
    weak_percent_ = random_.between(0, 3) * 20;
    synchronising_percent_ = random_.between(1, 3) * 30;
    narrow_percent_ = random_.between(0, 2) * 20;
    fence_percent_ = random_.between(0, 3) * 15;
    sc_percent_ = random_.between(0, 2) * 50;
    place();
    for (lit::Thread& thread : test_.threads) redraw(thread);
    observe();
    return std::move(test_);
  }

 private:
  void place() {
    const bool barriers =
        std::any_of(test_.threads.begin(), test_.threads.end(), [](const auto& t) {
          return std::any_of(t.instructions.begin(), t.instructions.end(), [](const auto& i) {
            return std::holds_alternative<lit::Barrier>(i.what);
          });
        });
    if (barriers) return;
    const int gpus = random_.between(1, 2);
    const int ctas = random_.between(1, 3);
    for (lit::Thread& thread : test_.threads) {
      thread.gpu = random_.below(gpus);
      thread.cta = random_.below(ctas);
      thread.cluster.reset();
    }
  }

  void redraw(lit::Thread& thread) {
    std::vector<lit::Instruction> code;
    std::vector<int> moved;
    for (lit::Instruction& instruction : thread.instructions) {
      moved.push_back(static_cast<int>(code.size()));
      if (std::holds_alternative<lit::Fence>(instruction.what)) {
        // Stays, as another one, or goes.
        if (random_.percent(70)) code.push_back({fence(), {}});
        continue;
      }
      const bool access = draw(instruction);
      if (access && !code.empty() && random_.percent(fence_percent_)) code.push_back({fence(), {}});
      code.push_back(std::move(instruction));
    }
    for (lit::Instruction& instruction : code) {
      if (auto* branch = std::get_if<lit::Branch>(&instruction.what)) {
        branch->target = moved[static_cast<std::size_t>(branch->target)];
      }
    }
    thread.instructions = std::move(code);
  }

  // Whether the instruction is an access.
  bool draw(lit::Instruction& instruction) {
    if (auto* load = std::get_if<lit::Load>(&instruction.what)) {
      draw_order(load->order, load->scope, lit::Order::acquire);
    } else if (auto* store = std::get_if<lit::Store>(&instruction.what)) {
      draw_order(store->order, store->scope, lit::Order::release);
    } else if (auto* atomic = std::get_if<lit::Atomic>(&instruction.what)) {
      static constexpr lit::Order kOrders[] = {lit::Order::release, lit::Order::acquire,
                                               lit::Order::acq_rel};
      atomic->scope = scope();
      atomic->order = !random_.percent(synchronising_percent_) ? lit::Order::relaxed
                      : atomic->destination ? kOrders[static_cast<std::size_t>(random_.below(3))]
                                            : lit::Order::release;
    } else {
      return false;
    }
    return true;
  }

  void draw_order(lit::Order& order, lit::Scope& out_scope, lit::Order synchronising) {
    if (random_.percent(weak_percent_)) {
      order = lit::Order::weak;
      out_scope = lit::Scope::sys;
      return;
    }
    order = random_.percent(synchronising_percent_) ? synchronising : lit::Order::relaxed;
    out_scope = scope();
  }

  lit::Scope scope() {
    if (!random_.percent(narrow_percent_)) return lit::Scope::sys;
    return random_.percent(50) ? lit::Scope::cta : lit::Scope::gpu;
  }

  lit::Fence fence() {
    return {random_.percent(sc_percent_) ? lit::Order::sc : lit::Order::acq_rel, scope()};
  }

  void observe() {
    test_.observed.clear();
    test_.filter.reset();
    test_.quantifier = lit::Quantifier::Exists;
    test_.condition = lit::Formula{};
    for (std::size_t l = 0; l < test_.locations.size(); ++l) {
      if (!test_.locations[l].replicas.empty()) continue;
      for (int e = 0; e < test_.locations[l].length; ++e) {
        test_.observed.push_back({-1, static_cast<int>(l), e});
      }
    }
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      for (std::size_t r = 0; r < test_.threads[t].registers.size(); ++r) {
        test_.observed.push_back({static_cast<int>(t), static_cast<int>(r), 0});
      }
    }
  }

  Random random_;
  lit::Test test_;
  int weak_percent_ = 0;
  int synchronising_percent_ = 0;
  int narrow_percent_ = 0;
  int fence_percent_ = 0;
  int sc_percent_ = 0;
};

}  // namespace

litmus::Test mutate(const litmus::Test& test, std::uint64_t seed) {
  return Mutator(test, seed).run();
}

}  // namespace ringfence::axiomatic
