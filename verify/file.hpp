// A file descriptor that closes itself and says in one line what went wrong. For verify's sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringfence::verify {

// Throws InputError: "PATH: WHAT: reason", with the reason of errno.
[[noreturn]] void fail_errno(const std::string& path, const char* what);

class File {
 public:
  // Flags as open(2) takes them. Throws InputError where it cannot be opened.
  File(std::string path, int flags);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  // Its bytes. Throws InputError unless it is a regular file.
  std::uint64_t size() const;

  // All of `count` bytes from or to the current position. Throws InputError.
  void read(void* to, std::size_t count);
  void write(const void* from, std::size_t count);

  // Some file systems report a full disk only here. Throws InputError.
  void close();

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace ringfence::verify
