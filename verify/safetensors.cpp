#include "verify/safetensors.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "verify/error.hpp"

namespace ringfence::verify {
namespace {

[[noreturn]] void fail_errno(const std::string& path, const char* what) {
  throw InputError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

class File {
 public:
  File(std::string path, int flags) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
    if (fd_ < 0)
      fail_errno(path_, (flags & O_CREAT) != 0 ? "cannot be created" : "cannot be opened");
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  std::uint64_t size() const {
    struct stat status;
    if (::fstat(fd_, &status) != 0) fail_errno(path_, "cannot be examined");
    if (!S_ISREG(status.st_mode)) throw InputError(fmt::format("{}: not a regular file", path_));
    return static_cast<std::uint64_t>(status.st_size);
  }

  void read(void* to, std::size_t count) {
    auto* at = static_cast<char*>(to);
    while (count > 0) {
      const ssize_t got = ::read(fd_, at, count);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno(path_, "cannot be read");
      if (got == 0) throw InputError(fmt::format("{}: became shorter while it was read", path_));
      at += got;
      count -= static_cast<std::size_t>(got);
    }
  }

  void write(const void* from, std::size_t count) {
    const auto* at = static_cast<const char*>(from);
    while (count > 0) {
      const ssize_t put = ::write(fd_, at, count);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail_errno(path_, "cannot be written");
      at += put;
      count -= static_cast<std::size_t>(put);
    }
  }

  // Some file systems report a full disk only here.
  void close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail_errno(path_, "cannot be written");
  }

 private:
  std::string path_;
  int fd_ = -1;
};

const char* safetensors_dtype(Dtype dtype) {
  return dtype == Dtype::bf16 ? "BF16" : dtype == Dtype::f16 ? "F16" : "F32";
}

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
    header[name] = {{"dtype", safetensors_dtype(tensor.dtype)},
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

// A name that no other writer, in this process or another, uses for the same file.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), count.fetch_add(1));
}

}  // namespace

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

void write_safetensors(const std::string& path, const Safetensors& contents) {
  const std::string text = header_text(path, contents);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) {
    length[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
  }
  const std::string temporary = temporary_name(path);
  File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
  try {
    file.write(length, sizeof length);
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
