// The tokenweave kernels in bf16.
#define RINGFENCE_ELEMENT __nv_bfloat16
#define RINGFENCE_KERNEL_OF tokenweave_kernel_bf16
#include "cuda/kernels/tokenweave_kernels.inl"
