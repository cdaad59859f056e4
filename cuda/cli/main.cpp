// ringfence-gpu: `ringfence gpu` as a program of its own, where the emulator is not built.
#include "cuda/cli/command.hpp"

int main(int argc, char** argv) { return ringfence::cuda::gpu_command(argc, argv); }
