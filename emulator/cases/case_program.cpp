#include "emulator/cases/case_program.hpp"
#include "emulator/cases/plain_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "emulator/cases/ptx_file.hpp"
#include "emulator/cases/residency.hpp"
#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/schedule/failure.hpp"

namespace ringfence::cases {
namespace {

using machine::Order;
using schedule::Agent;
using schedule::Role;

constexpr std::size_t kMostSites = 65535;
// Bytes of a memory beyond which it costs what kernels touch of it.
constexpr std::uint64_t kMostDense = std::uint64_t{64} << 20;

ptx::SumPolicy policy_of(verify::Summation summation) {
  switch (summation) {
    case verify::Summation::fp32_rank_order:
      return ptx::SumPolicy::rank_order;
    case verify::Summation::fp32_given_order:
      return ptx::SumPolicy::seeded_order;
    case verify::Summation::exact_once:
      return ptx::SumPolicy::exact;
    case verify::Summation::each_step:
      return ptx::SumPolicy::element_steps;
    case verify::Summation::fp32_truncated:
      break;
  }
  return ptx::SumPolicy::truncated;
}

bool is_site(ptx::Kind kind) {
  return kind == ptx::Kind::memory || kind == ptx::Kind::fence || kind == ptx::Kind::copy_async ||
         kind == ptx::Kind::mbarrier || kind == ptx::Kind::matrix_load ||
         kind == ptx::Kind::group_multiply || kind == ptx::Kind::barrier ||
         kind == ptx::Kind::launch_trigger || kind == ptx::Kind::exit;
}

// CUDA refuses such a launch.
void refuse_cooperative(const CaseFile& file, const Launch& launch, const ptx::Program& program,
                        const ptx::LaunchConfig& config) {
  const Residency fit = residency(program, config, 0);
  const std::uint64_t blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
  if (blocks <= fit.blocks) return;
  throw CaseError(fmt::format("{}:{}: a cooperative launch of {} blocks, and {} fit, {}", file.path,
                              launch.line, blocks, fit.blocks, fit.why));
}

}  // namespace

namespace {
CaseFile edited(CaseFile file, const Edits& edits) {
  apply_memory_edits(file, edits);
  return file;
}
}  // namespace

CaseProgram::CaseProgram(CaseFile file, const Settings& settings)
    : file_(edited(std::move(file), settings.edits)),
      settings_(settings),
      calls_(settings.calls != 0 ? settings.calls : file_.calls),
      payload_(file_, calls_, settings.payload_seed, settings.summation),
      expectations_(file_, calls_, payload_, settings.summation),
      signals_(file_.ranks) {
  file_.ignore.insert(file_.ignore.end(), settings.ignore.begin(), settings.ignore.end());
  check_suppressions();
  map_memories();
  fill_memories();
  load_kernels();
}

CaseProgram::~CaseProgram() = default;

std::uint32_t CaseProgram::add_region(Region region) {
  regions_.push_back(std::move(region));
  return static_cast<std::uint32_t>(regions_.size() - 1);
}

std::string CaseProgram::memory_name(machine::RegionId region) const {
  for (std::size_t m = 0; m < memory_region_.size(); ++m) {
    for (const std::uint32_t of_rank : memory_region_[m]) {
      if (first_region_ + of_rank == region) return file_.memories[m].name;
    }
  }
  return {};
}

std::size_t CaseProgram::index_of(std::string_view memory) const {
  return static_cast<std::size_t>(file_.find(memory) - file_.memories.data());
}

void CaseProgram::map_memories() {
  consumed_at_.assign(file_.memories.size(), kNotConsumed);
  const auto consume = [&](const std::string& name) {
    const std::size_t m = index_of(name);
    if (is_consumed(m)) return;
    consumed_at_[m] = consumed_bytes_;
    consumed_bytes_ += (file_.memories[m].bytes + 15) / 16 * 16;
  };
  for (const std::string& name : file_.check.equal) consume(name);
  if (file_.check.reference) {
    consume(file_.check.reference->out);
    consume(file_.check.reference->residual_out);
  }
  for (const ExpectedValue& e : file_.check.expected) consume(e.memory);
  for (const Memory& m : file_.memories) {
    for (const std::uint64_t at : m.addresses) {
      if (at != 0) space_.keep(at, m.bytes);
    }
  }
  const auto& restored = file_.check.restored;
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    const Memory& memory = file_.memories[m];
    const bool pad = std::find(restored.begin(), restored.end(), memory.name) != restored.end();
    memory_region_.emplace_back();
    memory_address_.emplace_back();
    std::uint64_t first = 0;  // replica, where they are a distance apart
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      Region region;
      region.name = fmt::format("{} of rank {}", memory.name, r);
      region.spec = {static_cast<std::uint16_t>(r),
                     pad ? machine::RegionKind::signal : machine::RegionKind::data, memory.bytes,
                     memory.initial.kind != Initial::Kind::poison && memory.initial.unset.empty()};
      const auto all = [&](std::uint8_t byte) {
        region.initial.push_back({0, std::vector<std::byte>(memory.bytes, std::byte{byte})});
      };
      // Before the first product has run: NaN in every dtype.
      if (payload_.renewed(m)) all(0xff);
      if (memory.initial.kind == Initial::Kind::fill && memory.initial.fill != 0) {
        all(memory.initial.fill);
      }
      if (memory.initial.once) {
        const auto content = payload_.content(0, r, m);
        for (const auto& [begin, end] : payload_.given(r, m)) {
          region.initial.push_back({begin,
                                    {content.begin() + static_cast<std::ptrdiff_t>(begin),
                                     content.begin() + static_cast<std::ptrdiff_t>(end)}});
        }
      }
      region.spec.sparse = memory.bytes > kMostDense && region.initial.empty();
      const std::string name = region.name;
      const std::uint32_t index = add_region(std::move(region));
      memory_region_[m].push_back(index);
      Mapping mapping{name, 0, memory.bytes, false, {index}, r};
      for (std::uint32_t of = 0; of < file_.reach.size() && !memory.everybody; ++of) {
        const auto& reached = file_.reach[of];
        if (of != r && std::find(reached.begin(), reached.end(), r) == reached.end()) {
          mapping.reach &= ~(std::uint64_t{1} << of);
        }
      }
      if (!memory.addresses.empty() && memory.addresses[r] != 0) {
        mapping.address = memory.addresses[r];
        if (const Mapping* const other = space_.overlap(mapping.address, memory.bytes)) {
          throw CaseError(
              fmt::format("{}:{}: [memory.{}]: the address {:#x} of rank {} is on pages "
                          "of {}",
                          file_.path, memory.line, memory.name, mapping.address, r, other->name));
        }
        memory_address_[m].push_back(space_.add_at(std::move(mapping)));
      } else if (memory.distance == 0) {
        memory_address_[m].push_back(space_.add(std::move(mapping)));
      } else {
        if (r == 0) first = space_.reserve(memory.distance, file_.ranks);
        mapping.address = first + r * memory.distance;
        memory_address_[m].push_back(space_.add_at(std::move(mapping)));
      }
    }
    // What is made anew for each call is data.
    if (!payload_.renewed(m)) signals_.follow(memory_region_[m], memory.bytes);
    // What was never written and is not initialised is a finding where it is read.
    usage_.follow(memory_region_[m], memory.bytes,
                  memory.initial.kind == Initial::Kind::zero ||
                      memory.initial.kind == Initial::Kind::fill || !memory.initial.unset.empty());
    multicast_address_.push_back(
        memory.kind == MemoryKind::symmetric
            ? space_.add({memory.name + " (multicast)", 0, memory.bytes, true, memory_region_[m]})
            : 0);
  }
}

// A region for each block's shared memory in each call: what a call's blocks leave there is not
// what the next ones find.
void CaseProgram::add_shared_memory(const Launch& launch, std::uint32_t rank, Prepared& prepared) {
  const ptx::Program& program = kernels_[prepared.kernel[rank]]->program;
  const bool counts = std::any_of(program.barriers.begin(), program.barriers.end(),
                                  [](const ptx::BarrierOp& b) { return b.has_count; });
  // A kernel may name some where the case gives none.
  const bool names =
      std::any_of(program.accesses.begin(), program.accesses.end(),
                  [](const ptx::MemoryOp& m) { return m.access.space == ptx::Space::shared; });
  // Where launches may overlap, which thread lets the next one begin is a step like a barrier's.
  const bool overlaps = std::any_of(file_.launches.begin(), file_.launches.end(),
                                    [](const Launch& l) { return l.dependent; });
  const bool triggers =
      overlaps && std::any_of(program.ops.begin(), program.ops.end(), [](const ptx::Op& op) {
        return op.kind == ptx::Kind::launch_trigger;
      });
  std::uint64_t bytes = program.static_shared + launch.shared_bytes;
  if (bytes == 0 && !counts && !names && !triggers) return;
  constexpr std::uint64_t kLine = machine::kLineBytes, kSteps = KernelRun::kBarriers + 1;
  const std::uint64_t barriers_at = (bytes + kLine - 1) / kLine * kLine;
  const std::uint64_t mbarriers_at = barriers_at + kSteps * kLine;
  prepared.barriers_at[rank] = barriers_at;
  prepared.mbarriers_at[rank] = mbarriers_at;
  bytes = mbarriers_at + (program.mbarriers.empty() ? 0 : barriers_at);
  const auto grid = launch.grid_of(rank);
  for (std::uint32_t call = 0; call < calls_; ++call) {
    prepared.first_shared[rank].push_back(static_cast<std::uint32_t>(regions_.size()));
    for (std::uint32_t b = 0; b < grid[0] * grid[1] * grid[2]; ++b) {
      add_region({fmt::format("shared memory of block {} of rank {}", b, rank),
                  {static_cast<std::uint16_t>(rank), machine::RegionKind::data, bytes, true, true},
                  {},
                  mbarriers_at});
    }
  }
}

CaseProgram::PtxFile& CaseProgram::ptx_file(const std::vector<std::string>& paths, Edits& left) {
  for (const auto& f : ptx_files_) {
    if (f->paths == paths) return *f;
  }
  ptx_files_.push_back(std::make_unique<PtxFile>(file_, paths));
  PtxFile& made = *ptx_files_.back();
  apply_edits(made.module, settings_.edits, left, made.edited);
  return made;
}

std::uint32_t CaseProgram::kernel_of(PtxFile& file, const ptx::Function& function) {
  for (std::uint32_t k = 0; k < kernels_.size(); ++k) {
    if (kernels_[k]->program.kernel == &function) return k;
  }
  const auto number = static_cast<std::uint32_t>(kernels_.size());
  auto kernel = std::make_unique<Kernel>();
  kernel->program = ptx::decode(file.module, function);
  kernel->site.assign(kernel->program.ops.size(), kBarrier);
  for (std::uint32_t i = 0; i < kernel->program.ops.size(); ++i) {
    if (!is_site(kernel->program.ops[i].kind)) continue;
    if (sites_.size() + kFirstInstruction + file_.host.size() >= kMostSites) {
      throw CaseError(fmt::format("{}: the kernels have more than {} accesses", file_.path,
                                  kMostSites - kFirstInstruction));
    }
    kernel->site[i] = static_cast<std::uint16_t>(kFirstInstruction + sites_.size());
    sites_.push_back({number, i});
  }
  async_proxy_ =
      async_proxy_ || !kernel->program.copies.empty() || !kernel->program.group_products.empty();
  kernels_.push_back(std::move(kernel));
  return number;
}

// Each rank has its own copy of the module's variables.
std::uint64_t CaseProgram::globals_of(PtxFile& file, const std::string& shown,
                                      const ptx::Program& program, std::uint32_t rank) {
  if (program.global_bytes == 0) return 0;
  file.globals.resize(file_.ranks, 0);
  if (file.globals[rank] != 0) return file.globals[rank];
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    const Memory& memory = file_.memories[m];
    if (memory.variables != shown) continue;
    if (memory.bytes < program.global_bytes) {
      throw CaseError(fmt::format("{}:{}: [memory.{}] has {} bytes; the variables of {} take {}",
                                  file_.path, memory.line, memory.name, memory.bytes, shown,
                                  program.global_bytes));
    }
    return file.globals[rank] = memory_address_[m][rank];
  }
  const std::string name = fmt::format("variables of {} on rank {}", shown, rank);
  const std::uint32_t index = add_region(
      {name,
       {static_cast<std::uint16_t>(rank), machine::RegionKind::data, program.global_bytes, true},
       {}});
  const std::uint64_t at = space_.add({name, 0, program.global_bytes, false, {index}});
  Piece& variables = regions_[index].initial.emplace_back();
  for (const std::uint8_t b : ptx::initial_globals(program, at)) {
    variables.bytes.push_back(std::byte{b});
  }
  return file.globals[rank] = at;
}

void CaseProgram::use_stream(std::uint32_t number) {
  if (std::find(stream_slots_.begin(), stream_slots_.end(), number) == stream_slots_.end()) {
    stream_slots_.push_back(number);
  }
}

void CaseProgram::load_kernels() {
  Edits left = settings_.edits;
  std::erase_if(left, [](const auto& edit) { return is_memory_edit(edit.first); });
  constexpr std::size_t kMostLaunches = schedule::kMaxGroup + 1;  // of an agent's label
  if (file_.launches.size() + file_.host.size() > kMostLaunches) {
    throw CaseError(fmt::format("{}: {} launches and host steps; at most {} are supported",
                                file_.path, file_.launches.size() + file_.host.size(),
                                kMostLaunches));
  }
  for (const Launch& launch : file_.launches) {
    use_stream(launch.stream);
    Prepared prepared;
    prepared.globals.assign(file_.ranks, 0);
    prepared.kernel.assign(file_.ranks, kNoKernel);
    prepared.first_shared.assign(file_.ranks, {});
    prepared.barriers_at.assign(file_.ranks, 0);
    prepared.mbarriers_at.assign(file_.ranks, 0);
    prepared.parameters.resize(file_.ranks);
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      if (!launch.on(r)) continue;
      PtxFile& ptx_file = this->ptx_file(file_.modules_of(launch, r), left);
      prepared.kernel[r] = kernel_of(ptx_file, ptx_file.module.kernel(launch.kernel_of(r)));
      prepared.globals[r] =
          globals_of(ptx_file, launch.ptx_of(r), kernels_[prepared.kernel[r]]->program, r);
    }
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      if (!launch.on(r)) continue;
      const ptx::Program& program = kernels_[prepared.kernel[r]]->program;
      const ptx::LaunchConfig config = config_of(launches_.size(), r);
      ptx::check_launch(program, config);
      if (launch.cooperative) refuse_cooperative(file_, launch, program, config);
    }
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      if (launch.on(r)) add_shared_memory(launch, r, prepared);
    }
    bind(launch, prepared);
    launches_.push_back(std::move(prepared));
  }
  refuse_edits(file_, left);
  for (const HostStep& step : file_.host) use_stream(step.stream);
  std::sort(stream_slots_.begin(), stream_slots_.end());
  first_host_site_ = sites_.size();
  prepare_host_steps();
  overlaps_ = static_cast<std::uint32_t>(
      std::count_if(file_.launches.begin(), file_.launches.end(),
                    [](const Launch& launch) { return launch.dependent; }));
  // Where launches overlap each of them, and each step of the host, has a host, and each that may a
  // stream, besides.
  constexpr std::size_t kMostOverlapping = kMostStreams - 1;
  const std::size_t in_turn = file_.launches.size() + file_.host.size();
  if (overlaps_ != 0 && in_turn > kMostOverlapping) {
    throw CaseError(
        fmt::format("{}: {} launches and host steps, some launches dependent; expected at most {}",
                    file_.path, in_turn, kMostOverlapping));
  }
  order_turns();
}

// Launches and steps in the order of the file: what a step precedes stands behind it.
void CaseProgram::order_turns() {
  const auto slot = [&](std::uint32_t stream) {
    return static_cast<std::uint32_t>(
        std::find(stream_slots_.begin(), stream_slots_.end(), stream) - stream_slots_.begin());
  };
  for (std::size_t l = 0; l <= file_.launches.size(); ++l) {
    for (std::size_t i = 0; i < file_.host.size(); ++i) {
      if (file_.host[i].before == l) turns_.push_back({true, i, slot(file_.host[i].stream)});
    }
    if (l < file_.launches.size()) turns_.push_back({false, l, slot(file_.launches[l].stream)});
  }
}

ptx::LaunchConfig CaseProgram::config_of(std::size_t l, std::uint32_t rank) const {
  const Launch& launch = file_.launches[l];
  ptx::LaunchConfig config;
  config.rank = rank;
  config.launch = static_cast<std::uint32_t>(l);
  config.multiprocessors = file_.multiprocessors;
  config.grid = launch.grid_of(rank);
  config.block = launch.block_of(rank);
  config.cluster = launch.cluster;
  config.dynamic_shared = launch.shared_bytes;
  return config;
}

// -- set-up ---------------------------------------------------------------------------------------

std::uint64_t CaseProgram::shared_bytes() const {
  // A region has its bytes, a copy of its initial content, and a pointer for each 16-byte line.
  std::uint64_t bytes = sizeof(Shared) + consumed_bytes_ * file_.ranks * calls_ + 64;
  // Of shared memory, pointers only, where it comes under the model.
  for (const Region& r : regions_) {
    if (r.spec.sparse) continue;  // it has mappings of its own
    bytes += (r.spec.shared ? r.spec.bytes / 2 + 512 : r.spec.bytes * 5 / 2) + 64;
  }
  bytes += signals_.shared_bytes() + usage_.shared_bytes() + 128;
  return bytes;
}

void CaseProgram::set_up(machine::Machine& machine, std::pmr::memory_resource* shared) {
  first_region_ = static_cast<machine::RegionId>(machine.region_count());
  for (const Region& r : regions_) {
    const machine::RegionId id = machine.add_region(r.spec);
    for (const Piece& p : r.initial) machine.set_initial({id, p.offset}, p.bytes);
  }
  shared_ = ::new (shared->allocate(sizeof(Shared), alignof(Shared))) Shared;
  const std::size_t bytes = std::max<std::size_t>(consumed_bytes_ * file_.ranks * calls_, 1);
  results_ = static_cast<std::byte*>(shared->allocate(bytes, 64));
  std::memset(results_, 0, bytes);
  auto* const signals = static_cast<std::byte*>(shared->allocate(signals_.shared_bytes(), 64));
  std::memset(signals, 0, signals_.shared_bytes());
  signals_.share(signals);
  auto* const usage = static_cast<std::byte*>(shared->allocate(usage_.shared_bytes(), 64));
  std::memset(usage, 0, usage_.shared_bytes());
  usage_.share(usage);
  complete_runs_ = 0;
}

void CaseProgram::before_run(machine::Machine& machine) {
  machine_ = &machine;
  machine.use_async_proxy(async_proxy_);
  machine.set_filter(file_.ignore.empty() && file_.same_value_races ? nullptr : this);
  signals_.begin(++shared_->run);
  shared_->policy = machine.policy();
  for (std::uint16_t r = 0; r < file_.ranks; ++r) {
    for (std::size_t s = 0; s < stream_slots_.size() + overlaps_; ++s) {
      shared_->streams[r][s] = static_cast<std::uint16_t>(machine.add_stream(r));
    }
    shared_->fault[r].text[0] = '\0';
    shared_->fault[r].no_room = 0;
    for (PhaseWait& w : shared_->fault[r].phases) w.used = false;
    shared_->clock[r] = {1, 0};
  }
  mismatch_.clear();
}

// -- a run ----------------------------------------------------------------------------------------

void CaseProgram::produce(Agent& agent, std::uint32_t rank, std::uint32_t call) {
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    if (!payload_.renewed(m)) continue;
    const auto content = payload_.content(call, rank, m);
    agent.write({first_region_ + memory_region_[m][rank], 0},
                plain_access(kProduct, content.size()), content);
  }
}

std::size_t CaseProgram::consumed_offset(std::uint32_t call, std::uint32_t rank,
                                         std::size_t memory) const {
  return (std::size_t{call} * file_.ranks + rank) * consumed_bytes_ + consumed_at_[memory];
}

void CaseProgram::consume(Agent& agent, std::uint32_t rank, std::uint32_t call) {
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    if (!is_consumed(m)) continue;
    // What is not judged may never have been written.
    const auto [begin, end] = read_by_consumer(m, call, rank);
    if (begin == end) continue;
    agent.read({first_region_ + memory_region_[m][rank], begin},
               plain_access(kConsumer, begin | end),
               {results_ + consumed_offset(call, rank, m) + begin, end - begin});
  }
}

void CaseProgram::run_launch(Agent& host, std::uint32_t rank, std::uint32_t call, std::size_t l,
                             machine::StreamId stream, Succession* self, Succession* before) {
  const Prepared& prepared = launches_[l];
  ptx::LaunchConfig config = config_of(l, rank);
  const auto& by_call = prepared.parameters[rank];
  config.parameters = by_call[by_call.size() == 1 ? 0 : call];
  config.globals = prepared.globals[rank];
  config.resident_blocks = progressing_blocks(kernels_[prepared.kernel[rank]]->program, config,
                                              shared_->policy, file_.launches[l].cooperative);
  config.asks_for_room = config.resident_blocks != 0;
  config.fence_reads = shared_->policy.async_war == machine::AsyncWar::fence_required;
  KernelRun::Settings settings;
  settings.first_region = first_region_;
  settings.barrier_site = kBarrier;
  settings.policy = policy_of(settings_.summation);
  settings.seed = (settings_.payload_seed * 1000003 + call) * 31 + l;
  settings.budget = file_.budget;
  settings.signals = &signals_;
  settings.usage = &usage_;
  settings.run = shared_->run;
  settings.plain_multicast = shared_->policy.plain_multicast == machine::PlainMulticast::allow;
  settings.vector_atomic = shared_->policy.vector == machine::VectorAccess::atomic;
  settings.line_ordered = shared_->policy.line == machine::LineAccess::ordered;
  settings.fresh_lines = shared_->policy.fresh_lines == machine::FreshLines::on;
  settings.note_unfenced = shared_->policy.async_war == machine::AsyncWar::note;
  settings.print = print_;
  settings.self = self;
  settings.before = before;
  if (!prepared.first_shared[rank].empty()) {
    settings.first_shared = prepared.first_shared[rank][call];
    settings.barriers_at = prepared.barriers_at[rank];
    settings.mbarriers_at = prepared.mbarriers_at[rank];
  }
  KernelRun run(*kernels_[prepared.kernel[rank]], std::move(config), space_, settings,
                shared_->fault[rank], shared_->clock[rank]);
  host.launch(stream, static_cast<std::uint16_t>(call), run.children(),
              static_cast<std::uint16_t>(l));
  counts_.warp_instructions += run.counts().warp_instructions;
  counts_.thread_instructions += run.counts().thread_instructions;
}

void CaseProgram::launch_host_step(Agent& host, std::uint32_t rank, std::uint32_t call,
                                   std::uint32_t slot, std::size_t step) {
  std::vector<Agent::ChildSpec> children(1);
  children[0].body = [this, rank, call, step](Agent& a) { run_host_step(a, rank, call, step); };
  host.launch(stream(rank, slot), static_cast<std::uint16_t>(call), std::move(children),
              static_cast<std::uint16_t>(file_.launches.size() + step));
}

void CaseProgram::run_stream(Agent& host, std::uint32_t rank, std::uint32_t call,
                             std::uint32_t slot) {
  for (const Turn& turn : turns_) {
    if (turn.slot != slot || !on(turn, rank)) continue;
    if (turn.step) {
      launch_host_step(host, rank, call, slot, turn.index);
    } else {
      run_launch(host, rank, call, turn.index, stream(rank, slot), nullptr, nullptr);
    }
  }
}

// A host for each launch and each step, which waits for its turn. A launch that may overlap the one
// before has a stream of the machine's own; all else follows what its stream had before it.
void CaseProgram::run_overlapping(Agent& host, std::uint32_t rank, std::uint32_t call) {
  std::vector<Succession> all(turns_.size());
  std::vector<Agent::Body> hosts;
  std::uint32_t own = static_cast<std::uint32_t>(stream_slots_.size());
  for (std::size_t t = 0; t < all.size(); ++t) {
    all[t].stream = stream(rank, dependent(turns_[t]) ? own++ : turns_[t].slot);
    if (!on(turns_[t], rank)) continue;
    hosts.push_back([this, rank, call, t, &all](Agent& a) { run_in_turn(a, rank, call, t, all); });
  }
  host.fork_hosts(static_cast<std::uint16_t>(call), std::move(hosts));
  for (const Succession& s : all) {
    host.closed(&s.triggered);
    host.closed(&s.ended);
    if (s.stream != stream(rank, 0)) host.order_streams(stream(rank, 0), s.stream);
  }
}

bool CaseProgram::dependent(const Turn& turn) const {
  return !turn.step && file_.launches[turn.index].dependent;
}

bool CaseProgram::on(const Turn& turn, std::uint32_t rank) const {
  return turn.step ? file_.host[turn.index].on(rank) : file_.launches[turn.index].on(rank);
}

void CaseProgram::run_in_turn(Agent& host, std::uint32_t rank, std::uint32_t call,
                              std::size_t number, std::vector<Succession>& all) {
  const Turn& turn = turns_[number];
  Succession& self = all[number];
  std::vector<std::size_t> earlier;
  for (std::size_t t = 0; t < number; ++t) {
    if (turns_[t].slot == turn.slot && on(turns_[t], rank)) earlier.push_back(t);
  }
  const auto wait_until = [&](Succession& other, const bool& what) {
    while (!what) {
      other.waiting.push_back(&host);
      host.wait_turn();
    }
    host.left(&what, 0);
  };
  // Only a launch triggers: what stands right behind a step of the host, or behind nothing that
  // this rank launches, follows as others do.
  Succession* before = nullptr;
  if (dependent(turn) && !earlier.empty() && !turns_[earlier.back()].step) {
    before = &all[earlier.back()];
    wait_until(*before, before->triggered);
    // That launches overlap is an opportunity and no promise.
    if (host.choose(schedule::DecisionKind::sum, 2) == 1) wait_until(*before, before->ended);
    host.act(kBarrier, [&](machine::Machine& m) { m.follow_start(self.stream, before->stream); });
  } else {
    for (const std::size_t t : earlier) {
      wait_until(all[t], all[t].ended);
      if (all[t].stream != self.stream) host.order_streams(self.stream, all[t].stream);
    }
    if (dependent(turn)) host.order_streams(self.stream, stream(rank, turn.slot));
  }
  if (turn.step) {
    launch_host_step(host, rank, call, turn.slot, turn.index);
  } else {
    run_launch(host, rank, call, turn.index, self.stream, &self, before);
  }
  host.act(kBarrier, [&](machine::Machine&) {
    // Who began when all blocks had triggered is behind that, not behind the end.
    if (!std::exchange(self.triggered, true)) host.arrived(&self.triggered, 0);
    self.ended = true;
    host.arrived(&self.ended, 0);
    self.tell(host);
  });
}

void CaseProgram::host(Agent& agent, std::uint16_t rank) {
  const auto streams = static_cast<std::uint32_t>(stream_slots_.size());
  for (std::uint32_t call = agent.first_call(); call < calls_; ++call) {
    const auto number = static_cast<std::uint16_t>(call);
    const auto alone = [&](Role role,
                           void (CaseProgram::*what)(Agent&, std::uint32_t, std::uint32_t)) {
      std::vector<Agent::ChildSpec> children;
      Agent::ChildSpec child;
      child.role = role;
      child.body = [this, what, rank, call](Agent& a) { (this->*what)(a, rank, call); };
      children.push_back(std::move(child));
      agent.launch(stream(rank, 0), number, std::move(children));
    };
    if (payload_.any_renewed()) alone(Role::product, &CaseProgram::produce);
    if (overlaps_) {
      for (std::uint32_t s = 1; s < streams; ++s) {
        agent.order_streams(stream(rank, s), stream(rank, 0));
      }
      run_overlapping(agent, rank, call);
    } else if (streams == 1) {
      run_stream(agent, rank, call, 0);
    } else {
      std::vector<Agent::Body> hosts;
      for (std::uint32_t s = 0; s < streams; ++s) {
        if (s > 0) agent.order_streams(stream(rank, s), stream(rank, 0));
        hosts.push_back([this, rank, call, s](Agent& a) { run_stream(a, rank, call, s); });
      }
      agent.fork_hosts(number, std::move(hosts));
      for (std::uint32_t s = 1; s < streams; ++s) {
        agent.order_streams(stream(rank, 0), stream(rank, s));
      }
    }
    if (consumed_bytes_ > 0) alone(Role::consumer, &CaseProgram::consume);
  }
}

// -- names ----------------------------------------------------------------------------------------

std::string CaseProgram::site_name(std::uint16_t site) const {
  switch (site) {
    case kEndCheck:
      return "check after the last launch";
    case kProduct:
      return "inputs are written: store of a memory's content (weak)";
    case kConsumer:
      return "results are read: load of what the case checks (weak)";
    case kBarrier:
      return "block barrier";
    default:
      break;
  }
  const std::size_t index = site - kFirstInstruction;
  if (index >= sites_.size()) return fmt::format("site {}", site);
  if (sites_[index].kernel == kNoKernel)
    return host_step_name(file_.host[sites_[index].instruction]);
  const ptx::Program& program = kernels_[sites_[index].kernel]->program;
  const ptx::Instruction& i = program.function->instructions[sites_[index].instruction];
  const std::string& file = program.module->file_of(i.unit);
  const auto slash = file.rfind('/');
  std::string text =
      fmt::format("{}:{}", slash == std::string::npos ? file : file.substr(slash + 1), i.line);
  if (const ptx::SourceLocation* at = ptx::shown_location(*program.module, i)) {
    const auto name = [&](const ptx::SourceLocation& l) {
      const std::string& source = program.module->files[l.file];
      const auto cut = source.rfind('/');
      return fmt::format("{}:{}", cut == std::string::npos ? source : source.substr(cut + 1),
                         l.line);
    };
    // A helper's line says little without the one that it is called at.
    const auto& calls = program.module->calls;
    const ptx::SourceLocation* const caller =
        at->outer == 0 || at->outer > calls.size() ? nullptr : &calls[at->outer - 1];
    const bool named = caller != nullptr && caller->file < program.module->files.size();
    text +=
        fmt::format(" ({}{}{})", name(*at), at == &*i.location ? "" : ", in " + name(*i.location),
                    named ? ", called at " + name(*caller) : "");
  }
  return text + ": " + ptx::one_line(i.text);
}

std::string CaseProgram::site_key(std::uint16_t site) const {
  const std::size_t index = site - std::size_t{kFirstInstruction};
  if (site < kFirstInstruction || index >= sites_.size() || sites_[index].kernel == kNoKernel) {
    return {};
  }
  const ptx::Program& program = kernels_[sites_[index].kernel]->program;
  return place_of(*program.module, *program.function, sites_[index].instruction);
}

const Launch* CaseProgram::launch_of(std::uint64_t label) const {
  const schedule::AgentLabel l = schedule::unpack(label);
  if (l.role != Role::thread || l.group >= file_.launches.size()) return nullptr;
  const Launch& launch = file_.launches[l.group];
  return l.rank < file_.ranks && launch.on(l.rank) ? &launch : nullptr;
}

// As a reader of the source knows it: without parameters.
std::string CaseProgram::launch_name(std::uint64_t label) const {
  const Role role = schedule::unpack(label).role;
  if (role == Role::product) return "inputs are written";
  if (role == Role::consumer) return "results are read";
  const Launch* const launch = launch_of(label);
  if (launch == nullptr) return {};
  const schedule::AgentLabel l = schedule::unpack(label);
  const std::uint32_t kernel = launches_[l.group].kernel[l.rank];
  if (kernel == kNoKernel) return {};
  std::string name = ptx::demangle(kernels_[kernel]->program.function->name);
  name = name.substr(0, name.find('('));
  return name.starts_with("void ") ? name.substr(5) : name;
}

std::string CaseProgram::launch_note(std::uint64_t label) const {
  const Launch* const launch = launch_of(label);
  if (launch == nullptr) return {};
  const schedule::AgentLabel l = schedule::unpack(label);
  const auto blocks = [&](std::uint32_t rank) {
    const auto grid = launch->grid_of(rank);
    return std::uint64_t{grid[0]} * grid[1] * grid[2];
  };
  for (std::uint32_t r = 0; r < file_.ranks; ++r) {
    if (!launch->on(r)) return fmt::format("rank {} does not launch {}", r, launch_name(label));
    if (blocks(r) <= l.block) {
      return fmt::format(
          "rank {} launches {} blocks of {}, and rank {} launches {}: rank {} has no "
          "block {}",
          r, blocks(r), launch_name(label), l.rank, blocks(l.rank), r, l.block);
    }
  }
  return {};
}

std::string CaseProgram::region_name(machine::RegionId region) const {
  if (region < first_region_ || region - first_region_ >= regions_.size()) return "no memory";
  return regions_[region - first_region_].name;
}

namespace {

schedule::SlotName name_of(const PhaseWait& w) {
  if (w.what == PhaseWait::What::room) {
    return {
        fmt::format("a place for block {} on a multiprocessor", schedule::unpack(w.label).block),
        "a block that has one to end"};
  }
  if (w.what == PhaseWait::What::launch) {
    return {"griddepcontrol.wait", "the launch before to end"};
  }
  const ptx::AwaitedPhase& p = w.phase;
  std::string lacks = fmt::format("{} of {} arrivals", p.pending, p.expected);
  if (p.transactions > 0) {
    lacks += fmt::format(" and {} bytes that were announced", p.transactions);
  } else if (p.transactions < 0) {
    lacks += fmt::format(", and {} bytes came that were not announced", -p.transactions);
  }
  return {fmt::format("phase {} of the mbarrier at shared byte {} of block {}", p.phase, p.place,
                      schedule::unpack(w.label).block),
          lacks};
}

}  // namespace

std::string CaseProgram::slot_writer(machine::Address at, const machine::Wanted&) const {
  if (at.region < first_region_) return {};
  const auto region = static_cast<std::uint32_t>(at.region - first_region_);
  std::string text;
  const Memory* const memory = file_.find(memory_name(at.region));
  const bool local = memory != nullptr && memory->kind == MemoryKind::local;
  for (const Missing& m : signals_.missing(region, at.offset)) {
    // Nobody else reaches it.
    if (local && m.rank != regions_[region].spec.rank) continue;
    text += text.empty() ? "" : "; ";
    if (!m.known) {
      text += fmt::format("rank {}, which has signalled nothing there", m.rank);
      continue;
    }
    const std::string site = site_name(m.site);
    text += fmt::format("r{}.b{}, {}", m.rank, m.block, site.substr(0, site.find(": ")));
  }
  return text;
}

schedule::SlotName CaseProgram::barrier_name(std::uint64_t label) const {
  // A lane's label; its warp's is that of the first.
  schedule::AgentLabel warp = schedule::unpack(label);
  const std::uint16_t rank = warp.rank;
  if (shared_ == nullptr || rank >= file_.ranks) return {};
  warp.index -= warp.index % ptx::kLanes;
  label = schedule::pack(warp);
  for (const PhaseWait& w : shared_->fault[rank].phases) {
    if (w.used && w.label == label) return name_of(w);
  }
  return {};
}

schedule::SlotName CaseProgram::slot_name(machine::Address at) const {
  if (at.region < first_region_ || at.region - first_region_ >= regions_.size()) return {};
  const Region& r = regions_[at.region - first_region_];
  if (r.mbarriers_at == 0 || at.offset < r.mbarriers_at) return {};
  return {fmt::format("mbarrier at byte {} of the {}", at.offset - r.mbarriers_at, r.name), {}};
}

std::string CaseProgram::last_mismatch() const {
  if (!mismatch_.empty()) return mismatch_;
  for (std::uint32_t r = 0; shared_ != nullptr && r < file_.ranks; ++r) {
    if (shared_->fault[r].text[0] != '\0') return shared_->fault[r].text;
  }
  // Who waits for an mbarrier says something where nothing goes on.
  if (machine_ == nullptr || machine_->findings().empty()) return {};
  const machine::FindingKind kind = machine_->findings().front().kind;
  if (!schedule::waits_for_ever(kind) && kind != machine::FindingKind::barrier_divergence) {
    return {};
  }
  for (std::uint32_t r = 0; r < file_.ranks; ++r) {
    const std::uint32_t no_room = shared_->fault[r].no_room;
    if (no_room == 0) continue;
    const machine::Policy& policy = machine_->policy();
    const std::string& kernel = file_.launches[no_room - 1].kernel_of(r);
    const ptx::LaunchConfig config = config_of(no_room - 1, r);
    const ptx::Program& program = kernels_[launches_[no_room - 1].kernel[r]]->program;
    const std::uint64_t blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
    if (policy.progress == machine::Progress::letter) {
      return fmt::format(
          "rank {}: blocks of {} wait for others of its {}, and only a cluster that has begun is "
          "sure to make progress (progress=letter); a cooperative launch makes all of them",
          r, kernel, blocks);
    }
    const Residency fit = residency(program, config, policy.registers);
    return fmt::format(
        "rank {}: blocks of {} wait for others that are not resident: it has {}, and {} fit, {}", r,
        kernel, blocks, fit.blocks, fit.why);
  }
  for (std::uint32_t r = 0; r < file_.ranks; ++r) {
    for (const PhaseWait& w : shared_->fault[r].phases) {
      if (!w.used || w.what != PhaseWait::What::phase) continue;
      const schedule::SlotName name = name_of(w);
      return fmt::format("rank {}: {} lacks {}", r, name.text, name.writer);
    }
  }
  return {};
}

}  // namespace ringfence::cases
