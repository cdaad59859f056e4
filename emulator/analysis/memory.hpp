#pragma once
// Whether a case fits into memory, before anything of it is made.

#include <cstdint>

#include "emulator/programs/config.hpp"

namespace ringfence::analysis {

// Bytes that the inputs, the partial products and the expected results of all calls take, in this
// process and for each program that is made; the largest value if it does not fit 64 bits. The
// ranks' shared segment comes on top and is checked when it is mapped.
std::uint64_t payload_bytes(const programs::Config& config);

// Throws InputError with asked and available bytes if `copies` programs do not fit.
void check_memory(const programs::Config& config, std::uint64_t copies);

}  // namespace ringfence::analysis
