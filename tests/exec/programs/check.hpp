// What the programs of these tests share: they are written as users write them, and know nothing
// of ringfence.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#define CHECK_CUDA(CALL)                                                          \
  do {                                                                            \
    const cudaError_t error_ = (CALL);                                            \
    if (error_ != cudaSuccess) {                                                  \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_)); \
      return 3;                                                                   \
    }                                                                             \
  } while (0)

#define EXPECT(CONDITION)                                                 \
  do {                                                                    \
    if (!(CONDITION)) {                                                   \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #CONDITION); \
      return 4;                                                           \
    }                                                                     \
  } while (0)

inline bool asked(int argc, char** argv, const char* what) {
  return argc > 1 && std::strcmp(argv[1], what) == 0;
}
