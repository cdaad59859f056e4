#pragma once
// The program's end of the socket, and what every part of the stand-in needs of it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "emulator/exec/client/abi.hpp"
#include "emulator/exec/wire.hpp"

namespace ringfence::exec::client {

struct Answer {
  Error status = kSuccess;
  std::string bytes;  // the reply behind its writes and callbacks
  In in() const { return In(bytes); }
};

// Asks the engine, in the calling thread's device; does what the reply says of host memory and of
// callbacks. A wait that another thread of the program may end is asked for again.
Answer ask(Call call, Handle stream = nullptr, const Out& payload = {});

// Devices there are; 0 where no engine is.
int device_count();

// What each of them is like; `attributes`: what some are, by their numbers.
struct Devices {
  DeviceFacts facts;
  std::map<std::int32_t, std::int32_t> attributes;
};
const Devices& devices();

// cudaGetDeviceProperties.
Error properties_of(int device, DeviceProp* out);

// The calling thread's.
int current_device();
void set_current_device(int device);

// Keeps the error for cudaGetLastError, and returns it.
Error keep(Error error);
Error take_last(bool clear);

// A function, or a form of one, that is not there: told once, with a list at the end.
Error refuse(std::string_view what);

// Device memory lies where the host has none of its own: pages that nobody may touch.
bool on_device(const void* pointer);

// Lets the engine run what is pending while the program does not call: the host may wait for what a
// kernel writes into memory that both see.
void watch_memory();

// The stream that a function compiled with a default stream a thread means.
inline Handle own(Handle stream) {
  return stream == nullptr ? reinterpret_cast<Handle>(std::uintptr_t{2}) : stream;
}

}  // namespace ringfence::exec::client
