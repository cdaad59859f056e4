#pragma once
// The devices under `ringfence exec`: what the program asks of them, and what comes of it.
//
// Operations wait on their streams until the program waits for something. Then all that is pending,
// on all devices, runs together as one case (stretch.hpp): what orders it is what the program said.
// What the program waits for need not include what some kernel there waits for, a later launch of
// the program's: where all together get stuck, what the program waits for runs alone.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/cases/case_program.hpp"
#include "emulator/exec/device_profile.hpp"
#include "emulator/exec/devices.hpp"
#include "emulator/exec/stretch.hpp"
#include "emulator/exec/wire.hpp"

namespace ringfence::exec {

struct EngineOptions {
  std::uint32_t devices = 4;
  std::uint64_t seed = 0;     // 0: the default schedule; else one that is drawn
  std::uint64_t explore = 0;  // schedules of each stretch that are tried besides
  machine::Boundary boundary = machine::Boundary::stream;
  machine::Policy policy;
  std::vector<machine::FindingKind> ignore;
  DeviceProfile profile;
  // Which processes the devices are: this one ("inline"), or one of its own each ("processes").
  analysis::ExecutorOptions executor{"inline"};
  bool host_accesses = true;  // those of the host count: its races with kernels are findings
  std::string capture;        // a folder; empty: none
  std::string folder;         // for memory that the host sees too; empty: there is none
  bool color = false;
  std::set<std::string> refused;                  // functions of which that was said already
  std::function<void(const std::string&)> say;    // a line, or several
  std::function<void(const std::string&)> print;  // what kernels print
};

struct Summary {
  std::uint64_t launches = 0, stretches = 0;
  std::vector<std::string> findings;  // kinds, in the order in which they were told
  std::set<std::string> refused;      // functions that are not there, and were called
  std::set<std::string> captured;     // files that were written
  std::size_t left = 0;               // operations that nobody waited for
  bool unknown = false;               // a stretch that came to no end, or is not to be had
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  // The reply to a request's frame.
  std::string answer(const std::string& frame);
  Summary summary() const;

 private:
  using Numbers = std::set<std::uint64_t>;
  // What a request leads to, besides its answer.
  struct Turn {
    Request request;
    std::int32_t status = kSuccess;
    bool again = false;
    std::uint32_t writes = 0, callbacks = 0;
    Out to_host, to_call, out;
  };
  enum class Ran : std::uint8_t { done, stuck, failed };

  void serve(Turn& turn, In& in);
  void add_module(Turn& turn, In& in);
  void tell_kernel(Turn& turn, In& in);
  void tell_managed(Turn& turn, In& in);
  void place_managed(Module& module);
  void find_symbol(Turn& turn, In& in);
  void allocate(Turn& turn, In& in);
  void release(Turn& turn, In& in);
  void share(Turn& turn, In& in);
  void copy(Turn& turn, In& in);
  void fill(Turn& turn, In& in);
  void launch(Turn& turn, In& in);
  void stream_call(Turn& turn, In& in);
  void event_call(Turn& turn, In& in);
  void elapsed(Turn& turn, In& in);
  void occupancy(Turn& turn, In& in);
  void switch_peer(Turn& turn, In& in);
  void tell_devices(Turn& turn) const;
  void tell_memory(Turn& turn) const;
  void tell_pointer(Turn& turn, In& in) const;
  void tell_refused(const std::string& what);
  void reset(std::uint32_t device);
  void touched(In& in);
  bool watches() const;
  void open_window();
  void keep(const std::vector<const Operation*>& batch, const std::string& name);
  void judge();
  analysis::Task task_of(const Stretch& stretch, const std::string& name) const;

  const ptx::Program& program_of(std::uint64_t module, const std::string& kernel);
  void place_variables(Module& module, const ptx::Program& program);
  Allocation& add_allocation(std::uint32_t device, std::uint64_t bytes, const std::string& memory);
  // Memory that the host sees too; null: there is none to be had.
  Allocation* add_shared(std::uint32_t device, std::uint64_t bytes, const std::string& memory);
  std::string memory_for(std::uint32_t device, std::uint64_t bytes);
  std::uint64_t stream_of(const Request& request);
  Operation& enqueue(const Request& request, Operation::Kind kind);
  bool refuses(Turn& turn, std::uint64_t address, std::uint64_t bytes, const char* what);

  // All that is pending, and at least what has these numbers. `query`: what cannot go on yet is no
  // fault. `alone`: all only where those cannot go on by themselves.
  void wait_for(Turn& turn, const Numbers& wanted, bool query = false, bool alone = false);
  // Whether the last of these is over; by the seed, not at once.
  void query(Turn& turn, const Numbers& wanted);
  Numbers on_stream(std::uint64_t stream) const;
  Numbers all_pending() const;
  // Of the pending operations, those numbered and all that come before them.
  Numbers with_past(const Numbers& wanted) const;
  // Runs these, if no callback comes before them.
  Ran run(Turn& turn, const Numbers& numbers, bool may_stick);
  bool prepare(const std::vector<const Operation*>& batch, const std::string& name,
               Stretch& stretch, analysis::Task& task);
  Ran run_case(Turn& turn, const std::vector<const Operation*>& batch, bool may_stick);
  schedule::StrategySpec strategy() const;
  void show(const verify::Safetensors& memories);
  void take(Turn& turn, const Stretch& stretch, cases::CaseProgram& program);
  void drop(const Numbers& numbers);
  void apply(Turn& turn, const Operation& operation);
  void finish(const std::vector<const Operation*>& batch);
  // `hosts`: what got stuck is no finding.
  void explore(const analysis::Task& task, std::uint64_t schedules, const std::string& where,
               bool hosts);
  void tell(const std::string& kind, const std::string& story);
  void tell_again(const analysis::Task& task, const analysis::Instance& instance,
                  schedule::RunSpec spec, machine::FindingKind finding, const std::string& name);
  std::vector<std::vector<std::uint32_t>> reach() const;
  void write_capture(const Stretch& stretch, const std::string& name);
  void write_captured(const std::string& path, const std::string& bytes);
  void say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }

  EngineOptions options_;
  Devices devices_;
  // By the name of a memory: bytes of its replicas.
  std::map<std::string, std::uint64_t> memories_;
  std::uint64_t next_address_;
  std::uint64_t next_handle_ = 0x10000;
  std::uint64_t next_operation_ = 1;
  std::uint64_t shared_ = 0;  // memories that the host sees too, so far
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> own_streams_;  // device, thread
  std::set<std::pair<std::uint32_t, std::uint32_t>> peers_;
  std::int32_t sticky_ = kSuccess;
  std::uint64_t stuck_at_ = 0;  // operations there were when all that was pending got stuck
  // What queries of an operation are answered, drawn by the seed at the first one: how often that
  // it is not over yet, and whether it then runs with no more than what comes before it.
  struct Answers {
    std::uint64_t not_ready = 0;
    bool alone = false;
  };
  std::map<std::uint64_t, Answers> queried_;  // by operation
  std::mt19937_64 draws_;
  // While something is pending, and what ran has not been waited for: the host's accesses count.
  bool window_ = false;
  std::map<std::uint64_t, std::uint32_t> words_;  // by address: as the host knows them
  // A stretch that has run while nobody waited for it, with the accesses of the host beside it.
  struct Kept {
    Stretch stretch;
    std::string name;
    std::size_t accesses = 0;
  };
  std::optional<Kept> kept_;
  Summary summary_;
};

}  // namespace ringfence::exec
