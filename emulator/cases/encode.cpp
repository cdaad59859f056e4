#include "emulator/cases/encode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "verify/dtype.hpp"

namespace ringfence::cases {

Range range_of(std::string_view type) {
  const auto bits = static_cast<unsigned>(std::stoul(std::string(type.substr(1))));
  const bool is_signed = type[0] == 's';
  Range out;
  out.least = !is_signed   ? 0
              : bits == 64 ? std::numeric_limits<std::int64_t>::min()
                           : -(std::int64_t{1} << (bits - 1));
  out.most = bits == 64 ? std::numeric_limits<std::int64_t>::max()
                        : (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  return out;
}

bool put_integer(std::string_view type, std::int64_t value, std::vector<std::uint8_t>& out) {
  const Range range = range_of(type);
  if (value < range.least || value > range.most) return false;
  const auto bytes = std::stoul(std::string(type.substr(1))) / 8;
  for (unsigned i = 0; i < bytes; ++i) {
    out.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  return true;
}
namespace {

void put_number(std::uint64_t value, std::size_t bytes, std::vector<std::uint8_t>& out) {
  for (std::size_t b = 0; b < bytes; ++b) {
    out.push_back(b < 8 ? static_cast<std::uint8_t>(value >> (8 * b)) : 0);
  }
}

void put_formula(std::string_view type, const Formula& formula, const FormulaContext& context,
                 std::vector<std::uint8_t>& out) {
  const std::int64_t value = formula.of(context);
  if (!put_integer(type, value, out)) {
    throw std::invalid_argument(fmt::format("{} is no {}", value, type));
  }
}

// Of a field in C++.
std::size_t alignment(const Argument& field) {
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
      for (const Argument& f : field.fields) most = std::max(most, alignment(f));
      return most;
    }
    case Argument::Kind::tensor_map:
      return 64;
    default:
      return 8;
  }
}

}  // namespace

void encode(const Argument& a, const Addresses& addresses, const FormulaContext& context,
            std::size_t word_bytes, std::vector<std::uint8_t>& out) {
  const auto rank = static_cast<std::uint32_t>(context.rank);
  const auto ranks = static_cast<std::uint32_t>(context.world);
  const std::uint64_t offset = a.offset + a.offset_per_rank * rank;
  const std::uint32_t owner = a.of_rank ? *a.of_rank : (rank + a.peer) % ranks;
  const auto start = [&] {
    return (a.by_multicast ? addresses.multicast(a.name) : addresses.replica(a.name, owner)) +
           offset;
  };
  switch (a.kind) {
    case Argument::Kind::memory:
      return put_number(start(), 8, out);
    case Argument::Kind::multicast:
      return put_number(addresses.multicast(a.name) + offset, 8, out);
    case Argument::Kind::peers:
      return put_number(addresses.peers(a.name, rank) + offset, 8, out);
    case Argument::Kind::rank:
      return put_number(rank, word_bytes, out);
    case Argument::Kind::world:
      return put_number(ranks, word_bytes, out);
    case Argument::Kind::scalar: {
      if (!a.numbers.empty()) {
        return put_formula(a.type, a.numbers[a.numbers.size() == 1 ? 0 : rank], context, out);
      }
      const auto& bytes = a.by_rank.empty() ? a.bytes : a.by_rank[rank];
      out.insert(out.end(), bytes.begin(), bytes.end());
      return;
    }
    case Argument::Kind::replicas:
    case Argument::Kind::distances:
      for (std::uint32_t r = 0; r < a.count; ++r) {
        std::uint64_t value = 0;
        if (r < ranks) {
          value = addresses.replica(a.name, r) + offset;
          if (a.kind == Argument::Kind::distances) value -= addresses.replica(a.name, rank);
        }
        put_number(value, 8, out);
      }
      return;
    case Argument::Kind::tensor_map: {
      ptx::TensorMap map = a.map;
      map.address = start();
      const auto bytes = map.encode();
      out.insert(out.end(), bytes.begin(), bytes.end());
      return;
    }
    case Argument::Kind::structure:
      break;
  }
  // Fields lie as in C++: each at a multiple of its alignment, the whole a multiple of the largest.
  const std::size_t begin = out.size();
  const auto pad = [&](std::size_t to) {
    while ((out.size() - begin) % to != 0) out.push_back(0);
  };
  constexpr std::size_t kWord = 4;
  for (std::uint64_t i = 0; i < a.count; ++i) {
    for (const Argument& field : a.fields) {
      pad(alignment(field));
      encode(field, addresses, context, kWord, out);
    }
    pad(alignment(a));
  }
}

std::uint64_t content_bytes(const Content& c) {
  if (!c.value) {
    const std::size_t elements = std::max(c.numbers.size(), c.reals.size());
    return elements * verify::dtype_bytes(verify::parse_dtype(c.dtype));
  }
  Addresses nowhere;
  nowhere.replica = nowhere.peers = [](const std::string&, std::uint32_t) { return 0; };
  nowhere.multicast = [](const std::string&) { return 0; };
  // Formulas have as many bytes whatever they say.
  Argument value = *c.value;
  const auto settle = [](const auto& self, Argument& a) -> void {
    a.numbers.clear();
    for (Argument& f : a.fields) self(self, f);
  };
  settle(settle, value);
  std::vector<std::uint8_t> bytes;
  encode(value, nowhere, {}, 4, bytes);
  return bytes.size();
}

void encode(const Content& c, const Addresses& addresses, FormulaContext context,
            std::uint64_t room, std::vector<std::uint8_t>& out) {
  if (c.value) return encode(*c.value, addresses, context, 4, out);
  const verify::Dtype dtype = verify::parse_dtype(c.dtype);
  const std::size_t size = verify::dtype_bytes(dtype);
  const std::size_t given = std::max(c.numbers.size(), c.reals.size());
  const std::uint64_t elements = c.repeats ? room / size : given;
  out.reserve(elements * size);
  for (std::uint64_t i = 0; i < elements; ++i) {
    const std::size_t which = c.repeats ? 0 : i;
    if (!c.numbers.empty()) {
      context.index = static_cast<std::int64_t>(i);
      put_formula(c.dtype, c.numbers[which], context, out);
      continue;
    }
    std::byte pattern[8];
    verify::store_pattern(dtype, verify::encode(dtype, c.reals[which]), pattern);
    for (std::size_t b = 0; b < size; ++b) out.push_back(static_cast<std::uint8_t>(pattern[b]));
  }
}

}  // namespace ringfence::cases
