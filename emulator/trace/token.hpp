#pragma once
// A trace as one word that a shell takes as it is, to be printed, mailed and replayed:
//
//   rf1,tokenweave,ranks=2,tokens=2,hidden=8,...,set.end.put=relaxed,boundary=coherent,
//   kind=data-race,digest=00c0ffee00c0ffee,do:r1.c0.b0.t0@14:pick=r0.c0.b0.t0
//
// It holds what determines the run, and of the verdict the kind of the finding and the digest of
// all choices and values. Keys are those of the trace file; what equals a default of version 1 is
// left out. Bytes other than letters, digits and -_./:@ are written %XX.

#include <string>
#include <string_view>

#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

inline constexpr std::string_view kTokenPrefix = "rf1,";

inline bool is_token(std::string_view text) { return text.starts_with(kTokenPrefix); }

std::string to_token(const Trace& trace);
// Checked as a trace file is. The verdict has no accesses, message, points or steps. Throws
// TraceError.
Trace parse_token(std::string_view token);

}  // namespace ringfence::trace
