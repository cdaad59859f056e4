// Somebody's own tests of a lock that two GPUs share, with the PTX memory model in them: a ticket
// lock, every schedule and every read, and what is wrong with the versions that are nearly right.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <ringfence/subject.hpp>
#include <ringfence/threads.hpp>

using ringfence::Order;
using ringfence::Scope;

namespace {

struct TicketLock {
  ringfence::Word next, serving;
  Order leave = Order::release;
  Scope scope = Scope::sys;

  std::uint32_t enter(ringfence::Thread& t) const {
    const std::uint32_t mine = t.add(next, 1, Order::relaxed, scope);
    t.await(serving, mine, Order::acquire, scope);
    return mine;
  }
  void exit(ringfence::Thread& t, std::uint32_t mine) const {
    t.store(serving, mine + 1, leave, scope);
  }
};

// Two GPUs add one each, behind the lock.
ringfence::Result check_lock(Order leave, Scope scope) {
  ringfence::Threads threads("ticket lock");
  const TicketLock lock{threads.word("next"), threads.word("serving"), leave, scope};
  const ringfence::Word counter = threads.word("counter");
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
    threads.add({.rank = gpu}, [=](ringfence::Thread& t) {
      const std::uint32_t mine = lock.enter(t);
      t.store(counter, t.load(counter) + 1);
      lock.exit(t, mine);
    });
  }
  threads.finally([=](const ringfence::Memory& memory) {
    return memory[counter] == 2 ? "" : "an update is lost";
  });
  return ringfence::Subject(threads).check();
}

}  // namespace

TEST_CASE("the lock holds in every execution") {
  const ringfence::Result r = check_lock(Order::release, Scope::sys);
  CHECK(r.verdict == ringfence::Verdict::pass);
  CHECK(r.modes.front().explored == 1);
  CHECK(r.modes.front().executions == 2);  // either GPU is first
}

TEST_CASE("a relaxed exit hands the lock on and nothing else") {
  const ringfence::Result r = check_lock(Order::relaxed, Scope::sys);
  REQUIRE(r.finding() != nullptr);
  MESSAGE(r.finding()->story);
  CHECK(r.finding()->kind == "data-race");
  CHECK(r.finding()->confirmed);
}

TEST_CASE("a lock of scope gpu is none between two GPUs") {
  const ringfence::Result r = check_lock(Order::release, Scope::gpu);
  REQUIRE(r.finding() != nullptr);
  CHECK(r.finding()->kind == "data-race");
}
