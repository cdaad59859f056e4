// A program as nvcc 12 makes one: what its host stubs and its own code call of libcudart.so.12,
// with that runtime's layouts.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/ptx/fatbin.hpp"

extern "C" {
struct Dim3 {
  unsigned x, y, z;
};
struct Pointer12 {
  int type, device;
  void *on_device, *on_host;
};
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*,
                            void*, int*);
unsigned __cudaPushCallConfiguration(Dim3, Dim3, std::size_t, void*);
int __cudaPopCallConfiguration(Dim3*, Dim3*, std::size_t*, void*);
int cudaLaunchKernel(const void*, Dim3, Dim3, void**, std::size_t, void*);
int cudaGetDeviceProperties_v2(void*, int);
int cudaRuntimeGetVersion(int*);
int cudaMallocManaged(void**, std::size_t, unsigned);
int cudaMemPrefetchAsync(const void*, std::size_t, int, void*);
int cudaMemAdvise(const void*, std::size_t, int, int);
int cudaPointerGetAttributes(Pointer12*, const void*);
int cudaThreadSynchronize();
int cudaGraphAddNode_v2();
}

namespace {

const std::string kPtx = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry put(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ret;
}
)";

#define EXPECT(CONDITION)                                         \
  do {                                                            \
    if (!(CONDITION)) {                                           \
      std::printf("line %d: not so: %s\n", __LINE__, #CONDITION); \
      return 4;                                                   \
    }                                                             \
  } while (0)

void stub() {}

int launch(unsigned* data, unsigned number) {
  __cudaPushCallConfiguration({1, 1, 1}, {1, 1, 1}, 0, nullptr);
  Dim3 grid{}, block{};
  std::size_t shared = 1;
  void* stream = &shared;
  __cudaPopCallConfiguration(&grid, &block, &shared, static_cast<void*>(&stream));
  void* arguments[] = {&data, &number};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&stub), grid, block, arguments, shared,
                          stream);
}

}  // namespace

int main() {
  std::string image = ringfence::ptx::test::fatbin(kPtx);
  struct {
    int magic, version;
    const void* data;
    void* file;
  } wrapper{0x466243b1, 1, image.data(), nullptr};
  void** const module = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(module, reinterpret_cast<const char*>(&stub), nullptr, "put", -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFatBinaryEnd(module);
  int version = 0;
  EXPECT(cudaRuntimeGetVersion(&version) == 0 && version == 12000);
  // cudaDeviceProp of CUDA 12: 1032 bytes, with the clock before the constant memory.
  struct {
    char bytes[1032];
    char beyond[64];
  } properties;
  std::memset(&properties, 0x5a, sizeof properties);
  EXPECT(cudaGetDeviceProperties_v2(&properties, 0) == 0);
  for (const char c : properties.beyond) EXPECT(c == 0x5a);
  const auto number = [&](std::size_t at) {
    int value = 0;
    std::memcpy(&value, properties.bytes + at, sizeof value);
    return value;
  };
  EXPECT(number(308) == 32);   // warpSize
  EXPECT(number(360) == 9);    // major
  EXPECT(number(388) == 132);  // multiProcessorCount
  unsigned* data = nullptr;
  EXPECT(cudaMallocManaged(reinterpret_cast<void**>(&data), 64, 1) == 0);
  EXPECT(cudaMemPrefetchAsync(data, 64, 0, nullptr) == 0 && cudaMemAdvise(data, 64, 1, 0) == 0);
  struct {
    Pointer12 of;
    char beyond[64];
  } pointer;
  std::memset(&pointer, 0x5a, sizeof pointer);
  EXPECT(cudaPointerGetAttributes(&pointer.of, data) == 0);
  EXPECT(pointer.of.type == 3 && pointer.of.on_host == data);
  for (const char c : pointer.beyond) EXPECT(c == 0x5a);
  EXPECT(launch(data, 17) == 0);
  EXPECT(cudaThreadSynchronize() == 0);
  EXPECT(*data == 17);
  EXPECT(cudaGraphAddNode_v2() == 801);
  std::puts("cuda12: right");
  return 0;
}
