#include "cuda/host/wait_report.hpp"

#include <doctest/doctest.h>

#include "cuda/kernels/tokenweave.hpp"

using namespace ringfence::cuda;

TEST_CASE("wait table: names who waits for whom, and the rank that waits for nobody") {
  const std::vector<SpinTimeout> timeouts = {{0, 0, 2, 2, SignalKind::start_wait, 0},
                                             {0, 1, 2, 5, SignalKind::start_wait, 0},
                                             {1, 0, 2, 2, SignalKind::end_wait, 0}};
  CHECK(timeout_text(timeouts[0]) ==
        "rank 0 block 0 gave up waiting for rank 2 at slot 2 (start wait, value 0)");
  const std::string table = wait_table(timeouts, 3);
  CHECK(table.find("rank 2 is missing") != std::string::npos);
  CHECK(table.find("rank 0 is missing") == std::string::npos);
  CHECK(table.find("     0           2  start wait    2\n") != std::string::npos);
}

TEST_CASE("pad dump: lists the slots that are not zero with block and rank") {
  CHECK(pad_dump({{0, 0, 0, 0}, {0, 0, 0, 1}}, 2) ==
        "pad of rank 1: slot 3 (block 1, rank 1) is 1\n");
  CHECK(pad_dump({{0, 0}, {0, 0}}, 2) == "");
}

TEST_CASE("owned rows: ceil(T/R) each, cut at T, and together all rows once") {
  for (int world : {1, 2, 3, 5, 8}) {
    for (int64_t tokens : {0, 1, 7, 8, 9, 64, 65, 257}) {
      int64_t next = 0;
      for (int r = 0; r < world; ++r) {
        const RowRange own = owned_rows(tokens, world, r);
        CHECK(own.first == next);
        CHECK(own.count >= 0);
        CHECK(own.count <= (tokens + world - 1) / world);
        next = own.first + own.count;
      }
      CHECK(next == tokens);
    }
  }
}
