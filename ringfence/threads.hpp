#pragma once
// Threads of GPUs written in C++ against the PTX memory model: a lock, a queue, a barrier of one's
// own, before there is a kernel. Each access says its order and scope; which schedule is taken, and
// what each read returns, is the search's.
//
//   ringfence::Threads threads("lock");
//   const auto lock = threads.word("lock");
//   const auto data = threads.word("data");
//   for (unsigned rank = 0; rank < 2; ++rank) {
//     threads.add({.rank = rank}, [=](ringfence::Thread& t) {
//       t.await_cas(lock, 0, 1, Order::acquire);
//       t.store(data, t.load(data) + 1);
//       t.store(lock, 0, Order::release);
//     });
//   }
//   threads.finally([=](const ringfence::Memory& m) { return m[data] == 2 ? "" : "an update is
//   lost"; }); const ringfence::Result r = ringfence::Subject(threads).check();
//
// Bodies run many times, and every schedule anew: they keep nothing outside themselves, and what
// they do depends on what they read alone. They may be ended at any access, by an exception that
// they let pass.

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>

#include "ringfence/result.hpp"

namespace ringfence {

// Semantics and scope as PTX has them.
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel, sc };
enum class Scope : std::uint8_t { cta, cluster, gpu, sys };

// A variable of 4 bytes that all threads reach.
struct Word {
  std::uint32_t index{0};
};

class Thread {
 public:
  using Where = std::source_location;

  std::uint32_t load(Word from, Order order = Order::weak, Scope scope = Scope::sys,
                     Where where = Where::current());
  void store(Word to, std::uint32_t value, Order order = Order::weak, Scope scope = Scope::sys,
             Where where = Where::current());
  // Atomics: the old value.
  std::uint32_t add(Word at, std::uint32_t operand, Order order = Order::relaxed,
                    Scope scope = Scope::sys, Where where = Where::current());
  std::uint32_t exchange(Word at, std::uint32_t value, Order order = Order::relaxed,
                         Scope scope = Scope::sys, Where where = Where::current());
  std::uint32_t cas(Word at, std::uint32_t compare, std::uint32_t value,
                    Order order = Order::relaxed, Scope scope = Scope::sys,
                    Where where = Where::current());
  void fence(Order order, Scope scope = Scope::sys, Where where = Where::current());  // acq_rel, sc
  // Loops that poll. They are not explored as loops: one that cannot end is a deadlock.
  void await(Word at, std::uint32_t value, Order order = Order::acquire, Scope scope = Scope::sys,
             Where where = Where::current());
  void await_at_least(Word at, std::uint32_t value, Order order = Order::acquire,
                      Scope scope = Scope::sys, Where where = Where::current());
  void await_cas(Word at, std::uint32_t compare, std::uint32_t value, Order order = Order::acquire,
                 Scope scope = Scope::sys, Where where = Where::current());
  // bar.sync of the thread's block.
  void sync(Where where = Where::current());
  // A finding (numeric-mismatch) with this text unless it holds.
  void check(bool holds, const std::string& text, Where where = Where::current());

  std::uint32_t rank() const;
  std::uint32_t block() const;
  std::uint32_t index() const;

  struct State;
  explicit Thread(State& state) : state_(state) {}

 private:
  State& state_;
};

// What the words hold after all threads have ended.
class Memory {
 public:
  std::uint32_t operator[](Word word) const;
  struct State;
  explicit Memory(const State& state) : state_(state) {}

 private:
  const State& state_;
};

// Where a thread runs: scopes are between threads.
struct Place {
  std::uint32_t rank{0};   // a GPU
  std::uint32_t block{0};  // of that GPU
};

class Threads {
 public:
  explicit Threads(std::string name);

  // One more variable, that lies on rank 0; `name` names it in findings.
  Word word(const std::string& name, std::uint32_t initial = 0);
  using Body = std::function<void(Thread&)>;
  Threads& add(Place place, Body body);
  // After every run that ended without a finding: what is wrong with the result, or nothing.
  Threads& finally(std::function<std::string(const Memory&)> check);

  struct Data;
  std::shared_ptr<const Data> data() const { return data_; }

 private:
  std::shared_ptr<Data> data_;  // shared by copies until one of them changes
  Data& change();
};

}  // namespace ringfence
