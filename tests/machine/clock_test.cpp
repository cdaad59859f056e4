#include <doctest/doctest.h>

#include <algorithm>
#include <memory_resource>
#include <span>
#include <vector>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/machine.hpp"

using namespace ringfence::machine;

TEST_CASE("a clock knows a slot's threads before its base and single threads beyond it") {
  ClockPool pool(std::pmr::new_delete_resource());
  Clock c = pool.make();
  c.join_slot(2, 5);
  CHECK(c.covers(Epoch{7, 2, 4}));
  CHECK_FALSE(c.covers(Epoch{7, 2, 5}));
  CHECK_FALSE(c.covers(Epoch{7, 1, 0}));
  c.join_thread(7, 2, 9);
  CHECK(c.covers(Epoch{7, 2, 8}));
  CHECK_FALSE(c.covers(Epoch{7, 2, 9}));
  CHECK_FALSE(c.covers(Epoch{8, 2, 5}));
}

TEST_CASE("a raised base takes over what was known of single threads") {
  ClockPool pool(std::pmr::new_delete_resource());
  Clock a = pool.make(), b = pool.make();
  a.join_thread(3, 0, 4);
  b.join_slot(0, 6);
  a.join(b);
  CHECK(a.covers(Epoch{3, 0, 5}));
  CHECK(a.covers(Epoch{4, 0, 5}));
  CHECK_FALSE(a.covers(Epoch{3, 0, 6}));
  CHECK(a.covers(b));
}

TEST_CASE("changing a clock leaves its copies as they were") {
  ClockPool pool(std::pmr::new_delete_resource());
  Clock a = pool.make();
  a.join_slot(0, 3);
  const Clock b = a;
  CHECK(a.same_as(b));
  a.join_slot(0, 8);
  CHECK(b.base(0) == 3);
  CHECK(a.base(0) == 8);
}

TEST_CASE("what both clocks know is a lower bound of each") {
  ClockPool pool(std::pmr::new_delete_resource());
  Clock a = pool.make(), b = pool.make();
  a.join_slot(0, 3);
  a.join_slot(1, 9);
  b.join_slot(0, 5);
  b.join_slot(1, 2);
  a.meet(b);
  CHECK(a.base(0) == 3);
  CHECK(a.base(1) == 2);
}

TEST_CASE("dropped clocks are recycled") {
  ClockPool pool(std::pmr::new_delete_resource());
  {
    Clock a = pool.make();
    Clock b = a;
    b.join_slot(0, 1);
    CHECK(pool.live() == 2);
  }
  CHECK(pool.live() == 0);
}

namespace {

struct Counting : std::pmr::memory_resource {
  std::size_t bytes = 0, most = 0;

 private:
  void* do_allocate(std::size_t n, std::size_t alignment) override {
    most = std::max(most, bytes += n);
    return std::pmr::new_delete_resource()->allocate(n, alignment);
  }
  void do_deallocate(void* p, std::size_t n, std::size_t alignment) override {
    bytes -= n;
    std::pmr::new_delete_resource()->deallocate(p, n, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& o) const noexcept override {
    return this == &o;
  }
};

// A graph of one launch: half of the operations precede one, which precedes the other half. Each
// has a block of its own, so that what the one in the middle knows has an entry for each.
std::size_t memory_of_graph(std::uint32_t half) {
  Counting memory;
  Machine m(&memory, Policy{Boundary::coherent});
  const StreamId stream = m.add_stream(0);
  m.begin_launch(stream);
  std::vector<ThreadId> all;
  for (std::uint32_t i = 0; i < 2 * half + 1; ++i) {
    all.push_back(m.launch_thread(stream, i, 0, i + 1));
  }
  const std::span<const ThreadId> before = std::span(all).first(half);
  const std::span<const ThreadId> middle = std::span(all).subspan(half, 1);
  const std::span<const ThreadId> behind = std::span(all).subspan(half + 1);
  for (const ThreadId id : before) {
    m.order_after(middle, id);
    m.end_thread(id);
  }
  m.order_after(behind, middle[0]);
  m.end_thread(middle[0]);
  for (const ThreadId id : before) {
    CHECK(m.knows(behind[0], id, 0));
    CHECK(m.knows(behind[half - 1], id, 0));
    CHECK_FALSE(m.knows(behind[0], id, m.time_of(id)));
  }
  CHECK(m.knows(behind[0], middle[0], 0));
  CHECK_FALSE(m.knows(behind[0], behind[1], 0));
  for (const ThreadId id : behind) m.end_thread(id);
  m.end_launch(stream);
  return memory.most;
}

}  // namespace

TEST_CASE("operations of a graph take memory in proportion to their number, not to its square") {
  CHECK(memory_of_graph(1024) < 3 * memory_of_graph(512));
}
