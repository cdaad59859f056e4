// libFuzzer target of the safetensors reader: any bytes are either refused with a one-line error or
// become tensors that cover the file's data exactly; and a file of these bytes is read like them.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "verify/error.hpp"
#include "verify/safetensors.hpp"

using namespace ringfence::verify;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_accepted(const Safetensors& file, const std::uint8_t* data, std::size_t size) {
  std::uint64_t header = 0;
  std::memcpy(&header, data, sizeof header);
  const std::uint8_t* at = data + 8 + header;
  for (const auto& [name, tensor] : file.tensors) {
    require(file.find(name) == &tensor);
    require(tensor.bytes.size() == element_count(tensor.shape) * dtype_bytes(tensor.dtype));
    require(tensor.bytes.size() <= static_cast<std::size_t>(data + size - at));
    if (!tensor.bytes.empty())
      require(std::memcmp(tensor.bytes.data(), at, tensor.bytes.size()) == 0);
    at += tensor.bytes.size();
  }
  require(at == data + size);
}

// What came of reading: an error without the file's name, or nothing and the tensors.
struct Result {
  std::string error;
  Safetensors file;
};

template <typename Read>
Result result_of(const std::string& name, Read read) {
  try {
    return {"", read()};
  } catch (const InputError& error) {
    const std::string message = error.what();
    require(message.find('\n') == std::string::npos);
    require(message.rfind(name + ": ", 0) == 0);
    return {message.substr(name.size()), {}};
  }
}

// A file in memory that holds each input in turn.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("input", MFD_CLOEXEC)) { require(fd_ >= 0); }
  std::string hold(const std::uint8_t* data, std::size_t size) {
    require(::ftruncate(fd_, 0) == 0);
    require(::pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size));
    return "/proc/self/fd/" + std::to_string(fd_);
  }

 private:
  int fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  const Result result = result_of("input", [&] { return read_safetensors("input", data, size); });
  if (result.error.empty()) check_accepted(result.file, data, size);

  const std::string path = file.hold(data, size);
  const Result again = result_of(path, [&] { return read_safetensors(path); });
  require(again.error == result.error);
  require(again.file.metadata == result.file.metadata);
  require(again.file.tensors.size() == result.file.tensors.size());
  if (again.error.empty()) check_accepted(again.file, data, size);
  return 0;
}
