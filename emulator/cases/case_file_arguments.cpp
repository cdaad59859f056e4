// A launch's `args`.

#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "emulator/cases/case_reader.hpp"

namespace ringfence::cases {
namespace {

template <class T>
void put(std::vector<std::uint8_t>& out, T value) {
  std::uint8_t raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.insert(out.end(), raw, raw + sizeof(T));
}

void integer_argument(const Reader& r, const toml::node& n, std::string_view type, Argument& out) {
  const auto* v = n.as_integer();
  const unsigned bits = static_cast<unsigned>(std::stoul(std::string(type.substr(1))));
  const bool is_signed = type[0] == 's';
  const std::int64_t least = !is_signed   ? 0
                             : bits == 64 ? std::numeric_limits<std::int64_t>::min()
                                          : -(std::int64_t{1} << (bits - 1));
  const std::int64_t most = bits == 64 ? std::numeric_limits<std::int64_t>::max()
                                       : (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  if (v == nullptr || v->get() < least || v->get() > most) {
    r.fail(n.source(), "argument {} must be a whole number from {} to {}", type, least, most);
  }
  const std::int64_t value = v->get();
  for (unsigned i = 0; i < bits / 8; ++i) {
    out.bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
}

// {tensor_map = {memory, dtype, dims, strides, box, swizzle}}: sizes in elements, innermost first.
void tensor_map_argument(const Reader& r, const toml::node& n, Argument& out) {
  constexpr std::string_view kWhere = "tensor_map";
  const toml::table& t = r.table(n, kWhere);
  r.only(t, kWhere,
         {"memory", "offset", "offset_per_rank", "dtype", "dims", "strides", "box", "swizzle"});
  out.kind = Argument::Kind::tensor_map;
  out.name = r.text(r.need(t, kWhere, "memory"), "memory");
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
  const toml::array& dims = r.array(r.need(t, kWhere, "dims"), "dims");
  const toml::array& box = r.array(r.need(t, kWhere, "box"), "box");
  if (dims.empty() || dims.size() > ptx::TensorMap::kMostDimensions || box.size() != dims.size()) {
    r.fail(dims.source(), "dims has 1 to 5 numbers, innermost first, and box as many");
  }
  map.dimensions = static_cast<std::uint8_t>(dims.size());
  const toml::array* strides = nullptr;
  if (const auto* s = t.get("strides")) {
    strides = &r.array(*s, "strides");
    if (strides->size() + 1 != dims.size()) {
      r.fail(s->source(), "strides has a number of bytes for each dimension but the innermost");
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

Argument read_argument(const Reader& r, const toml::node& n, unsigned depth) {
  Argument out;
  if (n.is_string()) {
    const std::string word = r.text(n, "argument");
    if (word == "rank") {
      out.kind = Argument::Kind::rank;
    } else if (word == "world") {
      out.kind = Argument::Kind::world;
    } else {
      r.fail(n.source(), "argument '{}'; as a word an argument is 'rank' or 'world'", word);
    }
    return out;
  }
  const toml::table& t = r.table(n, "an argument");
  const auto address = [&](const char* key, Argument::Kind kind) {
    if (kind == Argument::Kind::memory) {
      r.only(t, "an argument", {key, "peer", "offset", "offset_per_rank"});
    } else if (kind != Argument::Kind::replicas) {
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
    if (const auto* o = t.get("peer")) {
      out.peer = static_cast<std::uint32_t>(r.number(*o, "peer", 1, kMaxRanks - 1));
    }
    return address("memory", Argument::Kind::memory);
  }
  if (t.contains("multicast")) return address("multicast", Argument::Kind::multicast);
  if (t.contains("peers")) return address("peers", Argument::Kind::peers);
  if (t.contains("tensor_map")) {
    r.only(t, "an argument", {"tensor_map"});
    tensor_map_argument(r, *t.get("tensor_map"), out);
    return out;
  }
  if (t.contains("replicas")) {
    r.only(t, "an argument", {"replicas", "count", "offset", "offset_per_rank"});
    address("replicas", Argument::Kind::replicas);
    out.count = r.number(r.need(t, "replicas", "count"), "count", 1, 1024);
    return out;
  }
  if (t.contains("struct")) {
    r.only(t, "an argument", {"struct", "count"});
    if (depth == kMostNested) r.fail(n.source(), "structs nest at most {} deep", kMostNested);
    out.kind = Argument::Kind::structure;
    if (const auto* c = t.get("count")) out.count = r.number(*c, "count", 1, 1024);
    for (const toml::node& field : r.array(*t.get("struct"), "struct")) {
      out.fields.push_back(read_argument(r, field, depth + 1));
    }
    if (out.fields.empty()) r.fail(n.source(), "a struct has at least one field");
    return out;
  }
  if (t.size() != 1) {
    r.fail(n.source(),
           "an argument has one key: memory, multicast, peers, replicas, struct, tensor_map, u8 "
           "to u64, s8 to s64, f32, f64 or bytes");
  }
  // The iterator owns what it refers to.
  const auto only = t.begin();
  const toml::key& key = only->first;
  const toml::node& value = only->second;
  const std::string type(key.str());
  const std::set<std::string> integers{"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"};
  if (integers.count(type) != 0) {
    integer_argument(r, value, type, out);
  } else if (type == "f32") {
    put(out.bytes, static_cast<float>(r.real(value, "argument f32")));
  } else if (type == "f64") {
    put(out.bytes, r.real(value, "argument f64"));
  } else if (type == "bytes") {
    for (const toml::node& b : r.array(value, "bytes")) {
      out.bytes.push_back(static_cast<std::uint8_t>(r.number(b, "a byte", 0, 255)));
    }
    if (out.bytes.empty()) r.fail(value.source(), "bytes is empty");
  } else {
    r.fail(key.source(),
           "unknown kind of argument '{}'; known: memory, multicast, peers, replicas, struct, "
           "tensor_map, "
           "u8 to u64, s8 to s64, f32, f64, bytes",
           type);
  }
  return out;
}

}  // namespace ringfence::cases
