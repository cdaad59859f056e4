// Memory that the host and the devices see. Without an argument: pinned memory that a kernel
// writes, managed memory that both write. `told`: the host waits in a loop for what a kernel
// writes, `told-early`: which does not order the data before its flag; `released`: a kernel waits
// for what the host writes; `handed`: and reads data that the host wrote before that,
// `handed-launch`: with a launch behind it, `handed-twice`: and then waits for a second flag;
// `handed-early`: the flag comes first, `handed-plain`: the kernel does not order its reads;
// `turns`: both, several times; `asked`: the host goes on with what a query says is over; `beside`:
// the host prepares what a second kernel reads while the first one is pending. `peek` and
// `scribble`: the host reads what a pending kernel writes, and writes what one reads.
#include <atomic>

#include "check.hpp"

__global__ void squares(int* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = i * i;
}
__global__ void add(int* managed, const int* pinned, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) managed[i] += pinned[i];
}
__global__ void tell(int* data, unsigned* flag, bool ordered) {
  *data = 42;
  if (ordered) __threadfence_system();
  *static_cast<volatile unsigned*>(flag) = 1;
}
__global__ void wait_for(const unsigned* flag, int* out) {
  while (*static_cast<const volatile unsigned*>(flag) == 0) {
  }
  __threadfence_system();
  *out = 17;
}
__global__ void take_over(const volatile unsigned* flags, const int* data, int* out, bool ordered,
                          bool twice) {
  while (flags[0] == 0) {
  }
  if (ordered) __threadfence_system();
  *out = *data;
  while (twice && flags[1] == 0) {
  }
}
__global__ void take_turns(unsigned* mine, const unsigned* theirs, unsigned rounds) {
  for (unsigned round = 1; round <= rounds; ++round) {
    *static_cast<volatile unsigned*>(mine) = round;
    while (*static_cast<const volatile unsigned*>(theirs) < round) {
    }
  }
  *static_cast<volatile unsigned*>(mine) = 100;
}

unsigned read(const unsigned* p) { return *static_cast<const volatile unsigned*>(p); }

int main(int argc, char** argv) {
  constexpr int n = 40;
  int *pinned = nullptr, *managed = nullptr, *device = nullptr, *seen = nullptr;
  unsigned* flags = nullptr;
  CHECK_CUDA(cudaHostAlloc(&pinned, n * sizeof(int), cudaHostAllocMapped));
  CHECK_CUDA(cudaHostAlloc(&flags, 2 * sizeof(unsigned), cudaHostAllocMapped));
  CHECK_CUDA(cudaMallocManaged(&managed, n * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(int)));
  CHECK_CUDA(cudaHostGetDevicePointer(&seen, pinned, 0));
  flags[0] = flags[1] = 0;
  for (int i = 0; i < n; ++i) managed[i] = 1000 + i;
  if (asked(argc, argv, "told") || asked(argc, argv, "told-early")) {
    tell<<<1, 1>>>(seen, flags, asked(argc, argv, "told"));
    while (read(flags) == 0) {
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    EXPECT(*pinned == 42);
  } else if (asked(argc, argv, "released")) {
    wait_for<<<1, 1>>>(flags, device);
    cudaEvent_t event;
    CHECK_CUDA(cudaEventCreate(&event));
    CHECK_CUDA(cudaEventRecord(event));
    EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
    *static_cast<volatile unsigned*>(flags) = 1;
    CHECK_CUDA(cudaDeviceSynchronize());
    int back = 0;
    CHECK_CUDA(cudaMemcpy(&back, device, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT(back == 17);
  } else if (argc > 1 && std::strncmp(argv[1], "handed", 6) == 0) {
    const bool twice = asked(argc, argv, "handed-twice");
    cudaStream_t first, second;
    CHECK_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    take_over<<<1, 1, 0, first>>>(flags, pinned, device, !asked(argc, argv, "handed-plain"), twice);
    if (twice) squares<<<1, 8, 0, second>>>(device + 1, 8);
    EXPECT(cudaStreamQuery(first) == cudaErrorNotReady);
    volatile unsigned* const flag = flags;
    volatile int* const data = pinned;
    if (asked(argc, argv, "handed-early")) {
      flag[0] = 1;
      *data = 42;
    } else {
      *data = 42;
      flag[0] = 1;
    }
    if (asked(argc, argv, "handed-launch")) squares<<<1, 8, 0, second>>>(device + 1, 8);
    if (twice) {
      CHECK_CUDA(cudaStreamSynchronize(second));
      flag[1] = 1;
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    int back = 0;
    CHECK_CUDA(cudaMemcpy(&back, device, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT(back == 42);
  } else if (asked(argc, argv, "asked")) {
    squares<<<1, 32>>>(seen, n);
    flags[1] = 3;  // nobody's but the host's
    while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    }
    EXPECT(pinned[0] == 0);
    pinned[3] = 5;
    CHECK_CUDA(cudaDeviceSynchronize());
    EXPECT(pinned[3] == 5);
  } else if (asked(argc, argv, "turns")) {
    constexpr unsigned rounds = 4;
    take_turns<<<1, 1>>>(flags, flags + 1, rounds);
    for (unsigned round = 1; round <= rounds; ++round) {
      while (read(flags) < round) {
      }
      *static_cast<volatile unsigned*>(flags + 1) = round;
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    EXPECT(read(flags) == 100);
  } else if (asked(argc, argv, "beside")) {
    squares<<<1, 32>>>(managed, n);
    for (int i = 0; i < 8; ++i) pinned[i] = i;
    add<<<1, 8>>>(managed, pinned, 8);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT(managed[i] == i * i + (i < 8 ? i : 0));
  } else if (asked(argc, argv, "peek")) {
    squares<<<1, 32>>>(seen, n);
    const int early = *static_cast<const volatile int*>(pinned + 1);
    CHECK_CUDA(cudaDeviceSynchronize());
    EXPECT(early == 0 || early == 1);
  } else if (asked(argc, argv, "scribble")) {
    pinned[0] = 1;
    add<<<1, 1>>>(managed, pinned, 1);
    pinned[0] = 2;
    CHECK_CUDA(cudaDeviceSynchronize());
    EXPECT(managed[0] == 1001 || managed[0] == 1002);
  } else {
    cudaPointerAttributes of{};
    CHECK_CUDA(cudaPointerGetAttributes(&of, pinned + 3));
    EXPECT(of.type == cudaMemoryTypeHost && of.devicePointer == pinned + 3);
    CHECK_CUDA(cudaPointerGetAttributes(&of, managed));
    EXPECT(of.type == cudaMemoryTypeManaged);
    squares<<<1, 32>>>(seen, n);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT(pinned[i] == i * i);
    CHECK_CUDA(cudaSetDevice(1));
    add<<<1, 32>>>(managed, pinned, n);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT(managed[i] == 1000 + i + i * i);
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaMemcpyAsync(device, managed, n * sizeof(int), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpyAsync(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaStreamSynchronize(nullptr));
    for (int i = 0; i < n; ++i) EXPECT(pinned[i] == managed[i]);
    CHECK_CUDA(cudaMemset(managed, 0, n * sizeof(int)));
    CHECK_CUDA(cudaDeviceSynchronize());
    EXPECT(managed[n - 1] == 0);
    EXPECT(cudaMemcpy(device, pinned, 4, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  }
  CHECK_CUDA(cudaFree(managed));
  CHECK_CUDA(cudaFreeHost(pinned));
  CHECK_CUDA(cudaFreeHost(flags));
  std::puts("mapped: right");
  return 0;
}
