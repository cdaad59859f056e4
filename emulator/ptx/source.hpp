#pragma once

#include <string>
#include <vector>

namespace ringfence::ptx {

/// The PTX text that a file leads to:
/// - *.cu: what `nvcc -ptx -arch=sm_90a -lineinfo` makes of it ($NVCC names another compiler);
/// - an ELF file (.so, .o, program) or a fat binary: the PTX embedded by nvcc, of the highest
///   architecture when there are several. PTX that is compressed in an unknown way is an Error that
///   names cuobjdump;
/// - FILE#N: the N-th module, from 1, of such a file that holds several (read_modules);
/// - anything else: the file's bytes.
/// Throws Error when the file cannot be read, nvcc fails, or the binary holds no PTX.
/// `relocatable`: a *.cu is compiled with -rdc=true, to be linked with others (link.hpp).
std::string read_ptx(const std::string& path, bool relocatable = false);

/// The file that this reads: FILE of FILE#N, else the path itself.
std::string file_of(const std::string& path);

/// The PTX text inside the bytes of an ELF file or fat binary; `path` names it in messages.
std::string ptx_in_binary(const std::string& bytes, const std::string& path);

/// A module's text and the name that read_ptx finds it by.
struct NamedText {
  std::string name;
  std::string text;
};
/// All modules of a file: an ELF file has one for each source that nvcc compiled into it, FILE#1 to
/// FILE#N; a file that holds one goes by its own name.
std::vector<NamedText> read_modules(const std::string& path);
/// The same of an ELF file or a fat binary, and none of anything else or what cannot be read.
std::vector<NamedText> read_binary(const std::string& path);

/// Of the modules of a file, by name, the one that has the kernel (by the rule of Module::kernel)
/// and those that define what it names. Throws Error where none has it, or several have one. A file
/// that is no binary is its only module, and is not looked into.
std::vector<std::string> modules_with(const std::string& path, const std::string& kernel);
/// Each module of a file, by name.
std::vector<std::string> modules_of(const std::string& path);

}  // namespace ringfence::ptx
