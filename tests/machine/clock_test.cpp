#include <doctest/doctest.h>

#include <memory_resource>

#include "emulator/machine/clock.hpp"

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
