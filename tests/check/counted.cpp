#include "tests/check/counted.hpp"

#include <string>
#include <utility>

#include "tests/axiomatic/random.hpp"

namespace ringfence::testing {

namespace {

class Counted {
 public:
  explicit Counted(std::uint64_t seed, bool multimem = false)
      : random_(seed), narrow_(!multimem && seed % 4 == 0), multimem_(multimem) {}

  litmus::Test make() {
    litmus::Test test;
    test.name = "counted";
    for (const char* name : {"c", "d", "x", "y"}) {
      test.locations.emplace_back();
      test.locations.back().name = name;
      test.locations.back().type = {'u', 32};
      test.locations.back().typed = true;
      test.locations.back().initial = {0};
    }
    if (multimem_) {
      test.locations.emplace_back();
      test.locations.back().name = "m";
      test.locations.back().type = {'u', 32};
      test.locations.back().typed = true;
      test.locations.back().replicas = {0, 1};
    }
    const int threads = multimem_ ? random_.between(2, 3) : random_.between(2, 4);
    int left = random_.between(threads + 2, 8);
    for (int t = 0; t < threads; ++t) {
      test.threads.emplace_back();
      test.threads.back().cta = 0;
      test.threads.back().gpu = t;
    }
    waiter_ = random_.percent(50) ? random_.below(threads) : -1;
    // What is handed on: P1 adds to one counter behind what P0 has added to the other one.
    if (multimem_ && random_.percent(60)) {
      const int other = random_.below(2);
      test.threads[0].instructions.push_back({added(4, litmus::Scope::sys), {}});
      wait(test.threads[1], 1 - other, litmus::Scope::sys);
      test.threads[1].instructions.push_back({added(other, litmus::Scope::sys), {}});
      left -= 2;
    }
    for (; left > 0; --left) {
      const int t = random_.below(threads);
      if (test.threads[static_cast<std::size_t>(t)].instructions.size() < 10) add(test, t);
    }
    for (int l = 0; l < 4; ++l) test.observed.push_back({-1, l, 0});
    test.condition.left = litmus::Constant{0};
    test.condition.right = litmus::Constant{0};
    return test;
  }

 private:
  void add(litmus::Test& test, int t) {
    litmus::Thread& thread = test.threads[static_cast<std::size_t>(t)];
    const auto instruction = [&](auto what) {
      thread.instructions.push_back({std::move(what), {}});
    };
    const int kind = random_.below(100);
    const litmus::Scope scope =
        narrow_ && random_.percent(30) ? litmus::Scope::gpu : litmus::Scope::sys;
    const int counter = random_.percent(75) ? 0 : 1, data = random_.between(2, 3);
    if (kind < 40) {
      if (random_.percent(25)) instruction(store_to(random_.between(2, 3)));
      return instruction(added(multimem_ && random_.percent(70) ? 4 : counter, scope));
    }
    if (kind < 65 && (counter != 0 || waiter_ < 0 || waiter_ == t)) {
      wait(thread, counter, scope);
      if (random_.percent(40)) instruction(load_of(test, t, random_.between(2, 3)));
      return;
    }
    if (kind < 68) {
      return instruction(litmus::Fence{
          random_.percent(30) ? litmus::Order::sc : litmus::Order::acq_rel, litmus::Scope::sys});
    }
    if (kind < 83) return instruction(store_to(random_.percent(3) ? counter : data));
    instruction(load_of(test, t, random_.percent(multimem_ ? 30 : 5) ? counter : data));
  }

  // To a counter, or to both at once (4).
  litmus::Atomic added(int location, litmus::Scope scope) {
    litmus::Atomic red;
    red.op = litmus::Combine::add;
    red.value = litmus::Constant{1};
    red.order = random_.percent(50) ? litmus::Order::release : litmus::Order::relaxed;
    red.scope = scope;
    red.address = {location, 0};
    red.multimem = location == 4;
    if (multimem_ && random_.percent(70)) red.order = litmus::Order::release;
    return red;
  }

  void wait(litmus::Thread& thread, int counter, litmus::Scope scope) {
    litmus::Load load;
    load.order =
        random_.percent(multimem_ ? 80 : 50) ? litmus::Order::acquire : litmus::Order::relaxed;
    load.scope = scope;
    load.address = {counter, 0};
    load.destinations = {fresh(thread)};
    const int label = static_cast<int>(thread.instructions.size());
    thread.instructions.push_back({litmus::Label{"L" + std::to_string(labels_++)}, {}});
    thread.instructions.push_back({load, {}});
    const bool exact = random_.percent(5);
    thread.instructions.push_back(
        {litmus::Branch{exact ? litmus::Compare::ne : litmus::Compare::lt,
                        litmus::Register{load.destinations.front()},
                        litmus::Constant{random_.between(1, multimem_ ? 2 : 3)}, label},
         {}});
  }

  litmus::Store store_to(int location) {
    litmus::Store store;
    store.order = order_of_data(litmus::Order::release);
    store.address = {location, 0};
    store.values = {litmus::Constant{++value_}};
    return store;
  }

  // Observed.
  litmus::Load load_of(litmus::Test& test, int t, int location) {
    litmus::Load load;
    load.order = order_of_data(litmus::Order::acquire);
    load.address = {location, 0};
    load.destinations = {fresh(test.threads[static_cast<std::size_t>(t)])};
    test.observed.push_back({t, load.destinations.front(), 0});
    return load;
  }

  litmus::Order order_of_data(litmus::Order strongest) {
    if (random_.percent(15)) return litmus::Order::weak;
    return random_.percent(40) ? strongest : litmus::Order::relaxed;
  }

  static litmus::RegisterId fresh(litmus::Thread& thread) {
    thread.registers.emplace_back();
    thread.registers.back().name = "r" + std::to_string(thread.registers.size() - 1);
    return static_cast<litmus::RegisterId>(thread.registers.size() - 1);
  }

  axiomatic::Random random_;
  bool narrow_, multimem_;
  int waiter_ = -1, labels_ = 0;
  std::int64_t value_ = 0;
};

}  // namespace

litmus::Test counted(std::uint64_t seed) { return Counted(seed).make(); }
litmus::Test counted_by_multimem(std::uint64_t seed) { return Counted(seed, true).make(); }

}  // namespace ringfence::testing
