// A case's sites, launches, memories and waits in words, for findings.
#include <fmt/format.h>

#include "emulator/cases/case_program.hpp"
#include "emulator/cases/ptx_file.hpp"
#include "emulator/cases/residency.hpp"
#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/schedule/failure.hpp"

namespace ringfence::cases {

using schedule::Role;

std::string CaseProgram::memory_name(machine::RegionId region) const {
  for (std::size_t m = 0; m < memory_region_.size(); ++m) {
    for (const std::uint32_t of_rank : memory_region_[m]) {
      if (first_region_ + of_rank == region) return file_.memories[m].name;
    }
  }
  return {};
}

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
