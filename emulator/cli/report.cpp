#include "emulator/cli/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/analysis/version.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::cli {

void check_writable(const char* option, const std::string& path) {
  if (path.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw UsageError(fmt::format("{} {}: is a folder; expected a file's name", option, path));
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) {
    throw UsageError(fmt::format("{} {}: there is no folder {}", option, path, folder.string()));
  }
  const std::string there = fs::exists(path, error) ? path : folder.string();
  if (::access(there.c_str(), W_OK) != 0) {
    throw UsageError(fmt::format("{} {}: cannot write: {}", option, path, std::strerror(errno)));
  }
}

void check_writable(const ReportOptions& o) {
  check_writable("--json", o.json);
  check_writable("--junit", o.junit);
  check_writable("--sarif", o.sarif);
}

void check_writable(const PictureOptions& o) {
  check_writable("--html", o.html);
  check_writable("--perfetto", o.perfetto);
  check_writable("--dot", o.dot);
  check_writable("--shiviz", o.shiviz);
}

void print_numerics(const Subject& subject, const schedule::Program& program) {
  const std::string numerics = subject.numerics(program);
  if (!numerics.empty()) fmt::print("numerics {}\n", numerics);
}

std::string plain(const std::string& story) {
  std::string out;
  for (std::size_t i = 0; i < story.size(); ++i) {
    if (story[i] != '\x1b') {
      out += story[i];
      continue;
    }
    i = story.find('m', i);
    if (i == std::string::npos) break;
  }
  return out;
}

Json result_head(const char* command, Verdict verdict, std::uint64_t seed) {
  return Json{{"version", kResultVersion},
              {"command", command},
              {"ringfence", version()},
              {"verdict", name(verdict)},
              {"seed", seed}};
}

std::vector<std::pair<std::string, std::string>> properties(const trace::Configuration& c) {
  std::vector<std::pair<std::string, std::string>> out;
  const Json config = config_json(c);
  for (const auto& [key, value] : config.items()) {
    out.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return out;
}

void write_reports(const ReportOptions& o, const Json& result,
                   const std::vector<verify::JunitSuite>& suites) {
  if (!o.json.empty()) {
    trace::write_text_file(o.json,
                           result.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
  }
  if (!o.junit.empty()) trace::write_text_file(o.junit, verify::junit_xml(suites));
}

}  // namespace ringfence::cli
