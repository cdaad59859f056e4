#include "emulator/schedule/fiber_pool.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace ringfence::schedule {
namespace {

constexpr std::size_t kStacksPerSlab = 64;

// The stack belongs to the pool's slab: Boost.Context only has to know where it is.
struct PooledStack {
  boost::context::stack_context context;
  boost::context::stack_context allocate() { return context; }
  void deallocate(boost::context::stack_context&) noexcept {}
};

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

void Fiber::run() {
  for (;;) {
    work_->work(*this);
    idle_ = true;
    yield();
    if (quit_) return;
  }
}

#if defined(__SANITIZE_ADDRESS__)

bool Fiber::resume() {
  idle_ = false;
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_bottom_, stack_size_);
  inside_ = std::move(inside_).resume();
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  return idle_;
}

void Fiber::yield() {
  __sanitizer_start_switch_fiber(quit_ ? nullptr : &fake_stack_, outer_bottom_, outer_size_);
  outside_ = std::move(outside_).resume();
  __sanitizer_finish_switch_fiber(fake_stack_, &outer_bottom_, &outer_size_);
}

#else

bool Fiber::resume() {
  idle_ = false;
  inside_ = std::move(inside_).resume();
  return idle_;
}

void Fiber::yield() { outside_ = std::move(outside_).resume(); }

#endif

FiberPool::~FiberPool() {
  for (auto& f : fibers_) {
    f->quit_ = true;
    f->resume();
  }
  fibers_.clear();
  for (void* slab : slabs_) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(slab, kStacksPerSlab * kStackBytes);
#endif
    munmap(slab, kStacksPerSlab * kStackBytes);
  }
}

Fiber* FiberPool::take(FiberWork& work) {
  if (idle_.empty()) grow();
  Fiber* f = idle_.back();
  idle_.pop_back();
  f->work_ = &work;
  return f;
}

void FiberPool::grow() {
  if (slabs_.empty() || slab_used_ == kStacksPerSlab) {
    void* slab = mmap(nullptr, kStacksPerSlab * kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "stacks for agents: mmap");
    }
    slabs_.push_back(slab);
    slab_used_ = 0;
  }
  auto* base = static_cast<std::byte*>(slabs_.back()) + slab_used_ * kStackBytes;
  // Fails once the process has too many mappings; the agents then run without the guard.
  static_cast<void>(mprotect(base, page_bytes(), PROT_NONE));

  PooledStack stack;
  stack.context.size = kStackBytes - page_bytes();
  stack.context.sp = base + kStackBytes;
  // Room first: give() and the lines below must not throw.
  if (fibers_.size() == fibers_.capacity()) fibers_.reserve(2 * fibers_.size() + kStacksPerSlab);
  idle_.reserve(fibers_.capacity());
  std::unique_ptr<Fiber> f(new Fiber);
  Fiber* const self = f.get();
  self->stack_bottom_ = base + page_bytes();
  self->stack_size_ = stack.context.size;
  self->inside_ = boost::context::fiber(
      std::allocator_arg, stack, [self](boost::context::fiber&& outside) {
        self->outside_ = std::move(outside);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(nullptr, &self->outer_bottom_, &self->outer_size_);
#endif
        if (!self->quit_) self->run();
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_start_switch_fiber(nullptr, self->outer_bottom_, self->outer_size_);
#endif
        return std::move(self->outside_);
      });
  fibers_.push_back(std::move(f));
  idle_.push_back(self);
  ++slab_used_;
}

}  // namespace ringfence::schedule
