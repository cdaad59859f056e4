// Accesses that a kernel may not make: which memory they were meant for, and by how much they miss
// it.

#include <fmt/format.h>

#include <algorithm>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/ptx/origin.hpp"

namespace ringfence::cases {
namespace {

std::uint64_t distance(const Mapping& m, std::uint64_t address) {
  if (address < m.address) return m.address - address;
  return address - m.address < m.bytes ? 0 : address - m.address - m.bytes;
}

}  // namespace

const Mapping* Space::nearest(std::uint64_t address) const {
  const auto m =
      std::min_element(mappings_.begin(), mappings_.end(), [&](const Mapping& a, const Mapping& b) {
        return distance(a, address) < distance(b, address);
      });
  // Further away than any index is likely to reach, it says nothing.
  constexpr std::uint64_t kFar = 1ULL << 32;
  return m == mappings_.end() || distance(*m, address) > kFar ? nullptr : &*m;
}

void KernelRun::refuse(Warp& warp, machine::Address at, ptx::FaultKind kind,
                       const std::string& reason, std::uint32_t lane) {
  warp.fault_at = at;
  warp.refused = true;
  throw ptx::Fault(kind, reason, lane);
}

void KernelRun::refuse_peer(Warp& warp, const Mapping& mapping, machine::Address at,
                            std::uint32_t lane) const {
  refuse(warp, at, ptx::FaultKind::out_of_bounds,
         fmt::format("rank {} cannot access '{}': peer access is not enabled",
                     execution_.config().rank, mapping.name),
         lane);
}

// The memory whose address the kernel computed with, if there is one; else the one nearby.
void KernelRun::refuse_outside(Warp& warp, std::uint64_t address, std::uint64_t bytes,
                               std::uint32_t instruction, unsigned operand, std::uint32_t lane) {
  const ptx::Origin origin =
      ptx::origin_of(kernel_.program, execution_.config(), instruction, operand);
  std::vector<const Mapping*> meant;
  for (const std::uint64_t from : origin.addresses) {
    const Mapping* const m = space_.find(from);
    if (m != nullptr && std::find(meant.begin(), meant.end(), m) == meant.end()) {
      meant.push_back(m);
    }
  }
  const bool known = meant.size() == 1 && !origin.loaded;
  const Mapping* m = known ? meant.front() : space_.find(address);
  const char* how = "";
  if (m == nullptr) {
    m = space_.nearest(address);
    how = ", the nearest memory";
  }
  constexpr auto kKind = ptx::FaultKind::out_of_bounds;
  constexpr std::uint64_t kWrapped = std::uint64_t{1} << 30;
  if (m == nullptr) {
    refuse(warp, {~0U, address}, kKind,
           fmt::format("{} bytes at 0x{:x}, where there is no memory", bytes, address), lane);
  }
  if (address < m->address) {
    refuse(warp, {~0U, address}, kKind,
           fmt::format("{} bytes begin {} before '{}', which has {}{}{}", bytes,
                       m->address - address, m->name, m->bytes, how,
                       m->address - address >= kWrapped
                           ? "; an offset of 32 bits that overflowed is likely"
                           : ""),
           lane);
  }
  const std::uint64_t offset = address - m->address;
  const auto grid = execution_.config().grid;
  refuse(
      warp, {settings_.first_region + m->regions[0], offset}, kKind,
      fmt::format("{} bytes at byte {} of '{}' end {} beyond its {} bytes{}; it is too small for "
                  "this launch ({} blocks of {} threads and its arguments), or an index is wrong",
                  bytes, offset, m->name, offset + bytes - m->bytes, m->bytes, how,
                  std::uint64_t{grid[0]} * grid[1] * grid[2], threads_a_block_),
      lane);
}

// What the case may have left out: memory whose size is given with the launch.
std::string KernelRun::shared_advice(const ptx::SharedBytes& at) const {
  const ptx::Program& program = kernel_.program;
  const auto sized_at_launch = [](const ptx::Variable& v) {
    return v.unsized && v.space == ptx::Space::shared;
  };
  const auto any = [&](const std::vector<ptx::Variable>& variables) {
    return std::any_of(variables.begin(), variables.end(), sized_at_launch);
  };
  if (!any(program.module->variables) && !any(program.function->variables)) return {};
  return fmt::format("; the case has shared_bytes = {}, expected at least {}",
                     execution_.config().dynamic_shared,
                     at.offset + at.bytes - program.static_shared);
}

}  // namespace ringfence::cases
