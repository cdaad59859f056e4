#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "verify/error.hpp"
#include "verify/file.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

std::string header_text(const std::string& path, const Safetensors& contents) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!contents.metadata.empty()) header["__metadata__"] = contents.metadata;
  std::set<std::string> names = {"__metadata__"};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    if (!names.insert(name).second) {
      throw InputError(
          fmt::format("{}: two tensors are named '{}': names must differ", path, name));
    }
    const std::size_t bytes = element_count(tensor.shape) * dtype_bytes(tensor.dtype);
    if (bytes != tensor.bytes.size()) {
      throw InputError(fmt::format("{}: tensor '{}' has {} bytes: {} {} takes {}", path, name,
                                   tensor.bytes.size(), dtype_name(tensor.dtype),
                                   shape_text(tensor.shape), bytes));
    }
    header[name] = {{"dtype", safetensors_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    throw InputError(fmt::format("{}: a name or metadata value is not UTF-8", path));
  }
  // Spaces are legal here, and keep the data aligned for readers that map the file.
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw InputError(fmt::format("{}: the header would take {} bytes: at most {} are legal", path,
                                 text.size(), kMaxHeaderBytes));
  }
  return text;
}

std::string length_and_header(const std::string& path, const Safetensors& contents) {
  const std::string text = header_text(path, contents);
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
  }
  return out + text;
}

// A name that no other writer, in this process or another, uses for the same file.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), count.fetch_add(1));
}

}  // namespace

std::string safetensors_bytes(const std::string& file, const Safetensors& contents) {
  std::string bytes = length_and_header(file, contents);
  for (const auto& entry : contents.tensors) {
    bytes.append(reinterpret_cast<const char*>(entry.second.bytes.data()),
                 entry.second.bytes.size());
  }
  return bytes;
}

void write_safetensors(const std::string& path, const Safetensors& contents) {
  const std::string text = length_and_header(path, contents);
  const std::string temporary = temporary_name(path);
  File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
  try {
    file.write(text.data(), text.size());
    for (const auto& entry : contents.tensors) {
      file.write(entry.second.bytes.data(), entry.second.bytes.size());
    }
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_errno(path, "cannot be replaced");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace ringfence::verify
