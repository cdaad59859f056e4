#pragma once
// Findings as SARIF 2.1.0, for code hosts and editors that show results beside the source.

#include <string>
#include <vector>

#include "emulator/trace/trace.hpp"

namespace ringfence::cli {

struct SarifFinding {
  const trace::Trace* trace;
  std::string replay;  // the command
  bool judged = true;  // else it is a note
};

// One run of the tool. A side whose program line names a file and a line ("k.ptx:12 (k.cu:34):
// ...") has a physical location, the CUDA line where there is one; others a logical one. Files are
// looked for beside the case and its kernels, and named relative to %SRCROOT%: the folder above the
// current one that is a repository's, else the current one. The result's fingerprint is
// the finding's id (trace::finding_id).
std::string sarif(const std::vector<SarifFinding>& findings);

}  // namespace ringfence::cli
