#include "emulator/schedule/label.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace ringfence::schedule;

TEST_CASE("a label survives packing, and its text reads back as the same label") {
  const AgentLabel labels[] = {
      {},
      {.role = Role::host, .rank = 7},
      {.role = Role::host, .rank = 1, .group = 3},
      {.role = Role::thread, .rank = 1, .call = 0, .block = 2, .index = 3},
      {.role = Role::product,
       .rank = 1023,
       .call = 4095,
       .group = 127,
       .block = 65535,
       .index = 65535},
      {.role = Role::task, .rank = 1, .block = 2, .index = 7},
      {.role = Role::consumer, .rank = 3, .call = 9, .group = 1, .block = 1, .index = 1},
      {.role = Role::host, .rank = 2, .call = 1, .block = 4, .index = 5},
  };
  for (const AgentLabel& l : labels) {
    CAPTURE(text(l));
    CHECK(unpack(pack(l)) == l);
    CHECK(parse_label(text(l)) == l);
  }
}

TEST_CASE("labels are written as the traces write them") {
  CHECK(text({.role = Role::thread, .rank = 1, .call = 0, .block = 2, .index = 3}) ==
        "r1.c0.b2.t3");
  CHECK(text({.role = Role::host, .rank = 1}) == "r1.host");
  CHECK(text({.role = Role::product, .rank = 1}) == "r1.c0.product.b0.t0");
  CHECK(text({.role = Role::task, .rank = 1, .block = 2, .index = 7}) == "r1.c0.task.b2.t7");
  CHECK(text({.role = Role::thread, .rank = 0, .call = 2, .group = 1}) == "r0.c2.g1.b0.t0");
}

TEST_CASE("a label that does not fit is refused") {
  CHECK_THROWS_AS(pack({.rank = 1024}), std::invalid_argument);
  CHECK_THROWS_AS(pack({.call = 4096}), std::invalid_argument);
  CHECK_THROWS_AS(pack({.group = 128}), std::invalid_argument);
  CHECK_THROWS_AS(pack({.block = 65536}), std::invalid_argument);
  CHECK_THROWS_AS(pack({.index = 65536}), std::invalid_argument);
}

TEST_CASE("text that is no label is refused") {
  for (const char* bad :
       {"", "r", "host", "r1", "r1.b2", "r1.c0.b2.t3.", "r1..host", "r1.c0.x2.t3", "r1.c0.b2.t3x",
        "rx.host", "r1.c0.b-1.t3", "r1.c5000.b0.t0", "r99999999999.host"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_label(bad), std::invalid_argument);
  }
}
