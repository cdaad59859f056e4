// Memory, streams and events of the driver's interface, and tensor maps.

#include <array>
#include <string>
#include <vector>

#include "emulator/exec/client/driver.hpp"
#include "emulator/ptx/tensor_map.hpp"

namespace ringfence::exec::client {
namespace {

// A pattern of more than a byte: the runtime's fills are of bytes.
template <class T>
Error fill(Pointer to, T value, std::size_t count, Handle stream, bool synchronous) {
  const std::vector<T> content(count, value);
  const auto bytes = content.size() * sizeof(T);
  return synchronous
             ? runtime<Error(void*, const void*, std::size_t, Kind)>("cudaMemcpy")(
                   at(to), content.data(), bytes, Kind::host_to_device)
             : runtime<Error(void*, const void*, std::size_t, Kind, Handle)>("cudaMemcpyAsync")(
                   at(to), content.data(), bytes, Kind::host_to_device, stream);
}

// CUtensorMapDataType's numbers.
ptx::Type element_of(int type) {
  using enum ptx::Type;
  constexpr std::array kTypes{u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32, f32, f32};
  return type >= 0 && static_cast<std::size_t>(type) < kTypes.size()
             ? kTypes[static_cast<std::size_t>(type)]
             : none;
}
std::uint8_t bytes_of(ptx::Type type) {
  using enum ptx::Type;
  return type == u8                                   ? 1
         : type == u16 || type == f16 || type == bf16 ? 2
         : type == u64 || type == s64 || type == f64  ? 8
                                                      : 4;
}

}  // namespace

// -- memory ---------------------------------------------------------------------------------------

RF_AS(cuMemAlloc_v2, "cudaMalloc", (void** out, std::size_t bytes), (out, bytes))
RF_AS(cuMemFree_v2, "cudaFree", (void* p), (p))
RF_AS(cuMemAllocPitch_v2, "cudaMallocPitch",
      (void** out, std::size_t* pitch, std::size_t width, std::size_t rows),
      (out, pitch, width, rows))
RF_AS(cuMemAllocHost_v2, "cudaMallocHost", (void** out, std::size_t bytes), (out, bytes))
RF_AS(cuMemHostAlloc, "cudaHostAlloc", (void** out, std::size_t bytes, unsigned flags),
      (out, bytes, flags))
RF_AS(cuMemFreeHost, "cudaFreeHost", (void* p), (p))
RF_AS(cuMemHostGetDevicePointer_v2, "cudaHostGetDevicePointer",
      (void** out, void* p, unsigned flags), (out, p, flags))
RF_AS(cuMemAllocManaged, "cudaMallocManaged", (void** out, std::size_t bytes, unsigned flags),
      (out, bytes, flags))
RF_BOTH(cuMemAllocAsync, "cudaMallocAsync", (void** out, std::size_t bytes, Handle stream),
        (out, bytes, stream))
RF_BOTH(cuMemFreeAsync, "cudaFreeAsync", (void* p, Handle stream), (p, stream))
RF_AS(cuMemGetInfo_v2, "cudaMemGetInfo", (std::size_t * free, std::size_t* total), (free, total))

RF_API Error cuPointerGetAttribute(void* out, int attribute, Pointer p) {
  PointerAttributes of;
  const Error e =
      runtime<Error(PointerAttributes*, const void*)>("cudaPointerGetAttributes")(&of, at(p));
  if (e != kSuccess) return e;
  if (of.type == 0) return kInvalidValue;
  switch (attribute) {
    case 2:
      *static_cast<unsigned*>(out) = of.type == 1 ? 1 : 2;
      return kSuccess;
    case 3:
      *static_cast<void**>(out) = of.devicePointer;
      return of.devicePointer != nullptr ? kSuccess : kInvalidValue;
    case 4:
      *static_cast<void**>(out) = of.hostPointer;
      return of.hostPointer != nullptr ? kSuccess : kInvalidValue;
    case 6:
      return kSuccess;
    case 8:
      *static_cast<bool*>(out) = of.type == 3;
      return kSuccess;
    case 9:
      *static_cast<int*>(out) = of.device;
      return kSuccess;
    default:
      return refuse("cuPointerGetAttribute of other than type, pointers and device");
  }
}

// -- copies and fills -----------------------------------------------------------------------------

RF_API Error cuMemcpy(Pointer to, Pointer from, std::size_t bytes) {
  return runtime<Error(void*, const void*, std::size_t, Kind)>("cudaMemcpy")(at(to), at(from),
                                                                             bytes, Kind::any);
}
RF_API Error cuMemcpyAsync(Pointer to, Pointer from, std::size_t bytes, Handle stream) {
  return runtime<Error(void*, const void*, std::size_t, Kind, Handle)>("cudaMemcpyAsync")(
      at(to), at(from), bytes, Kind::any, stream);
}
RF_API Error cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t bytes) {
  return cuMemcpy(to, reinterpret_cast<Pointer>(from), bytes);
}
RF_API Error cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t bytes) {
  return cuMemcpy(reinterpret_cast<Pointer>(to), from, bytes);
}
RF_API Error cuMemcpyDtoD_v2(Pointer to, Pointer from, std::size_t bytes) {
  return cuMemcpy(to, from, bytes);
}
RF_API Error cuMemcpyPeer(Pointer to, Handle, Pointer from, Handle, std::size_t bytes) {
  return cuMemcpy(to, from, bytes);
}
RF_API Error cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Handle stream) {
  return cuMemcpyAsync(to, reinterpret_cast<Pointer>(from), bytes, stream);
}
RF_API Error cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Handle stream) {
  return cuMemcpyAsync(reinterpret_cast<Pointer>(to), from, bytes, stream);
}
RF_API Error cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Handle stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}
RF_API Error cuMemcpyPeerAsync(Pointer to, Handle, Pointer from, Handle, std::size_t bytes,
                               Handle stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}

RF_API Error cuMemsetD8_v2(Pointer to, unsigned char value, std::size_t count) {
  return runtime<Error(void*, int, std::size_t)>("cudaMemset")(at(to), value, count);
}
RF_API Error cuMemsetD8Async(Pointer to, unsigned char value, std::size_t count, Handle stream) {
  return runtime<Error(void*, int, std::size_t, Handle)>("cudaMemsetAsync")(at(to), value, count,
                                                                            stream);
}
RF_API Error cuMemsetD16_v2(Pointer to, std::uint16_t value, std::size_t count) {
  if (value >> 8 == (value & 255)) return cuMemsetD8_v2(to, value & 255, count * 2);
  return fill(to, value, count, nullptr, true);
}
RF_API Error cuMemsetD16Async(Pointer to, std::uint16_t value, std::size_t count, Handle stream) {
  if (value >> 8 == (value & 255)) return cuMemsetD8Async(to, value & 255, count * 2, stream);
  return fill(to, value, count, stream, false);
}
RF_API Error cuMemsetD32_v2(Pointer to, std::uint32_t value, std::size_t count) {
  if (value == (value & 255) * 0x01010101U) return cuMemsetD8_v2(to, value & 255, count * 4);
  return fill(to, value, count, nullptr, true);
}
RF_API Error cuMemsetD32Async(Pointer to, std::uint32_t value, std::size_t count, Handle stream) {
  if (value == (value & 255) * 0x01010101U) {
    return cuMemsetD8Async(to, value & 255, count * 4, stream);
  }
  return fill(to, value, count, stream, false);
}

// -- streams and events ---------------------------------------------------------------------------

RF_AS(cuStreamCreate, "cudaStreamCreateWithFlags", (Handle * out, unsigned flags), (out, flags))
RF_AS(cuStreamCreateWithPriority, "cudaStreamCreateWithPriority",
      (Handle * out, unsigned flags, int priority), (out, flags, priority))
RF_AS(cuStreamDestroy_v2, "cudaStreamDestroy", (Handle stream), (stream))
RF_BOTH(cuStreamSynchronize, "cudaStreamSynchronize", (Handle stream), (stream))
RF_BOTH(cuStreamQuery, "cudaStreamQuery", (Handle stream), (stream))
RF_BOTH(cuStreamWaitEvent, "cudaStreamWaitEvent", (Handle stream, Handle event, unsigned flags),
        (stream, event, flags))
RF_BOTH(cuStreamAddCallback, "cudaStreamAddCallback",
        (Handle stream, void (*function)(Handle, Error, void*), void* argument, unsigned flags),
        (stream, function, argument, flags))
RF_BOTH(cuLaunchHostFunc, "cudaLaunchHostFunc",
        (Handle stream, void (*function)(void*), void* argument), (stream, function, argument))
RF_AS(cuEventCreate, "cudaEventCreateWithFlags", (Handle * out, unsigned flags), (out, flags))
RF_AS(cuEventDestroy_v2, "cudaEventDestroy", (Handle event), (event))
RF_BOTH(cuEventRecord, "cudaEventRecord", (Handle event, Handle stream), (event, stream))
RF_BOTH(cuEventRecordWithFlags, "cudaEventRecordWithFlags",
        (Handle event, Handle stream, unsigned flags), (event, stream, flags))
RF_AS(cuEventQuery, "cudaEventQuery", (Handle event), (event))
RF_AS(cuEventSynchronize, "cudaEventSynchronize", (Handle event), (event))
RF_AS(cuEventElapsedTime, "cudaEventElapsedTime", (float* out, Handle first, Handle second),
      (out, first, second))
RF_AS(cuEventElapsedTime_v2, "cudaEventElapsedTime", (float* out, Handle first, Handle second),
      (out, first, second))

// -- tensor maps ----------------------------------------------------------------------------------

// In the form that the emulator reads: what a GPU would read is nobody's business here.
RF_API Error cuTensorMapEncodeTiled(void* out, int type, std::uint32_t dimensions, void* address,
                                    const std::uint64_t* sizes, const std::uint64_t* strides,
                                    const std::uint32_t* box, const std::uint32_t* steps,
                                    int interleave, int swizzle, int, int fill_with_nan) {
  ptx::TensorMap map;
  if (out == nullptr || dimensions < 1 || dimensions > ptx::TensorMap::kMostDimensions ||
      swizzle < 0) {
    return kInvalidValue;
  }
  map.type = element_of(type);
  if (map.type == ptx::Type::none) return refuse("cuTensorMapEncodeTiled of packed elements");
  if (interleave != 0) return refuse("cuTensorMapEncodeTiled with interleaving");
  if (fill_with_nan != 0) return refuse("cuTensorMapEncodeTiled filling with NaN");
  if (swizzle > 3) return refuse("cuTensorMapEncodeTiled with a swizzle of other atoms");
  map.address = reinterpret_cast<std::uintptr_t>(address);
  map.element_bytes = bytes_of(map.type);
  map.dimensions = static_cast<std::uint8_t>(dimensions);
  map.swizzle = static_cast<ptx::Swizzle>(swizzle);
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    if (steps[i] != 1) return refuse("cuTensorMapEncodeTiled with steps other than 1");
    map.size[i] = sizes[i];
    map.stride[i] = i == 0 ? map.element_bytes : strides[i - 1];
    map.box[i] = box[i];
  }
  if (!map.fault().empty()) return kInvalidValue;
  const auto bytes = map.encode();
  std::memcpy(out, bytes.data(), bytes.size());
  return kSuccess;
}

}  // namespace ringfence::exec::client
