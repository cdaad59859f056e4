#include "verify/file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "verify/error.hpp"

namespace ringfence::verify {

void fail_errno(const std::string& path, const char* what) {
  throw InputError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

File::File(std::string path, int flags) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(path_, (flags & O_CREAT) != 0 ? "cannot be created" : "cannot be opened");
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t File::size() const {
  struct stat status;
  if (::fstat(fd_, &status) != 0) fail_errno(path_, "cannot be examined");
  if (!S_ISREG(status.st_mode)) throw InputError(fmt::format("{}: not a regular file", path_));
  return static_cast<std::uint64_t>(status.st_size);
}

void File::read(void* to, std::size_t count) {
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

void File::write(const void* from, std::size_t count) {
  const auto* at = static_cast<const char*>(from);
  while (count > 0) {
    const ssize_t put = ::write(fd_, at, count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno(path_, "cannot be written");
    at += put;
    count -= static_cast<std::size_t>(put);
  }
}

void File::close() {
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail_errno(path_, "cannot be written");
}

}  // namespace ringfence::verify
