// Generated PTX as kernels and lines, for the checks that run without a GPU.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace ringfence::tests {

/// The instructions of each entry, by mangled name, with registers and addresses left in.
inline std::map<std::string, std::vector<std::string>> read_ptx(const std::string& path) {
  std::map<std::string, std::vector<std::string>> kernels;
  std::ifstream file(path);
  std::string line, name;
  while (std::getline(file, line)) {
    const size_t entry = line.find(".entry ");
    if (entry != std::string::npos) {
      name = line.substr(entry + 7, line.find('(') - entry - 7);
      continue;
    }
    if (name.empty()) continue;
    const size_t begin = line.find_first_not_of(" \t{");
    if (begin == std::string::npos || line[begin] == '/' || line[begin] == '.') continue;
    kernels[name].push_back(line.substr(begin));
  }
  return kernels;
}

/// The opcode of a line, without a predicate.
inline std::string opcode(const std::string& line) {
  size_t begin = 0;
  if (line[0] == '@') begin = line.find(' ') + 1;
  return line.substr(begin, line.find_first_of(" \t;", begin) - begin);
}

inline std::vector<std::string> opcodes(const std::vector<std::string>& lines,
                                        const std::string& pattern) {
  const std::regex wanted(pattern);
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    const std::string code = opcode(line);
    if (std::regex_search(code, wanted)) found.push_back(code);
  }
  return found;
}

}  // namespace ringfence::tests
