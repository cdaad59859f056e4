// A launch's arguments as the bytes of the kernel's parameters, on each rank; what memories hold at
// the start.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "emulator/cases/case_program.hpp"

namespace ringfence::cases {

std::uint64_t CaseProgram::address(const std::string& memory, std::uint32_t rank) const {
  return memory_address_[index_of(memory)][rank];
}

std::uint64_t CaseProgram::peers_table(const std::string& memory, std::uint32_t rank) {
  std::vector<std::uint64_t>& tables = peers_[memory];
  if (tables.empty()) {
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      Region region;
      region.name = fmt::format("table of peers of {} on rank {}", memory, r);
      region.spec = {static_cast<std::uint16_t>(r), machine::RegionKind::data, file_.ranks * 8ULL,
                     true};
      std::vector<std::byte> table;
      for (std::uint32_t peer = 0; peer < file_.ranks; ++peer) {
        const std::uint64_t at = address(memory, peer);
        for (unsigned b = 0; b < 8; ++b) table.push_back(std::byte(at >> (8 * b) & 0xff));
      }
      region.initial.push_back({0, std::move(table)});
      const std::string name = region.name;
      const std::uint32_t index = add_region(std::move(region));
      tables.push_back(space_.add({name, 0, file_.ranks * 8ULL, false, {index}}));
    }
  }
  return tables[rank];
}

Addresses CaseProgram::addresses() const {
  Addresses a;
  a.replica = [this](const std::string& memory, std::uint32_t rank) {
    return address(memory, rank);
  };
  a.multicast = [this](const std::string& memory) { return multicast_address_[index_of(memory)]; };
  a.peers = [this](const std::string& memory, std::uint32_t rank) {
    return peers_.at(memory)[rank];
  };
  return a;
}

void CaseProgram::fill_memories() {
  for (const Memory& memory : file_.memories) {
    each_argument(memory, [&](const Argument& a) {
      if (a.kind == Argument::Kind::peers) peers_table(a.name, 0);
    });
  }
  const Addresses where = addresses();
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    const Memory& memory = file_.memories[m];
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      std::vector<Piece>& initial = regions_[memory_region_[m][r]].initial;
      for (const Content& c : memory.initial.contents) {
        std::vector<std::uint8_t> bytes;
        try {
          encode(c, where, context(r, 0), memory.bytes - c.at, bytes);
        } catch (const std::invalid_argument& e) {
          throw CaseError(fmt::format("{}:{}: [memory.{}]: init on rank {}: {}", file_.path,
                                      memory.line, memory.name, r, e.what()));
        }
        const auto* const raw = reinterpret_cast<const std::byte*>(bytes.data());
        initial.push_back({c.at, {raw, raw + bytes.size()}});
      }
    }
  }
}

std::vector<std::uint8_t> CaseProgram::parameters_of(const Launch& launch,
                                                     const ptx::Program& program,
                                                     std::uint32_t rank, std::uint32_t call) const {
  const std::vector<ptx::Variable>& parameters = program.function->parameters;
  std::vector<std::uint8_t> block(program.parameter_bytes, 0);
  const Addresses where = addresses();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::uint64_t bytes =
        parameters[i].bytes != 0 ? parameters[i].bytes : size_of(parameters[i].type);
    std::vector<std::uint8_t> value;
    try {
      encode(launch.args[i], where, context(rank, call), bytes <= 8 ? bytes : 4, value);
    } catch (const std::invalid_argument& e) {
      throw CaseError(fmt::format("{}:{}: argument {} of kernel '{}' on rank {} in call {}: {}",
                                  file_.path, launch.line, i + 1, program.function->name, rank,
                                  call, e.what()));
    }
    if (value.size() != bytes) {
      throw CaseError(fmt::format("{}:{}: argument {} of kernel '{}' has {} bytes, args gives {}",
                                  file_.path, launch.line, i + 1, program.function->name, bytes,
                                  value.size()));
    }
    std::copy(value.begin(), value.end(),
              block.begin() + static_cast<std::ptrdiff_t>(program.parameter_offset[i]));
  }
  return block;
}

void CaseProgram::bind(const Launch& launch, Prepared& out) {
  bool by_call = false;
  for (const Argument& argument : launch.args) {
    each_argument(argument, [&](const Argument& a) {
      if (a.kind == Argument::Kind::peers) peers_table(a.name, 0);
      for (const Formula& f : a.numbers) by_call = by_call || f.uses_call();
    });
  }
  for (std::uint32_t r = 0; r < file_.ranks; ++r) {
    if (!launch.on(r)) continue;
    const ptx::Program& program = kernels_[out.kernel[r]]->program;
    const std::size_t takes = program.function->parameters.size();
    if (takes != launch.args.size()) {
      throw CaseError(fmt::format("{}:{}: kernel '{}' takes {} arguments, args has {}", file_.path,
                                  launch.line, program.function->name, takes, launch.args.size()));
    }
    for (std::uint32_t call = 0; call < (by_call ? calls_ : 1); ++call) {
      out.parameters[r].push_back(parameters_of(launch, program, r, call));
    }
  }
}

}  // namespace ringfence::cases
