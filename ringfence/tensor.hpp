#pragma once
// Numbers of a dtype, as bytes.

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringfence {

// The dtype of a C++ type: "f32", "s32", ...
template <class T>
constexpr const char* dtype_of() {
  static_assert(std::is_arithmetic_v<T>, "expected a number; halves are given as Tensor");
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    return sizeof(T) == 4 ? "f32" : "f64";
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 1 ? "s8" : sizeof(T) == 2 ? "s16" : sizeof(T) == 4 ? "s32" : "s64";
  } else {
    return sizeof(T) == 1 ? "u8" : sizeof(T) == 2 ? "u16" : sizeof(T) == 4 ? "u32" : "u64";
  }
}

struct Tensor {
  std::string dtype;  // "bf16", "f16", "f32", "f64", "e4m3", "e5m2", "s8" to "s64", "u8" to "u64"
  std::vector<std::byte> bytes;

  Tensor() = default;
  Tensor(std::string type, std::vector<std::byte> content)
      : dtype(std::move(type)), bytes(std::move(content)) {}
  template <class T>
  Tensor(const std::vector<T>& values)  // NOLINT: values are a tensor
      : dtype(dtype_of<T>()), bytes(values.size() * sizeof(T)) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  }
};

}  // namespace ringfence
