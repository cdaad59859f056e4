// A barrier of all ranks by one thread: it signals each peer, and waits for one after the other.
// Each look loads the address of the flags anew. seq-thread.ptx: nvcc -arch=sm_90 -ptx
// seq-thread.cu
__device__ void signal(int* flag) {
  asm volatile("red.release.sys.global.add.s32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ int look(int* flag) {
  int value;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

extern "C" __global__ void seq_thread(int** flags, int** data, int* out, int rank, int world) {
  if (threadIdx.x == 0) {
    data[rank][0] = rank + 1;
    for (int peer = 0; peer < world; ++peer) signal(flags[peer] + rank);
    for (int peer = 0; peer < world; ++peer) {
      while (look(flags[rank] + peer) < 1) {
      }
    }
    int sum = 0;
    for (int peer = 0; peer < world; ++peer) sum += data[peer][0];
    out[0] = sum;
  }
}
