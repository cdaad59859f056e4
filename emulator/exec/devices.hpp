#pragma once
// What the program has made on the devices: memory, modules, streams, events, and what waits on
// its streams.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/exec/wire.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/program.hpp"

namespace ringfence::exec {

// [begin, end), in turn and apart.
using Pieces = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
void cut(Pieces& pieces, std::uint64_t begin, std::uint64_t end);

// One cudaMalloc, or the variables of a module on a device.
struct Allocation {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t device = 0;
  std::string memory;                 // of a case: the allocations of one name are its replicas
  std::vector<std::uint8_t> content;  // empty: nothing was written
  Pieces unset;                       // of it
  // Memory that the host sees too: the bytes are there. `content` is what a run began with.
  std::shared_ptr<std::uint8_t> host;
  bool managed = false;
  std::string file;  // that is mapped there
  // Where a run got stuck: what the host was shown of it, over what had been there. What the host
  // makes of that is there for the next one.
  std::vector<std::uint8_t> shown, ground;
  std::vector<std::uint8_t> begun;  // what the host had there when the run began
  std::vector<std::uint8_t> base;   // what was there when something came to be pending
  std::uint8_t* data();
  void begin();
  void show(const std::uint8_t* bytes_then);
  // `over`: nobody looks at what was there before.
  void end(const std::uint8_t* bytes_then, bool over);
  bool changed_by_host() const;
  void put(std::uint64_t at, const void* from, std::uint64_t count);
};

struct Module {
  // PTX files of a case and what is in them: of several objects where -rdc linked them, the order
  // of their names being that in which they are linked.
  std::vector<std::pair<std::string, std::string>> files;
  ptx::Module parsed;
  std::map<std::string, std::unique_ptr<ptx::Program>, std::less<>> kernels;
  bool has_variables = false;
  std::vector<std::uint64_t> variables;          // addresses, by device
  std::map<std::string, std::uint64_t> managed;  // addresses of __managed__ variables, by name
};

struct Stream {
  std::uint32_t device = 0;
  bool blocking = true;  // waits for the legacy stream, and that for it
  bool legacy = false;
};

struct Event {
  std::uint64_t record = 0;  // the pending operation that records it; 0: none is
  std::optional<std::chrono::steady_clock::time_point> at;
};

// Something that waits on a stream.
struct Operation {
  enum class Kind : std::uint8_t { launch, fill, copy, record, wait, callback, release, touch };
  Kind kind = Kind::launch;
  std::uint64_t number = 0;  // from 1 on, in the order of the calls
  std::uint32_t device = 0;
  std::uint64_t stream = 0;
  // launch
  LaunchRequest how;
  std::string kernel;
  std::string parameters;
  // fill, copy (one row), release
  Direction direction = Direction::on_device;
  std::uint64_t to = 0, from = 0, bytes = 0;
  std::uint8_t value = 0;
  std::string content;  // of a copy to a device: the host's bytes, as they were at the call
  // record, wait
  std::uint64_t event = 0;
  std::uint64_t record = 0;  // wait: the operation that it waits for
  // callback
  std::uint64_t function = 0, argument = 0;
  // touch: the host's, on a stream of its own
  HostAccess access;
  std::uint32_t before = 0;  // the word that the host knew to be there
};

// Operations that may wait: beyond, what is pending runs, as a launch waits where a queue is full.
inline constexpr std::size_t kQueue = 96;
// The host's accesses are a stream of the first device.
inline constexpr std::uint64_t kHostStream = 0x90;

// Kernels and parameters, and where memory is: what turning operations into a case needs.
struct Devices {
  std::uint32_t count = 1;
  std::uint32_t multiprocessors = ptx::kMultiprocessors;  // of each
  std::map<std::uint64_t, Allocation> memory;             // by address
  std::deque<Module> modules;
  std::map<std::uint64_t, Stream> streams;
  std::map<std::uint64_t, Event> events;
  std::deque<Operation> pending;

  // That holds the address; null: none does.
  Allocation* at(std::uint64_t address);
  const Allocation* at(std::uint64_t address) const;
  // That holds all of the bytes.
  Allocation* holding(std::uint64_t address, std::uint64_t bytes);
};

// Which of the operations come before which: of one stream in order; legacy streams and those that
// block; a wait behind its record; what was called for behind what the host did before. For each,
// the numbers of those directly before it.
std::map<std::uint64_t, std::vector<std::uint64_t>> order(const Devices& devices);

}  // namespace ringfence::exec
