#include "verify/safetensors.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "verify/file.hpp"

namespace ringfence::verify {

const Tensor* Safetensors::find(const std::string& name) const {
  for (const auto& entry : tensors) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

Safetensors read_safetensors(const std::string& path) {
  File file(path, O_RDONLY);
  const std::uint64_t size = file.size();
  char prefix[8] = {};
  file.read(prefix, std::min<std::uint64_t>(size, sizeof prefix));
  std::string json(safetensors_header_bytes(path, prefix, size), '\0');
  file.read(json.data(), json.size());
  SafetensorsHeader header = parse_safetensors_header(path, json.data(), json.size(), size);
  Safetensors contents;
  contents.metadata = std::move(header.metadata);
  for (TensorEntry& entry : header.tensors) {
    Tensor tensor(entry.dtype, std::move(entry.shape));
    file.read(tensor.bytes.data(), tensor.bytes.size());  // in order of the data, without a hole
    contents.add(std::move(entry.name), std::move(tensor));
  }
  return contents;
}

Safetensors read_safetensors(const std::string& file, const void* bytes, std::size_t count) {
  const auto* data = static_cast<const char*>(bytes);
  const std::size_t json_bytes = safetensors_header_bytes(file, data, count);
  SafetensorsHeader header = parse_safetensors_header(file, data + 8, json_bytes, count);
  Safetensors contents;
  contents.metadata = std::move(header.metadata);
  for (TensorEntry& entry : header.tensors) {
    Tensor tensor(entry.dtype, std::move(entry.shape));
    if (!tensor.bytes.empty()) {
      std::memcpy(tensor.bytes.data(), data + entry.begin, tensor.bytes.size());
    }
    contents.add(std::move(entry.name), std::move(tensor));
  }
  return contents;
}

}  // namespace ringfence::verify
