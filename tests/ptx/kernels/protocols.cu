// The protocols of emulator/programs/protocols as kernels, each with what breaks it: the compiled
// rows of docs/barriers.md. One vector of 16 bytes a thread; thread t also serves peer t; `barriers`
// says how many barriers were passed before this call. Peers' data is read and written by strong
// accesses, as the protocols have it, unless a kernel's name says `weak`.
#include <cstdint>

namespace {

// -- accesses -------------------------------------------------------------------------------------

__device__ float4 ld_relaxed(const float4* p) {
  float4 v;
  asm volatile("ld.relaxed.sys.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ void st_relaxed(float4* p, float4 v) {
  asm volatile("st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
               ::"l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
__device__ uint32_t ld_relaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ uint32_t ld_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void st_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ void st_release(uint32_t* p, uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ void multimem_add_release(uint32_t* p) {
  asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
}

struct Relaxed {
  static __device__ void st(uint32_t* p, uint32_t v) { st_relaxed(p, v); }
  static __device__ uint32_t ld(const uint32_t* p) { return ld_relaxed(p); }
  static __device__ uint32_t cas(uint32_t* p, uint32_t from, uint32_t to) {
    uint32_t old;
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old) : "l"(p), "r"(from), "r"(to) : "memory");
    return old;
  }
};
struct Ordered {  // a put releases, a wait acquires
  static __device__ void st(uint32_t* p, uint32_t v) { st_release(p, v); }
  static __device__ uint32_t ld(const uint32_t* p) { return ld_acquire(p); }
  static __device__ uint32_t cas_put(uint32_t* p, uint32_t from, uint32_t to) {
    uint32_t old;
    asm volatile("atom.release.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old) : "l"(p), "r"(from), "r"(to) : "memory");
    return old;
  }
  static __device__ uint32_t cas_wait(uint32_t* p, uint32_t from, uint32_t to) {
    uint32_t old;
    asm volatile("atom.acquire.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old) : "l"(p), "r"(from), "r"(to) : "memory");
    return old;
  }
};

__device__ float4 add(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// -- pull: one-shot and two-shot ------------------------------------------------------------------

struct Pull {
  float4* const* data;
  float4* const* staging;  // of a two-shot
  uint32_t* const* pad;
  float4* out;
  int rank, world, vectors;

  // A slot of this block: one for each set and sender.
  __device__ uint32_t* slot(int owner, int sets, int set, int from) const {
    return pad[owner] + (blockIdx.x * sets + set) * world + from;
  }
  __device__ uint32_t* theirs(int sets = 1, int set = 0) const {
    return slot(threadIdx.x, sets, set, rank);
  }
  __device__ uint32_t* ours(int sets = 1, int set = 0) const {
    return slot(rank, sets, set, threadIdx.x);
  }
  __device__ bool serves() const { return threadIdx.x < world; }
};

template <bool kWeak>
__device__ float4 load(const float4* p) {
  if constexpr (kWeak) return *p;
  return ld_relaxed(p);
}

// What the ranks have at vector i.
template <bool kWeak = false>
__device__ float4 sum_at(const Pull& a, int i) {
  float4 sum = load<kWeak>(a.data[0] + i);
  for (int r = 1; r < a.world; ++r) sum = add(sum, load<kWeak>(a.data[r] + i));
  return sum;
}

// start barrier; every rank sums all vectors; end barrier.
template <class Start, class End>
__device__ void one_shot(const Pull& a, uint32_t barriers) {
  if (a.serves()) Start::meet(a, barriers);
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.vectors; i += gridDim.x * blockDim.x) {
    a.out[i] = sum_at(a, i);
  }
  __syncthreads();
  if (a.serves()) End::meet(a, barriers + 1);
}

// start barrier; a rank sums its own vectors into staging; mid barrier; every rank copies all.
template <class Start, class Mid, bool kWeak = false>
__device__ void two_shot(const Pull& a, uint32_t barriers) {
  if (a.serves()) Start::meet(a, barriers);
  __syncthreads();
  const int own = a.vectors / a.world, stride = gridDim.x * blockDim.x;
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < own; i += stride) {
    const int at = a.rank * own + i;
    const float4 sum = sum_at<kWeak>(a, at);
    if constexpr (kWeak) {
      a.staging[a.rank][at] = sum;
    } else {
      st_relaxed(a.staging[a.rank] + at, sum);
    }
  }
  __syncthreads();
  if (a.serves()) Mid::meet(a, barriers + 1);
  __syncthreads();
  for (int peer = 0; peer < a.world; ++peer) {
    for (int i = first; i < own; i += stride) {
      const int at = peer * own + i;
      a.out[at] = load<kWeak>(a.staging[peer] + at);
    }
  }
}

// -- their barriers; n counts them ----------------------------------------------------------------

struct Inbox {  // epochs that only grow
  static __device__ void meet(const Pull& a, uint32_t n) {
    st_release(a.theirs(), n + 1);
    const uint32_t* ours = a.ours();
    while (ld_acquire(ours) < n + 1) {
    }
  }
};

template <int kModulus>
struct Modulo {  // until the flag is no longer that of the barrier before
  static __device__ void meet(const Pull& a, uint32_t n) {
    st_release(a.theirs(), (n + 1) % kModulus);
    const uint32_t* ours = a.ours();
    while (ld_acquire(ours) == n % kModulus) {
    }
  }
};

template <bool kExactly>
struct Counter {  // one counter a block, added to on all ranks at once
  uint32_t* multicast;
  __device__ void meet(const Pull& a, uint32_t n) const {
    if (threadIdx.x != 0) return;
    multimem_add_release(multicast + blockIdx.x);
    const uint32_t* own = a.pad[a.rank] + blockIdx.x;
    const uint32_t total = (n + 1) * a.world;
    if constexpr (kExactly) {
      while (ld_acquire(own) != total) {
      }
    } else {
      while (ld_acquire(own) < total) {
      }
    }
  }
};

// A flag for start and one for mid; each barrier first clears the own flag of the other one.
// Shared: one flag for both, cleared by who waited.
template <class Orders, int kSet, bool kShared>
struct Flags {
  static __device__ void meet(const Pull& a, uint32_t) {
    constexpr int kMine = kShared ? 0 : kSet;
    if constexpr (!kShared) st_relaxed(a.ours(2, 1 - kSet), 0);
    Orders::st(a.theirs(2, kMine), 1);
    const uint32_t* ours = a.ours(2, kMine);
    while (Orders::ld(ours) != 1) {
    }
    if constexpr (kShared) st_relaxed(a.ours(2, 0), 0);
  }
};

// Barrier n stores n + 1 in set n mod 2.
template <class Orders, bool kOneSet>
struct Counters {
  static __device__ void meet(const Pull& a, uint32_t n) {
    const int set = kOneSet ? 0 : n % 2;
    Orders::st(a.theirs(2, set), n + 1);
    const uint32_t* ours = a.ours(2, set);
    while (Orders::ld(ours) != n + 1) {
    }
  }
};

template <bool kExactly>
__device__ void counter(Pull a, uint32_t* multicast, uint32_t barriers) {
  const Counter<kExactly> barrier{multicast};
  if (a.serves()) barrier.meet(a, barriers);
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.vectors; i += gridDim.x * blockDim.x) {
    a.out[i] = sum_at(a, i);
  }
  __syncthreads();
  if (a.serves()) barrier.meet(a, barriers + 1);
}

}  // namespace

#define PULL_ARGS                                                                              \
  float4 *const *data, float4 *const *staging, uint32_t *const *pad, float4 *out, int rank,    \
      int world, int vectors, uint32_t barriers
#define PULL \
  Pull { data, staging, pad, out, rank, world, vectors }

extern "C" __global__ void epoch_inbox(PULL_ARGS) { one_shot<Inbox, Inbox>(PULL, barriers); }
extern "C" __global__ void mod3_flag(PULL_ARGS) { one_shot<Modulo<3>, Modulo<3>>(PULL, barriers); }
extern "C" __global__ void mod2_flag(PULL_ARGS) { one_shot<Modulo<2>, Modulo<2>>(PULL, barriers); }
extern "C" __global__ void flag_two_shot(PULL_ARGS) {
  two_shot<Flags<Relaxed, 0, false>, Flags<Ordered, 1, false>>(PULL, barriers);
}
extern "C" __global__ void flag_two_shot_shared(PULL_ARGS) {
  two_shot<Flags<Relaxed, 0, true>, Flags<Ordered, 1, true>>(PULL, barriers);
}
extern "C" __global__ void counter_two_shot(PULL_ARGS) {
  two_shot<Counters<Relaxed, false>, Counters<Ordered, false>>(PULL, barriers);
}
extern "C" __global__ void counter_two_shot_one_set(PULL_ARGS) {
  two_shot<Counters<Relaxed, true>, Counters<Ordered, true>>(PULL, barriers);
}
extern "C" __global__ void counter_two_shot_weak(PULL_ARGS) {
  two_shot<Counters<Relaxed, false>, Counters<Ordered, false>, true>(PULL, barriers);
}
extern "C" __global__ void counter_two_shot_ordered(PULL_ARGS) {
  two_shot<Counters<Ordered, false>, Counters<Ordered, false>>(PULL, barriers);
}
extern "C" __global__ void flag_two_shot_ordered(PULL_ARGS) {
  two_shot<Flags<Ordered, 0, false>, Flags<Ordered, 1, false>>(PULL, barriers);
}
extern "C" __global__ void multimem_counter(PULL_ARGS, uint32_t* multicast) {
  counter<false>(PULL, multicast, barriers);
}
extern "C" __global__ void multimem_counter_exactly(PULL_ARGS, uint32_t* multicast) {
  counter<true>(PULL, multicast, barriers);
}

// -- cas-slots: sums in place, between two barriers of compare-and-swaps --------------------------

namespace {

struct StartAcquires {
  static __device__ uint32_t put(uint32_t* p) { return Relaxed::cas(p, 0, 1); }
  static __device__ uint32_t wait(uint32_t* p) { return Ordered::cas_wait(p, 1, 0); }
};
struct AllRelaxed {
  static __device__ uint32_t put(uint32_t* p) { return Relaxed::cas(p, 0, 1); }
  static __device__ uint32_t wait(uint32_t* p) { return Relaxed::cas(p, 1, 0); }
};
struct EndReleases {
  static __device__ uint32_t put(uint32_t* p) { return Ordered::cas_put(p, 0, 1); }
  static __device__ uint32_t wait(uint32_t* p) { return Relaxed::cas(p, 1, 0); }
};

template <class Orders>
__device__ void meet_by_slots(uint32_t* const* pad, int rank, int world) {
  if (threadIdx.x >= world) return;
  uint32_t* theirs = pad[threadIdx.x] + blockIdx.x * world + rank;
  uint32_t* ours = pad[rank] + blockIdx.x * world + threadIdx.x;
  while (Orders::put(theirs) != 0) {
  }
  while (Orders::wait(ours) != 1) {
  }
}

// A rank sums its own vectors of all replicas, and stores them to all.
template <class Start, class End>
__device__ void sum_in_place(float4* const* data, uint32_t* const* pad, int rank, int world,
                             int vectors) {
  meet_by_slots<Start>(pad, rank, world);
  __syncthreads();
  const int own = vectors / world;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < own; i += gridDim.x * blockDim.x) {
    const int at = rank * own + i;
    float4 sum = ld_relaxed(data[0] + at);
    for (int r = 1; r < world; ++r) sum = add(sum, ld_relaxed(data[r] + at));
    for (int r = 0; r < world; ++r) st_relaxed(data[r] + at, sum);
  }
  __syncthreads();
  meet_by_slots<End>(pad, rank, world);
}

}  // namespace

extern "C" __global__ void cas_slots(float4* const* data, uint32_t* const* pad, int rank, int world,
                                     int vectors) {
  sum_in_place<StartAcquires, EndReleases>(data, pad, rank, world, vectors);
}
extern "C" __global__ void cas_slots_start_relaxed(float4* const* data, uint32_t* const* pad,
                                                   int rank, int world, int vectors) {
  sum_in_place<AllRelaxed, EndReleases>(data, pad, rank, world, vectors);
}
extern "C" __global__ void cas_slots_end_relaxed(float4* const* data, uint32_t* const* pad,
                                                 int rank, int world, int vectors) {
  sum_in_place<StartAcquires, AllRelaxed>(data, pad, rank, world, vectors);
}

// -- lamport: no barrier; a word that is not -0.0 has come ----------------------------------------

namespace {

constexpr uint32_t kSentinel = 0x80000000;

__device__ float no_sentinel(float x) { return __float_as_uint(x) == kSentinel ? 0.0f : x; }

__device__ float await_word(const uint32_t* p) {
  uint32_t v;
  while ((v = ld_relaxed(p)) == kSentinel) {
  }
  return __uint_as_float(v);
}

}  // namespace

// mailbox: `buffers` of them, each a part of `vectors` for each sender.
extern "C" __global__ void lamport(const float4* data, float4* const* mailbox, float4* out,
                                   int rank, int world, int vectors, uint32_t call,
                                   uint32_t buffers) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  const int part = world * vectors;
  const int now = call % buffers * part;
  for (int i = first; i < vectors; i += stride) {
    float4 v = data[i];
    v = make_float4(no_sentinel(v.x), no_sentinel(v.y), no_sentinel(v.z), no_sentinel(v.w));
    for (int r = 0; r < world; ++r) st_relaxed(mailbox[r] + now + rank * vectors + i, v);
  }
  if (call > 0) {
    const float none = __uint_as_float(kSentinel);
    const int before = (call - 1) % buffers * part;
    for (int i = first; i < vectors; i += stride) {
      for (int from = 0; from < world; ++from) {
        st_relaxed(mailbox[rank] + before + from * vectors + i,
                   make_float4(none, none, none, none));
      }
    }
  }
  for (int i = first; i < vectors; i += stride) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int from = 0; from < world; ++from) {
      const auto* words =
          reinterpret_cast<const uint32_t*>(mailbox[rank] + now + from * vectors + i);
      float4 v;
      v.x = await_word(words);
      v.y = await_word(words + 1);
      v.z = await_word(words + 2);
      v.w = await_word(words + 3);
      sum = add(sum, v);
    }
    out[i] = sum;
  }
}

// -- put-notify: puts of partials and then of results, each with a signal behind it ---------------

namespace {

template <class Orders>
__device__ void notify(uint32_t* const* pad, int rank, int world, int second, uint32_t value) {
  if (threadIdx.x >= world) return;
  const int set = (blockIdx.x * 2 + second) * world;
  Orders::st(pad[threadIdx.x] + set + rank, value);
  const uint32_t* ours = pad[rank] + set + threadIdx.x;
  while (ld_acquire(ours) < value) {
  }
}

template <class Orders>
__device__ void puts(const float4* data, float4* const* inbox, uint32_t* const* pad,
                     float4* const* out, int rank, int world, int vectors, uint32_t call) {
  const int own = vectors / world;
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  for (int owner = 0; owner < world; ++owner) {
    for (int i = first; i < own; i += stride) {
      inbox[owner][rank * own + i] = data[owner * own + i];
    }
  }
  __syncthreads();
  notify<Orders>(pad, rank, world, 0, call + 1);
  __syncthreads();
  for (int i = first; i < own; i += stride) {
    float4 sum = inbox[rank][i];
    for (int from = 1; from < world; ++from) sum = add(sum, inbox[rank][from * own + i]);
    for (int r = 0; r < world; ++r) out[r][rank * own + i] = sum;
  }
  __syncthreads();
  notify<Orders>(pad, rank, world, 1, call + 1);
}

}  // namespace

extern "C" __global__ void put_notify(const float4* data, float4* const* inbox,
                                      uint32_t* const* pad, float4* const* out, int rank, int world,
                                      int vectors, uint32_t call) {
  puts<Ordered>(data, inbox, pad, out, rank, world, vectors, call);
}
extern "C" __global__ void put_notify_relaxed(const float4* data, float4* const* inbox,
                                              uint32_t* const* pad, float4* const* out, int rank,
                                              int world, int vectors, uint32_t call) {
  puts<Relaxed>(data, inbox, pad, out, rank, world, vectors, call);
}
