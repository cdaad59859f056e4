// The layout of what the stand-in takes and gives, against CUDA's own headers.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include "emulator/exec/client/abi.hpp"
#include "emulator/exec/wire.hpp"

namespace client = ringfence::exec::client;

#define SAME_FIELD(OURS, THEIRS, FIELD) \
  static_assert(offsetof(client::OURS, FIELD) == offsetof(THEIRS, FIELD))
#define SAME_SIZE(OURS, THEIRS) static_assert(sizeof(client::OURS) == sizeof(THEIRS))

SAME_SIZE(Dim3, dim3);
SAME_SIZE(DeviceProp, cudaDeviceProp);
SAME_FIELD(DeviceProp, cudaDeviceProp, totalGlobalMem);
SAME_FIELD(DeviceProp, cudaDeviceProp, regsPerBlock);
SAME_FIELD(DeviceProp, cudaDeviceProp, warpSize);
SAME_FIELD(DeviceProp, cudaDeviceProp, maxThreadsPerBlock);
SAME_FIELD(DeviceProp, cudaDeviceProp, maxGridSize);
SAME_FIELD(DeviceProp, cudaDeviceProp, major);
SAME_FIELD(DeviceProp, cudaDeviceProp, multiProcessorCount);
SAME_FIELD(DeviceProp, cudaDeviceProp, surfaceAlignment);
SAME_FIELD(DeviceProp, cudaDeviceProp, concurrentKernels);
SAME_FIELD(DeviceProp, cudaDeviceProp, pciBusID);
SAME_FIELD(DeviceProp, cudaDeviceProp, asyncEngineCount);
SAME_FIELD(DeviceProp, cudaDeviceProp, unifiedAddressing);
SAME_FIELD(DeviceProp, cudaDeviceProp, l2CacheSize);
SAME_FIELD(DeviceProp, cudaDeviceProp, maxThreadsPerMultiProcessor);
SAME_FIELD(DeviceProp, cudaDeviceProp, sharedMemPerMultiprocessor);
SAME_FIELD(DeviceProp, cudaDeviceProp, regsPerMultiprocessor);
SAME_FIELD(DeviceProp, cudaDeviceProp, managedMemory);
SAME_FIELD(DeviceProp, cudaDeviceProp, cooperativeLaunch);
SAME_FIELD(DeviceProp, cudaDeviceProp, sharedMemPerBlockOptin);
SAME_FIELD(DeviceProp, cudaDeviceProp, maxBlocksPerMultiProcessor);
SAME_FIELD(DeviceProp, cudaDeviceProp, reservedSharedMemPerBlock);
SAME_FIELD(DeviceProp, cudaDeviceProp, hostRegisterSupported);
SAME_FIELD(DeviceProp, cudaDeviceProp, memoryPoolsSupported);
SAME_FIELD(DeviceProp, cudaDeviceProp, clusterLaunch);
SAME_FIELD(DeviceProp, cudaDeviceProp, hostNumaId);
SAME_FIELD(DeviceProp, cudaDeviceProp, reserved);
SAME_SIZE(FuncAttributes, cudaFuncAttributes);
SAME_FIELD(FuncAttributes, cudaFuncAttributes, maxThreadsPerBlock);
SAME_FIELD(FuncAttributes, cudaFuncAttributes, maxDynamicSharedSizeBytes);
SAME_FIELD(FuncAttributes, cudaFuncAttributes, requiredClusterWidth);
SAME_SIZE(PointerAttributes, cudaPointerAttributes);
SAME_FIELD(PointerAttributes, cudaPointerAttributes, devicePointer);
SAME_SIZE(LaunchAttribute, cudaLaunchAttribute);
static_assert(offsetof(client::LaunchAttribute, number) == offsetof(cudaLaunchAttribute, val));
SAME_SIZE(LaunchConfig, cudaLaunchConfig_t);
static_assert(offsetof(client::LaunchConfig, attributes) == offsetof(cudaLaunchConfig_t, attrs));
static_assert(offsetof(client::LaunchConfig, dynamic_shared) ==
              offsetof(cudaLaunchConfig_t, dynamicSmemBytes));

static_assert(static_cast<int>(client::Kind::any) == cudaMemcpyDefault);
static_assert(static_cast<int>(client::Kind::device_to_host) == cudaMemcpyDeviceToHost);

TEST_CASE("the statuses of the wire are CUDA's errors") {
  using namespace ringfence::exec;
  CHECK(kInvalidValue == static_cast<int>(cudaErrorInvalidValue));
  CHECK(kOutOfMemory == static_cast<int>(cudaErrorMemoryAllocation));
  CHECK(kInvalidConfiguration == static_cast<int>(cudaErrorInvalidConfiguration));
  CHECK(kInvalidSymbol == static_cast<int>(cudaErrorInvalidSymbol));
  CHECK(kInvalidDeviceFunction == static_cast<int>(cudaErrorInvalidDeviceFunction));
  CHECK(kNoKernelImage == static_cast<int>(cudaErrorNoKernelImageForDevice));
  CHECK(kInvalidResourceHandle == static_cast<int>(cudaErrorInvalidResourceHandle));
  CHECK(kNotReady == static_cast<int>(cudaErrorNotReady));
  CHECK(kIllegalAddress == static_cast<int>(cudaErrorIllegalAddress));
  CHECK(kLaunchOutOfResources == static_cast<int>(cudaErrorLaunchOutOfResources));
  CHECK(kLaunchTimeout == static_cast<int>(cudaErrorLaunchTimeout));
  CHECK(kAssertion == static_cast<int>(cudaErrorAssert));
  CHECK(kMisalignedAddress == static_cast<int>(cudaErrorMisalignedAddress));
  CHECK(kLaunchFailure == static_cast<int>(cudaErrorLaunchFailure));
  CHECK(kCooperativeTooLarge == static_cast<int>(cudaErrorCooperativeLaunchTooLarge));
  CHECK(kNotSupported == static_cast<int>(cudaErrorNotSupported));
  CHECK(kUnknown == static_cast<int>(cudaErrorUnknown));
  CHECK(static_cast<int>(cudaLaunchAttributeCooperative) == 2);
  CHECK(static_cast<int>(cudaLaunchAttributeClusterDimension) == 4);
  CHECK(static_cast<int>(cudaLaunchAttributeProgrammaticStreamSerialization) == 6);
  CHECK(static_cast<int>(cudaFuncAttributeMaxDynamicSharedMemorySize) == 8);
  CHECK(static_cast<int>(cudaMemoryTypeDevice) == 2);
}
