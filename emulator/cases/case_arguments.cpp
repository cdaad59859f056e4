// A launch's arguments as the bytes of the kernel's parameters, on each rank.

#include <fmt/format.h>

#include <algorithm>

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
      for (std::uint32_t peer = 0; peer < file_.ranks; ++peer) {
        const std::uint64_t at = address(memory, peer);
        for (unsigned b = 0; b < 8; ++b) region.initial.push_back(std::byte(at >> (8 * b) & 0xff));
      }
      const std::string name = region.name;
      const std::uint32_t index = add_region(std::move(region));
      tables.push_back(space_.add({name, 0, file_.ranks * 8ULL, false, {index}}));
    }
  }
  return tables[rank];
}

void CaseProgram::encode(const Launch& launch, const Argument& a, std::uint32_t rank,
                         std::size_t word_bytes, std::vector<std::uint8_t>& out) const {
  const auto number = [&](std::uint64_t value, std::size_t bytes) {
    for (std::size_t b = 0; b < bytes; ++b) {
      out.push_back(b < 8 ? static_cast<std::uint8_t>(value >> (8 * b)) : 0);
    }
  };
  const std::uint64_t offset = a.offset + a.offset_per_rank * rank;
  switch (a.kind) {
    case Argument::Kind::memory:
      return number(address(a.name, (rank + a.peer) % file_.ranks) + offset, 8);
    case Argument::Kind::multicast:
      return number(multicast_address_[index_of(a.name)] + offset, 8);
    case Argument::Kind::peers:
      return number(peers_.at(a.name)[rank] + offset, 8);
    case Argument::Kind::rank:
      return number(rank, word_bytes);
    case Argument::Kind::world:
      return number(file_.ranks, word_bytes);
    case Argument::Kind::scalar:
      out.insert(out.end(), a.bytes.begin(), a.bytes.end());
      return;
    case Argument::Kind::replicas:
      for (std::uint32_t r = 0; r < a.count; ++r) {
        number(r < file_.ranks ? address(a.name, r) + offset : 0, 8);
      }
      return;
    case Argument::Kind::tensor_map: {
      ptx::TensorMap map = a.map;
      map.address = address(a.name, rank) + offset;
      const auto bytes = map.encode();
      out.insert(out.end(), bytes.begin(), bytes.end());
      return;
    }
    case Argument::Kind::structure:
      break;
  }
  // Fields lie as in C++: each at a multiple of its alignment, the whole a multiple of the largest.
  const auto alignment = [](const auto& self, const Argument& field) -> std::size_t {
    switch (field.kind) {
      case Argument::Kind::rank:
      case Argument::Kind::world:
        return 4;
      case Argument::Kind::scalar: {
        const std::size_t n = field.bytes.size();
        return n == 2 || n == 4 || n == 8 ? n : 1;
      }
      case Argument::Kind::structure: {
        std::size_t most = 1;
        for (const Argument& f : field.fields) most = std::max(most, self(self, f));
        return most;
      }
      case Argument::Kind::tensor_map:
        return 64;
      default:
        return 8;
    }
  };
  const auto pad = [&](std::size_t to) {
    while (out.size() % to != 0) out.push_back(0);
  };
  constexpr std::size_t kWord = 4;
  for (std::uint64_t i = 0; i < a.count; ++i) {
    for (const Argument& field : a.fields) {
      pad(alignment(alignment, field));
      encode(launch, field, rank, kWord, out);
    }
    pad(alignment(alignment, a));
  }
}

void CaseProgram::bind(const Launch& launch, Prepared& out) {
  const ptx::Program& program = kernels_[out.kernel]->program;
  const std::vector<ptx::Variable>& parameters = program.function->parameters;
  if (parameters.size() != launch.args.size()) {
    throw CaseError(fmt::format("{}:{}: kernel '{}' takes {} arguments, args has {}", file_.path,
                                launch.line, program.function->name, parameters.size(),
                                launch.args.size()));
  }
  const auto make_tables = [&](const auto& self, const Argument& a) -> void {
    for (const Argument& field : a.fields) self(self, field);
    if (a.kind == Argument::Kind::peers) peers_table(a.name, 0);
  };
  for (const Argument& a : launch.args) make_tables(make_tables, a);
  for (std::uint32_t r = 0; r < file_.ranks; ++r) {
    std::vector<std::uint8_t> block(program.parameter_bytes, 0);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::uint64_t bytes =
          parameters[i].bytes != 0 ? parameters[i].bytes : size_of(parameters[i].type);
      std::vector<std::uint8_t> value;
      encode(launch, launch.args[i], r, bytes <= 8 ? bytes : 4, value);
      if (value.size() != bytes) {
        throw CaseError(fmt::format("{}:{}: argument {} of kernel '{}' has {} bytes, args gives {}",
                                    file_.path, launch.line, i + 1, program.function->name, bytes,
                                    value.size()));
      }
      std::copy(value.begin(), value.end(),
                block.begin() + static_cast<std::ptrdiff_t>(program.parameter_offset[i]));
    }
    out.parameters.push_back(std::move(block));
  }
}

}  // namespace ringfence::cases
