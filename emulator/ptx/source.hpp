#pragma once

#include <string>

namespace ringfence::ptx {

/// The PTX text that a file leads to:
/// - *.cu: what `nvcc -ptx -arch=sm_90a -lineinfo` makes of it ($NVCC names another compiler);
/// - an ELF file (.so, .o, program) or a fat binary: the PTX embedded by nvcc, of the highest
///   architecture when there are several. Compressed PTX is an Error that names cuobjdump;
/// - anything else: the file's bytes.
/// Throws Error when the file cannot be read, nvcc fails, or the binary holds no PTX.
/// `relocatable`: a *.cu is compiled with -rdc=true, to be linked with others (link.hpp).
std::string read_ptx(const std::string& path, bool relocatable = false);

/// The PTX text inside the bytes of an ELF file or fat binary; `path` names it in messages.
std::string ptx_in_binary(const std::string& bytes, const std::string& path);

}  // namespace ringfence::ptx
