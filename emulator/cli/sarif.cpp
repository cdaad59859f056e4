#include "emulator/cli/sarif.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>
#include <system_error>

#include "emulator/analysis/sources.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::cli {

namespace {

using Json = nlohmann::ordered_json;

namespace fs = std::filesystem;

// What a viewer shows of a rule.
const char* description(machine::FindingKind kind) {
  using Kind = machine::FindingKind;
  switch (kind) {
    case Kind::data_race:
      return "Two accesses of one place, one of them a write, that nothing orders";
    case Kind::stale_read:
      return "A read that got an old value, although a newer one was written before";
    case Kind::deadlock:
      return "A wait that nobody ends";
    case Kind::livelock:
      return "A loop that repeats its state for ever";
    case Kind::lost_signal:
      return "A signal that is overwritten before anybody has waited for it";
    case Kind::unrestored_signal:
      return "A signal slot that is not back to its initial value at the end";
    case Kind::barrier_divergence:
      return "Threads of a block that do not meet at the same barrier";
    case Kind::out_of_bounds:
      return "An access outside the memory it names";
    case Kind::misaligned:
      return "An address that is no multiple of the access's size";
    case Kind::uninitialised_read:
      return "A read of what nobody has written";
    case Kind::multicast_misuse:
      return "An access to a multicast address that is none of multimem's";
    case Kind::replica_mismatch:
      return "Replicas that differ between ranks";
    case Kind::numeric_mismatch:
      return "A result that differs from the expected value";
    case Kind::rank_lost:
      return "A kernel that ends in a trap or a failed assertion";
    case Kind::uninitialised_barrier:
      return "An mbarrier that is used while nothing orders its init before";
    case Kind::barrier_misuse:
      return "A barrier that is used against its rules";
    case Kind::incoherent_read:
      return "ld.global.nc of data that change while the kernel runs";
    case Kind::cluster_entry:
      return "An access to shared memory of a block of the cluster that may not have begun";
    case Kind::cluster_exit:
      return "An access to shared memory of a block of the cluster that may have ended";
    case Kind::residency:
      return "Blocks that wait for others for which there is no room on the GPU";
  }
  return "";
}

// A path as a URI's: what is no letter, digit or one of "-._~/" is escaped.
std::string escaped(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string out;
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// The repository that the current folder is in; else the current folder.
fs::path source_root() {
  std::error_code none;
  const fs::path here = fs::current_path(none);
  for (fs::path at = here; !at.empty(); at = at.parent_path()) {
    if (fs::exists(at / ".git", none)) return at;
    if (at == at.root_path()) break;
  }
  return here;
}

class Files {
 public:
  Files(const trace::Configuration& config, fs::path root)
      : folders_(analysis::source_folders(config)), root_(std::move(root)) {}

  Json artifact(const std::string& name) const {
    std::error_code none;
    fs::path path = name;
    for (const fs::path folder : folders_) {
      if (!fs::is_regular_file(folder / name, none)) continue;
      path = folder / name;
      break;
    }
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, none), none);
    const fs::path relative = whole.lexically_relative(fs::weakly_canonical(root_, none));
    // Outside of the repository there is only the whole path.
    if (relative.empty() || *relative.begin() == "..") {
      return Json{{"uri", "file://" + escaped(whole.generic_string())}};
    }
    return Json{{"uri", escaped(relative.generic_string())}, {"uriBaseId", "%SRCROOT%"}};
  }

 private:
  std::vector<std::string> folders_;
  fs::path root_;
};

Json location(const Files& files, const trace::SideNames& names, const std::string& message) {
  static const std::regex with_line(R"(^(\S+?):(\d+)(?: \((\S+?):(\d+)(?:, in \S+)?\))?: )");
  Json at;
  std::smatch m;
  if (std::regex_search(names.line, m, with_line)) {
    const bool source = m[3].matched;
    at["physicalLocation"] =
        Json{{"artifactLocation", files.artifact(m[source ? 3 : 1].str())},
             {"region", Json{{"startLine", std::stoul(m[source ? 4 : 2].str())}}}};
  }
  at["logicalLocations"] = Json::array({Json{{"fullyQualifiedName", names.line}}});
  at["message"] = Json{{"text", message}};
  return at;
}

std::string side_text(const machine::AccessInfo& a, const trace::SideNames& names) {
  if (a.kind == machine::AccessKind::none) {
    return trace::who(a.label) + ", step " + std::to_string(a.step);
  }
  return trace::who(a.label) + ", step " + std::to_string(a.step) + ": " +
         std::string(trace::name(a.kind)) + " " + trace::order_text(a.order, a.scope) + " of " +
         names.place;
}

// A viewer shows no more than this.
std::string told(const trace::Verdict& v) {
  std::string text = v.message;
  if (!v.cause.empty()) text += ". Cause: " + v.cause;
  if (!v.fix.empty()) text += ". Fix: " + v.fix;
  return text;
}

Json result(const SarifFinding& f, const fs::path& root) {
  const Files files(f.trace->header.config, root);
  const trace::Verdict& v = f.trace->verdict;
  const machine::Finding& finding = *v.finding;
  Json r{{"ruleId", machine::name(finding.kind)},
         {"level", f.judged ? "error" : "note"},
         {"message", Json{{"text", told(v)}}}};
  Json flow = Json::array();
  const auto side = [&](bool has, const machine::AccessInfo& a, const trace::SideNames& names,
                        const char* key) {
    if (!has) return;
    const Json at = location(files, names, side_text(a, names));
    r[key].push_back(at);
    flow.push_back(
        Json{{"id", schedule::text(schedule::unpack(a.label))},
             {"locations", Json::array({Json{{"location", at}, {"executionOrder", a.step}}})}});
  };
  side(finding.has_second, finding.second, v.second, "locations");
  side(finding.has_first, finding.first, v.first,
       finding.has_second ? "relatedLocations" : "locations");
  if (flow.size() == 2) {
    std::swap(flow[0], flow[1]);
    r["codeFlows"] = Json::array({Json{{"threadFlows", flow}}});
  }
  r["partialFingerprints"] = Json{{"ringfenceFinding/v1", trace::finding_id(*f.trace)}};
  r["properties"] = Json{{"boundary", machine::name(f.trace->header.policy.boundary)},
                         {"missing", trace::missing_text(finding)},
                         {"replay", f.replay}};
  return r;
}

}  // namespace

std::string sarif(const std::vector<SarifFinding>& findings) {
  Json rules = Json::array(), results = Json::array();
  for (int i = 0; i < machine::kFindingKinds; ++i) {
    const auto kind = static_cast<machine::FindingKind>(i);
    rules.push_back(
        Json{{"id", machine::name(kind)}, {"shortDescription", Json{{"text", description(kind)}}}});
  }
  const fs::path root = source_root();
  for (const SarifFinding& f : findings) {
    if (f.trace->verdict.finding) results.push_back(result(f, root));
  }
  const Json driver{{"name", "ringfence"}, {"version", analysis::version()}, {"rules", rules}};
  std::string base = "file://" + escaped(root.generic_string());
  if (!base.ends_with('/')) base += '/';
  const Json run{{"tool", Json{{"driver", driver}}},
                 {"originalUriBaseIds", Json{{"%SRCROOT%", Json{{"uri", base}}}}},
                 {"results", results}};
  const Json log{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                 {"version", "2.1.0"},
                 {"runs", Json::array({run})}};
  return log.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace ringfence::cli
