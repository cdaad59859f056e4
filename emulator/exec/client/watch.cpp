#include "emulator/exec/client/watch.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

#ifdef __x86_64__
#include <ucontext.h>
#endif

namespace ringfence::exec::client {

#ifdef __x86_64__
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr std::size_t kMostRegions = 1024;
// A case has few steps: what the host accesses first is looked at, and then runs at full speed.
constexpr std::size_t kMostAccesses = 48;

// What a handler of signals reads: nothing here moves, and nothing takes a lock there.
struct Region {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};
};
Region regions[kMostRegions];
std::atomic<std::size_t> region_count{0};
std::atomic<bool> guarded{false};
std::atomic<std::size_t> access_count{0};
HostAccess accesses[kMostAccesses];
std::atomic<bool> complete[kMostAccesses];
std::mutex mutex;  // of who watches and guards; never a handler
struct sigaction old_fault, old_trap;

// Of a thread between its fault and the step behind it. An instruction touches few pages.
struct Step {
  std::uintptr_t pages[4];
  int count;
  std::uintptr_t address;
  bool write;
};
[[gnu::tls_model("initial-exec")]] thread_local Step step;

bool watched(std::uintptr_t address) {
  const std::size_t count = region_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (address - regions[i].begin.load() < regions[i].bytes.load()) return true;
  }
  return false;
}

void protect(int how) {
  const std::size_t count = region_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = regions[i].bytes.load();
    if (bytes != 0) mprotect(reinterpret_cast<void*>(regions[i].begin.load()), bytes, how);
  }
}

void hand_on(const struct sigaction& old, int number, siginfo_t* info, void* context) {
  if ((old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction != nullptr) {
    old.sa_sigaction(number, info, context);
  } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
    old.sa_handler(number);
  } else {
    // As if nobody had been here: it comes once more, and ends the program.
    signal(number, SIG_DFL);
    if (number == SIGTRAP) raise(number);
  }
}

constexpr greg_t kTrapFlag = 0x100, kWriteFault = 2;

void on_fault(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (!watched(address) || step.count == 4) return hand_on(old_fault, number, info, context);
  auto* const c = static_cast<ucontext_t*>(context);
  const std::uintptr_t page = address / kPage * kPage;
  mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
  if (!guarded) return;  // somebody has ended it meanwhile
  if (step.count == 0) {
    step.address = address;
    step.write = (c->uc_mcontext.gregs[REG_ERR] & kWriteFault) != 0;
  }
  step.pages[step.count++] = page;
  c->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
}

void note(std::uintptr_t address, bool write) {
  HostAccess a;
  a.address = address / 4 * 4;
  a.write = write;
  std::memcpy(&a.value, reinterpret_cast<const void*>(a.address), sizeof a.value);
  const std::size_t count = access_count.load();
  if (count != 0 && count <= kMostAccesses) {
    const HostAccess& last = accesses[count - 1];
    if (last.address == a.address && last.write == a.write && last.value == a.value) return;
  }
  const std::size_t at = access_count.fetch_add(1);
  if (at >= kMostAccesses) return;
  accesses[at] = a;
  complete[at].store(true, std::memory_order_release);
}

void on_trap(int number, siginfo_t* info, void* context) {
  if (step.count == 0) return hand_on(old_trap, number, info, context);
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  note(step.address, step.write);
  const bool enough = access_count.load() >= kMostAccesses;
  if (enough && guarded.exchange(false)) protect(PROT_READ | PROT_WRITE);
  for (int i = 0; i < step.count && guarded; ++i) {
    mprotect(reinterpret_cast<void*>(step.pages[i]), kPage, PROT_NONE);
  }
  step.count = 0;
}

// Before each time that it is needed: the program may have put handlers of its own there meanwhile.
void install() {
  struct sigaction now = {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_sigaction == on_fault) return;
  struct sigaction a = {};
  sigfillset(&a.sa_mask);
  a.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  a.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &a, &old_fault);
  a.sa_sigaction = on_trap;
  sigaction(SIGTRAP, &a, &old_trap);
}

bool lifted = false;  // enough was seen of what is pending now
std::size_t taken = 0;

}  // namespace

void watch(std::uintptr_t begin, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  std::size_t i = 0;
  while (i < region_count && regions[i].bytes != 0) ++i;
  if (i == kMostRegions) return;
  regions[i].begin = begin;
  regions[i].bytes = (bytes + kPage - 1) / kPage * kPage;
  if (i == region_count) ++region_count;
  if (guarded) mprotect(reinterpret_cast<void*>(begin), regions[i].bytes, PROT_NONE);
}

void unwatch(std::uintptr_t begin) {
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < region_count; ++i) {
    if (regions[i].begin == begin) regions[i].bytes = 0;
  }
}

void guard(bool on) {
  const std::lock_guard lock(mutex);
  if (region_count == 0) return;
  if (!on) {
    lifted = false;
    if (guarded.exchange(false)) protect(PROT_READ | PROT_WRITE);
  } else if (!guarded && !lifted) {
    install();
    lifted = true;  // once for all that is pending
    access_count = taken = 0;
    for (std::atomic<bool>& c : complete) c = false;
    guarded = true;
    protect(PROT_NONE);
  }
}

std::vector<HostAccess> take_accesses() {
  const std::lock_guard lock(mutex);
  std::vector<HostAccess> out;
  const std::size_t count = std::min(access_count.load(), kMostAccesses);
  for (; taken < count && complete[taken].load(std::memory_order_acquire); ++taken) {
    out.push_back(accesses[taken]);
  }
  return out;
}

#else

void watch(std::uintptr_t, std::size_t) {}
void unwatch(std::uintptr_t) {}
void guard(bool) {}
std::vector<HostAccess> take_accesses() { return {}; }

#endif

}  // namespace ringfence::exec::client
