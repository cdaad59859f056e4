#include "emulator/cli/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/trace/config_json.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::cli {

const char* name(Verdict v) {
  switch (v) {
    case Verdict::pass:
      return "pass";
    case Verdict::finding:
      return "finding";
    case Verdict::unknown:
      return "unknown";
    case Verdict::error:
      return "error";
  }
  return "";
}

void check_writable(const char* option, const std::string& path) {
  if (path.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw UsageError(fmt::format("{} {}: is a folder; a file's name is due", option, path));
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

Json result_head(const char* command, Verdict verdict, std::uint64_t seed) {
  return Json{{"version", kResultVersion},
              {"command", command},
              {"ringfence", version()},
              {"verdict", name(verdict)},
              {"seed", seed}};
}

Json config_json(const programs::Config& c) {
  Json j = trace::config_json(c, "");
  j.erase("input_digest");                                 // the file was not read for this
  if (j.contains("eps") && c.eps < 0) j["eps"] = nullptr;  // the input file's
  return j;
}

Json policy_json(const machine::Policy& p, const programs::Config& c) {
  Json j{{"multicast-flag", machine::policy_word(p, "multicast-flag")},
         {"alias-data", machine::policy_word(p, "alias-data")},
         {"load-buffering", "off"},
         {"summation", c.summation}};
  for (const auto& [name, value] : trace::kernel_policies(p)) j[name] = value;
  return j;
}

std::vector<std::pair<std::string, std::string>> properties(const programs::Config& c) {
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
