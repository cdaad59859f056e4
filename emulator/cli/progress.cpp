#include "emulator/cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "emulator/cli/log.hpp"
#include "emulator/machine/names.hpp"

namespace ringfence::cli {

bool wants_color(int fd) {
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && (no == nullptr || *no == '\0') &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

namespace {
bool as_json = false;
}  // namespace

void set_json_progress() { as_json = true; }

std::string percent(double share) {
  const double hundredths = std::min(100 * share, 99.0);
  return hundredths < 10 ? fmt::format("{:.2g} %", hundredths)
                         : fmt::format("{:.0f} %", hundredths);
}

Progress::Progress(std::string what, std::string unit, std::uint64_t of)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      of_(of),
      terminal_(!as_json && ::isatty(STDERR_FILENO) == 1),
      next_line_(std::chrono::steady_clock::now() + interval_) {}

Progress::~Progress() {
  if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::at(std::uint64_t done, double seconds, const std::string& more) {
  if (as_json) {
    const auto now = std::chrono::steady_clock::now();
    if (shown_ && now < next_line_) return;
    shown_ = true;
    next_line_ = now + std::chrono::milliseconds(100);
    const nlohmann::ordered_json line{{"progress", what_}, {"unit", unit_},      {"done", done},
                                      {"of", of_},         {"seconds", seconds}, {"more", more}};
    std::fprintf(stderr, "%s\n", line.dump().c_str());
    return;
  }
  const std::string text = fmt::format(
      "{}: {}{} {}, {:.0f}/s{}", what_, done, of_ > 0 ? fmt::format(" of {}", of_) : "", unit_,
      seconds > 0 ? static_cast<double>(done) / seconds : 0.0, more.empty() ? "" : ", " + more);
  if (terminal_) {
    constexpr std::uint64_t kBar = 24;
    std::string bar;
    if (of_ > 0) {
      const auto full = std::min<std::uint64_t>(kBar, done * kBar / of_);
      bar = "[" + std::string(full, '#') + std::string(kBar - full, '.') + "] ";
    }
    std::fprintf(stderr, "\r\x1b[K%s%s", bar.c_str(), text.c_str());
    std::fflush(stderr);
    shown_ = true;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_line_) return;
  interval_ = std::min(interval_ * 2, std::chrono::seconds(60));
  next_line_ = now + interval_;
  std::fprintf(stderr, "%s\n", text.c_str());
}

analysis::Watch ShownProgress::watch() {
  analysis::Watch watch;
  watch.progress = [this](const analysis::Progress& p) {
    if (!progress_) progress_.emplace(std::string(machine::name(p.mode)), unit_, p.of);
    progress_->at(p.done, p.seconds,
                  p.explored < 0 ? ""
                                 : fmt::format("{} known and not explored, about {} explored",
                                               p.waiting, percent(p.explored)));
  };
  watch.mode_over = [this](machine::Boundary) { progress_.reset(); };
  watch.trying = [this](std::uint64_t tried, double seconds, double limit) {
    if (!remedies_) remedies_.emplace("what would make it pass", "changes", 0);
    remedies_->at(tried, seconds, fmt::format("{:.1f} of {:g} s", std::min(seconds, limit), limit));
  };
  watch.tried = [this] { remedies_.reset(); };
  watch.log = [](analysis::Watch::Level level, const std::string& text) {
    level == analysis::Watch::Level::error ? log_error(text) : log_info(text);
  };
  return watch;
}

}  // namespace ringfence::cli
