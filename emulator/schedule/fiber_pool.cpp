#include "emulator/schedule/fiber_pool.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ringfence::schedule {
namespace {

constexpr std::size_t kStacksPerSlab = 64;
constexpr std::size_t kGuarded = 16 * 1024;  // half of vm.max_map_count as Linux has it

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

void FiberPool::switch_to(Fiber& from, Fiber& to) {
  from_ = &from;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_bottom_, to.stack_bytes_);
#elif defined(__SANITIZE_THREAD__)
  if (&from == &root_) root_.thread_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.thread_, 0);
#endif
  boost::context::fiber previous = std::move(to.context_).resume();
  arrive(from, std::move(previous));
}

// On `at`'s stack again: what was switched away from can now be continued.
void FiberPool::arrive([[maybe_unused]] Fiber& at, boost::context::fiber&& previous) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(at.fake_stack_, &from_->stack_bottom_, &from_->stack_bytes_);
#endif
  from_->context_ = std::move(previous);
}

FiberPool::~FiberPool() {
  quit_ = true;
  for (auto& f : fibers_) {
    switch_to(root_, *f);
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(f->thread_);
#endif
  }
  fibers_.clear();
  for (void* slab : slabs_) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(slab, kStacksPerSlab * kStackBytes);
#endif
    munmap(slab, kStacksPerSlab * kStackBytes);
  }
}

Fiber* FiberPool::take() {
  if (idle_.empty()) grow();
  Fiber* f = idle_.back();
  idle_.pop_back();
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
  // A guard splits its slab into two mappings more. Beyond kGuarded stacks the agents run without:
  // the slabs themselves need mappings too.
  if (fibers_.size() < kGuarded) static_cast<void>(mprotect(base, page_bytes(), PROT_NONE));

  PooledStack stack;
  stack.context.size = kStackBytes - page_bytes();
  stack.context.sp = base + kStackBytes;
  // Room first: give() and the lines below must not throw.
  if (fibers_.size() == fibers_.capacity()) fibers_.reserve(2 * fibers_.size() + kStacksPerSlab);
  idle_.reserve(fibers_.capacity());
  auto f = std::make_unique<Fiber>();
  Fiber* const self = f.get();
  self->stack_bottom_ = base + page_bytes();
  self->stack_bytes_ = stack.context.size;
#if defined(__SANITIZE_THREAD__)
  self->thread_ = __tsan_create_fiber(0);
#endif
  self->context_ = boost::context::fiber(
      std::allocator_arg, stack, [this, self](boost::context::fiber&& previous) {
        arrive(*self, std::move(previous));
        while (!quit_) work_.work(*self);
        from_ = self;
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_start_switch_fiber(nullptr, root_.stack_bottom_, root_.stack_bytes_);
#elif defined(__SANITIZE_THREAD__)
        __tsan_switch_to_fiber(root_.thread_, 0);
#endif
        return std::move(root_.context_);
      });
  fibers_.push_back(std::move(f));
  idle_.push_back(self);
  ++slab_used_;
}

}  // namespace ringfence::schedule
