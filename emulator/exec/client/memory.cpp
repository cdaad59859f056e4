// Memory: allocations, copies, fills, pinned host memory, what a pointer is.

#include <cstdlib>
#include <map>
#include <mutex>

#include "emulator/exec/client/connection.hpp"
#include "emulator/exec/client/modules.hpp"

namespace ringfence::exec::client {
namespace {

// Pinned memory is the host's own: only where it was allocated is known of it.
struct Pinned {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> blocks;
};
Pinned& pinned() {
  static Pinned* const one = new Pinned;
  return *one;
}

std::uint64_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

Error allocate(void** out, std::size_t bytes, Handle stream, bool ordered) {
  if (out == nullptr) return keep(kInvalidValue);
  *out = nullptr;
  if (bytes == 0) return kSuccess;
  const Answer answer =
      ask(Call::allocate, stream, Out().put(std::uint64_t{bytes}).put(std::uint32_t{ordered}));
  In in = answer.in();
  if (answer.status == kSuccess) *out = reinterpret_cast<void*>(in.get<std::uint64_t>());
  return keep(answer.status);
}

Error release(void* p, Handle stream, bool ordered) {
  if (p == nullptr) return kSuccess;
  return keep(ask(Call::release, stream, Out().put(number(p)).put(std::uint32_t{ordered})).status);
}

Error pin(void** out, std::size_t bytes) {
  if (out == nullptr) return keep(kInvalidValue);
  if (device_count() == 0) return keep(100);
  // Pages of its own, as it has with CUDA.
  *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*out == nullptr) return keep(kOutOfMemory);
  const std::lock_guard lock(pinned().mutex);
  pinned().blocks[number(*out)] = bytes;
  return kSuccess;
}

struct Shape {
  std::size_t width = 0, rows = 1, to_pitch = 0, from_pitch = 0;
};

Error copy(void* to, const void* from, const Shape& shape, Kind kind, Handle stream,
           bool synchronous) {
  if (shape.width == 0 || shape.rows == 0) return kSuccess;
  const bool into = on_device(to), out_of = on_device(from);
  const bool fits = kind == Kind::any ||
                    (into == (kind == Kind::host_to_device || kind == Kind::device_to_device) &&
                     out_of == (kind == Kind::device_to_host || kind == Kind::device_to_device));
  if (!fits || static_cast<int>(kind) < 0 || static_cast<int>(kind) > 4) return keep(kInvalidValue);
  if (!into && !out_of) {
    if (const Error e = ask(Call::stream_sync, stream).status; e != kSuccess) return keep(e);
    for (std::size_t i = 0; i < shape.rows; ++i) {
      std::memmove(static_cast<char*>(to) + i * shape.to_pitch,
                   static_cast<const char*>(from) + i * shape.from_pitch, shape.width);
    }
    return kSuccess;
  }
  CopyRequest r;
  r.direction = !into ? Direction::to_host : out_of ? Direction::on_device : Direction::to_device;
  r.synchronous = synchronous;
  r.to = number(to);
  r.from = number(from);
  r.width = shape.width;
  r.rows = shape.rows;
  r.to_pitch = shape.to_pitch;
  r.from_pitch = shape.from_pitch;
  Out request;
  request.put(r);
  if (r.direction == Direction::to_device) {
    // Before the host's bytes are read, which need not be there if the device's are not.
    const Answer there = ask(Call::pointer, stream, Out().put(r.to));
    if (there.status != kSuccess) return keep(there.status);
    In in = there.in();
    in.get<std::uint32_t>();
    in.get<std::uint32_t>();
    if ((r.rows - 1) * r.to_pitch + r.width > in.get<std::uint64_t>()) return keep(kInvalidValue);
    std::string content;
    content.reserve(shape.width * shape.rows);
    for (std::size_t i = 0; i < shape.rows; ++i) {
      content.append(static_cast<const char*>(from) + i * shape.from_pitch, shape.width);
    }
    request.blob(content);
  }
  return keep(ask(Call::copy, stream, request).status);
}

Error fill(void* to, int value, const Shape& shape, Handle stream, bool synchronous) {
  if (shape.width == 0 || shape.rows == 0) return kSuccess;
  if (!on_device(to)) return keep(kInvalidValue);
  FillRequest r;
  r.synchronous = synchronous;
  r.value = static_cast<std::uint32_t>(value & 255);
  r.to = number(to);
  r.width = shape.width;
  r.rows = shape.rows;
  r.pitch = shape.to_pitch;
  return keep(ask(Call::fill, stream, Out().put(r)).status);
}

Error to_symbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                Kind kind, Handle stream, bool synchronous) {
  std::uint64_t at = 0, size = 0;
  if (const Error e = symbol_at(symbol, at, size); e != kSuccess) return e;
  if (offset + bytes > size) return keep(kInvalidValue);
  return copy(reinterpret_cast<void*>(at + offset), from, {bytes}, kind, stream, synchronous);
}
Error from_symbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset, Kind kind,
                  Handle stream, bool synchronous) {
  std::uint64_t at = 0, size = 0;
  if (const Error e = symbol_at(symbol, at, size); e != kSuccess) return e;
  if (offset + bytes > size) return keep(kInvalidValue);
  return copy(to, reinterpret_cast<const void*>(at + offset), {bytes}, kind, stream, synchronous);
}

constexpr Kind kPeer = Kind::device_to_device;

}  // namespace

// -- allocations ----------------------------------------------------------------------------------

RF_API Error cudaMalloc(void** out, std::size_t bytes) {
  return allocate(out, bytes, nullptr, false);
}
RF_API Error cudaMallocAsync(void** out, std::size_t bytes, Handle stream) {
  return allocate(out, bytes, stream, true);
}
RF_API Error cudaMallocAsync_ptsz(void** out, std::size_t bytes, Handle stream) {
  return allocate(out, bytes, own(stream), true);
}
RF_API Error cudaFree(void* p) { return release(p, nullptr, false); }
RF_API Error cudaFreeAsync(void* p, Handle stream) { return release(p, stream, true); }
RF_API Error cudaFreeAsync_ptsz(void* p, Handle stream) { return release(p, own(stream), true); }
RF_API Error cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t rows) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * rows, nullptr, false);
}

RF_API Error cudaMallocHost(void** out, std::size_t bytes) { return pin(out, bytes); }
RF_API Error cudaHostAlloc(void** out, std::size_t bytes, unsigned) { return pin(out, bytes); }
RF_API Error cudaFreeHost(void* p) {
  if (p == nullptr) return kSuccess;
  {
    const std::lock_guard lock(pinned().mutex);
    if (pinned().blocks.erase(number(p)) == 0) return keep(kInvalidValue);
  }
  // A copy that is still to come would go there.
  const Error e = ask(Call::device_sync).status;
  std::free(p);
  return keep(e);
}
RF_API Error cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  if (p == nullptr || bytes == 0) return keep(kInvalidValue);
  const std::lock_guard lock(pinned().mutex);
  pinned().blocks[number(p)] = bytes;
  return kSuccess;
}
RF_API Error cudaHostUnregister(void* p) {
  const std::lock_guard lock(pinned().mutex);
  return pinned().blocks.erase(number(p)) == 1 ? kSuccess : keep(713);
}

RF_API Error cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Answer answer = ask(Call::memory_info);
  In in = answer.in();
  *free = in.get<std::uint64_t>();
  *total = in.get<std::uint64_t>();
  return keep(answer.status);
}

RF_API Error cudaPointerGetAttributes(PointerAttributes* out, const void* p) {
  *out = {};
  if (on_device(p)) {
    const Answer answer = ask(Call::pointer, nullptr, Out().put(number(p)));
    In in = answer.in();
    if (in.get<std::uint32_t>() != 0) {
      out->type = 2;
      out->device = static_cast<int>(in.get<std::uint32_t>());
      out->devicePointer = const_cast<void*>(p);
      return kSuccess;
    }
    return keep(kInvalidValue);
  }
  const std::lock_guard lock(pinned().mutex);
  auto at = pinned().blocks.upper_bound(number(p));
  if (at == pinned().blocks.begin()) return out->device = -2, kSuccess;
  --at;
  if (number(p) - at->first >= at->second) return out->device = -2, kSuccess;
  out->type = 1;
  out->device = current_device();
  out->hostPointer = const_cast<void*>(p);
  return kSuccess;
}

// -- copies ---------------------------------------------------------------------------------------

RF_API Error cudaMemcpy(void* to, const void* from, std::size_t bytes, Kind kind) {
  return copy(to, from, {bytes}, kind, nullptr, true);
}
RF_API Error cudaMemcpy_ptds(void* to, const void* from, std::size_t bytes, Kind kind) {
  return copy(to, from, {bytes}, kind, own(nullptr), true);
}
RF_API Error cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, Kind kind,
                             Handle stream) {
  return copy(to, from, {bytes}, kind, stream, false);
}
RF_API Error cudaMemcpyAsync_ptsz(void* to, const void* from, std::size_t bytes, Kind kind,
                                  Handle stream) {
  return copy(to, from, {bytes}, kind, own(stream), false);
}
RF_API Error cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return copy(to, from, {bytes}, kPeer, nullptr, true);
}
RF_API Error cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                 Handle stream) {
  return copy(to, from, {bytes}, kPeer, stream, false);
}
RF_API Error cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t width, std::size_t rows, Kind kind) {
  return copy(to, from, {width, rows, to_pitch, from_pitch}, kind, nullptr, true);
}
RF_API Error cudaMemcpy2D_ptds(void* to, std::size_t to_pitch, const void* from,
                               std::size_t from_pitch, std::size_t width, std::size_t rows,
                               Kind kind) {
  return copy(to, from, {width, rows, to_pitch, from_pitch}, kind, own(nullptr), true);
}
RF_API Error cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                               std::size_t from_pitch, std::size_t width, std::size_t rows,
                               Kind kind, Handle stream) {
  return copy(to, from, {width, rows, to_pitch, from_pitch}, kind, stream, false);
}
RF_API Error cudaMemcpy2DAsync_ptsz(void* to, std::size_t to_pitch, const void* from,
                                    std::size_t from_pitch, std::size_t width, std::size_t rows,
                                    Kind kind, Handle stream) {
  return copy(to, from, {width, rows, to_pitch, from_pitch}, kind, own(stream), false);
}

RF_API Error cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                                std::size_t offset, Kind kind) {
  return to_symbol(symbol, from, bytes, offset, kind, nullptr, true);
}
RF_API Error cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, std::size_t bytes,
                                     std::size_t offset, Kind kind) {
  return to_symbol(symbol, from, bytes, offset, kind, own(nullptr), true);
}
RF_API Error cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                     std::size_t offset, Kind kind, Handle stream) {
  return to_symbol(symbol, from, bytes, offset, kind, stream, false);
}
RF_API Error cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* from, std::size_t bytes,
                                          std::size_t offset, Kind kind, Handle stream) {
  return to_symbol(symbol, from, bytes, offset, kind, own(stream), false);
}
RF_API Error cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes,
                                  std::size_t offset, Kind kind) {
  return from_symbol(to, symbol, bytes, offset, kind, nullptr, true);
}
RF_API Error cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, std::size_t bytes,
                                       std::size_t offset, Kind kind) {
  return from_symbol(to, symbol, bytes, offset, kind, own(nullptr), true);
}
RF_API Error cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes,
                                       std::size_t offset, Kind kind, Handle stream) {
  return from_symbol(to, symbol, bytes, offset, kind, stream, false);
}
RF_API Error cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol, std::size_t bytes,
                                            std::size_t offset, Kind kind, Handle stream) {
  return from_symbol(to, symbol, bytes, offset, kind, own(stream), false);
}

// -- fills ----------------------------------------------------------------------------------------

RF_API Error cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(to, value, {bytes}, nullptr, true);
}
RF_API Error cudaMemset_ptds(void* to, int value, std::size_t bytes) {
  return fill(to, value, {bytes}, own(nullptr), true);
}
RF_API Error cudaMemsetAsync(void* to, int value, std::size_t bytes, Handle stream) {
  return fill(to, value, {bytes}, stream, false);
}
RF_API Error cudaMemsetAsync_ptsz(void* to, int value, std::size_t bytes, Handle stream) {
  return fill(to, value, {bytes}, own(stream), false);
}
RF_API Error cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                          std::size_t rows) {
  return fill(to, value, {width, rows, pitch}, nullptr, true);
}
RF_API Error cudaMemset2D_ptds(void* to, std::size_t pitch, int value, std::size_t width,
                               std::size_t rows) {
  return fill(to, value, {width, rows, pitch}, own(nullptr), true);
}
RF_API Error cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                               std::size_t rows, Handle stream) {
  return fill(to, value, {width, rows, pitch}, stream, false);
}
RF_API Error cudaMemset2DAsync_ptsz(void* to, std::size_t pitch, int value, std::size_t width,
                                    std::size_t rows, Handle stream) {
  return fill(to, value, {width, rows, pitch}, own(stream), false);
}

}  // namespace ringfence::exec::client
