// What `ringfence nvcc` adds.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emulator/cli/exec.hpp"

using ringfence::cli::nvcc_arguments;
using Words = std::vector<std::string>;

TEST_CASE("nvcc gets a shared runtime, PTX of compute_90a and line numbers") {
  CHECK(nvcc_arguments({"a.cu", "-o", "a"}) == Words{"-cudart", "shared", "-lineinfo", "a.cu", "-o",
                                                     "a", "-gencode",
                                                     "arch=compute_90a,code=compute_90a"});
}

TEST_CASE("an architecture asked for by -arch is one more, as -gencode beside it is refused") {
  const Words due{"-cudart",
                  "shared",
                  "-lineinfo",
                  "-gencode",
                  "arch=compute_80,code=sm_80",
                  "a.cu",
                  "-gencode",
                  "arch=compute_90a,code=compute_90a"};
  CHECK(nvcc_arguments({"-arch=sm_80", "a.cu"}) == due);
  CHECK(nvcc_arguments({"-arch", "sm_80", "a.cu"}) == due);
  CHECK(nvcc_arguments({"--gpu-architecture=sm_80", "a.cu"}) == due);
  const Words one{"-cudart", "shared",   "-lineinfo",
                  "a.cu",    "-gencode", "arch=compute_90a,code=compute_90a"};
  CHECK(nvcc_arguments({"-arch=native", "a.cu"}) == one);
  CHECK(nvcc_arguments({"-arch=sm_90a", "a.cu"}) == one);
}

TEST_CASE("-G stands alone, as nvcc refuses -lineinfo beside it") {
  CHECK(nvcc_arguments({"-G", "a.cu"}) ==
        Words{"-cudart", "shared", "-G", "a.cu", "-gencode", "arch=compute_90a,code=compute_90a"});
}
