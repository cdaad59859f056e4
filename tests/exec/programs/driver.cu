// What programs call of the driver itself: a tensor map that the host makes, by an entry point that
// it asks the runtime for; a module that it loads. `early`: the kernel does not wait for the tile.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <vector>

#include "check.hpp"

constexpr int kRows = 16, kColumns = 32, kTileRows = 8, kTileColumns = 16;

__global__ void fetch(const __grid_constant__ CUtensorMap map, int* out, bool early) {
  __shared__ alignas(128) int tile[kTileRows * kTileColumns];
  __shared__ alignas(8) std::uint64_t barrier;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.proxy.async;");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at),
                 "r"(static_cast<unsigned>(sizeof tile))
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(kColumns - kTileColumns), "r"(kRows - kTileRows), "r"(at)
        : "memory");
  }
  if (!early) {
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(at)
          : "memory");
    }
  }
  for (int i = threadIdx.x; i < kTileRows * kTileColumns; i += blockDim.x) out[i] = tile[i];
}

constexpr const char* kAdd = R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 more = 7;
.visible .entry add(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n, %m, %o;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  ld.global.u32 %m, [%d];
  ld.global.u32 %o, [more];
  add.u32 %m, %m, %n;
  add.u32 %m, %m, %o;
  st.global.u32 [%d], %m;
  ret;
}
)";

template <class F>
F* function_of(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}
#define DRIVER(NAME) function_of<decltype(NAME)>(library, RF_TEXT(NAME))
#define RF_TEXT(NAME) RF_TEXT_OF(NAME)
#define RF_TEXT_OF(NAME) #NAME

int main(int argc, char** argv) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CHECK_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                              cudaEnableDefault, &found));
  EXPECT(found == cudaDriverEntryPointSuccess);
  CHECK_CUDA(
      cudaGetDriverEntryPointByVersion("cuNotThere", &entry, 12000, cudaEnableDefault, &found));
  EXPECT(found == cudaDriverEntryPointSymbolNotFound && entry == nullptr);
  CHECK_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                              cudaEnableDefault, &found));
  const auto encode = reinterpret_cast<decltype(cuTensorMapEncodeTiled)*>(entry);
  std::vector<int> host(kRows * kColumns), got(kTileRows * kTileColumns);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i * i);
  int *in = nullptr, *out = nullptr;
  CHECK_CUDA(cudaMalloc(&in, host.size() * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&out, got.size() * sizeof(int)));
  CHECK_CUDA(cudaMemcpy(in, host.data(), host.size() * sizeof(int), cudaMemcpyHostToDevice));
  CUtensorMap map{};
  const cuuint64_t sizes[] = {kColumns, kRows}, strides[] = {kColumns * sizeof(int)};
  const cuuint32_t box[] = {kTileColumns, kTileRows}, steps[] = {1, 1};
  const auto make = [&](CUtensorMapDataType type, const cuuint64_t* pitch) {
    return encode(&map, type, 2, in, sizes, pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  const cuuint64_t odd[] = {kColumns * sizeof(int) + 4};
  EXPECT(make(CU_TENSOR_MAP_DATA_TYPE_INT32, odd) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(make(CU_TENSOR_MAP_DATA_TYPE_INT32, strides) == CUDA_SUCCESS);
  fetch<<<1, 32>>>(map, out, asked(argc, argv, "early"));
  CHECK_CUDA(cudaMemcpy(got.data(), out, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kTileRows * kTileColumns; ++i) {
    const int row = i / kTileColumns + kRows - kTileRows;
    const int column = i % kTileColumns + kColumns - kTileColumns;
    EXPECT(asked(argc, argv, "early") || got[i] == host[row * kColumns + column]);
  }

  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(library != nullptr);
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT(DRIVER(cuDeviceGet)(&device, 1) == CUDA_SUCCESS && device == 1);
  CUcontext context = nullptr, now = nullptr;
  EXPECT(DRIVER(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxGetCurrent)(&now) == CUDA_SUCCESS && now == context);
  int current = -1;
  CHECK_CUDA(cudaGetDevice(&current));
  EXPECT(current == 1);
  CUmodule module = nullptr;
  CUfunction add = nullptr, none = nullptr;
  EXPECT(DRIVER(cuModuleLoadData)(&module, kAdd) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuModuleGetFunction)(&none, module, "subtract") == CUDA_ERROR_NOT_FOUND);
  EXPECT(DRIVER(cuModuleGetFunction)(&add, module, "add") == CUDA_SUCCESS);
  CUdeviceptr number = 0, more = 0;
  size_t bytes = 0;
  EXPECT(DRIVER(cuModuleGetGlobal)(&more, &bytes, module, "more") == CUDA_SUCCESS && bytes == 4);
  EXPECT(DRIVER(cuMemAlloc)(&number, 4) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD32)(number, 0x01020304, 1) == CUDA_SUCCESS);
  unsigned two = 2, back = 0;
  void* arguments[] = {&number, &two};
  EXPECT(DRIVER(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) ==
         CUDA_SUCCESS);
  // The same, its arguments in one buffer.
  struct {
    CUdeviceptr data;
    unsigned number;
  } packed{number, 5};
  size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT(DRIVER(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemcpyDtoH)(&back, number, 4) == CUDA_SUCCESS);
  EXPECT(back == 0x01020304 + 2 + 7 + 5 + 7);
  const char* text = nullptr;
  EXPECT(DRIVER(cuGetErrorName)(CUDA_ERROR_NOT_FOUND, &text) == CUDA_SUCCESS);
  EXPECT(std::strcmp(text, "CUDA_ERROR_NOT_FOUND") == 0);
  EXPECT(DRIVER(cuGetErrorString)(static_cast<CUresult>(12345), &text) == CUDA_ERROR_INVALID_VALUE);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT(DRIVER(cuMemCreate)(&handle, 4096, nullptr, 0) == CUDA_ERROR_NOT_SUPPORTED);
  std::puts("driver: right");
  return 0;
}
