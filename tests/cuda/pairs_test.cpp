#include <doctest/doctest.h>

#include "tests/cuda/every_pair.hpp"
#include "tests/cuda/gpu.hpp"

using namespace ringfence;

TEST_CASE("gpu: packed sums and products are those of fp32 rounded once, for every pair") {
  if (tests::gpu_missing()) return;
  for (const cuda::DataType dtype : {cuda::DataType::bf16, cuda::DataType::fp16}) {
    CAPTURE(static_cast<int>(dtype));
    CHECK(tests::pairs_that_differ(dtype, tests::PairOperation::add) == 0);
    CHECK(tests::pairs_that_differ(dtype, tests::PairOperation::multiply) == 0);
  }
}
