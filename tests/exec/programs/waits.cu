// Who waits for what. `query`: a loop of cudaEventQuery, `query-other`: for one stream, and what
// another one does is taken to be over, too; `query-idle`: of a stream without work, while another
// one waits; `query-copy`: for a copy behind a kernel of another stream, `query-stray`: which does
// not wait for that; `later`: a kernel that waits for one that the host launches only after it has
// waited for a third; `never`: for one that never comes; `legacy`: cudaMemcpy, which waits for no
// stream that does not block.
#include <vector>

#include "check.hpp"

__global__ void wait_for(volatile int* flag, int* out) {
  while (*flag == 0) {
  }
  __threadfence_system();
  *out = 11;
}
__global__ void raise(volatile int* flag) {
  __threadfence_system();
  *flag = 1;
}
__global__ void set(int* out, int value) { *out = value; }

struct Called {
  int* pinned;
  int seen;
};
void call(void* p) {
  auto* const c = static_cast<Called*>(p);
  c->seen = *c->pinned;
}

int main(int argc, char** argv) {
  int *flag, *out, *pinned;
  CHECK_CUDA(cudaMalloc(&flag, sizeof(int)));
  CHECK_CUDA(cudaMalloc(&out, 4 * sizeof(int)));
  CHECK_CUDA(cudaMallocHost(&pinned, sizeof(int)));
  CHECK_CUDA(cudaMemset(flag, 0, sizeof(int)));
  CHECK_CUDA(cudaMemset(out, 0, 4 * sizeof(int)));
  CHECK_CUDA(cudaDeviceSynchronize());
  cudaStream_t a, b;
  CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  cudaEvent_t event;
  CHECK_CUDA(cudaEventCreate(&event));
  int back = 0;
  if (asked(argc, argv, "query")) {
    CHECK_CUDA(cudaEventQuery(event));  // recorded by nobody
    set<<<1, 1, 0, a>>>(out, 3);
    CHECK_CUDA(cudaEventRecord(event, a));
    cudaError_t e;
    while ((e = cudaEventQuery(event)) == cudaErrorNotReady) {
    }
    CHECK_CUDA(e);
    CHECK_CUDA(cudaMemcpy(&back, out, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT(back == 3);
  } else if (asked(argc, argv, "query-other")) {
    *pinned = 0;
    set<<<1, 1, 0, b>>>(pinned, 5);
    set<<<1, 1, 0, a>>>(out, 3);
    cudaError_t e;
    while ((e = cudaStreamQuery(a)) == cudaErrorNotReady) {
    }
    CHECK_CUDA(e);
    EXPECT(*pinned == 5);
  } else if (asked(argc, argv, "query-idle")) {
    wait_for<<<1, 1, 0, a>>>(flag, out);
    CHECK_CUDA(cudaStreamQuery(b));
    raise<<<1, 1, 0, b>>>(flag);
    CHECK_CUDA(cudaDeviceSynchronize());
  } else if (asked(argc, argv, "query-copy") || asked(argc, argv, "query-stray")) {
    cudaEvent_t ready;
    CHECK_CUDA(cudaEventCreate(&ready));
    set<<<1, 1, 0, a>>>(out, 3);
    CHECK_CUDA(cudaEventRecord(ready, a));
    if (asked(argc, argv, "query-copy")) CHECK_CUDA(cudaStreamWaitEvent(b, ready, 0));
    CHECK_CUDA(cudaMemcpyAsync(pinned, out, sizeof(int), cudaMemcpyDeviceToHost, b));
    CHECK_CUDA(cudaEventRecord(event, b));
    cudaError_t e;
    while ((e = cudaEventQuery(event)) == cudaErrorNotReady) {
    }
    CHECK_CUDA(e);
    EXPECT(*pinned == 3);
  } else if (asked(argc, argv, "later") || asked(argc, argv, "never")) {
    wait_for<<<1, 1, 0, a>>>(flag, out);
    set<<<1, 1, 0, b>>>(out + 1, 4);
    CHECK_CUDA(cudaStreamSynchronize(b));
    EXPECT(cudaStreamQuery(a) == cudaErrorNotReady);
    CHECK_CUDA(cudaGetLastError());
    if (asked(argc, argv, "later")) raise<<<1, 1, 0, b>>>(flag);
    CHECK_CUDA(cudaStreamSynchronize(a));
    int both[2];
    CHECK_CUDA(cudaMemcpy(both, out, sizeof both, cudaMemcpyDeviceToHost));
    EXPECT(both[0] == 11 && both[1] == 4);
  } else if (asked(argc, argv, "legacy")) {
    set<<<1, 1, 0, a>>>(out, 5);
    CHECK_CUDA(cudaMemcpy(&back, out, sizeof back, cudaMemcpyDeviceToHost));
  } else {
    // Streams that block and the legacy stream wait for each other; a callback comes in its turn.
    cudaStream_t blocking;
    CHECK_CUDA(cudaStreamCreate(&blocking));
    *pinned = 0;
    Called called{pinned, -1};
    set<<<1, 1, 0, blocking>>>(out, 6);
    CHECK_CUDA(cudaMemcpyAsync(pinned, out, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaLaunchHostFunc(nullptr, call, &called));
    set<<<1, 1, 0, blocking>>>(out, 7);
    CHECK_CUDA(cudaStreamSynchronize(blocking));
    EXPECT(called.seen == 6 && *pinned == 6);
    CHECK_CUDA(cudaMemcpy(&back, out, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT(back == 7);
    // Rows of a matrix, to and from a peer as well.
    char host[3][16], again[3][8];
    for (int i = 0; i < 48; ++i) host[i / 16][i % 16] = static_cast<char>(i);
    char *pitched = nullptr, *there = nullptr;
    size_t pitch = 0;
    CHECK_CUDA(cudaMallocPitch(&pitched, &pitch, 16, 3));
    CHECK_CUDA(cudaMemcpy2D(pitched, pitch, host, 16, 16, 3, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaSetDevice(1));
    CHECK_CUDA(cudaMalloc(&there, 3 * pitch));
    CHECK_CUDA(cudaMemcpyPeer(there, 1, pitched, 0, 2 * pitch + 16));
    CHECK_CUDA(cudaMemset2D(there + 4, pitch, 9, 2, 3));
    CHECK_CUDA(cudaMemcpy2D(again, 8, there, pitch, 8, 3, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 24; ++i) {
      const int row = i / 8, column = i % 8;
      EXPECT(again[row][column] == (column == 4 || column == 5 ? 9 : row * 16 + column));
    }
  }
  std::puts("waits: right");
  return 0;
}
