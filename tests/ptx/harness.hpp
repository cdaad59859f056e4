#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/flat_memory.hpp"
#include "emulator/ptx/parser.hpp"

namespace ringfence::ptx::test {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

/// traces/ptx/NAME.ptx; the tests run in the repository's root.
inline Module load(const std::string& name) {
  const std::string path = "traces/ptx/" + name + ".ptx";
  return parse(read_file(path), path);
}

/// Kernel parameters in order, each at its natural alignment.
class Parameters {
 public:
  template <class T>
  Parameters& add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* from = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
    return *this;
  }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// The values at an address of a FlatMemory.
template <class T>
T* view(FlatMemory& memory, std::uint64_t address, std::size_t count) {
  return reinterpret_cast<T*>(memory.at(address, count * sizeof(T)));
}

/// One launch on rank 0 of a one-rank memory, run to its end.
struct Single {
  Module module;
  Program program;
  FlatMemory memory{1};
  VirtualClock clock;
  std::string printed;

  Single(Module m, const std::string& kernel)
      : module(std::move(m)), program(decode(module, module.kernel(kernel))) {}

  std::uint64_t buffer(std::size_t bytes) { return memory.allocate("buffer", 0, bytes); }
  ExecutionCounts run(LaunchConfig config, std::uint64_t seed = 0) {
    if (program.global_bytes != 0) {
      config.globals = memory.allocate("module globals", 0, program.global_bytes);
      const std::vector<std::uint8_t> initial = initial_globals(program, config.globals);
      std::memcpy(memory.at(config.globals, initial.size()), initial.data(), initial.size());
    }
    if (config.instruction_budget == 0) config.instruction_budget = 10'000'000;
    std::vector<Execution> launches;
    launches.emplace_back(program, std::move(config), memory, clock,
                          [this](const std::string& text) { printed += text; });
    FairChooser fair;
    SeededChooser seeded(seed);
    Chooser& chooser = seed == 0 ? static_cast<Chooser&>(fair) : seeded;
    run_to_end(launches, clock, chooser);
    return launches[0].counts();
  }
};

inline LaunchConfig launch(std::uint32_t grid, std::uint32_t block, Parameters parameters) {
  LaunchConfig config;
  config.grid = {grid, 1, 1};
  config.block = {block, 1, 1};
  config.parameters = parameters.take();
  return config;
}

}  // namespace ringfence::ptx::test
