// A launch's `args`.

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "emulator/cases/case_reader.hpp"
#include "emulator/cases/encode.hpp"

namespace ringfence::cases {
namespace {

template <class T>
std::vector<std::uint8_t> bytes_of(T value) {
  std::vector<std::uint8_t> out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// One entry for each rank.
const toml::array& by_rank(const Reader& r, const toml::node& n, std::string_view type,
                           std::uint32_t ranks) {
  const toml::array& list = r.array(n, type);
  if (list.size() != ranks) {
    r.fail(n.source(), "argument {} has {} entries for {} ranks; give one for all or one for each",
           type, list.size(), ranks);
  }
  return list;
}

void integer_argument(const Reader& r, const toml::node& n, std::string_view type,
                      std::uint32_t ranks, Argument& out) {
  out.type = type;
  if (n.is_array()) {
    for (const toml::node& one : by_rank(r, n, type, ranks)) {
      out.numbers.push_back(read_formula(r, one, type));
    }
  } else if (n.is_string()) {
    out.numbers.push_back(read_formula(r, n, type));
  } else {
    static_cast<void>(read_formula(r, n, type));
    static_cast<void>(put_integer(type, n.as_integer()->get(), out.bytes));
    return;
  }
  for (const Formula& f : out.numbers) {
    if (f.uses_index()) r.fail(n.source(), "argument {}: 'index' is of a memory's elements", type);
  }
  static_cast<void>(put_integer(type, 0, out.bytes));
}

void real_argument(const Reader& r, const toml::node& n, std::string_view type, std::uint32_t ranks,
                   Argument& out) {
  const auto one = [&](const toml::node& value) {
    const double x = r.real(value, fmt::format("argument {}", type));
    return type == "f32" ? bytes_of(static_cast<float>(x)) : bytes_of(x);
  };
  if (!n.is_array()) {
    out.bytes = one(n);
    return;
  }
  for (const toml::node& value : by_rank(r, n, type, ranks)) out.by_rank.push_back(one(value));
  out.bytes = out.by_rank[0];
}

// Whose replica: `peer` ranks on, or that of `rank`.
void read_owner(const Reader& r, const toml::table& t, std::uint32_t ranks, Argument& out) {
  if (const auto* o = t.get("peer")) {
    out.peer = static_cast<std::uint32_t>(r.number(*o, "peer", 1, kMaxRanks - 1));
  }
  if (const auto* o = t.get("rank")) {
    if (out.peer != 0) r.fail(o->source(), "an address: expected peer or rank, not both");
    out.of_rank = static_cast<std::uint32_t>(r.number(*o, "rank", 0, ranks - 1));
  }
}

// {tensor_map = {memory, dtype, dims, strides, box, swizzle}}: sizes in elements, innermost first.
void tensor_map_argument(const Reader& r, const toml::node& n, std::uint32_t ranks, Argument& out) {
  constexpr std::string_view kWhere = "tensor_map";
  const toml::table& t = r.table(n, kWhere);
  r.only(t, kWhere,
         {"memory", "multicast", "peer", "rank", "offset", "offset_per_rank", "dtype", "dims",
          "strides", "box", "swizzle"});
  out.kind = Argument::Kind::tensor_map;
  out.by_multicast = t.contains("multicast");
  if (out.by_multicast && (t.contains("memory") || t.contains("peer") || t.contains("rank"))) {
    r.fail(
        n.source(),
        "a tensor map: expected memory (with peer or rank, if not the own replica) or multicast");
  }
  const char* const key = out.by_multicast ? "multicast" : "memory";
  out.name = r.text(r.need(t, kWhere, key), key);
  read_owner(r, t, ranks, out);
  if (const auto* o = t.get("offset")) out.offset = r.number(*o, "offset", 0, kMaxMemory);
  if (const auto* o = t.get("offset_per_rank")) {
    out.offset_per_rank = r.number(*o, "offset_per_rank", 0, kMaxMemory);
  }
  const std::map<std::string, unsigned> sizes{{"u8", 1},  {"u16", 2}, {"u32", 4}, {"s32", 4},
                                              {"u64", 8}, {"s64", 8}, {"f16", 2}, {"bf16", 2},
                                              {"f32", 4}, {"f64", 8}};
  const std::string dtype = r.text(r.need(t, kWhere, "dtype"), "dtype");
  if (sizes.count(dtype) == 0) {
    r.fail(t.get("dtype")->source(),
           "tensor_map dtype '{}'; known: u8, u16, u32, s32, u64, s64, f16, bf16, f32, f64", dtype);
  }
  ptx::TensorMap& map = out.map;
  map.element_bytes = static_cast<std::uint8_t>(sizes.at(dtype));
  map.type = ptx::type_of(dtype).value_or(ptx::Type::none);
  const toml::array& dims = r.array(r.need(t, kWhere, "dims"), "dims");
  const toml::array& box = r.array(r.need(t, kWhere, "box"), "box");
  if (dims.empty() || dims.size() > ptx::TensorMap::kMostDimensions || box.size() != dims.size()) {
    r.fail(dims.source(), "dims: expected 1 to 5 numbers, innermost first, and as many in box");
  }
  map.dimensions = static_cast<std::uint8_t>(dims.size());
  const toml::array* strides = nullptr;
  if (const auto* s = t.get("strides")) {
    strides = &r.array(*s, "strides");
    if (strides->size() + 1 != dims.size()) {
      r.fail(s->source(),
             "strides: expected a number of bytes for each dimension except the innermost");
    }
  }
  std::uint64_t dense = map.element_bytes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    map.size[i] = r.number(dims[i], "dims", 1, std::uint64_t{1} << 32);
    map.box[i] = static_cast<std::uint32_t>(r.number(box[i], "box", 1, 256));
    map.stride[i] = dense;
    if (i > 0 && strides != nullptr) {
      map.stride[i] = r.number((*strides)[i - 1], "strides", 16, kMaxMemory);
    }
    if (map.size[i] > kMaxMemory / map.stride[i]) {
      r.fail(dims.source(), "a tensor map spans at most {} bytes", kMaxMemory);
    }
    dense = map.stride[i] * map.size[i];
  }
  if (const auto* s = t.get("swizzle")) {
    const std::string word = r.text(*s, "swizzle");
    const std::map<std::string, ptx::Swizzle> known{{"none", ptx::Swizzle::none},
                                                    {"32B", ptx::Swizzle::bytes32},
                                                    {"64B", ptx::Swizzle::bytes64},
                                                    {"128B", ptx::Swizzle::bytes128}};
    if (known.count(word) == 0) {
      r.fail(s->source(), "swizzle '{}'; known: none, 32B, 64B, 128B", word);
    }
    map.swizzle = known.at(word);
  }
  if (const std::string wanted = map.fault(); !wanted.empty()) {
    r.fail(n.source(), "a tensor map needs {}", wanted);
  }
}

constexpr unsigned kMostNested = 8;

}  // namespace

Formula read_formula(const Reader& r, const toml::node& n, std::string_view type) {
  if (n.is_string()) {
    const std::string text = r.text(n, type);
    try {
      return Formula::parse(text);
    } catch (const std::invalid_argument& e) {
      r.fail(n.source(), "{}", e.what());
    }
  }
  const auto* v = n.as_integer();
  const Range range = range_of(type);
  if (v == nullptr || v->get() < range.least || v->get() > range.most) {
    r.fail(n.source(), "argument {} must be a whole number from {} to {}", type, range.least,
           range.most);
  }
  return Formula(v->get());
}

namespace {

void word_argument(const Reader& r, const toml::node& n, Argument& out) {
  const std::string word = r.text(n, "argument");
  if (word == "rank") {
    out.kind = Argument::Kind::rank;
  } else if (word == "world") {
    out.kind = Argument::Kind::world;
  } else {
    r.fail(n.source(), "argument '{}': expected 'rank' or 'world'", word);
  }
}

void bytes_argument(const Reader& r, const toml::node& value, std::uint32_t ranks, Argument& out) {
  const auto one = [&](const toml::node& list) {
    std::vector<std::uint8_t> bytes;
    for (const toml::node& b : r.array(list, "bytes")) {
      bytes.push_back(static_cast<std::uint8_t>(r.number(b, "a byte", 0, 255)));
    }
    if (bytes.empty()) r.fail(list.source(), "bytes is empty");
    return bytes;
  };
  const toml::array& list = r.array(value, "bytes");
  if (!list.empty() && list[0].is_array()) {
    for (const toml::node& n : by_rank(r, value, "bytes", ranks)) out.by_rank.push_back(one(n));
    out.bytes = out.by_rank[0];
  } else {
    out.bytes = one(value);
  }
}

// {u32 = 8}, {f32 = 1e-6}, {bytes = [1, 2]}
void value_argument(const Reader& r, const toml::table& t, std::uint32_t ranks, Argument& out) {
  // The iterator owns what it refers to.
  const auto only = t.begin();
  const toml::key& key = only->first;
  const toml::node& value = only->second;
  const std::string type(key.str());
  const std::set<std::string> integers{"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"};
  if (integers.count(type) != 0) {
    integer_argument(r, value, type, ranks, out);
  } else if (type == "f32" || type == "f64") {
    real_argument(r, value, type, ranks, out);
  } else if (type == "bytes") {
    bytes_argument(r, value, ranks, out);
  } else {
    r.fail(key.source(),
           "unknown kind of argument '{}'; known: memory, multicast, peers, replicas, distances, "
           "struct, tensor_map, "
           "u8 to u64, s8 to s64, f32, f64, bytes",
           type);
  }
}

}  // namespace

Argument read_argument(const Reader& r, const toml::node& n, std::uint32_t ranks, unsigned depth) {
  Argument out;
  if (n.is_string()) {
    word_argument(r, n, out);
    return out;
  }
  const toml::table& t = r.table(n, "an argument");
  const auto address = [&](const char* key, Argument::Kind kind) {
    if (kind == Argument::Kind::memory) {
      r.only(t, "an argument", {key, "peer", "rank", "offset", "offset_per_rank"});
    } else if (kind != Argument::Kind::replicas && kind != Argument::Kind::distances) {
      r.only(t, "an argument", {key, "offset", "offset_per_rank"});
    }
    out.kind = kind;
    out.name = r.text(*t.get(key), key);
    if (const auto* o = t.get("offset")) out.offset = r.number(*o, "offset", 0, kMaxMemory);
    if (const auto* o = t.get("offset_per_rank")) {
      out.offset_per_rank = r.number(*o, "offset_per_rank", 0, kMaxMemory);
    }
    return out;
  };
  if (t.contains("memory")) {
    read_owner(r, t, ranks, out);
    return address("memory", Argument::Kind::memory);
  }
  if (t.contains("multicast")) return address("multicast", Argument::Kind::multicast);
  if (t.contains("peers")) return address("peers", Argument::Kind::peers);
  if (t.contains("tensor_map")) {
    r.only(t, "an argument", {"tensor_map"});
    tensor_map_argument(r, *t.get("tensor_map"), ranks, out);
    return out;
  }
  for (const char* key : {"replicas", "distances"}) {
    if (!t.contains(key)) continue;
    r.only(t, "an argument", {key, "count", "offset", "offset_per_rank"});
    address(key, *key == 'r' ? Argument::Kind::replicas : Argument::Kind::distances);
    out.count = r.number(r.need(t, key, "count"), "count", 1, 1024);
    return out;
  }
  if (t.contains("struct")) {
    r.only(t, "an argument", {"struct", "count"});
    if (depth == kMostNested)
      r.fail(n.source(), "structs are nested too deeply: at most {} levels", kMostNested);
    out.kind = Argument::Kind::structure;
    if (const auto* c = t.get("count")) out.count = r.number(*c, "count", 1, 1024);
    for (const toml::node& field : r.array(*t.get("struct"), "struct")) {
      out.fields.push_back(read_argument(r, field, ranks, depth + 1));
    }
    if (out.fields.empty()) r.fail(n.source(), "a struct has at least one field");
    return out;
  }
  if (t.size() != 1) {
    r.fail(n.source(),
           "an argument: expected one key of memory, multicast, peers, replicas, distances, "
           "struct, tensor_map, u8 to u64, s8 to s64, f32, f64 and bytes");
  }
  value_argument(r, t, ranks, out);
  return out;
}

}  // namespace ringfence::cases
