// Devices, what they are like, versions, errors.

#include <cstdio>
#include <cstring>

#include "emulator/exec/client/connection.hpp"
#include "emulator/exec/client/modules.hpp"

namespace ringfence::exec::client {
namespace {

bool exists(int device) { return device >= 0 && device < device_count(); }

constexpr Error kInvalidDevice = 101, kPeerAlready = 704, kPeerNotEnabled = 705;

struct NamedError {
  Error error;
  const char* name;
  const char* text;
};
constexpr NamedError kErrors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {201, "cudaErrorDeviceUninitialized", "invalid device context"},
    {209, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {301, "cudaErrorFileNotFound", "file not found"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {704, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {713, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {716, "cudaErrorMisalignedAddress", "misaligned address"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {999, "cudaErrorUnknown", "unknown error"},
};

const NamedError* named(Error error) {
  for (const NamedError& e : kErrors) {
    if (e.error == error) return &e;
  }
  return nullptr;
}

}  // namespace

RF_API const char* cudaGetErrorName(Error error) {
  const NamedError* const e = named(error);
  return e != nullptr ? e->name : "unrecognized error code";
}
RF_API const char* cudaGetErrorString(Error error) {
  const NamedError* const e = named(error);
  return e != nullptr ? e->text : "unrecognized error code";
}
RF_API Error cudaGetLastError() { return take_last(true); }
RF_API Error cudaPeekAtLastError() { return take_last(false); }

RF_API Error cudaGetDeviceCount(int* out) {
  *out = device_count();
  return *out != 0 ? kSuccess : keep(100);
}
RF_API Error cudaGetDevice(int* out) { return *out = current_device(), kSuccess; }
RF_API Error cudaSetDevice(int device) {
  if (!exists(device)) return keep(kInvalidDevice);
  set_current_device(device);
  return kSuccess;
}
RF_API Error cudaInitDevice(int device, unsigned, unsigned) {
  return exists(device) ? kSuccess : keep(kInvalidDevice);
}
RF_API Error cudaSetDeviceFlags(unsigned) { return kSuccess; }
RF_API Error cudaGetDeviceFlags(unsigned* out) { return *out = 0, kSuccess; }
RF_API Error cudaSetValidDevices(int*, int) { return kSuccess; }
RF_API Error cudaChooseDevice(int* out, const DeviceProp*) { return *out = 0, kSuccess; }
RF_API Error cudaDeviceReset() { return keep(ask(Call::reset).status); }
RF_API Error cudaDeviceSetCacheConfig(int) { return kSuccess; }
RF_API Error cudaDeviceGetCacheConfig(int* out) { return *out = 0, kSuccess; }
RF_API Error cudaDeviceSetLimit(int, std::size_t) { return kSuccess; }
RF_API Error cudaDeviceGetLimit(std::size_t* out, int limit) {
  // Stack, printf's buffer, heap of malloc: as a GPU has them before anybody asks for more.
  constexpr std::size_t kUsual[] = {1024, std::size_t{7} << 20, std::size_t{8} << 20};
  if (limit < 0 || limit > 2) return refuse("cudaDeviceGetLimit of other than the first three");
  return *out = kUsual[limit], kSuccess;
}
RF_API Error cudaDeviceSetSharedMemConfig(int) { return kSuccess; }
RF_API Error cudaDeviceGetSharedMemConfig(int* out) { return *out = 1, kSuccess; }
RF_API Error cudaCtxResetPersistingL2Cache() { return kSuccess; }
RF_API Error cudaDriverGetVersion(int* out) { return *out = 13000, kSuccess; }
RF_API Error cudaRuntimeGetVersion(int* out) { return *out = RF_CUDART * 1000, kSuccess; }
RF_API Error cudaProfilerStart() { return kSuccess; }
RF_API Error cudaProfilerStop() { return kSuccess; }
RF_API Error cudaDeviceGetPCIBusId(char* out, int bytes, int device) {
  if (!exists(device)) return keep(kInvalidDevice);
  std::snprintf(out, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return kSuccess;
}

RF_API Error cudaDeviceGetByPCIBusId(int* out, const char* text) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x:", &domain, &bus) != 2) return keep(kInvalidValue);
  if (domain != 0 || !exists(static_cast<int>(bus) - 1)) return keep(kInvalidDevice);
  return *out = static_cast<int>(bus) - 1, kSuccess;
}

Error properties_of(int device, DeviceProp* out) {
  if (!exists(device)) return keep(kInvalidDevice);
  DeviceProp& p = *out;
  p = {};
  const DeviceFacts& facts = devices().facts;
  std::snprintf(p.name, sizeof p.name, "%s", facts.name);
  std::memcpy(p.uuid, "ringfence-gpu-", 14);
  p.uuid[15] = static_cast<char>(device);
  p.totalGlobalMem = facts.memory_bytes;
  p.sharedMemPerBlock = kUsualShared;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = 9;
  p.textureAlignment = 512;
  p.texturePitchAlignment = 32;
  p.multiProcessorCount = static_cast<int>(facts.multiprocessors);
  p.surfaceAlignment = 512;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.pciBusID = device + 1;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 6144;
  p.l2CacheSize = static_cast<int>(facts.l2_bytes);
  p.maxThreadsPerMultiProcessor = 2048;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.computePreemptionSupported = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = kMostShared;
  p.maxBlocksPerMultiProcessor = 32;
  p.reservedSharedMemPerBlock = 1024;
  p.hostRegisterSupported = 1;
  p.canMapHostMemory = p.managedMemory = p.memoryPoolsSupported = 1;
  p.clusterLaunch = 1;
  p.unifiedFunctionPointers = 1;
  p.deviceNumaId = p.hostNumaId = -1;
  return kSuccess;
}

#if RF_CUDART >= 13
RF_API Error cudaGetDeviceProperties(DeviceProp* out, int device) {
  return properties_of(device, out);
}
#endif

// For the stand-in for libcuda.so.1.
RF_API Error ringfence_device(int device, const char** name, char* uuid, std::size_t* memory) {
  thread_local DeviceProp p;
  if (const Error e = properties_of(device, &p); e != kSuccess) return e;
  *name = p.name;
  std::memcpy(uuid, p.uuid, sizeof p.uuid);
  return *memory = p.totalGlobalMem, kSuccess;
}

RF_API Error cudaDeviceGetAttribute(int* out, int attribute, int device) {
  DeviceProp p;
  if (const Error e = properties_of(device, &p); e != kSuccess) return e;
  if (const auto at = devices().attributes.find(attribute); at != devices().attributes.end()) {
    return *out = at->second, kSuccess;
  }
  const auto is = [&](auto value) { return *out = static_cast<int>(value), kSuccess; };
  switch (attribute) {
    case 1:
      return is(p.maxThreadsPerBlock);
    case 2:
    case 3:
    case 4:
      return is(p.maxThreadsDim[attribute - 2]);
    case 5:
    case 6:
    case 7:
      return is(p.maxGridSize[attribute - 5]);
    case 8:
      return is(p.sharedMemPerBlock);
    case 9:
      return is(p.totalConstMem);
    case 10:
      return is(p.warpSize);
    case 11:
      return is(p.memPitch);
    case 12:
      return is(p.regsPerBlock);
    case 13:
      return is(1980000);
    case 14:
      return is(p.textureAlignment);
    case 15:
      return is(1);
    case 16:
      return is(p.multiProcessorCount);
    case 19:
      return is(p.canMapHostMemory);
    case 83:
      return is(p.managedMemory);
    case 115:
      return is(p.memoryPoolsSupported);
    case 31:
      return is(p.concurrentKernels);
    case 32:
      return is(p.ECCEnabled);
    case 33:
      return is(p.pciBusID);
    case 36:
      return is(3201000);
    case 37:
      return is(p.memoryBusWidth);
    case 38:
      return is(p.l2CacheSize);
    case 39:
      return is(p.maxThreadsPerMultiProcessor);
    case 40:
      return is(p.asyncEngineCount);
    case 41:
      return is(p.unifiedAddressing);
    case 75:
      return is(p.major);
    case 76:
      return is(p.minor);
    case 78:
      return is(p.streamPrioritiesSupported);
    case 79:
    case 80:
      return is(1);
    case 81:
      return is(p.sharedMemPerMultiprocessor);
    case 82:
      return is(p.regsPerMultiprocessor);
    case 90:
      return is(p.computePreemptionSupported);
    case 95:
      return is(p.cooperativeLaunch);
    case 97:
      return is(p.sharedMemPerBlockOptin);
    case 99:
      return is(p.hostRegisterSupported);
    case 106:
      return is(p.maxBlocksPerMultiProcessor);
    case 111:
      return is(p.reservedSharedMemPerBlock);
    case 120:
      return is(p.clusterLaunch);
    case 131:
    case 134:
      return is(-1);
    default:
      break;
  }
  // Textures, arrays, IPC: none of it is there.
  constexpr int kLast = 147;
  return attribute >= 1 && attribute <= kLast ? is(0) : keep(kInvalidValue);
}

RF_API Error cudaDeviceCanAccessPeer(int* out, int device, int peer) {
  if (!exists(device) || !exists(peer)) return keep(kInvalidDevice);
  return *out = device != peer, kSuccess;
}
RF_API Error cudaDeviceGetP2PAttribute(int* out, int attribute, int device, int peer) {
  if (!exists(device) || !exists(peer) || device == peer) return keep(kInvalidDevice);
  return *out = attribute == 2 || attribute == 3 || attribute == 1 ? 1 : 0, kSuccess;
}
RF_API Error cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (!exists(peer) || peer == current_device()) return keep(kInvalidDevice);
  if (flags != 0) return keep(kInvalidValue);
  const Error e =
      ask(Call::peer, nullptr, Out().put(std::uint32_t(peer)).put(std::uint32_t{1})).status;
  return keep(e == kInvalidValue ? kPeerAlready : e);
}
RF_API Error cudaDeviceDisablePeerAccess(int peer) {
  if (!exists(peer) || peer == current_device()) return keep(kInvalidDevice);
  const Error e =
      ask(Call::peer, nullptr, Out().put(std::uint32_t(peer)).put(std::uint32_t{0})).status;
  return keep(e == kInvalidValue ? kPeerNotEnabled : e);
}

}  // namespace ringfence::exec::client
