// The parent of a pool of rank processes.

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "emulator/ranks/executors.hpp"
#include "emulator/ranks/pool_state.hpp"
#include "emulator/ranks/rank_process.hpp"
#include "emulator/ranks/segment.hpp"
#include "emulator/ranks/watchdog.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/label.hpp"

namespace ringfence::ranks {
namespace {

using schedule::Outcome;
using schedule::RunEnd;
using schedule::RunSpec;

// Room for the model's state beside the program's regions, whose initial and current bytes are both
// kept. The machine needs about 250 bytes for each 16-byte line in use, and what is unread of
// thousands of threads' clocks may need hundreds of MiB however small the regions are. What is not
// touched takes no memory.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kBaseBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kModelFactor = 20;

Segment make_segment(const schedule::Program& program, const ProcessOptions& options) {
  // Far beyond any memory, and the sums below do not overflow.
  const std::uint64_t own = std::min(program.shared_bytes(), std::uint64_t{1} << 56);
  if (options.segment_bytes != 0) return Segment(options.segment_bytes, options.segment_bytes);
  return Segment(kLeastBytes + 2 * own, kBaseBytes + kModelFactor * own);
}

// One of the cores that this process may use: successive pools get successive ones.
int choose_core(int wanted) {
  if (wanted != -1) return wanted;
  static std::atomic<unsigned> pools{0};
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -2;
  const auto n = static_cast<unsigned>(CPU_COUNT(&allowed));
  unsigned skip = (static_cast<unsigned>(getpid()) + pools.fetch_add(1)) % n;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<unsigned>(core), &allowed) && skip-- == 0) return core;
  }
  return -2;
}

void kill_own_process() { kill(getpid(), SIGKILL); }
void stop_own_process() { kill(getpid(), SIGSTOP); }

class ProcessExecutor final : public schedule::Executor {
 public:
  ProcessExecutor(schedule::Program& program, const ProcessOptions& options)
      : program_(program), options_(options), core_(choose_core(options.core)) {
    set_up();
  }
  ~ProcessExecutor() override { end_ranks(true); }

  Outcome run(const RunSpec& spec) override {
    if (broken_) {
      end_ranks(false);
      segment_.reset();
      set_up();
    }
    if (schedule::must_stop()) {
      Outcome out;
      out.end = RunEnd::stopped;
      return out;
    }
    try {
      start(spec);
    } catch (const SegmentFull& e) {
      broken_ = true;
      throw SegmentError(e.what());
    } catch (...) {
      broken_ = true;
      throw;
    }
    const std::vector<Loss> lost = Watchdog(*pool_, options_.stall).wait(pids_);
    if (!lost.empty()) return lost_ranks(lost);
    if (pool_->failed.load()) {
      const schedule::Thrown thrown = pool_->thrown.load();
      broken_ = thrown == schedule::Thrown::out_of_memory;
      schedule::rethrow(thrown, pool_->error);
    }
    return pool_->run->collect();
  }

 private:
  template <class T, class... Args>
  T* in_segment(std::size_t n, Args&&... args) {
    auto* at = static_cast<T*>(segment_->memory()->allocate(n * sizeof(T), alignof(T)));
    for (std::size_t i = 0; i < n; ++i) {
      ::new (static_cast<void*>(at + i)) T(std::forward<Args>(args)...);
    }
    return at;
  }

  void set_up() {
    segment_.emplace(make_segment(program_, options_));
    pool_ = in_segment<PoolState>(1);
    pool_->ranks = program_.ranks();
    pool_->slots = in_segment<RankSlot>(pool_->ranks);
    try {
      pool_->run = in_segment<schedule::RunState>(1, program_, segment_->memory());
    } catch (const SegmentFull& e) {
      throw SegmentError(e.what());
    }
    broken_ = false;
  }

  void start(const RunSpec& spec) {
    schedule::Execution& execution = pool_->run->execution();
    pool_->run->start(spec);
    pool_->failed = false;
    pool_->thrown = schedule::Thrown::nothing;
    pool_->done = 0;
    pool_->unclean = pool_->ranks;
    pool_->gate.idle = 0;
    pool_->gate.lock = 0;
    pool_->gate.holder = kNobody;
    pool_->gate.lease = kNobody;
    pool_->gate.waiting = 0;
    pool_->fault = nullptr;
    for (const schedule::Fault& f : spec.faults) {
      const auto hook = f.kind == schedule::Fault::Kind::kill ? kill_own_process : stop_own_process;
      if (spec.free_running) {
        pool_->fault = hook;
        pool_->fault_rank = f.rank;
        pool_->fault_point = std::max(f.point, 1u);
      } else {
        execution.set_hook(hook, f.rank, f.point);
      }
    }
    if (pids_.empty()) fork_ranks();
    const std::uint32_t run = pool_->run_number() + 1;
    if (spec.free_running) {
      pool_->set_command(run, Phase::free);
      pool_->ring_all_but(kNobody);
    } else {
      const std::uint16_t first = execution.rank_of(execution.current());
      pool_->turn = first;
      pool_->set_command(run, Phase::controlled);
      pool_->ring(first);
    }
  }

  // After the first start: what the program keeps of before_run is then in the ranks as well.
  void fork_ranks() {
    const pid_t parent = getpid();
    for (std::uint16_t r = 0; r < pool_->ranks; ++r) {
      const pid_t pid = fork();
      if (pid == 0) RankProcess::main(*pool_, program_, r, core_, parent);
      if (pid < 0) {
        const int error = errno;
        end_ranks(false);
        throw std::system_error(error, std::generic_category(),
                                "fork of rank " + std::to_string(r));
      }
      pids_.push_back(pid);
    }
  }

  // No child stays: those that do not follow the request are killed.
  void end_ranks(bool orderly) {
    if (orderly && !pids_.empty() && !broken_ && !schedule::must_stop()) {
      pool_->set_command(pool_->run_number(), Phase::quit);
      pool_->ring_all_but(kNobody);
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
      while (std::chrono::steady_clock::now() < until && !reap(WNOHANG)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    for (const pid_t pid : pids_) {
      if (pid > 0) kill(pid, SIGKILL);
    }
    reap(0);
    pids_.clear();
  }

  bool reap(int flags) {
    bool all = true;
    for (pid_t& pid : pids_) {
      if (pid == 0) continue;
      pid_t found;
      do {
        found = waitpid(pid, nullptr, flags);
      } while (found < 0 && errno == EINTR);
      if (found == 0) {
        all = false;
      } else {
        pid = 0;
      }
    }
    return all;
  }

  // The shared state may be in the middle of a change: only plain fields are read.
  Outcome lost_ranks(const std::vector<Loss>& lost) {
    broken_ = true;
    end_ranks(false);
    const schedule::Execution& execution = pool_->run->execution();
    Outcome out;
    out.end = RunEnd::lost;
    out.points = execution.points();
    for (const Loss& l : lost) {
      schedule::LostRank r;
      r.rank = l.rank;
      r.wait_status = l.wait_status;
      r.stalled = l.stalled;
      r.seconds = l.seconds;
      const schedule::AgentId id = pool_->slots[l.rank].progress.last_agent.load();
      if (id < execution.agent_count()) {
        const schedule::AgentRecord& record = execution.record(id);
        r.last_agent = schedule::text(schedule::unpack(record.label));
      }
      for (schedule::AgentId a = 0; a < execution.agent_count(); ++a) {
        const schedule::AgentRecord& record = execution.record(a);
        if (record.rank == l.rank) r.last_step = std::max(r.last_step, record.last_step);
      }
      out.lost.push_back(std::move(r));
    }
    return out;
  }

  schedule::Program& program_;
  ProcessOptions options_;
  int core_;
  std::optional<Segment> segment_;
  PoolState* pool_ = nullptr;
  std::vector<pid_t> pids_;
  bool broken_ = false;  // a rank was lost, or memory ran out: the shared state is not to be used
};

}  // namespace

std::unique_ptr<schedule::Executor> make_inline(schedule::Program& program) {
  return std::make_unique<schedule::InlineExecutor>(program);
}

std::unique_ptr<schedule::Executor> make_processes(schedule::Program& program,
                                                   const ProcessOptions& options) {
  return std::make_unique<ProcessExecutor>(program, options);
}

}  // namespace ringfence::ranks
