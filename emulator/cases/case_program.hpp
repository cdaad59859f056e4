#pragma once
// A case file as a program: compiled kernels on emulated ranks.
//
// A call is: a product launch that writes new payloads with weak stores into every memory that has
// a generated or recorded content; the launches of the file, those of one stream in order, the
// streams side by side; and a consumer launch that reads, with weak loads, what [check] compares.
// After the run: `restored` memories have their initial content, the operator's reference and the
// expected values hold (what judges comes before what compares replicas), `equal` memories agree.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/cases/case_file.hpp"
#include "emulator/cases/edits.hpp"
#include "emulator/cases/encode.hpp"
#include "emulator/cases/expected.hpp"
#include "emulator/cases/kernel_run.hpp"
#include "emulator/cases/payload.hpp"
#include "emulator/schedule/program.hpp"
#include "verify/compare.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cases {

struct Settings {
  std::uint32_t calls = 0;  // 0: the file's
  std::uint64_t payload_seed = 1;
  verify::Summation summation = verify::Summation::fp32_rank_order;
  Edits edits;                      // to the kernels
  std::vector<Suppression> ignore;  // beside those of the file
};

class CaseProgram final : public schedule::Program, private machine::FindingFilter {
 public:
  // Reads and decodes the PTX files, makes the payloads, checks the arguments. Throws CaseError or
  // ptx::Error, one line each.
  CaseProgram(CaseFile file, const Settings& settings);
  ~CaseProgram() override;

  const CaseFile& file() const { return file_; }
  std::uint32_t calls() const { return calls_; }
  const Payload& payload() const { return payload_; }
  // What the consumer of `rank` read in `call` of the last run; only of memories that [check]
  // compares.
  std::span<const std::byte> consumed(std::uint32_t call, std::uint32_t rank,
                                      std::string_view memory) const;
  // Of the last run, each over all ranks: the reference's "out" and "residual_out", and the
  // memories of check.expected by their names. Empty where nothing is judged.
  std::vector<verify::Comparison> comparisons() const;
  // Where `equal` memories differ after a call; empty if they agree, or none are named.
  std::string replica_difference() const;
  // Memories that a kernel wrote in the runs of this executor and whose values nothing judges, and
  // bytes that a peer or the consumer read and nobody wrote in any run: one text for each. Empty
  // before a run has ended whole.
  std::vector<std::string> values_not_judged() const;
  std::vector<std::string> never_written() const;
  // Of a memory whose init says what is unset, of at most 64 MiB: what nobody wrote in those runs,
  // [begin, end) in turn.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> not_written(std::string_view memory,
                                                                   std::uint32_t rank) const;
  // What was told to be passed over, and was not in any run of this process and its children.
  std::vector<std::string> unused_suppressions() const;
  // What kernels did in any run that a verdict tells and does not judge: one text for each.
  std::vector<std::string> remarks() const;
  // What the kernels do that no rule here follows, so that faults of it are not found: one text for
  // each instruction.
  std::vector<std::string> left_out() const;
  // What may decide in those runs and is no choice of an exhaustive search.
  std::vector<std::string> unexplored() const;
  // Time-outs of waits that lead on, and were due in those runs, and that nothing takes.
  std::vector<std::string> time_outs() const;
  // Every memory as the last run left it, as "NAME.RANK": of the dtype and shape that is expected
  // of it, else of its init's dtype, else bytes. While the executor lives.
  verify::Safetensors final_memories() const;
  // Where what kernels print goes, of runs in this process; else nobody sees it.
  void print_to(std::function<void(const std::string&)> print) { print_ = std::move(print); }
  // How sums are formed that hardware does in an order of its own; empty if there are none.
  std::string numerics() const;
  // By the launches that ended in this process, over all runs.
  const ptx::ExecutionCounts& counts() const { return counts_; }

  std::uint16_t ranks() const override { return static_cast<std::uint16_t>(file_.ranks); }
  std::uint64_t shared_bytes() const override;
  void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) override;
  void before_run(machine::Machine& machine) override;
  void host(schedule::Agent& agent, std::uint16_t rank) override;
  void after_run(machine::Machine& machine) override;
  std::string site_name(std::uint16_t site) const override;
  std::string region_name(machine::RegionId region) const override;
  schedule::SlotName slot_name(machine::Address at) const override;
  std::string slot_writer(machine::Address at, const machine::Wanted& wanted) const override;
  schedule::SlotName barrier_name(std::uint64_t label) const override;
  // The FILE:LINE by which edits name a site's instruction; empty: it is none of a kernel.
  std::string site_key(std::uint16_t site) const;
  // The memory of the case that a region is a replica of; empty: of none.
  std::string memory_name(machine::RegionId region) const;
  std::string launch_name(std::uint64_t label) const override;
  std::string launch_note(std::uint64_t label) const override;
  std::string last_mismatch() const override;
  bool passes_over_races() const override;

 private:
  bool passes_over(const machine::Finding& finding) override;
  bool notes_same_value(const machine::Finding& finding);
  const Launch* launch_of(std::uint64_t label) const;
  bool is_of(const Suppression& s, const machine::Finding& f) const;
  bool is_of(const Suppression& s, const machine::AccessInfo& a) const;

  static constexpr std::uint32_t kMostStreams = 16;
  enum Site : std::uint16_t { kEndCheck, kProduct, kConsumer, kBarrier, kFirstInstruction };

  struct Piece {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };
  struct Region {
    std::string name;
    machine::RegionSpec spec;
    std::vector<Piece> initial;      // zero elsewhere; a later one over an earlier one
    std::uint64_t mbarriers_at = 0;  // of shared memory: see KernelRun::Settings
  };
  struct PtxFile;
  // A launch, or a step of the host.
  struct Turn {
    bool step;
    std::size_t index;   // in the file's launches or steps
    std::uint32_t slot;  // its stream, in stream_slots_
  };
  // A launch with what it needs on each rank.
  struct Prepared {
    std::vector<std::uint32_t> kernel;  // by rank; in kernels_
    // By rank, and by call or the same in all.
    std::vector<std::vector<std::vector<std::uint8_t>>> parameters;
    std::vector<std::uint64_t> globals;  // by rank
    // By rank and call: the region of block 0's shared memory, the other blocks' behind it.
    std::vector<std::vector<std::uint32_t>> first_shared;
    // By rank: in it, see KernelRun::Settings.
    std::vector<std::uint64_t> barriers_at, mbarriers_at;
  };
  static constexpr std::uint32_t kNoKernel = ~0U;
  struct SiteOf {
    std::uint32_t kernel;  // kNoKernel: a step of the host, `instruction` in file_.host
    std::uint32_t instruction;
  };
  struct Shared {
    std::uint32_t run = 0;   // number of the run, from 1 on
    machine::Policy policy;  // of the run
    // Of the file's streams, and behind them of the launches that may overlap the one before.
    std::uint16_t streams[kMaxRanks][2 * kMostStreams] = {};
    FaultText fault[kMaxRanks];
    ptx::VirtualClock clock[kMaxRanks];
  };

  void check_suppressions() const;
  void map_memories();
  // A memory on a rank, as it is before the first call; and where it goes, once it has a region.
  Region region_of(std::size_t memory, std::uint32_t rank) const;
  std::uint64_t place(std::size_t memory, std::uint32_t rank);
  void add_shared_memory(const Launch& launch, std::uint32_t rank, Prepared& prepared);
  ptx::LaunchConfig config_of(std::size_t launch, std::uint32_t rank) const;
  void load_kernels();
  PtxFile& ptx_file(const std::vector<std::string>& paths, Edits& left);
  std::uint32_t kernel_of(PtxFile& file, const ptx::Function& function);
  std::uint64_t globals_of(PtxFile& file, const std::string& shown, const ptx::Program& program,
                           std::uint32_t rank);
  void use_stream(std::uint32_t number);
  void prepare_host_steps();
  FormulaContext context(std::uint32_t rank, std::uint32_t call) const;
  std::string host_step_name(const HostStep& step) const;
  void run_host_step(schedule::Agent& agent, std::uint32_t rank, std::uint32_t call,
                     std::size_t index);
  void fill_memories();
  void bind(const Launch& launch, Prepared& out);
  std::vector<std::uint8_t> parameters_of(const Launch& launch, const ptx::Program& program,
                                          std::uint32_t rank, std::uint32_t call) const;
  Addresses addresses() const;
  // What the region holds before every launch, from `offset` on.
  static void initial_of(const Region& region, std::uint64_t offset, std::span<std::byte> out);
  std::uint64_t address(const std::string& memory, std::uint32_t rank) const;
  std::uint64_t peers_table(const std::string& memory, std::uint32_t rank);
  std::uint32_t add_region(Region region);
  std::size_t index_of(std::string_view memory) const;
  bool is_consumed(std::size_t memory) const { return consumed_at_[memory] != kNotConsumed; }
  std::size_t consumed_offset(std::uint32_t call, std::uint32_t rank, std::size_t memory) const;

  void produce(schedule::Agent& agent, std::uint32_t rank, std::uint32_t call);
  void consume(schedule::Agent& agent, std::uint32_t rank, std::uint32_t call);
  void run_launch(schedule::Agent& host, std::uint32_t rank, std::uint32_t call, std::size_t launch,
                  machine::StreamId stream, Succession* self, Succession* before);
  void run_stream(schedule::Agent& host, std::uint32_t rank, std::uint32_t call,
                  std::uint32_t stream);
  void launch_host_step(schedule::Agent& host, std::uint32_t rank, std::uint32_t call,
                        std::uint32_t slot, std::size_t step);
  void run_overlapping(schedule::Agent& host, std::uint32_t rank, std::uint32_t call);
  void run_in_turn(schedule::Agent& host, std::uint32_t rank, std::uint32_t call,
                   std::size_t number, std::vector<Succession>& all);
  void order_turns();
  bool dependent(const Turn& turn) const;  // a launch that may overlap the one before
  bool on(const Turn& turn, std::uint32_t rank) const;
  machine::StreamId stream(std::uint32_t rank, std::uint32_t slot) const {
    return shared_->streams[rank][slot];
  }
  machine::AccessInfo consumer_access(std::uint32_t call, std::uint32_t rank, std::size_t memory,
                                      std::uint64_t offset) const;
  std::uint32_t first_left() const;
  bool check_restored(machine::Machine& machine);
  bool check_reference(machine::Machine& machine);
  bool check_expected(machine::Machine& machine);
  std::string term_text(const ExpectedValue& value, const verify::Expectation& expected,
                        const std::byte* got, std::uint32_t call) const;
  void compare_expected(std::uint32_t call, std::vector<verify::Comparison>& all) const;
  bool is_judged(const std::string& memory) const;
  // What the consumer of `rank` reads of a memory after `call`: [first, second), empty for nothing.
  std::pair<std::uint64_t, std::uint64_t> read_by_consumer(std::size_t memory, std::uint32_t call,
                                                           std::uint32_t rank) const;
  const std::byte* consumed_value(std::size_t expected, std::uint32_t call,
                                  std::uint32_t rank) const;
  // Where the replicas of a memory that has to be equal differ first, for each call, memory and
  // rank left; until `go_on` says no.
  struct Difference {
    std::uint32_t call;
    const std::string& memory;
    std::uint32_t rank, other;
    std::size_t byte;
    std::byte value, other_value;
  };
  void each_difference(const std::function<bool(const Difference&)>& go_on) const;
  void check_equal(machine::Machine& machine);
  verify::Comparison compare(std::uint32_t call, std::uint32_t rank, bool is_residual) const;

  static constexpr std::size_t kNotConsumed = ~std::size_t{0};

  CaseFile file_;
  Settings settings_;
  std::uint32_t calls_;
  Payload payload_;
  Expectations expectations_;
  std::vector<std::unique_ptr<PtxFile>> ptx_files_;
  bool async_proxy_ = false;  // some kernel has accesses of the async proxy
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Prepared> launches_;
  std::vector<SiteOf> sites_;                    // from kFirstInstruction on
  std::size_t first_host_site_ = 0;              // in sites_
  std::map<std::string, std::uint32_t> events_;  // regions, by name
  std::vector<Turn> turns_;
  std::uint32_t overlaps_ = 0;               // launches that may overlap the one before
  std::vector<std::uint32_t> stream_slots_;  // the file's stream numbers in use, ascending
  Space space_;
  std::vector<Region> regions_;
  std::vector<std::vector<std::uint32_t>> memory_region_;    // by memory and rank
  std::vector<std::vector<std::uint64_t>> memory_address_;   // by memory and rank
  std::vector<std::uint64_t> multicast_address_;             // by memory; 0: local
  std::map<std::string, std::vector<std::uint64_t>> peers_;  // tables, by memory and rank
  std::vector<std::size_t> consumed_at_;  // by memory: its place in what one rank reads in a call
  std::size_t consumed_bytes_ = 0;        // of one rank and call
  machine::RegionId first_region_ = 0;
  Signals signals_;
  Usage usage_;
  std::uint64_t complete_runs_ = 0;
  Shared* shared_ = nullptr;
  std::byte* results_ = nullptr;
  const machine::Machine* machine_ = nullptr;  // of the last run
  std::function<void(const std::string&)> print_;
  std::string mismatch_;
  ptx::ExecutionCounts counts_;
};

}  // namespace ringfence::cases
