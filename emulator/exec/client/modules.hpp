#pragma once
// Kernels and symbols that the program's host stubs have registered.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/exec/client/abi.hpp"
#include "emulator/exec/wire.hpp"

namespace ringfence::exec::client {

// Of compute capability 9.0: what a block has without asking, and at most.
inline constexpr std::size_t kUsualShared = 48 << 10, kMostShared = 227 << 10;

// A cudaKernel_t is its address: it is good on all devices.
struct Kernel {
  void* module = nullptr;
  std::string name;
  std::size_t most_shared = 0;  // asked for, the static bytes among it
  // Of the engine, from look_up on:
  bool known = false;
  Error error = kSuccess;
  std::uint64_t number = 0;  // of the module
  KernelFacts facts;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parameters;  // offset, bytes
};

// Pages that the engine has too, at an address of device memory.
bool map_shared(std::uint64_t address, std::size_t bytes, const std::string& file, bool managed);

// By the host stub or as a handle; null: neither.
Kernel* kernel_of(const void* function);
Error look_up(Kernel& kernel);

// What a program loads itself; a module is known by its address.
void* add_module(std::string image);
Error send_module(void* module);
Kernel& add_kernel(void* module, std::string name);
Error variable_at(void* module, std::string_view name, std::uint64_t& address,
                  std::uint64_t& bytes);
// The bytes of a fat binary, as its header says.
inline constexpr unsigned kFatbinMagic = 0xba55ed50;
std::string_view fatbin_at(const void* data);

Error symbol_at(const void* symbol, std::uint64_t& address, std::uint64_t& bytes);

}  // namespace ringfence::exec::client
