// A kernel that traps: every call behind it fails, until the device is reset. `assert`: an
// assertion that fails; `beyond`: an address that is nobody's.
#include <cassert>

#include "check.hpp"

__global__ void traps(int* p, int how) {
  if (how == 0) asm volatile("trap;");
  if (how == 1) assert(*p == 1);
  if (how == 2) p[1 << 24] = 1;
  *p = 2;
}

int main(int argc, char** argv) {
  const int how = asked(argc, argv, "assert") ? 1 : asked(argc, argv, "beyond") ? 2 : 0;
  const cudaError_t due = how == 0   ? cudaErrorLaunchFailure
                          : how == 1 ? cudaErrorAssert
                                     : cudaErrorIllegalAddress;
  int* p = nullptr;
  CHECK_CUDA(cudaMalloc(&p, sizeof(int)));
  CHECK_CUDA(cudaMemset(p, 0, sizeof(int)));
  traps<<<1, 1>>>(p, how);
  CHECK_CUDA(cudaGetLastError());  // it has not run yet
  EXPECT(cudaDeviceSynchronize() == due);
  EXPECT(cudaGetLastError() == due);
  int back = 0;
  EXPECT(cudaMemcpy(&back, p, sizeof(int), cudaMemcpyDeviceToHost) == due);
  EXPECT(cudaMalloc(&p, 4) == due);
  EXPECT(cudaGetLastError() == due);
  CHECK_CUDA(cudaDeviceReset());
  CHECK_CUDA(cudaMalloc(&p, sizeof(int)));
  traps<<<1, 1>>>(p, 3);
  CHECK_CUDA(cudaMemcpy(&back, p, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(back == 2);
  std::puts("sticky: right");
  return 0;
}
