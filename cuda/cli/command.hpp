// `ringfence gpu`: info, run, bench.
#pragma once

namespace ringfence::cuda {

/// argv[0] is the program's name as messages show it ("ringfence gpu"); the rest are the arguments.
/// Prints results on stdout, progress and errors on stderr. Returns the exit status: 0 clean, 1 a
/// mismatch or a lost rank, 2 bad usage or input, 70 an internal error, 77 no GPU.
int gpu_command(int argc, const char* const* argv);

}  // namespace ringfence::cuda
