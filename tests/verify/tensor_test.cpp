#include <doctest/doctest.h>

#include "tests/verify/throws.hpp"
#include "verify/tensor.hpp"

namespace ringfence::verify {
namespace {

TEST_CASE("a tensor is zeros of its shape, row-major, and gives values and patterns") {
  Tensor tensor(Dtype::f16, {3, 8});
  CHECK(tensor.elements() == 24);
  CHECK(tensor.bytes.size() == 48);
  for (std::size_t i = 0; i < 24; ++i) CHECK(tensor.value(i) == 0);
  tensor.row(2)[1] = 0x3c00;
  CHECK(tensor.value(17) == 1.0);
  CHECK(tensor.pattern(17) == 0x3c00);
  Tensor wide(Dtype::f32, {2});
  wide.floats()[1] = -2.5f;
  CHECK(wide.value(1) == -2.5);
  CHECK(wide.pattern(1) == 0xc0200000u);
}

TEST_CASE("element counts: a scalar is one, an empty extent none, an overflow an error") {
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK(element_count({}) == 1);
  CHECK(element_count({4, 0, 3}) == 0);
  CHECK(element_count({large, 0, large}) == 0);
  CHECK(element_count({large, 1 << 19}) == std::size_t{1} << 59);
  CHECK_ERROR(element_count({large, 1 << 21}), "[1099511627776, 2097152]", "overflows", "at most");
  CHECK_ERROR(element_count({large, large, large}), "overflows");
  CHECK_ERROR(element_count({3, -1}), "[3, -1]", "0 or more");
}

TEST_CASE("a tensor's elements are only to be had in their own width") {
  Tensor half(Dtype::bf16, {1});
  Tensor wide(Dtype::f32, {1});
  CHECK_ERROR(half.floats(), "fp32", "bf16");
  CHECK_ERROR(wide.bits(), "16-bit", "fp32");
}

}  // namespace
}  // namespace ringfence::verify
