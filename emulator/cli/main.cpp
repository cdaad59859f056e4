// ringfence: checks and runs fused multi-GPU kernels.
#include "emulator/cli/command_line.hpp"

int main(int argc, char** argv) { return ringfence::cli::command_line(argc, argv); }
