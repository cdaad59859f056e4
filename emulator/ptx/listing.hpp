#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// What `ringfence ptx FILE` shows of a kernel.
struct KernelListing {
  struct Parameter {
    std::string type;  ///< "u64", or "b8[240]" for a struct
    std::uint64_t bytes = 0;
    std::uint32_t alignment = 0;
  };
  std::string name;
  std::string demangled;
  std::uint32_t line = 0;
  std::vector<Parameter> parameters;
  std::map<std::string, std::uint32_t> registers;  ///< type -> declared
  std::uint64_t static_shared = 0;                 ///< bytes, module-level variables included
  bool dynamic_shared = false;
  std::uint64_t local = 0;  ///< bytes a thread
  std::string limits;       ///< ".maxntid 256 ..." as one text, or empty
  std::uint32_t instructions = 0;
  std::map<std::string, std::uint32_t> histogram;  ///< spelling -> static count
  std::vector<Unsupported> unsupported;            ///< forms that the executor refuses
};

struct Listing {
  std::string file;
  std::string version;
  std::string target;
  std::vector<KernelListing> kernels;
  bool supported() const;
};

Listing list(const Module& module);
/// Plain text, one block a kernel; ends in a newline.
std::string to_text(const Listing& listing);

/// A case file (TOML) to fill in, with a launch of each kernel: every parameter with its size, by
/// the signature where the name has one, else by what the kernel does with it; placeholders where
/// the launch decides. It loads only after the entries marked FILL are replaced.
/// `path` is what the case's `ptx` key says.
struct ModuleKernel {
  const Module* module = nullptr;
  const Function* kernel = nullptr;
};
std::string case_template(const std::vector<ModuleKernel>& kernels, const std::string& path);

}  // namespace ringfence::ptx
