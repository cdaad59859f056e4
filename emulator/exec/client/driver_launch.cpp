// Modules, kernels and launches of the driver's interface, and what ties it to the runtime's.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "emulator/exec/client/driver.hpp"

namespace ringfence::exec::client {

void* runtime_function(const char* name) {
  // Whichever the program has; one that has none of its own gets one.
  static const Handle library = [] {
    for (const char* one : {"libcudart.so.13", "libcudart.so.12"}) {
      if (const Handle h = dlopen(one, RTLD_LAZY | RTLD_NOLOAD)) return h;
    }
    return dlopen("libcudart.so.13", RTLD_LAZY);
  }();
  void* const f = library != nullptr ? dlsym(library, name) : nullptr;
  if (f == nullptr) {
    std::fprintf(stderr, "ringfence: libcuda: ringfence's libcudart.so.13 has no %s\n", name);
    std::abort();
  }
  return f;
}

Error refuse(std::string_view what) {
  runtime<void(const char*)>("ringfence_refused")(std::string(what).c_str());
  return kNotSupported;
}

Error facts_of(int device, Facts& out) {
  return runtime<Error(int, const char**, char*, std::size_t*)>("ringfence_device")(
      device, &out.name, out.uuid, &out.memory);
}

namespace {

Error load(Handle* out, const void* image) {
  return runtime<Error(Handle*, const void*, void*, void*, unsigned, void*, void*, unsigned)>(
      "cudaLibraryLoadData")(out, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

// Arguments in one buffer, as `extra` gives them, apart.
Error unpack(Handle kernel, void** extra, std::vector<void*>& out) {
  constexpr std::uintptr_t kEnd = 0, kBuffer = 1, kSize = 2;
  char* buffer = nullptr;
  for (; reinterpret_cast<std::uintptr_t>(extra[0]) != kEnd; extra += 2) {
    const auto what = reinterpret_cast<std::uintptr_t>(extra[0]);
    if (what == kBuffer) buffer = static_cast<char*>(extra[1]);
    if (what != kBuffer && what != kSize) return kInvalidValue;
  }
  if (buffer == nullptr) return kInvalidValue;
  const auto info =
      runtime<Error(const void*, std::size_t, std::size_t*, std::size_t*)>("ringfence_parameter");
  for (std::size_t offset = 0, bytes = 0; info(kernel, out.size(), &offset, &bytes) == kSuccess;) {
    out.push_back(buffer + offset);
  }
  return kSuccess;
}

Error launch(const LaunchConfig& config, Handle kernel, void** parameters, void** extra,
             const char* how = "cudaLaunchKernelExC") {
  std::vector<void*> apart;
  if (parameters == nullptr && extra != nullptr) {
    if (const Error e = unpack(kernel, extra, apart); e != kSuccess) return e;
    parameters = apart.data();
  }
  return runtime<Error(const LaunchConfig*, const void*, void**)>(how)(&config, kernel, parameters);
}

constexpr const char* kOwnLaunch = "cudaLaunchKernelExC_ptsz";

// CUlaunchConfig.
struct DriverConfig {
  Dim3 grid, block;
  unsigned shared;
  Handle stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

}  // namespace

RF_API Error cuModuleLoadData(Handle* out, const void* image) { return load(out, image); }
RF_API Error cuModuleLoadDataEx(Handle* out, const void* image, unsigned, void*, void**) {
  return load(out, image);
}
RF_API Error cuModuleLoadFatBinary(Handle* out, const void* image) { return load(out, image); }
RF_API Error cuModuleLoad(Handle* out, const char* file) {
  return runtime<Error(Handle*, const char*, void*, void*, unsigned, void*, void*, unsigned)>(
      "cudaLibraryLoadFromFile")(out, file, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
RF_AS(cuModuleUnload, "cudaLibraryUnload", (Handle library), (library))
RF_AS(cuModuleGetFunction, "cudaLibraryGetKernel", (Handle * out, Handle library, const char* name),
      (out, library, name))
RF_AS(cuModuleGetGlobal_v2, "cudaLibraryGetGlobal",
      (void** out, std::size_t* bytes, Handle library, const char* name),
      (out, bytes, library, name))
RF_AS(cuLibraryLoadData, "cudaLibraryLoadData",
      (Handle * out, const void* image, void* options, void* values, unsigned count, void* more,
       void* more_values, unsigned more_count),
      (out, image, options, values, count, more, more_values, more_count))
RF_AS(cuLibraryLoadFromFile, "cudaLibraryLoadFromFile",
      (Handle * out, const char* file, void* options, void* values, unsigned count, void* more,
       void* more_values, unsigned more_count),
      (out, file, options, values, count, more, more_values, more_count))
RF_AS(cuLibraryUnload, "cudaLibraryUnload", (Handle library), (library))
RF_AS(cuLibraryGetKernel, "cudaLibraryGetKernel", (Handle * out, Handle library, const char* name),
      (out, library, name))
RF_AS(cuLibraryGetGlobal, "cudaLibraryGetGlobal",
      (void** out, std::size_t* bytes, Handle library, const char* name),
      (out, bytes, library, name))
// Of a module, a library or a device, a kernel is one thing.
RF_API Error cuLibraryGetModule(Handle* out, Handle library) { return *out = library, kSuccess; }
RF_API Error cuKernelGetFunction(Handle* out, Handle kernel) { return *out = kernel, kSuccess; }

RF_API Error cuFuncGetAttribute(int* out, int attribute, Handle kernel) {
  FuncAttributes of;
  const Error e =
      runtime<Error(FuncAttributes*, const void*)>("cudaFuncGetAttributes")(&of, kernel);
  if (e != kSuccess) return e;
  const int values[] = {of.maxThreadsPerBlock,
                        static_cast<int>(of.sharedSizeBytes),
                        static_cast<int>(of.constSizeBytes),
                        static_cast<int>(of.localSizeBytes),
                        of.numRegs,
                        of.ptxVersion,
                        of.binaryVersion,
                        of.cacheModeCA,
                        of.maxDynamicSharedSizeBytes,
                        of.preferredShmemCarveout,
                        of.clusterDimMustBeSet,
                        of.requiredClusterWidth,
                        of.requiredClusterHeight,
                        of.requiredClusterDepth};
  if (attribute < 0 || attribute >= static_cast<int>(std::size(values))) return kInvalidValue;
  return *out = values[attribute], kSuccess;
}
RF_AS(cuFuncSetAttribute, "cudaFuncSetAttribute", (Handle kernel, int attribute, int value),
      (kernel, attribute, value))
RF_AS(cuFuncSetCacheConfig, "cudaFuncSetCacheConfig", (Handle kernel, int config), (kernel, config))
RF_AS(cuFuncGetName, "cudaFuncGetName", (const char** out, Handle kernel), (out, kernel))
RF_AS(cuFuncGetParamInfo, "cudaFuncGetParamInfo",
      (Handle kernel, std::size_t index, std::size_t* offset, std::size_t* bytes),
      (kernel, index, offset, bytes))
RF_AS(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
      (int* out, Handle kernel, int threads, std::size_t shared), (out, kernel, threads, shared))
RF_AS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
      "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
      (int* out, Handle kernel, int threads, std::size_t shared, unsigned flags),
      (out, kernel, threads, shared, flags))

RF_API Error cuLaunchKernel(Handle kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, Handle stream,
                            void** parameters, void** extra) {
  return launch({{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0}, kernel, parameters,
                extra);
}
RF_API Error cuLaunchKernel_ptsz(Handle kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, Handle stream,
                                 void** parameters, void** extra) {
  return launch({{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0}, kernel, parameters, extra,
                kOwnLaunch);
}
RF_API Error cuLaunchCooperativeKernel(Handle kernel, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       Handle stream, void** parameters) {
  LaunchAttribute together{};
  together.id = 2;
  together.number = 1;
  return launch({{gx, gy, gz}, {bx, by, bz}, shared, stream, &together, 1}, kernel, parameters,
                nullptr);
}
RF_API Error cuLaunchKernelEx(const DriverConfig* c, Handle kernel, void** parameters,
                              void** extra) {
  return launch({c->grid, c->block, c->shared, c->stream, c->attributes, c->attribute_count},
                kernel, parameters, extra);
}
RF_API Error cuLaunchKernelEx_ptsz(const DriverConfig* c, Handle kernel, void** parameters,
                                   void** extra) {
  return launch({c->grid, c->block, c->shared, c->stream, c->attributes, c->attribute_count},
                kernel, parameters, extra, kOwnLaunch);
}

}  // namespace ringfence::exec::client
