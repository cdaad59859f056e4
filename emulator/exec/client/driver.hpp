#pragma once
// The stand-in for libcuda.so.1: the driver's interface, each function by one of the runtime's, of
// whichever stand-in for that is loaded. Their numbers for errors, attributes and the like are the
// same.

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "emulator/exec/client/abi.hpp"
#include "emulator/exec/wire.hpp"

namespace ringfence::exec::client {

// A function of the runtime; the process ends where there is none.
void* runtime_function(const char* name);

template <class F>
F* runtime(const char* name) {
  return reinterpret_cast<F*>(runtime_function(name));
}

// A function, or a form of one, that is not there: told once, with a list at the end.
Error refuse(std::string_view what);

// Of a device, whatever the layout of the runtime's cudaDeviceProp is.
struct Facts {
  const char* name = "";
  char uuid[16] = {};
  std::size_t memory = 0;
};
Error facts_of(int device, Facts& out);

using Pointer = std::uint64_t;  // CUdeviceptr
inline void* at(Pointer p) { return reinterpret_cast<void*>(p); }

}  // namespace ringfence::exec::client

// A function of the driver that does what one of the runtime does.
#define RF_AS(DRIVER, RUNTIME, PARAMETERS, ARGUMENTS) \
  RF_API Error DRIVER PARAMETERS { return runtime<Error PARAMETERS>(RUNTIME) ARGUMENTS; }
// Also in the form for programs whose default stream is a thread's own.
#define RF_BOTH(DRIVER, RUNTIME, PARAMETERS, ARGUMENTS) \
  RF_AS(DRIVER, RUNTIME, PARAMETERS, ARGUMENTS)         \
  RF_AS(DRIVER##_ptsz, RUNTIME "_ptsz", PARAMETERS, ARGUMENTS)
