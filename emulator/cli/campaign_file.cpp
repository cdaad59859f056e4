#include "emulator/cli/campaign_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "emulator/cli/errors.hpp"

namespace ringfence::cli {

namespace {

namespace fs = std::filesystem;
constexpr const char* kSuffix = ".results.jsonl";

[[noreturn]] void fail(const std::string& path, std::size_t line, const std::string& what) {
  throw UsageError(fmt::format("{}:{}: {}", path, line, what));
}

void check_head(const std::string& path, const nlohmann::json& head) {
  const auto text = head.find("campaign");
  if (text == head.end() || !text->is_string()) {
    fail(path, 1, "expected the results of a campaign, {\"campaign\": ...}");
  }
  if (head.value("version", 0) != kCampaignVersion) {
    fail(path, 1, fmt::format("expected version {}", kCampaignVersion));
  }
  for (const char* key : {"units", "seed", "schedules"}) {
    if (!head.contains(key) || !head[key].is_number_unsigned()) {
      fail(path, 1, fmt::format("expected a number '{}'", key));
    }
  }
}

void check_unit(const std::string& path, std::size_t line, const nlohmann::json& unit) {
  for (const char* key : {"unit", "seed", "schedules", "points"}) {
    if (!unit.contains(key) || !unit[key].is_number_unsigned()) {
      fail(path, line, fmt::format("expected a number '{}'", key));
    }
  }
  if (!unit.contains("seconds") || !unit["seconds"].is_number()) {
    fail(path, line, "expected a number 'seconds'");
  }
  const auto verdict = unit.find("verdict");
  if (verdict == unit.end() || !verdict->is_string()) fail(path, line, "expected a 'verdict'");
  const auto modes = unit.find("modes");
  if (modes == unit.end() || !modes->is_object() || modes->empty()) {
    fail(path, line, "expected 'modes', with a verdict each");
  }
  std::string worst = "pass";
  for (const auto& [mode, of_mode] : modes->items()) {
    if (of_mode != "pass" && of_mode != "finding" && of_mode != "unknown") {
      fail(path, line, fmt::format("mode '{}': expected pass, finding or unknown", mode));
    }
    if (of_mode == "finding" || (of_mode == "unknown" && worst == "pass")) worst = of_mode;
  }
  if (*verdict != worst) {
    fail(path, line,
         fmt::format("the verdict '{}' contradicts its modes {}: expected '{}'",
                     verdict->get<std::string>(), modes->dump(), worst));
  }
  const auto findings = unit.find("findings");
  if (findings == unit.end() || !findings->is_array()) fail(path, line, "expected 'findings'");
  for (const auto& f : *findings) {
    const auto text = [&](const char* key) {
      return f.is_object() && f.contains(key) && f[key].is_string();
    };
    if (!text("id") || !text("kind") || !text("mode") || !text("message") || !text("trace") ||
        !f.contains("judged") || !f["judged"].is_boolean()) {
      fail(path, line, "a finding: expected id, kind, mode, message, trace and judged");
    }
    if (modes->value(f["mode"].get<std::string>(), "") != "finding") {
      fail(path, line,
           fmt::format("a finding in mode '{}' contradicts its modes {}",
                       f["mode"].get<std::string>(), modes->dump()));
    }
  }
  for (const auto& [mode, of_mode] : modes->items()) {
    const auto is_of_mode = [&name = mode](const nlohmann::json& f) { return f["mode"] == name; };
    if (of_mode == "finding" && std::none_of(findings->begin(), findings->end(), is_of_mode)) {
      fail(path, line, fmt::format("mode '{}' is 'finding' but has none", mode));
    }
  }
}

}  // namespace

CampaignLines read_campaign_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream buffer;
  buffer << in.rdbuf();
  if (!in) throw UsageError(fmt::format("{}: cannot read it", path));
  const std::string text = buffer.str();
  CampaignLines out;
  out.path = path;
  out.bytes = text.size();
  std::size_t line = 0;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // cut off, if anything is there
    ++line;
    nlohmann::json j =
        nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!j.is_object()) fail(path, line, "no JSON object");
    if (line == 1) {
      check_head(path, j);
      out.head = std::move(j);
    } else if (j.contains("canary")) {
      out.canary |= j["canary"] == "found";
    } else {
      check_unit(path, line, j);
      out.units.push_back(std::move(j));
    }
    at = out.whole = end + 1;
  }
  return out;
}

std::vector<CampaignLines> read_campaign_folder(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().ends_with(kSuffix)) paths.push_back(entry.path().string());
  }
  if (error) throw UsageError(fmt::format("{}: {}", folder, error.message()));
  std::sort(paths.begin(), paths.end());
  std::vector<CampaignLines> out;
  for (const std::string& p : paths) {
    CampaignLines lines = read_campaign_file(p);
    if (!lines.head.is_null()) out.push_back(std::move(lines));  // else another shard just began
  }
  return out;
}

CampaignWriter::CampaignWriter(const std::string& folder, const std::string& name,
                               const nlohmann::ordered_json& head)
    : path_((fs::path(folder) / (name + kSuffix)).string()) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UsageError(fmt::format("--campaign {}: {}", folder, error.message()));
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
  if (file_ < 0) throw UsageError(fmt::format("{}: {}", path_, std::strerror(errno)));
  try {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      throw UsageError(fmt::format("{}: another process is working on this shard", path_));
    }
    // A first line that was cut off is none.
    const auto size = static_cast<std::uint64_t>(::lseek(file_, 0, SEEK_END));
    std::string first(std::min<std::uint64_t>(size, 1 << 20), '\0');
    const bool begun = size > 0 && ::pread(file_, first.data(), first.size(), 0) > 0 &&
                       first.find('\n') != std::string::npos;
    if (!begun) {
      if (::ftruncate(file_, 0) != 0) throw UsageError(path_ + ": " + std::strerror(errno));
      append(head);
    }
    for (const CampaignLines& lines : read_campaign_folder(folder)) {
      if (lines.head["campaign"] != head["campaign"]) {
        throw UsageError(fmt::format(
            "--campaign {}: {} holds another campaign ({}, this is {}): expected an empty folder, "
            "or the same options and version",
            folder, lines.path, lines.head["campaign"].get<std::string>(),
            head["campaign"].get<std::string>()));
      }
      for (const auto& unit : lines.units) done_.insert(unit["unit"].get<std::uint64_t>());
      if (lines.path == path_ && lines.whole < lines.bytes &&
          ::ftruncate(file_, static_cast<off_t>(lines.whole)) != 0) {
        throw UsageError(path_ + ": " + std::strerror(errno));
      }
    }
  } catch (...) {
    ::close(file_);
    throw;
  }
}

CampaignWriter::~CampaignWriter() { ::close(file_); }

void CampaignWriter::append(const nlohmann::ordered_json& line) {
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fdatasync(file_) != 0) {
    throw UsageError(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
}

}  // namespace ringfence::cli
