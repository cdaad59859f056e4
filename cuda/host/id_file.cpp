#include "cuda/host/id_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::communication, message);
}

}  // namespace

std::vector<std::byte> share_id(const std::string& path, int rank,
                                const std::vector<std::byte>& bytes,
                                std::chrono::milliseconds timeout) {
  if (rank == 0) {
    const std::string part = fmt::format("{}.{}", path, getpid());
    {
      std::ofstream out(part, std::ios::binary);
      out.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
      if (!out.flush()) fail(fmt::format("{}: cannot be written", path));
    }
    // link, not rename: it fails where the name is taken.
    const int linked = link(part.c_str(), path.c_str());
    const int error = errno;
    (void)unlink(part.c_str());
    if (linked != 0) {
      fail(fmt::format("{}: {}: remove what an earlier run left, or name another file", path,
                       std::strerror(error)));
    }
    return bytes;
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    std::ifstream in(path, std::ios::binary);
    if (in) {
      const std::vector<char> content((std::istreambuf_iterator<char>(in)), {});
      if (content.size() != bytes.size()) {
        fail(fmt::format("{}: {} bytes, expected {}: it is no id of this program", path,
                         content.size(), bytes.size()));
      }
      std::vector<std::byte> id(content.size());
      std::memcpy(id.data(), content.data(), content.size());
      return id;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      fail(fmt::format("{}: rank 0 did not write it in time", path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void remove_id(const std::string& path, int rank) {
  if (rank == 0) (void)unlink(path.c_str());
}

}  // namespace ringfence::cuda
