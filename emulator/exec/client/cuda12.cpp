// What CUDA 12's runtime has in another form than 13's: cudaDeviceProp, where managed memory is,
// and what was cudaDevice... before.

#include <cstring>

#include "emulator/exec/client/connection.hpp"

namespace ringfence::exec::client {

RF_API Error cudaGetDeviceProperties_v2(DeviceProp12* out, int device) {
  DeviceProp p;
  if (const Error e = properties_of(device, &p); e != kSuccess) return e;
  DeviceProp12& o = *out;
  o = {};
  std::memcpy(o.name, p.name, sizeof o.name);
  std::memcpy(o.uuid, p.uuid, sizeof o.uuid);
#define RF_SAME(FIELD) o.FIELD = p.FIELD;
  RF_SAME(totalGlobalMem)
  RF_SAME(sharedMemPerBlock)
  RF_SAME(regsPerBlock)
  RF_SAME(warpSize)
  RF_SAME(memPitch)
  RF_SAME(maxThreadsPerBlock)
  for (int i = 0; i < 3; ++i) {
    RF_SAME(maxThreadsDim[i])
    RF_SAME(maxGridSize[i])
  }
  RF_SAME(totalConstMem)
  RF_SAME(major)
  RF_SAME(minor)
  RF_SAME(textureAlignment)
  RF_SAME(texturePitchAlignment)
  RF_SAME(multiProcessorCount)
  RF_SAME(canMapHostMemory)
  RF_SAME(surfaceAlignment)
  RF_SAME(concurrentKernels)
  RF_SAME(ECCEnabled)
  RF_SAME(pciBusID)
  RF_SAME(asyncEngineCount)
  RF_SAME(unifiedAddressing)
  RF_SAME(memoryBusWidth)
  RF_SAME(l2CacheSize)
  RF_SAME(maxThreadsPerMultiProcessor)
  RF_SAME(streamPrioritiesSupported)
  RF_SAME(globalL1CacheSupported)
  RF_SAME(localL1CacheSupported)
  RF_SAME(sharedMemPerMultiprocessor)
  RF_SAME(regsPerMultiprocessor)
  RF_SAME(managedMemory)
  RF_SAME(computePreemptionSupported)
  RF_SAME(cooperativeLaunch)
  RF_SAME(sharedMemPerBlockOptin)
  RF_SAME(maxBlocksPerMultiProcessor)
  RF_SAME(reservedSharedMemPerBlock)
  RF_SAME(hostRegisterSupported)
  RF_SAME(memoryPoolsSupported)
  RF_SAME(clusterLaunch)
  RF_SAME(unifiedFunctionPointers)
#undef RF_SAME
  o.clockRate = 1980000;
  o.memoryClockRate = 3201000;
  o.deviceOverlap = 1;
  return kSuccess;
}

// Where managed memory is makes no difference here.
RF_API Error cudaMemPrefetchAsync(const void*, std::size_t, int, Handle) { return kSuccess; }
RF_API Error cudaMemPrefetchAsync_ptsz(const void*, std::size_t, int, Handle) { return kSuccess; }
RF_API Error cudaMemPrefetchAsync_v2(const void*, std::size_t, Location, unsigned, Handle) {
  return kSuccess;
}
RF_API Error cudaMemAdvise(const void*, std::size_t, int, int) { return kSuccess; }
RF_API Error cudaMemAdvise_v2(const void*, std::size_t, int, Location) { return kSuccess; }

RF_API Error cudaThreadSynchronize() { return keep(ask(Call::device_sync).status); }
RF_API Error cudaThreadExit() { return keep(ask(Call::reset).status); }
RF_API Error cudaThreadSetLimit(int, std::size_t) { return kSuccess; }
RF_API Error cudaThreadSetCacheConfig(int) { return kSuccess; }

}  // namespace ringfence::exec::client
