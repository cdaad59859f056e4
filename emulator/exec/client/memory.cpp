// Memory: allocations, copies, fills, pinned host memory, what a pointer is.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "emulator/exec/client/connection.hpp"
#include "emulator/exec/client/modules.hpp"
#include "emulator/exec/client/watch.hpp"

namespace ringfence::exec::client {
namespace {

// Memory of the host that CUDA knows of: shared with the devices, or the program's own that it
// registered.
struct Known {
  std::size_t bytes = 0;
  Place place = Place::host;
  bool shared = false;
};
struct Blocks {
  std::mutex mutex;
  std::map<std::uintptr_t, Known> known;
};
Blocks& blocks() {
  static Blocks* const one = new Blocks;
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

// The block that holds the address; bytes 0: none does.
Known known(const void* p) {
  const std::lock_guard lock(blocks().mutex);
  auto at = blocks().known.upper_bound(number(p));
  if (at == blocks().known.begin()) return {};
  --at;
  return number(p) - at->first < at->second.bytes ? at->second : Known{};
}

// Pages that the engine has too, at an address of device memory.
Error share(void** out, std::size_t bytes, bool managed) {
  if (out == nullptr || bytes == 0) return keep(kInvalidValue);
  const Answer answer =
      ask(Call::share, nullptr, Out().put(std::uint64_t{bytes}).put(std::uint32_t{managed}));
  if (answer.status != kSuccess) return keep(answer.status);
  In in = answer.in();
  const auto address = in.get<std::uint64_t>();
  const std::string file(in.blob());
  if (!map_shared(address, bytes, file, managed)) return keep(kOutOfMemory);
  *out = reinterpret_cast<void*>(address);
  return kSuccess;
}

Error unshare(void* p) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(blocks().mutex);
    const auto at = blocks().known.find(number(p));
    if (at == blocks().known.end() || !at->second.shared) return keep(kInvalidValue);
    bytes = at->second.bytes;
  }
  if (const Error e = release(p, nullptr, false); e != kSuccess) return e;
  const std::lock_guard lock(blocks().mutex);
  blocks().known.erase(number(p));
  unwatch(number(p));
  // Nobody's again, and kept from the host's other memory.
  mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return kSuccess;
}

struct Shape {
  std::size_t width = 0, rows = 1, to_pitch = 0, from_pitch = 0;
};

Error copy(void* to, const void* from, const Shape& shape, Kind kind, Handle stream,
           bool synchronous) {
  if (shape.width == 0 || shape.rows == 0) return kSuccess;
  const bool into = on_device(to), out_of = on_device(from);
  // What both see is either, or the host's alone where it was not asked for as managed.
  const auto is = [](const void* p, bool there, bool device) {
    if (!there) return !device;
    const Known k = known(p);
    return k.bytes == 0 ? device : k.place == Place::managed || !device;
  };
  const bool to_a_device = kind == Kind::host_to_device || kind == Kind::device_to_device;
  const bool from_a_device = kind == Kind::device_to_host || kind == Kind::device_to_device;
  const bool fits =
      kind == Kind::any || (is(to, into, to_a_device) && is(from, out_of, from_a_device));
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

bool map_shared(std::uint64_t address, std::size_t bytes, const std::string& file, bool managed) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CLOEXEC);
  void* const there = descriptor < 0
                          ? MAP_FAILED
                          : mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (descriptor >= 0) close(descriptor);
  if (there == MAP_FAILED) return false;
  {
    const std::lock_guard lock(blocks().mutex);
    blocks().known[address] = {bytes, managed ? Place::managed : Place::host, true};
  }
  watch(address, bytes);
  watch_memory();
  return true;
}

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
RF_API Error cudaFree(void* p) {
  return known(p).place == Place::managed ? unshare(p) : release(p, nullptr, false);
}
RF_API Error cudaFreeAsync(void* p, Handle stream) { return release(p, stream, true); }
RF_API Error cudaFreeAsync_ptsz(void* p, Handle stream) { return release(p, own(stream), true); }
RF_API Error cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t rows) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * rows, nullptr, false);
}

RF_API Error cudaMallocHost(void** out, std::size_t bytes) { return share(out, bytes, false); }
RF_API Error cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  return share(out, bytes, false);
}
RF_API Error cudaFreeHost(void* p) { return p == nullptr ? kSuccess : unshare(p); }
RF_API Error cudaMallocManaged(void** out, std::size_t bytes, unsigned) {
  return share(out, bytes, true);
}
RF_API Error cudaHostGetDevicePointer(void** out, void* p, unsigned) {
  const Known k = known(p);
  if (k.bytes == 0) return keep(kInvalidValue);
  if (!k.shared) return refuse("cudaHostGetDevicePointer of memory that was registered");
  return *out = p, kSuccess;
}
RF_API Error cudaHostGetFlags(unsigned* out, void* p) {
  if (known(p).bytes == 0) return keep(kInvalidValue);
  return *out = 3, kSuccess;  // portable, mapped
}
RF_API Error cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  if (p == nullptr || bytes == 0) return keep(kInvalidValue);
  const std::lock_guard lock(blocks().mutex);
  blocks().known[number(p)] = {bytes, Place::host, false};
  return kSuccess;
}
RF_API Error cudaHostUnregister(void* p) {
  const std::lock_guard lock(blocks().mutex);
  return blocks().known.erase(number(p)) == 1 ? kSuccess : keep(713);
}
#if RF_CUDART >= 13
// Where managed memory is makes no difference here.
RF_API Error cudaMemPrefetchAsync(const void*, std::size_t, Location, unsigned, Handle) {
  return kSuccess;
}
RF_API Error cudaMemPrefetchAsync_ptsz(const void*, std::size_t, Location, unsigned, Handle) {
  return kSuccess;
}
RF_API Error cudaMemAdvise(const void*, std::size_t, int, Location) { return kSuccess; }
#endif

// The one pool of each device.
RF_API Error cudaDeviceGetDefaultMemPool(Handle* out, int device) {
  if (device < 0 || device >= device_count()) return keep(101);
  return *out = reinterpret_cast<Handle>(std::uintptr_t{0x100} + static_cast<unsigned>(device)),
         kSuccess;
}
RF_API Error cudaDeviceGetMemPool(Handle* out, int device) {
  return cudaDeviceGetDefaultMemPool(out, device);
}
RF_API Error cudaMemPoolSetAttribute(Handle, int, void*) { return kSuccess; }
RF_API Error cudaMemPoolTrimTo(Handle, std::size_t) { return kSuccess; }
RF_API Error cudaMallocFromPoolAsync(void** out, std::size_t bytes, Handle, Handle stream) {
  return allocate(out, bytes, stream, true);
}
RF_API Error cudaMallocFromPoolAsync_ptsz(void** out, std::size_t bytes, Handle, Handle stream) {
  return allocate(out, bytes, own(stream), true);
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
  const Known k = known(p);
  out->device = -2;
  if (k.bytes == 0 && !on_device(p)) return kSuccess;
  if (k.bytes != 0 && !k.shared) {
    out->type = 1;
    out->device = current_device();
    out->hostPointer = const_cast<void*>(p);
    return kSuccess;
  }
  const Answer answer = ask(Call::pointer, nullptr, Out().put(number(p)));
  if (answer.status != kSuccess) return keep(answer.status);
  In in = answer.in();
  const auto place = in.get<Place>();
  if (place == Place::none) return keep(kInvalidValue);
  out->type = place == Place::device ? 2 : place == Place::host ? 1 : 3;
  out->device = static_cast<int>(in.get<std::uint32_t>());
  out->devicePointer = const_cast<void*>(p);
  if (place != Place::device) out->hostPointer = const_cast<void*>(p);
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
