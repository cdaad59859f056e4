#include "emulator/cli/resume_file.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "emulator/cli/errors.hpp"
#include "emulator/machine/names.hpp"

namespace ringfence::cli {

namespace {
constexpr const char* kHead = "ringfence check 1";
}

LeftByMode read_resume(const std::string& path, const std::string& what) {
  LeftByMode out;
  if (path.empty() || !std::filesystem::exists(path)) return out;
  if (std::filesystem::is_directory(path)) {
    throw UsageError(fmt::format("--resume {}: is a folder; a file's name is due", path));
  }
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!in || !std::getline(in, line) || line != kHead) {
    throw UsageError(
        fmt::format("--resume {}: line 1: '{}' is due, as check writes it", path, kHead));
  }
  if (!std::getline(in, line) || line != what) {
    throw UsageError(fmt::format("--resume {}: line 2: it is of another case: '{}'; '{}' is due",
                                 path, line, what));
  }
  int at = 2;
  while (std::getline(in, line)) {
    ++at;
    const auto mode =
        line.starts_with("mode ") ? machine::parse_boundary(line.substr(5)) : std::nullopt;
    if (!mode) {
      throw UsageError(fmt::format("--resume {}: line {}: 'mode' and its name are due", path, at));
    }
    const int first = at + 1;
    std::string text;
    while (std::getline(in, line)) {
      ++at;
      text += line + "\n";
      if (line == "end") break;
    }
    try {
      out[*mode] = check::parse_left(text, first);
    } catch (const std::invalid_argument& e) {
      throw UsageError(fmt::format("--resume {}: {}", path, e.what()));
    }
  }
  return out;
}

void write_resume(const std::string& path, const std::string& what, const LeftByMode& left) {
  const std::string fresh = path + ".new";
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << kHead << '\n' << what << '\n';
    for (const auto& [mode, l] : left) {
      out << "mode " << machine::name(mode) << '\n' << check::to_text(l);
    }
    out.flush();
    if (!out) {
      std::remove(fresh.c_str());
      throw UsageError(fmt::format("--resume {}: cannot be written", path));
    }
  }
  std::filesystem::rename(fresh, path);
}

}  // namespace ringfence::cli
