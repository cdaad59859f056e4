#include "emulator/cli/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "emulator/cli/progress.hpp"

namespace ringfence::cli {
namespace {

std::atomic<bool> verbose{false};

void log(const char* level, const char* color, const std::string& text) {
  const bool colors = wants_color(STDERR_FILENO);
  std::fprintf(stderr, "ringfence: %s%s%s: %s\n", colors ? color : "", level,
               colors ? "\033[m" : "", text.c_str());
}

}  // namespace

void set_verbose() { verbose = true; }

void log_info(const std::string& text) {
  if (verbose) log("info", "\033[32m", text);
}

void log_error(const std::string& text) { log("error", "\033[31m\033[1m", text); }

}  // namespace ringfence::cli
