#include "emulator/ranks/process_title.hpp"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace ringfence::ranks {
namespace {

struct Arguments {
  char* begin = nullptr;
  char* end = nullptr;  // of the environment behind them
};

// Fields 48 and 51 of /proc/self/stat (proc(5): arg_start, env_end).
Arguments arguments() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t close = line.rfind(')');  // the name may hold anything
  if (close == std::string::npos) return {};
  std::istringstream fields(line.substr(close + 1));
  std::string word;
  std::uintptr_t begin = 0, end = 0;
  for (int field = 3; field <= 51 && fields >> word; ++field) {
    if (field == 48) begin = std::stoull(word);
    if (field == 51) end = std::stoull(word);
  }
  if (begin == 0 || end <= begin) return {};
  return {reinterpret_cast<char*>(begin), reinterpret_cast<char*>(end)};
}

}  // namespace

void set_process_title(const std::string& title) {
  prctl(PR_SET_NAME, title.c_str());  // the kernel keeps 15 characters
  const Arguments area = arguments();
  if (area.begin == nullptr) return;
  for (char** e = environ; *e != nullptr; ++e) *e = strdup(*e);
  const auto room = static_cast<std::size_t>(area.end - area.begin);
  const std::size_t n = std::min(title.size(), room - 1);
  memset(area.begin, 0, room);
  memcpy(area.begin, title.data(), n);
}

}  // namespace ringfence::ranks
