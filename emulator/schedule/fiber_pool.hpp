#pragma once
// Stacks on which agents run, recycled from agent to agent and from run to run.
//
// A fiber keeps its stack and its context for good; what it is given is the next piece of work.
// Thousands of agents of a block may wait at a barrier at once, so stacks are small and only the
// pages that were touched cost memory. Below each lies a page that faults, as long as the kernel
// lets the process have that many mappings (vm.max_map_count).
//
// Fibers switch to one another directly; the root stands for the stack of the thread that entered
// the pool.

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace ringfence::schedule {

inline constexpr std::size_t kStackBytes = 64 * 1024;  // with the guard page

class Fiber;

// What fibers do, on their own stacks: called when a fiber that was taken is switched to for the
// first time, and again whenever it returned. It returns only after it gave the fiber back and
// switched away, and was taken and switched to again.
class FiberWork {
 public:
  virtual ~FiberWork() = default;
  virtual void work(Fiber& on) noexcept = 0;
};

class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

 private:
  friend class FiberPool;

  boost::context::fiber context_;  // valid while suspended
  // For the address and the thread sanitizer, which have to be told of every switch.
  void* thread_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
};

class FiberPool {
 public:
  explicit FiberPool(FiberWork& work) : work_(work) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber& root() { return root_; }
  // A fiber that calls work() when it is switched to.
  Fiber* take();
  // By the fiber itself too, before it switches away for the last time.
  void give(Fiber* fiber) noexcept { idle_.push_back(fiber); }
  // Leaves `from`, which runs, for `to`; returns when somebody switches back.
  void switch_to(Fiber& from, Fiber& to);

 private:
  void grow();
  void arrive(Fiber& at, boost::context::fiber&& previous);

  FiberWork& work_;
  Fiber root_;
  Fiber* from_ = nullptr;  // who switched last
  bool quit_ = false;
  std::vector<void*> slabs_;
  std::size_t slab_used_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

}  // namespace ringfence::schedule
