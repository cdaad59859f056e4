#pragma once
// Files that show a run: the HTML page and what other viewers open.

#include <string>

#include "emulator/analysis/subject.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::analysis {

struct PictureOptions {
  std::string html, perfetto, dot, shiviz;
  bool any() const { return !html.empty() || !perfetto.empty() || !dot.empty() || !shiviz.empty(); }
};

// Writes what was asked for of a run of `program`, that `subject` made. `outcome` with its history;
// `replay` is the command that runs it again, empty where nothing does; `remedy` as StoryOptions
// has it; `passing` the nearest run that passes (nearest.hpp).
void write_pictures(const PictureOptions& options, const Subject& subject,
                    const trace::Trace& trace, const schedule::Outcome& outcome,
                    const schedule::Program& program, const std::string& replay,
                    const std::string& remedy = {}, const schedule::Outcome* passing = nullptr);

}  // namespace ringfence::analysis
