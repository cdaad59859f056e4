#pragma once
// Whether a subject fits into memory, before anything of it is made.

#include <cstdint>

#include "emulator/analysis/subject.hpp"

namespace ringfence::analysis {

// Of a protocol: bytes that the inputs, the partial products and the expected results of all calls
// take, in this process and for each program that is made; the largest value if it does not fit 64
// bits. The ranks' shared segment comes on top and is checked when it is mapped.
std::uint64_t payload_bytes(const programs::Config& config);

// Throws InputError with asked and available bytes if `copies` programs do not fit. Where a subject
// cannot tell, the segment's own check says what is too much.
void check_memory(const Subject& subject, std::uint64_t copies);

}  // namespace ringfence::analysis
