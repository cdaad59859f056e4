#include "emulator/analysis/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/json.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::analysis {

namespace {

namespace fs = std::filesystem;

trace::Header header(const Task& task, machine::Boundary mode) {
  const schedule::RunSpec run = run_spec(task, mode);
  trace::Header h;
  h.made_by = version();
  h.config = task.config();
  h.input_digest = task.input_digest;
  h.policy = run.policy;
  h.ignore = run.ignore;
  h.strategy = "corpus";
  h.executor = "inline";
  h.faults = schedule::text(task.faults);
  h.survive = task.survive;
  return h;
}

// What a schedule belongs to, as one text.
std::string belongs_to(const trace::Header& h) {
  return fmt::format("{} {} {} {}", config_json(h.config).dump(), h.input_digest,
                     policy_json(h.policy, h.config).dump(), static_cast<int>(h.policy.boundary)) +
         std::string(h.ignore.size(), '.') + h.faults + (h.survive ? "survive" : "");
}

}  // namespace

void open_corpus(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError(fmt::format("--corpus {}: {}", folder, error.message()));
}

std::vector<schedule::Decisions> read_corpus(const std::string& folder, const Task& task,
                                             machine::Boundary mode) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().ends_with(trace::kSuffix)) {
      paths.push_back(entry.path().string());
    }
  }
  if (error) throw InputError(fmt::format("--corpus {}: {}", folder, error.message()));
  std::sort(paths.begin(), paths.end());
  const std::string mine = belongs_to(header(task, mode));
  std::vector<schedule::Decisions> out;
  for (const std::string& path : paths) {
    trace::Trace t = trace::read_file(path);
    if (belongs_to(t.header) == mine) out.push_back(std::move(t.decisions));
  }
  return out;
}

void write_corpus(const std::string& folder, const Task& task, machine::Boundary mode,
                  const std::vector<schedule::KeptSchedule>& kept) {
  for (const schedule::KeptSchedule& k : kept) {
    trace::Trace t;
    t.header = header(task, mode);
    t.decisions = k.decisions;
    t.verdict.points = k.points;
    t.verdict.steps = k.steps;
    t.verdict.digest = k.digest;
    const fs::path path = fs::path(folder) / trace::file_name(t);
    if (!fs::exists(path)) trace::write_file(path.string(), t);
  }
}

}  // namespace ringfence::analysis
