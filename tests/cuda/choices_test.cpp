// What the CUDA side chooses by itself: the rules, against the figures they were made from
// (cuda/bench/results). No GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "cuda/kernels/push.hpp"
#include "cuda/kernels/pypto.hpp"

using namespace ringfence::cuda;

TEST_CASE("choices: calls push where push was faster on two GPUs by 3 % or more, and only there") {
  const struct {
    int64_t tokens;
    int blocks;
    double barriers, push;  // us
  } measured[] = {
      {8, 8, 8.83, 7.44},          {8, 128, 9.07, 7.57},     {64, 8, 13.35, 15.54},
      {64, 16, 10.82, 11.03},      {64, 32, 10.60, 8.87},    {64, 128, 10.48, 8.89},
      {256, 8, 33.91, 50.99},      {256, 16, 22.55, 30.87},  {256, 32, 19.81, 20.54},
      {256, 64, 19.18, 16.95},     {256, 128, 19.07, 16.64}, {1024, 16, 67.58, 116.49},
      {1024, 32, 59.81, 76.59},    {1024, 64, 58.89, 64.60}, {1024, 128, 55.85, 53.65},
      {4096, 128, 204.76, 208.26},
  };
  for (const auto& m : measured) {
    CAPTURE(m.tokens);
    CAPTURE(m.blocks);
    if (std::abs(m.push / m.barriers - 1) < 0.03) continue;
    CHECK((m.tokens <= push_limit(2, m.blocks)) == (m.push < m.barriers));
  }
}

TEST_CASE("choices: push's mailboxes stay within their limit in every world") {
  for (int world = 2; world <= kMaxRanks; ++world) {
    for (int blocks : {1, 8, 127, 128, 1000}) CHECK(push_limit(world, blocks) <= kPushTokens);
  }
}

TEST_CASE("choices: pypto halves its chunks exactly where whole ones leave blocks without any") {
  // Hidden 8192: 64 whole chunks of a tile of 8 or 64 rows, 32 of one of 128.
  CHECK(pypto_chunk(8, 8192, 64, 8) == 128);
  CHECK(pypto_chunk(8, 8192, 65, 8) == 64);
  CHECK(pypto_chunk(8, 8192, 128, 9) == 128);  // two tiles
  CHECK(pypto_chunk(64, 8192, 128, 64) == 64);
  CHECK(pypto_chunk(64, 8192, 128, 65) == 128);
  CHECK(pypto_chunk(128, 8192, 128, 256) == 128);
  CHECK(pypto_chunk(128, 8192, 128, 384) == 128);
  CHECK(pypto_chunk(128, 8192, 128, 385) == 256);
  CHECK(pypto_chunk(128, 8200, 33, 128) == 256);  // the last chunk has few columns
}
