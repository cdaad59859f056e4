// Which subject a configuration is of.
#include "emulator/analysis/subject.hpp"

#include <filesystem>
#include <stdexcept>

namespace ringfence::analysis {

namespace {

SubjectPtr subject_of(const programs::Config& config) { return make_protocol_subject(config); }
SubjectPtr subject_of(const trace::CaseConfig& config) { return read_case_subject(config); }
SubjectPtr subject_of(const trace::OwnConfig& config) {
  throw std::invalid_argument(
      "'" + config.name +
      "' was built with ringfence/threads.hpp: only the program that made it can replay it");
}

// The digest of what lies there; empty if that is no case.
std::string digest_at(const std::string& path) {
  try {
    return cases::digest(cases::read_case(path));
  } catch (const cases::CaseError&) {
    return {};
  }
}

// Where the case of a trace lies; its own path where there is none that has the digest.
std::string place_of(const trace::CaseConfig& config, const std::string& trace_path) {
  namespace fs = std::filesystem;
  if (digest_at(config.file) == config.digest) return config.file;
  fs::path folder = fs::path(trace_path).parent_path();
  if (folder.empty()) folder = ".";
  std::vector<fs::path> places{folder / config.file};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") places.push_back(entry.path());
  }
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, error) && digest_at(place.string()) == config.digest) {
      return place.string();
    }
  }
  return config.file;
}

}  // namespace

ReplicaCheck Subject::replicas(const schedule::Program&) const {
  return {true, "nothing is compared"};
}

SubjectPtr make_subject(const trace::Configuration& config) {
  return std::visit([](const auto& c) { return subject_of(c); }, config.what());
}

SubjectPtr find_subject(trace::Configuration& config, const std::string& trace_path) {
  if (const trace::CaseConfig* const kernels = config.kernels()) {
    trace::CaseConfig found = *kernels;
    found.file = place_of(found, trace_path);
    config = std::move(found);
  }
  return make_subject(config);  // says what is wrong with a case at its path
}

}  // namespace ringfence::analysis
