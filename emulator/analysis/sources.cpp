#include "emulator/analysis/sources.hpp"

#include <algorithm>
#include <filesystem>

#include "emulator/cases/case_file.hpp"

namespace ringfence::analysis {

std::vector<std::string> source_folders(const trace::Configuration& config) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  const auto add = [&](const fs::path& file) {
    std::string folder = file.parent_path().string();
    if (folder.empty()) folder = ".";
    if (std::find(out.begin(), out.end(), folder) == out.end()) out.push_back(std::move(folder));
  };
  if (const trace::CaseConfig* const kernels = config.kernels()) {
    add(kernels->file);
    try {
      const cases::CaseFile file = cases::read_case(kernels->file);
      for (const cases::Launch& launch : file.launches) {
        for (std::uint32_t r = 0; r < file.ranks; ++r) {
          for (const std::string& module : file.modules_of(launch, r)) add(module);
        }
      }
    } catch (const cases::CaseError&) {
      // Its lines are told all the same.
    }
  }
  add("here");
  return out;
}

}  // namespace ringfence::analysis
