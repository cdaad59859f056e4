// The other object.
__device__ unsigned rounds = 5;

__device__ void hand_on(unsigned* flag, bool relaxed) {
  if (!relaxed) __threadfence();
  *static_cast<volatile unsigned*>(flag) = 1;
}
__device__ void take(unsigned* flag) {
  while (*static_cast<volatile unsigned*>(flag) == 0) {
  }
  __threadfence();
}
