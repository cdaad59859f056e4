// A kernel as what ringfence reads: a case file and PTX.
#pragma once

#include <string>

#include "tests/oracle/kernel.hpp"

namespace ringfence::oracle {

// Byte of a global location, and of a thread's word of the results, in its rank's memory.
int global_offset(int location);
int result_offset(const Kernel& kernel, int thread, int step);

// Names `ptx` as the file of the kernel. Memories: "m", the locations; "out", the results.
std::string to_case(const Kernel& kernel, const std::string& ptx);
std::string to_ptx(const Kernel& kernel);

}  // namespace ringfence::oracle
