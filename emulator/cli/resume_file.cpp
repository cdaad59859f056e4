#include "emulator/cli/resume_file.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::cli {

namespace {
constexpr const char* kHead = "ringfence check 2";

// The lines behind the first, and what differs where one is not as it is due.
struct Line {
  std::string text;
  const char* other;
};

std::vector<Line> head_lines(const SearchOf& search) {
  return {{search.what, "it is of another case"},
          {"content " + search.content, "a file of the case has changed since"},
          {"by " + search.version, "it was written by another version of ringfence"}};
}

}  // namespace

LeftByMode read_resume(const std::string& path, const SearchOf& search) {
  LeftByMode out;
  if (path.empty() || !std::filesystem::exists(path)) return out;
  if (std::filesystem::is_directory(path)) {
    throw UsageError(fmt::format("--resume {}: is a folder; expected a file's name", path));
  }
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!in || !std::getline(in, line) || line != kHead) {
    throw UsageError(
        fmt::format("--resume {}: line 1: expected '{}', as check writes it", path, kHead));
  }
  int at = 1;
  for (const Line& due : head_lines(search)) {
    ++at;
    if (std::getline(in, line) && line == due.text) continue;
    throw UsageError(fmt::format("--resume {}: line {}: {}: '{}'; expected '{}', or a new file",
                                 path, at, due.other, line, due.text));
  }
  while (std::getline(in, line)) {
    ++at;
    const auto mode =
        line.starts_with("mode ") ? machine::parse_boundary(line.substr(5)) : std::nullopt;
    if (!mode) {
      throw UsageError(fmt::format("--resume {}: line {}: expected 'mode' and its name", path, at));
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

void write_resume(const std::string& path, const SearchOf& search, const LeftByMode& left) {
  const schedule::Unbroken whole;
  const std::string fresh = path + ".new";
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << kHead << '\n';
    for (const Line& line : head_lines(search)) out << line.text << '\n';
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
