#include <doctest/doctest.h>

#include <limits>

#include "tests/verify/throws.hpp"
#include "verify/problem.hpp"

namespace ringfence::verify {
namespace {

Problem with(int ranks, std::int64_t tokens, std::int64_t inner, std::int64_t hidden) {
  Problem p;
  p.ranks = ranks;
  p.tokens = tokens;
  p.inner = inner;
  p.hidden = hidden;
  return p;
}

TEST_CASE("the block size is min(1024, roundup32(H / 8))") {
  CHECK(tokenweave_block_threads(8) == 32);
  CHECK(tokenweave_block_threads(256) == 32);
  CHECK(tokenweave_block_threads(264) == 64);
  CHECK(tokenweave_block_threads(5120) == 640);
  CHECK(tokenweave_block_threads(7168) == 896);
  CHECK(tokenweave_block_threads(8192) == 1024);
  CHECK(tokenweave_block_threads(16384) == 1024);
}

TEST_CASE("the ranks' rows are disjoint and cover all tokens, by ceil(T/R)") {
  for (const int ranks : {1, 2, 3, 8, 64}) {
    for (const std::int64_t tokens : {1, 2, 7, 8, 9, 64, 257}) {
      const Problem p = with(ranks, tokens, 64, 64);
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const RowRange rows = p.rows_of(r);
        CHECK(rows.begin == next);
        CHECK(rows.count() >= 0);
        CHECK(rows.count() <= (tokens + ranks - 1) / ranks);
        next = rows.end;
      }
      CHECK(next == tokens);
    }
  }
  Problem p = with(4, 10, 64, 64);
  CHECK(p.rows_of(0).end == 3);
  CHECK(p.rows_of(3).begin == 9);
  p.flavour = Flavour::pypto;
  CHECK(p.rows_of(3).begin == 0);
  CHECK(p.rows_of(3).end == 10);
}

TEST_CASE("a problem that is well defined passes") {
  validate(with(1, 1, 1, 8));
  validate(with(64, 64, 64, 8192));
  validate(with(4, 10, 8, 8), {false});
  Problem p = with(8, 10, 64, 64);
  p.flavour = Flavour::pypto;
  validate(p);
}

TEST_CASE("each bad option is refused by its name, with what would be right") {
  CHECK_ERROR(validate(with(0, 8, 8, 8)), "--ranks is 0", "1 to 72");
  CHECK_ERROR(validate(with(73, 8, 8, 8)), "--ranks is 73", "1 to 72");
  CHECK_ERROR(validate(with(1, 0, 8, 8)), "--tokens is 0", "1 or more");
  CHECK_ERROR(validate(with(1, 8, -8, 8)), "--inner is -8");
  CHECK_ERROR(validate(with(1, 8, 8, 0)), "--hidden is 0");
  CHECK_ERROR(validate(with(4, 8, 10, 8)), "--inner 10", "--ranks 4", "12");
  CHECK_ERROR(validate(with(4, 8, 8, 12)), "--hidden 12", "multiple of 8", "16");
  CHECK_ERROR(validate(with(4, 10, 8, 8)), "--tokens 10", "--ranks 4", "pad to 12");
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK_ERROR(validate(with(1, large, large, 8)), "overflow", "--tokens 1099511627776");
  CHECK_ERROR(validate(with(1, 1, 1, std::numeric_limits<std::int64_t>::max() & ~7)), "overflow");
  Problem p = with(4, 8, 8, 8);
  p.dtype = Dtype::f32;
  CHECK_ERROR(validate(p), "--dtype fp32", "bf16 or fp16");
  p.dtype = Dtype::bf16;
  for (const float eps :
       {-1e-6f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    p.eps = eps;
    CHECK_ERROR(validate(p), "--eps", "finite");
  }
}

TEST_CASE("flavour names are what parse_flavour takes, and anything else is refused") {
  CHECK(parse_flavour("tokenweave") == Flavour::tokenweave);
  CHECK(parse_flavour(flavour_name(Flavour::pypto)) == Flavour::pypto);
  CHECK_ERROR(parse_flavour("ring"), "ring", "tokenweave or pypto");
}

}  // namespace
}  // namespace ringfence::verify
