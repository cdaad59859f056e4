#pragma once
// What the program under `ringfence exec` and the engine say to each other, over one socket.
//
// A frame is its length (8 bytes) and so many bytes. A request is a Request and what the call
// takes; a reply is a Reply, then for each of its writes an address of the program, a length and
// the bytes that go there, for each of its callbacks a function and its argument, and what the call
// gives. Numbers are the machine's own: both ends run on one.
//
// The client needs nothing but this header and the C library.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace ringfence::exec {

// Where the engine listens; set for the program by `ringfence exec`.
inline constexpr const char* kSocketVariable = "RINGFENCE_EXEC_SOCKET";
inline constexpr std::uint32_t kWireVersion = 2;

enum class Call : std::uint32_t {
  hello,           // version -> devices, DeviceFacts
  module_add,      // count, images -> module
  kernel,          // module, name -> what is known of it
  symbol,          // module, name -> address on the device, bytes
  managed,         // module, name -> address, bytes, file: of a __managed__ variable
  allocate,        // bytes, in stream order or not -> address
  release,         // address, in stream order or not
  share,           // bytes, managed or not -> address, file: memory of the host and the devices
  step,            // what is pending may run: nobody has called for a while
  memory_info,     // -> free, total
  pointer,         // address -> Place, device, bytes behind it
  copy,            // how, to, from, rows, the bytes that come from the host
  fill,            // to, rows, the pattern
  launch,          // module, name, sizes, parameters
  stream_create,   // flags, priority -> stream
  stream_destroy,  //
  stream_facts,    // -> device, flags
  stream_wait,     // event
  event_create,    // flags -> event
  event_destroy,   // event
  event_record,    // event
  event_elapsed,   // two events -> milliseconds
  event_query,     // event
  event_sync,      // event
  stream_query,    //
  stream_sync,     //
  device_sync,     //
  callback,        // function, argument
  reset,           //
  peer,            // device, on or off
  touched,         // count, HostAccess each: what the host did to memory that kernels see too
  occupancy,       // module, name, block, dynamic bytes -> blocks of a multiprocessor
  refused,         // name of a function that is not there, or a remark on one
};

// Statuses are cudaError_t's numbers, which do not change.
enum Status : std::int32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidDeviceFunction = 98,
  kNoKernelImage = 209,
  kInvalidResourceHandle = 400,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssertion = 710,
  kMisalignedAddress = 716,
  kLaunchFailure = 719,
  kCooperativeTooLarge = 720,
  kNotSupported = 801,
  kUnknown = 999,
};

struct Request {
  Call call = Call::hello;
  std::uint32_t device = 0;
  std::uint64_t stream = 0;  // as the program names it: 0 and 1 legacy, 2 a thread's own
  std::uint32_t thread = 0;  // of the program, counted as they come
  // No other thread of the program can bring what a wait would need.
  std::uint32_t last_word = 1;
};

struct Reply {
  std::int32_t status = 0;
  std::uint32_t again = 0;  // ask once more when the callbacks have run
  std::uint32_t writes = 0;
  std::uint32_t callbacks = 0;
  std::uint32_t busy = 0;  // something is pending: what the host accesses counts
};

// An access of the host's to memory that kernels see too, while something is pending: the word of 4
// bytes, and what is there behind it.
struct HostAccess {
  std::uint64_t address = 0;
  std::uint32_t value = 0;
  std::uint32_t write = 0;
};

// Of a pointer.
enum class Place : std::uint32_t { none, device, host, managed };

enum class Direction : std::uint32_t { to_device, to_host, on_device };

struct CopyRequest {
  Direction direction = Direction::to_device;
  std::uint32_t synchronous = 1;
  std::uint64_t to = 0, from = 0;
  std::uint64_t width = 0, rows = 1;
  std::uint64_t to_pitch = 0, from_pitch = 0;
};

struct FillRequest {
  std::uint32_t synchronous = 1;
  std::uint32_t value = 0;
  std::uint64_t to = 0, width = 0, rows = 1, pitch = 0;
};

struct LaunchRequest {
  std::uint64_t module = 0;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t cluster[3] = {0, 0, 0};
  std::uint32_t dynamic_shared = 0;
  std::uint32_t cooperative = 0, dependent = 0;
};

// What every device is like, as far as --device-profile may say.
struct DeviceFacts {
  char name[128] = {};
  std::uint64_t memory_bytes = 0, l2_bytes = 0;
  std::uint32_t multiprocessors = 0;
  std::uint32_t attributes = 0;  // a number and a value of each follow
};

struct KernelFacts {
  std::uint64_t static_shared = 0, local_bytes = 0;
  std::uint32_t max_threads = 1024, registers = 0;
  std::uint32_t cluster[3] = {0, 0, 0};
  std::uint32_t parameters = 0;  // an offset and a size of each follow
};

// Appends to a frame's bytes.
class Out {
 public:
  template <class T>
  Out& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Out& blob(std::string_view bytes) {
    put(std::uint64_t{bytes.size()});
    bytes_.append(bytes);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads one from its front; what is not there is zero, and `good` says so.
class In {
 public:
  explicit In(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T get() {
    T value{};
    if (left_.size() < sizeof value) {
      good_ = false;
      return value;
    }
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view blob() {
    const auto count = get<std::uint64_t>();
    if (count > left_.size()) {
      good_ = false;
      return {};
    }
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  bool good() const { return good_; }

 private:
  std::string_view left_;
  bool good_ = true;
};

inline bool send_bytes(int socket, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

inline bool receive_bytes(int socket, char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, bytes, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

inline bool send_frame(int socket, std::string_view bytes) {
  const std::uint64_t count = bytes.size();
  return send_bytes(socket, reinterpret_cast<const char*>(&count), sizeof count) &&
         send_bytes(socket, bytes.data(), bytes.size());
}

inline bool receive_frame(int socket, std::string& out) {
  std::uint64_t count = 0;
  if (!receive_bytes(socket, reinterpret_cast<char*>(&count), sizeof count)) return false;
  if (count > std::uint64_t{1} << 40) return false;
  out.resize(count);
  return receive_bytes(socket, out.data(), out.size());
}

}  // namespace ringfence::exec
