// What the CUDA side chooses by itself: the rules, against the figures they were made from
// (cuda/bench/results). No GPU.
#include <doctest/doctest.h>

#include <algorithm>
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

TEST_CASE("choices: transport and blocks are within 3 % of the best measured, on two GPUs") {
  // us; cuda/bench/results/2026-11-30e-h200x2-fused.txt, and for 1, 64 and 128 tokens another run
  // of that day on two H200s, of 23:43.
  struct Measured {
    int64_t tokens;
    struct {
      int blocks;
      double barriers, push;
    } at[5];
  };
  const Measured all[] = {
      {1, {{8, 7.21, 6.26}, {32, 7.40, 6.23}, {64, 7.43, 6.27}, {128, 7.44, 6.51}}},
      {8,
       {{8, 7.69, 6.69}, {16, 7.85, 6.83}, {32, 7.92, 6.84}, {64, 8.02, 6.66}, {128, 8.15, 6.90}}},
      {64,
       {{8, 12.08, 14.66},
        {16, 10.28, 10.32},
        {32, 9.60, 8.68},
        {64, 9.75, 8.55},
        {128, 9.71, 8.35}}},
      {64, {{8, 11.98, 14.59}, {32, 9.37, 8.37}, {64, 9.65, 8.25}, {128, 9.73, 7.98}}},
      {128, {{8, 16.49, 25.69}, {32, 12.77, 11.62}, {64, 12.52, 10.81}, {128, 12.73, 10.75}}},
      {256,
       {{8, 26.63, 49.27},
        {16, 19.29, 29.03},
        {32, 18.93, 19.87},
        {64, 18.21, 17.01},
        {128, 18.11, 16.21}}},
      {1024,
       {{8, 85.64, 193.99},
        {16, 59.03, 113.89},
        {32, 59.65, 75.60},
        {64, 57.04, 63.34},
        {128, 54.39, 53.63}}},
      {4096,
       {{8, 318.70, 798.51},
        {16, 215.41, 462.93},
        {32, 220.09, 306.17},
        {64, 213.27, 250.18},
        {128, 205.40, 207.29}}},
  };
  for (const Measured& m : all) {
    CAPTURE(m.tokens);
    const int blocks = blocks_for(m.tokens, 2, false, 132);
    double best = 1e9, chosen = 0;
    for (const auto& at : m.at) {
      if (at.blocks == 0) continue;
      best = std::min({best, at.barriers, at.push});
      // The least measured that is as many or more: fewer blocks than 8 were not.
      if (chosen == 0 && at.blocks >= blocks) {
        chosen = m.tokens <= push_limit(2, blocks) ? at.push : at.barriers;
      }
    }
    CHECK(chosen > 0);
    CHECK(chosen <= 1.03 * best);
  }
}

TEST_CASE("choices: virtual ranks share the multiprocessors, and every rank has a block") {
  CHECK(blocks_for(1, 2, true, 132) == 1);
  CHECK(blocks_for(64, 2, true, 132) == 32);
  CHECK(blocks_for(8192, 2, true, 132) == 64);
  CHECK(blocks_for(8192, 3, true, 132) == 42);
  CHECK(blocks_for(8192, 8, true, 132) == 16);
  CHECK(blocks_for(8192, 8, true, 4) == 1);
  CHECK(blocks_for(0, 2, false, 132) == 1);
  CHECK(blocks_for(62, 2, false, 132) == 31);
  CHECK(blocks_for(63, 2, false, 132) == 128);
}

TEST_CASE("choices: rows are near where ranks share a GPU and leave half of it to others") {
  CHECK(rows_a_block(64, 4, 8, 4) == RowsABlock::near);
  CHECK(rows_a_block(128, 4, 8, 4) == RowsABlock::near);  // 4 rows a block
  CHECK(rows_a_block(160, 4, 8, 4) == RowsABlock::some);  // 5
  CHECK(rows_a_block(8192, 2, 32, 2) == RowsABlock::near);
  CHECK(rows_a_block(8192, 2, 33, 2) == RowsABlock::some);  // more than half
  CHECK(rows_a_block(64, 2, 32, 2) == RowsABlock::few);
  // A rank a GPU: the parts come over links.
  CHECK(rows_a_block(64, 4, 8, 1) == RowsABlock::some);
  CHECK(rows_a_block(8192, 2, 8, 1) == RowsABlock::some);
  CHECK(rows_a_block(16, 2, 8, 1) == RowsABlock::few);
}

TEST_CASE("choices: push's mailboxes stay within their limit in every world") {
  for (int world = 2; world <= kMaxRanks; ++world) {
    for (int blocks : {1, 8, 127, 128, 1000}) CHECK(push_limit(world, blocks) <= kPushTokens);
  }
}

TEST_CASE(
    "choices: no tile of pypto that is read at its owner shares its slot with one that opens") {
  for (int slots = 1; slots <= 16; ++slots) {
    CAPTURE(slots);
    CHECK(pypto_lead(slots, false, false) == 1);
    CHECK(pypto_lead(slots, true, false) == std::min(slots, kPyptoLead));
    if (slots < 2) continue;
    // Whoever opens a group may clear what the tiles before the `lead` last ones had.
    for (bool pipelined : {false, true}) {
      const int lead = pypto_lead(slots, pipelined, true);
      CHECK(lead >= 1);
      CHECK(lead <= kPyptoLead);
      CHECK(slots >= lead + (lead < 2 ? 1 : 2));
    }
  }
  CHECK(pypto_lead(kPyptoLead + 2, true, true) == kPyptoLead);
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
