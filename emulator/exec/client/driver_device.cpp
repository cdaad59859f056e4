// The driver's interface over that of the runtime: initialisation, errors, entry points, devices,
// contexts. A device has one context, its primary one, whoever makes another gets that.

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "emulator/exec/client/driver.hpp"

namespace ringfence::exec::client {
namespace {

// Contexts are told apart by their addresses.
char contexts[64];

Handle context_of(int device) { return &contexts[device]; }
int device_of(Handle context) {
  const auto at = static_cast<char*>(context) - contexts;
  return at >= 0 && at < 64 ? static_cast<int>(at) : -1;
}

constexpr Error kInvalidContext = 201;
thread_local std::vector<int> pushed;

int current() {
  int device = 0;
  runtime<Error(int*)>("cudaGetDevice")(&device);
  return device;
}

struct NamedResult {
  Error result;
  const char* name;
};
constexpr NamedResult kResults[] = {
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {9, "CUDA_ERROR_INVALID_CONFIGURATION"},
    {98, "CUDA_ERROR_INVALID_DEVICE_FUNCTION"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
    {710, "CUDA_ERROR_ASSERT"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {999, "CUDA_ERROR_UNKNOWN"},
};
bool known(Error result) {
  for (const NamedResult& r : kResults) {
    if (r.result == result) return true;
  }
  return false;
}

constexpr int kFound = 0, kNotFound = 1;
constexpr std::uint64_t kOwnStreams = 2;

bool is_refused(const std::string& name) {
  static const std::set<std::string_view> all{
#define RF_REFUSED(NAME) #NAME,
#include "emulator/exec/client/refused_driver.inc"
#undef RF_REFUSED
  };
  return all.count(name) != 0;
}

// The newest form of a function that is done, else the newest there is.
void* entry(const std::string& name, bool own_streams) {
  static const Handle self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void* newest = nullptr;
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    for (const char* stream : {"_ptsz", "_ptds", ""}) {
      if (*stream != '\0' && !own_streams) continue;
      const std::string form = name + version + stream;
      void* const f = dlsym(self, form.c_str());
      if (f == nullptr) continue;
      if (!is_refused(form)) return f;
      if (newest == nullptr) newest = f;
      break;
    }
  }
  return newest;
}

}  // namespace

RF_API Error cuInit(unsigned flags) {
  int count = 0;
  if (flags != 0) return kInvalidValue;
  return runtime<Error(int*)>("cudaGetDeviceCount")(&count);
}
RF_AS(cuDriverGetVersion, "cudaDriverGetVersion", (int* out), (out))

RF_API Error cuGetErrorString(Error result, const char** out) {
  *out = known(result) ? runtime<const char*(Error)>("cudaGetErrorString")(result) : nullptr;
  return *out != nullptr ? kSuccess : kInvalidValue;
}
RF_API Error cuGetErrorName(Error result, const char** out) {
  *out = nullptr;
  for (const NamedResult& r : kResults) {
    if (r.result == result) *out = r.name;
  }
  return *out != nullptr ? kSuccess : kInvalidValue;
}

RF_API Error cuGetProcAddress_v2(const char* name, void** out, int, std::uint64_t flags,
                                 int* status) {
  if (name == nullptr || out == nullptr) return kInvalidValue;
  *out = entry(name, (flags & kOwnStreams) != 0);
  if (status != nullptr) *status = *out != nullptr ? kFound : kNotFound;
  return *out != nullptr || status != nullptr ? kSuccess : 500;
}
RF_API Error cuGetProcAddress(const char* name, void** out, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}

// -- devices --------------------------------------------------------------------------------------

RF_AS(cuDeviceGetCount, "cudaGetDeviceCount", (int* out), (out))
RF_AS(cuDeviceGetAttribute, "cudaDeviceGetAttribute", (int* out, int attribute, int device),
      (out, attribute, device))
RF_AS(cuDeviceCanAccessPeer, "cudaDeviceCanAccessPeer", (int* out, int device, int peer),
      (out, device, peer))
RF_AS(cuDeviceGetP2PAttribute, "cudaDeviceGetP2PAttribute",
      (int* out, int attribute, int device, int peer), (out, attribute, device, peer))
RF_AS(cuDeviceGetPCIBusId, "cudaDeviceGetPCIBusId", (char* out, int bytes, int device),
      (out, bytes, device))
RF_AS(cuDeviceGetByPCIBusId, "cudaDeviceGetByPCIBusId", (int* out, const char* text), (out, text))

RF_API Error cuDeviceGet(int* out, int ordinal) {
  int count = 0;
  if (const Error e = cuDeviceGetCount(&count); e != kSuccess) return e;
  if (ordinal < 0 || ordinal >= count) return 101;
  return *out = ordinal, kSuccess;
}
RF_API Error cuDeviceGetName(char* out, int bytes, int device) {
  Facts facts;
  if (const Error e = facts_of(device, facts); e != kSuccess) return e;
  std::snprintf(out, static_cast<std::size_t>(bytes), "%s", facts.name);
  return kSuccess;
}
RF_API Error cuDeviceTotalMem_v2(std::size_t* out, int device) {
  Facts facts;
  const Error e = facts_of(device, facts);
  return *out = facts.memory, e;
}
RF_API Error cuDeviceGetUuid_v2(char* out, int device) {
  Facts facts;
  const Error e = facts_of(device, facts);
  if (e == kSuccess) std::memcpy(out, facts.uuid, sizeof facts.uuid);
  return e;
}
RF_API Error cuDeviceGetUuid(char* out, int device) { return cuDeviceGetUuid_v2(out, device); }
RF_API Error cuDeviceComputeCapability(int* major, int* minor, int device) {
  if (const Error e = cuDeviceGetAttribute(major, 75, device); e != kSuccess) return e;
  return cuDeviceGetAttribute(minor, 76, device);
}

// -- contexts -------------------------------------------------------------------------------------

RF_API Error cuDevicePrimaryCtxRetain(Handle* out, int device) {
  int there = 0;
  if (const Error e = cuDeviceGet(&there, device); e != kSuccess) return e;
  return *out = context_of(device), kSuccess;
}
RF_API Error cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
RF_API Error cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return kSuccess; }
RF_API Error cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  int there = 0;
  *flags = 0;
  *active = 1;
  return cuDeviceGet(&there, device);
}
RF_API Error cuDevicePrimaryCtxReset_v2(int device) {
  const int before = current();
  const auto set = runtime<Error(int)>("cudaSetDevice");
  if (const Error e = set(device); e != kSuccess) return e;
  const Error e = runtime<Error()>("cudaDeviceReset")();
  set(before);
  return e;
}

RF_API Error cuCtxSetCurrent(Handle context) {
  if (context == nullptr) return kSuccess;
  const int device = device_of(context);
  return device < 0 ? kInvalidContext : runtime<Error(int)>("cudaSetDevice")(device);
}
RF_API Error cuCtxGetCurrent(Handle* out) { return *out = context_of(current()), kSuccess; }
RF_API Error cuCtxCreate_v2(Handle* out, unsigned, int device) {
  if (const Error e = cuDevicePrimaryCtxRetain(out, device); e != kSuccess) return e;
  pushed.push_back(current());
  return cuCtxSetCurrent(*out);
}
RF_API Error cuCtxCreate_v4(Handle* out, const void* parameters, unsigned flags, int device) {
  if (parameters != nullptr) return refuse("cuCtxCreate with parameters");
  return cuCtxCreate_v2(out, flags, device);
}
RF_API Error cuCtxDestroy_v2(Handle context) {
  return device_of(context) < 0 ? kInvalidContext : kSuccess;
}
RF_API Error cuCtxPushCurrent_v2(Handle context) {
  pushed.push_back(current());
  return cuCtxSetCurrent(context);
}
RF_API Error cuCtxPopCurrent_v2(Handle* out) {
  if (pushed.empty()) return kInvalidContext;
  if (out != nullptr) *out = context_of(current());
  const int device = pushed.back();
  pushed.pop_back();
  return cuCtxSetCurrent(context_of(device));
}
RF_API Error cuCtxGetDevice(int* out) { return *out = current(), kSuccess; }
RF_AS(cuCtxSynchronize, "cudaDeviceSynchronize", (), ())
RF_AS(cuCtxGetStreamPriorityRange, "cudaDeviceGetStreamPriorityRange", (int* least, int* greatest),
      (least, greatest))
RF_AS(cuCtxGetLimit, "cudaDeviceGetLimit", (std::size_t * out, int limit), (out, limit))
RF_AS(cuCtxSetLimit, "cudaDeviceSetLimit", (int limit, std::size_t value), (limit, value))
RF_API Error cuCtxEnablePeerAccess(Handle peer, unsigned flags) {
  const int device = device_of(peer);
  return device < 0 ? kInvalidContext
                    : runtime<Error(int, unsigned)>("cudaDeviceEnablePeerAccess")(device, flags);
}
RF_API Error cuCtxDisablePeerAccess(Handle peer) {
  const int device = device_of(peer);
  return device < 0 ? kInvalidContext : runtime<Error(int)>("cudaDeviceDisablePeerAccess")(device);
}

}  // namespace ringfence::exec::client
