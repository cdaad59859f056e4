// Functions that stay calls.
struct Parts {
  long a;
  int b;
  float c;
};

__noinline__ __device__ Parts combine(Parts s, int k, bool plus, char c, short h, double d) {
  s.a += k + c;
  s.b = plus ? h : -h;
  s.c = d;
  return s;
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__noinline__ __device__ bool is_even(unsigned n);
__noinline__ __device__ bool is_odd(unsigned n) { return n == 0 ? false : is_even(n - 1); }
__noinline__ __device__ bool is_even(unsigned n) { return n == 0 ? true : is_odd(n - 1); }

__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
typedef int (*Binary)(int, int);
__device__ Binary table[2] = {add, subtract};

struct Base {
  __device__ virtual int apply(int x) { return x + 1; }
};
struct Derived : Base {
  __device__ int apply(int x) override { return x * 2; }
};

// Each thread has 8 numbers.
extern "C" __global__ void calls(long* out, Parts s, int n) {
  const int t = threadIdx.x;
  out += 8 * t;
  const Parts p = combine(s, n + t, t % 3 == 0, (char)(t - 5), (short)(1000 - t), 2.5 * n);
  out[0] = p.a;
  out[1] = p.b;
  out[2] = (long)(p.c * 4);
  out[3] = fibonacci(t % 12);
  out[4] = is_even(t);
  out[5] = table[t & 1](t, 7);
  Base b;
  Derived d;
  Base* const which = t & 2 ? &b : (Base*)&d;
  out[6] = which->apply(t);
  out[7] = t;
}

__noinline__ __device__ int endless(int n) { return n < 0 ? 0 : 1 + endless(n + 1) * 2; }

extern "C" __global__ void too_deep(int* out, int n) { out[0] = endless(n); }

__noinline__ __device__ unsigned load_flag(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__noinline__ __device__ void signal(unsigned* p) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(1u) : "memory");
}

// Data to the peer, and a flag behind it.
extern "C" __global__ void notify(unsigned* own_flag, unsigned* peer_flag, int* own, int* peer,
                                  int* out) {
  peer[threadIdx.x] = 7 + threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) signal(peer_flag);
  while (load_flag(own_flag) != 1) {
  }
  out[threadIdx.x] = own[threadIdx.x];
}
