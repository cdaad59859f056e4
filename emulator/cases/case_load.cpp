// What is made of a case before it runs: memories in an address space, kernels with their sites,
// launches with their arguments.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/cases/case_program.hpp"
#include "emulator/cases/ptx_file.hpp"
#include "emulator/cases/residency.hpp"
#include "emulator/ptx/decode.hpp"

namespace ringfence::cases {
namespace {

constexpr std::size_t kMostSites = 65535;
// Bytes of a memory beyond which it costs what kernels touch of it.
constexpr std::uint64_t kMostDense = std::uint64_t{64} << 20;

bool is_site(ptx::Kind kind) {
  return kind == ptx::Kind::memory || kind == ptx::Kind::fence || kind == ptx::Kind::copy_async ||
         kind == ptx::Kind::mbarrier || kind == ptx::Kind::matrix_load ||
         kind == ptx::Kind::group_multiply || kind == ptx::Kind::barrier ||
         kind == ptx::Kind::launch_trigger || kind == ptx::Kind::active_mask ||
         kind == ptx::Kind::exit;
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

std::uint32_t CaseProgram::add_region(Region region) {
  regions_.push_back(std::move(region));
  return static_cast<std::uint32_t>(regions_.size() - 1);
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
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    const Memory& memory = file_.memories[m];
    memory_region_.emplace_back();
    memory_address_.emplace_back();
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      memory_region_[m].push_back(add_region(region_of(m, r)));
      memory_address_[m].push_back(place(m, r));
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

CaseProgram::Region CaseProgram::region_of(std::size_t m, std::uint32_t rank) const {
  const Memory& memory = file_.memories[m];
  const auto& restored = file_.check.restored;
  const bool pad = std::find(restored.begin(), restored.end(), memory.name) != restored.end();
  Region region;
  region.name = fmt::format("{} of rank {}", memory.name, rank);
  region.spec = {static_cast<std::uint16_t>(rank),
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
    const auto content = payload_.content(0, rank, m);
    for (const auto& [begin, end] : payload_.given(rank, m)) {
      region.initial.push_back({begin,
                                {content.begin() + static_cast<std::ptrdiff_t>(begin),
                                 content.begin() + static_cast<std::ptrdiff_t>(end)}});
    }
  }
  region.spec.sparse = memory.bytes > kMostDense && region.initial.empty();
  return region;
}

std::uint64_t CaseProgram::place(std::size_t m, std::uint32_t rank) {
  const Memory& memory = file_.memories[m];
  const std::uint32_t index = memory_region_[m][rank];
  Mapping mapping{regions_[index].name, 0, memory.bytes, false, {index}, rank};
  for (std::uint32_t of = 0; of < file_.reach.size() && !memory.everybody; ++of) {
    const auto& reached = file_.reach[of];
    if (of != rank && std::find(reached.begin(), reached.end(), rank) == reached.end()) {
      mapping.reach &= ~(std::uint64_t{1} << of);
    }
  }
  if (!memory.addresses.empty() && memory.addresses[rank] != 0) {
    mapping.address = memory.addresses[rank];
    if (const Mapping* const other = space_.overlap(mapping.address, memory.bytes)) {
      throw CaseError(
          fmt::format("{}:{}: [memory.{}]: the address {:#x} of rank {} is on pages "
                      "of {}",
                      file_.path, memory.line, memory.name, mapping.address, rank, other->name));
    }
    return space_.add_at(std::move(mapping));
  }
  if (memory.distance == 0) return space_.add(std::move(mapping));
  const std::uint64_t first =
      rank == 0 ? space_.reserve(memory.distance, file_.ranks) : memory_address_[m][0];
  mapping.address = first + rank * memory.distance;
  return space_.add_at(std::move(mapping));
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

}  // namespace ringfence::cases
