// safetensors files: 8 bytes little-endian header length N, N bytes of JSON, the tensors' bytes.
//
// Everything is checked on reading, and each error is one line with the file, the byte offset or
// the key, and what would be right: N against the file's size and kMaxHeaderBytes; JSON syntax,
// duplicate keys, unknown fields; a dtype that dtype.hpp has; extents that are non-negative
// integers whose product does not overflow; data_offsets that agree with dtype and shape, and that
// tile the data exactly: no overlap, no hole, no byte after the last tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "verify/tensor.hpp"

namespace ringfence::verify {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

using Metadata = std::map<std::string, std::string>;

// What the header says of one tensor. Offsets count from the start of the file.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::bf16;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in order of their data
  Metadata metadata;                 // __metadata__
  std::uint64_t data_begin = 0;      // 8 + N
};

// The first step: how long the header is, checked against the file's size. `prefix` holds the first
// min(8, file_bytes) bytes of the file.
std::uint64_t safetensors_header_bytes(const std::string& file, const void* prefix,
                                       std::uint64_t file_bytes);

// The second: the header's JSON, checked against the file's size. `file` only names it in errors.
SafetensorsHeader parse_safetensors_header(const std::string& file, const char* json,
                                           std::size_t json_bytes, std::uint64_t file_bytes);

struct Safetensors {
  std::vector<std::pair<std::string, Tensor>> tensors;  // in order of their data
  Metadata metadata;

  const Tensor* find(const std::string& name) const;  // null where there is none
  void add(std::string name, Tensor tensor) {
    tensors.emplace_back(std::move(name), std::move(tensor));
  }
};

// Reads a file; each tensor's bytes go from the file straight into the tensor. Throws InputError.
Safetensors read_safetensors(const std::string& path);

// The same from memory, for files that are already there.
Safetensors read_safetensors(const std::string& file, const void* bytes, std::size_t count);

// What write_safetensors writes; `file` only names it in errors.
std::string safetensors_bytes(const std::string& file, const Safetensors& contents);

// Writes a file as a whole or not at all: to a temporary file beside it, which is renamed. Throws
// InputError where it cannot be written, where two tensors share a name, or a tensor's bytes do not
// fit its shape; nothing is left behind then, and an older file of that name stays as it was.
void write_safetensors(const std::string& path, const Safetensors& contents);

}  // namespace ringfence::verify
