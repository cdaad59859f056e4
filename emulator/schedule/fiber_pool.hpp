#pragma once
// Stacks on which agents run, recycled from agent to agent and from run to run.
//
// A worker keeps its stack and its context for good; what it is given is the next piece of work.
// Thousands of agents of a block may wait at a barrier at once, so stacks are small and only the
// pages that were touched cost memory. Below each lies a page that faults, as long as the kernel
// lets the process have that many mappings (vm.max_map_count).

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace ringfence::schedule {

inline constexpr std::size_t kStackBytes = 64 * 1024;  // with the guard page

class Fiber;

// What a fiber does when it is given work; runs on the fiber's stack.
class FiberWork {
 public:
  virtual ~FiberWork() = default;
  virtual void work(Fiber& on) noexcept = 0;
};

class Fiber {
 public:
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From outside: runs the fiber until it yields or its work returns. True if it returned.
  bool resume();
  // From the fiber: back to whoever resumed it.
  void yield();

 private:
  friend class FiberPool;
  Fiber() = default;
  void run();

  boost::context::fiber inside_;   // valid while suspended
  boost::context::fiber outside_;  // valid while running
  FiberWork* work_ = nullptr;
  bool idle_ = true;
  bool quit_ = false;
  // For the address sanitizer, which has to be told of every switch.
  void* fake_stack_ = nullptr;
  const void* stack_bottom_ = nullptr;
  std::size_t stack_size_ = 0;
  const void* outer_bottom_ = nullptr;
  std::size_t outer_size_ = 0;
};

class FiberPool {
 public:
  FiberPool() = default;
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // A fiber that is about to do `work`. Give it back once resume() returned true.
  Fiber* take(FiberWork& work);
  void give(Fiber* fiber) { idle_.push_back(fiber); }
  std::size_t size() const { return fibers_.size(); }

 private:
  void grow();

  std::vector<void*> slabs_;
  std::size_t slab_used_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

}  // namespace ringfence::schedule
