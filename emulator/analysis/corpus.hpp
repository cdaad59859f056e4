#pragma once
// --corpus: a folder of schedules that gave something new, one trace file each, named by its
// content. Searches of any cases and modes share it, of several processes at a time too.

#include <string>
#include <vector>

#include "emulator/analysis/task.hpp"
#include "emulator/schedule/search.hpp"

namespace ringfence::analysis {

// Makes the folder; throws InputError if that cannot be.
void open_corpus(const std::string& folder);
// Those of this case and mode, by name. Throws trace::TraceError where a file is no trace.
std::vector<schedule::Decisions> read_corpus(const std::string& folder, const Task& task,
                                             machine::Boundary mode);
void write_corpus(const std::string& folder, const Task& task, machine::Boundary mode,
                  const std::vector<schedule::KeptSchedule>& kept);

}  // namespace ringfence::analysis
