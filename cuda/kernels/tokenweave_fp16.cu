// The tokenweave kernels in fp16.
#define RINGFENCE_ELEMENT __half
#define RINGFENCE_KERNEL_OF tokenweave_kernel_fp16
#include "cuda/kernels/tokenweave_kernels.inl"
