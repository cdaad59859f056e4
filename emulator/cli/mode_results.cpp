#include "emulator/cli/mode_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/cli/errors.hpp"
#include "emulator/machine/names.hpp"

namespace ringfence::cli {

Verdict overall(const std::vector<ModeReport>& modes) {
  Verdict v = Verdict::pass;
  for (const ModeReport& m : modes) {
    if (!m.judged) continue;
    if (m.verdict == Verdict::finding) return Verdict::finding;
    if (m.verdict == Verdict::unknown) v = Verdict::unknown;
  }
  return v;
}

Exit exit_of(Verdict verdict) {
  return verdict == Verdict::pass      ? Exit::clean
         : verdict == Verdict::finding ? Exit::finding
                                       : Exit::unknown;
}

std::string judged_modes(const std::vector<ModeReport>& modes) {
  std::string text;
  for (const ModeReport& m : modes) {
    if (m.judged) text += (text.empty() ? "" : ", ") + std::string(machine::name(m.mode));
  }
  return text;
}

void print_finding(const ModeReport& m) {
  const Finding& r = *m.recorded;
  if (m.judged) {
    fmt::print("\n{}", r.story);
  } else {
    fmt::print("\n{} in boundary mode {}, which is not claimed: {}\nreplay: {}\n",
               machine::name(r.kind), machine::name(m.mode), r.trace.verdict.message,
               replay_command(r.path));
  }
  if (!r.confirmed) {
    fmt::print("unconfirmed over rank processes: {}{}\n", r.unconfirmed,
               r.disagree ? "; please report it with the trace" : "");
  }
  if (m.judged) note_told();
  if (!r.unwritten.empty()) {
    std::fflush(stdout);
    std::fprintf(stderr, "ringfence: %s: the finding above has no trace there\n",
                 r.unwritten.c_str());
  }
}

bool same_finding(const trace::Verdict& a, const trace::Verdict& b) {
  if (!a.finding || !b.finding || a.finding->kind != b.finding->kind) return false;
  const auto lines = [](const trace::Verdict& v) {
    return std::minmax(v.first.line, v.second.line);
  };
  return lines(a) == lines(b) && a.finding->missing == b.finding->missing;
}

void print_same(const std::vector<ModeReport>& others) {
  if (others.empty()) return;
  std::string text, unclaimed;
  for (const ModeReport& m : others) {
    const std::string mode(machine::name(m.mode));
    text += (text.empty() ? "" : &m == &others.back() ? " and " : ", ") + mode;
    if (!m.judged) unclaimed += (unclaimed.empty() ? "" : ", ") + mode;
    if (m.recorded->disagree) print_finding(m);
  }
  fmt::print("the same in {}{}\n", text,
             unclaimed.empty() ? "" : fmt::format(" (not claimed: {})", unclaimed));
}

void add_modes(Json& j, const std::vector<ModeReport>& modes) {
  std::uint64_t executions = 0;
  double seconds = 0;
  Json verdicts = Json::object(), findings = Json::array(), detail = Json::object();
  for (const ModeReport& m : modes) {
    executions += m.executions;
    seconds += m.seconds;
    const std::string mode(machine::name(m.mode));
    verdicts[mode] = name(m.verdict);
    Json search{{"claimed", m.claimed}, {"judged", m.judged}};
    search.update(m.search);
    search["seconds"] = m.seconds;
    detail[mode] = std::move(search);
    if (m.recorded == nullptr) continue;
    std::vector<const Finding*> all{m.recorded};
    all.insert(all.end(), m.others.begin(), m.others.end());
    for (const Finding* one : all) {
      const Finding& r = *one;
      Json finding{{"id", trace::finding_id(r.trace)},
                   {"kind", machine::name(r.kind)},
                   {"mode", mode},
                   {"claimed", m.claimed},
                   {"message", r.trace.verdict.message},
                   {"cause", r.trace.verdict.cause},
                   {"fix", r.trace.verdict.fix},
                   {"story", plain(r.story)},
                   {"trace", r.path},
                   {"token", r.token},
                   {"confirmed", r.confirmed},
                   {"unconfirmed", r.unconfirmed.empty() ? Json(nullptr) : Json(r.unconfirmed)},
                   {"remedies", to_json(r.remedies)}};
      if (one == m.recorded) finding.update(m.finding);
      findings.push_back(std::move(finding));
    }
  }
  j["executions"] = executions;
  j["seconds"] = seconds;
  j["executions_per_second"] = seconds > 0 ? static_cast<double>(executions) / seconds : 0.0;
  j["modes"] = verdicts;
  j["searches"] = detail;
  j["findings"] = findings;
}

verify::JunitSuite junit_of(const char* command, const trace::Configuration& config,
                            const std::vector<ModeReport>& modes, std::string_view unknown) {
  using Status = verify::JunitCase::Status;
  verify::JunitSuite suite;
  suite.name = command;
  suite.properties = properties(config);
  for (const ModeReport& m : modes) {
    verify::JunitCase one;
    one.classname = std::string(command) + "." + config.name();
    one.name = std::string(machine::name(m.mode));
    one.seconds = m.seconds;
    if (m.recorded != nullptr) {
      one.message =
          fmt::format("{}: {}", machine::name(m.recorded->kind), m.recorded->trace.verdict.message);
      one.detail = m.recorded->story;
    }
    // A finding in a mode that nobody claimed fails nothing.
    if (!m.judged) {
      one.status = Status::skipped;
      if (m.recorded == nullptr) one.message = "not claimed; no finding";
    } else if (m.verdict == Verdict::finding) {
      one.status = Status::failed;
    } else if (m.verdict == Verdict::unknown) {
      one.status = Status::error;
      one.message = unknown;
    }
    suite.cases.push_back(one);
  }
  return suite;
}

std::string trace_path(const std::string& asked, machine::Boundary boundary, bool taken) {
  if (asked.empty() || !taken) return asked;
  const std::string mode = "." + std::string(machine::name(boundary));
  const std::string suffix(trace::kSuffix);
  if (asked.ends_with(suffix)) {
    return asked.substr(0, asked.size() - suffix.size()) + mode + suffix;
  }
  return asked + mode;
}

}  // namespace ringfence::cli
