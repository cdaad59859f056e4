#include "emulator/cli/sarif.hpp"

#include <nlohmann/json.hpp>
#include <regex>

#include "emulator/analysis/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::cli {

namespace {

using Json = nlohmann::ordered_json;

Json location(const trace::SideNames& names, const std::string& message) {
  static const std::regex with_line(R"(^(\S+?):(\d+)(?: \((\S+?):(\d+)(?:, in \S+)?\))?: )");
  Json at;
  std::smatch m;
  if (std::regex_search(names.line, m, with_line)) {
    const bool source = m[3].matched;
    at["physicalLocation"] =
        Json{{"artifactLocation", Json{{"uri", m[source ? 3 : 1].str()}}},
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
  if (!v.mend.empty()) text += ". Mend: " + v.mend;
  return text;
}

Json result(const SarifFinding& f) {
  const trace::Verdict& v = f.trace->verdict;
  const machine::Finding& finding = *v.finding;
  Json r{{"ruleId", machine::name(finding.kind)},
         {"level", f.judged ? "error" : "note"},
         {"message", Json{{"text", told(v)}}}};
  Json flow = Json::array();
  const auto side = [&](bool has, const machine::AccessInfo& a, const trace::SideNames& names,
                        const char* key) {
    if (!has) return;
    const Json at = location(names, side_text(a, names));
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
  std::string id = trace::file_name(*f.trace);
  id.erase(id.size() - trace::kSuffix.size());
  r["partialFingerprints"] = Json{{"ringfenceFinding/v1", id}};
  r["properties"] = Json{{"boundary", machine::name(f.trace->header.policy.boundary)},
                         {"missing", trace::missing_text(finding)},
                         {"replay", f.replay}};
  return r;
}

}  // namespace

std::string sarif(const std::vector<SarifFinding>& findings) {
  Json rules = Json::array(), results = Json::array();
  for (int i = 0; i < machine::kFindingKinds; ++i) {
    rules.push_back(Json{{"id", machine::name(static_cast<machine::FindingKind>(i))}});
  }
  for (const SarifFinding& f : findings) {
    if (f.trace->verdict.finding) results.push_back(result(f));
  }
  const Json driver{{"name", "ringfence"}, {"version", analysis::version()}, {"rules", rules}};
  const Json run{{"tool", Json{{"driver", driver}}}, {"results", results}};
  const Json log{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                 {"version", "2.1.0"},
                 {"runs", Json::array({run})}};
  return log.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace ringfence::cli
