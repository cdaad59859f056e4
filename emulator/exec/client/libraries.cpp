// Modules that the program loads itself, and the functions of the driver that it asks for: both by
// the stand-in for libcuda.so.1, which does what it does by what is here.

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "emulator/exec/client/connection.hpp"
#include "emulator/exec/client/modules.hpp"

namespace ringfence::exec::client {
namespace {

constexpr Error kInvalidImage = 200, kFileNotFound = 301, kSymbolNotFound = 500;

// How long an image is that is given by its address alone; empty: it is none that is known.
std::string_view image_of(const void* data) {
  if (data == nullptr) return {};
  const auto* bytes = static_cast<const char*>(data);
  int magic = 0;
  std::memcpy(&magic, bytes, sizeof magic);
  if (magic == kWrapperMagic) {
    bytes = static_cast<const char*>(static_cast<const FatbinWrapper*>(data)->data);
    std::memcpy(&magic, bytes, sizeof magic);
  }
  if (static_cast<unsigned>(magic) == kFatbinMagic) return fatbin_at(bytes);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr head;
    std::memcpy(&head, bytes, sizeof head);
    return {bytes, head.e_shoff + std::uint64_t{head.e_shentsize} * head.e_shnum};
  }
  return {bytes, std::strlen(bytes)};
}

// One library's kernels have one handle each.
struct Kernels {
  std::mutex mutex;
  std::map<std::pair<void*, std::string>, Kernel*> by_name;
};
Kernels& kernels() {
  static Kernels* const one = new Kernels;
  return *one;
}

Error add(Handle* out, std::string_view image) {
  if (out == nullptr) return keep(kInvalidValue);
  void* const module = add_module(std::string(image));
  if (const Error e = send_module(module); e != kSuccess) return keep(e);
  return *out = module, kSuccess;
}

Error entry(const char* name, void** out, unsigned version, unsigned long long flags, int* found) {
  if (name == nullptr || out == nullptr) return keep(kInvalidValue);
  using Get = Error (*)(const char*, void**, int, std::uint64_t, int*);
  static const Get get = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver == nullptr ? nullptr
                             : reinterpret_cast<Get>(dlsym(driver, "cuGetProcAddress_v2"));
  }();
  if (get == nullptr) return refuse("cudaGetDriverEntryPoint without ringfence's libcuda.so.1");
  int status = 1;
  const Error e = get(name, out, static_cast<int>(version), flags, &status);
  if (found != nullptr) *found = status;
  return found != nullptr || status == 0 ? keep(e) : keep(kSymbolNotFound);
}

constexpr unsigned kNewest = 13000;
constexpr unsigned long long kOwnStreams = 2;

}  // namespace

RF_API Error cudaLibraryLoadData(Handle* out, const void* image, void*, void*, unsigned, void*,
                                 void*, unsigned) {
  const std::string_view bytes = image_of(image);
  return bytes.empty() ? keep(kInvalidImage) : add(out, bytes);
}
RF_API Error cudaLibraryLoadFromFile(Handle* out, const char* file, void*, void*, unsigned, void*,
                                     void*, unsigned) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return keep(kFileNotFound);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  return bytes.empty() ? keep(kInvalidImage) : add(out, bytes);
}
RF_API Error cudaLibraryUnload(Handle) { return kSuccess; }
RF_API Error cudaLibraryGetKernel(Handle* out, Handle library, const char* name) {
  Kernels& k = kernels();
  const std::lock_guard lock(k.mutex);
  Kernel*& kernel = k.by_name[{library, name}];
  if (kernel == nullptr) kernel = &add_kernel(library, name);
  if (const Error e = look_up(*kernel); e != kSuccess) {
    return keep(e == kInvalidDeviceFunction ? kSymbolNotFound : e);
  }
  return *out = kernel, kSuccess;
}
RF_API Error cudaLibraryGetGlobal(void** out, std::size_t* bytes, Handle library,
                                  const char* name) {
  std::uint64_t address = 0, size = 0;
  const Error e = variable_at(library, name, address, size);
  if (e != kSuccess) return keep(e == kInvalidSymbol ? kSymbolNotFound : e);
  if (out != nullptr) *out = reinterpret_cast<void*>(address);
  if (bytes != nullptr) *bytes = size;
  return kSuccess;
}

RF_API Error cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                                     int* found) {
  return entry(name, out, kNewest, flags, found);
}
RF_API Error cudaGetDriverEntryPoint_ptsz(const char* name, void** out, unsigned long long flags,
                                          int* found) {
  return entry(name, out, kNewest, flags == 0 ? kOwnStreams : flags, found);
}
RF_API Error cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version,
                                              unsigned long long flags, int* found) {
  return entry(name, out, version, flags, found);
}
RF_API Error cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** out, unsigned version,
                                                   unsigned long long flags, int* found) {
  return entry(name, out, version, flags == 0 ? kOwnStreams : flags, found);
}

// -- for the stand-in for libcuda.so.1
// --------------------------------------------------------------

RF_API void ringfence_refused(const char* what) { ask(Call::refused, nullptr, Out().blob(what)); }

RF_API Error ringfence_parameter(const void* function, std::size_t index, std::size_t* offset,
                                 std::size_t* bytes) {
  Kernel* const k = kernel_of(function);
  if (k == nullptr || look_up(*k) != kSuccess) return kInvalidDeviceFunction;
  if (index >= k->parameters.size()) return kInvalidValue;
  *offset = k->parameters[index].first;
  *bytes = k->parameters[index].second;
  return kSuccess;
}

}  // namespace ringfence::exec::client
