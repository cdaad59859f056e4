#include "verify/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>

#include "verify/error.hpp"

namespace ringfence::verify {

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::size_t element_count(const Shape& shape) {
  // Eight bytes an element is what the double-precision reference needs of the same shape.
  constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max() / 8;
  std::uint64_t count = 1;
  bool overflow = false;
  bool zero = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw InputError(
          fmt::format("shape {} has a negative extent: use 0 or more", shape_text(shape)));
    }
    if (extent == 0) {
      zero = true;
    } else if (count > limit / static_cast<std::uint64_t>(extent)) {
      overflow = true;
    } else {
      count *= static_cast<std::uint64_t>(extent);
    }
  }
  if (zero) return 0;
  if (overflow) {
    throw InputError(
        fmt::format("shape {} overflows: at most {} elements fit", shape_text(shape), limit));
  }
  return count;
}

Tensor::Tensor(Dtype dtype, Shape shape) : dtype(dtype), shape(std::move(shape)) {
  bytes.resize(element_count(this->shape) * dtype_bytes(dtype));
}

std::uint16_t* Tensor::bits() {
  return const_cast<std::uint16_t*>(static_cast<const Tensor*>(this)->bits());
}

const std::uint16_t* Tensor::bits() const {
  if (!is_half(dtype)) {
    throw InputError(fmt::format("expected a 16-bit tensor: got {}", dtype_name(dtype)));
  }
  return reinterpret_cast<const std::uint16_t*>(bytes.data());
}

float* Tensor::floats() { return const_cast<float*>(static_cast<const Tensor*>(this)->floats()); }

const float* Tensor::floats() const {
  if (dtype != Dtype::f32) {
    throw InputError(fmt::format("expected an fp32 tensor: got {}", dtype_name(dtype)));
  }
  return reinterpret_cast<const float*>(bytes.data());
}

double Tensor::value(std::size_t index) const { return decode(dtype, pattern(index)); }

std::uint64_t Tensor::pattern(std::size_t index) const {
  return load_pattern(dtype, bytes.data() + index * dtype_bytes(dtype));
}

}  // namespace ringfence::verify
