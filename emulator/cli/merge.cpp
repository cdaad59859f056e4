// merge: adds up the results of a campaign's shards, from any number of folders.
#include "emulator/cli/merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "emulator/analysis/finding.hpp"
#include "emulator/cli/campaign_file.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

namespace {

// A finding met by any number of units, told once.
struct Found {
  std::string kind, mode, message, trace;
  bool judged = false;
  std::set<std::uint64_t> units;
};

struct Sum {
  std::string campaign, version;
  std::uint64_t of = 0;  // units of the whole campaign
  std::uint64_t seed = 0;
  std::map<std::uint64_t, std::string> verdicts;  // by unit
  std::map<std::string, Found> findings;          // by id
  std::uint64_t schedules = 0, points = 0, again = 0, unknown = 0;
  double seconds = 0;
  bool canary = false;
  bool corpus = false;  // what a unit finds depends on when it ran
  std::set<std::uint64_t> disagree;
};

void add(const CampaignLines& lines, const std::string& folder, Sum& sum) {
  const std::string campaign = lines.head["campaign"];
  if (sum.campaign.empty()) {
    sum.campaign = campaign;
    sum.version = lines.head.value("ringfence", "");
    sum.of = lines.head["units"];
    sum.seed = lines.head["seed"];
    const auto what = lines.head.find("what");
    sum.corpus = what != lines.head.end() && what->is_object() && what->value("corpus", false);
  } else if (sum.campaign != campaign) {
    throw UsageError(fmt::format(
        "{}: belongs to campaign {}, the folders before it to {}; expected one campaign",
        lines.path, campaign, sum.campaign));
  }
  sum.canary |= lines.canary;
  for (const auto& unit : lines.units) {
    const std::uint64_t number = unit["unit"];
    const std::string verdict = unit["verdict"];
    for (const auto& f : unit["findings"]) {
      Found& found = sum.findings[f["id"].get<std::string>()];
      if (found.units.empty()) {
        found.kind = f["kind"];
        found.mode = f["mode"];
        found.message = f["message"];
        found.trace = folder + "/" + f["trace"].get<std::string>();
        found.judged = f["judged"];
      }
      found.units.insert(number);
    }
    // A unit that two shards ran counts once; equal seeds must have come to equal verdicts.
    const auto [it, fresh] = sum.verdicts.try_emplace(number, verdict);
    if (!fresh) {
      ++sum.again;
      if (it->second != verdict && !sum.corpus) sum.disagree.insert(number);
      if (verdict == "finding") it->second = verdict;
      continue;
    }
    sum.schedules += unit["schedules"].get<std::uint64_t>();
    sum.points += unit["points"].get<std::uint64_t>();
    sum.seconds += unit["seconds"].get<double>();
    sum.unknown += verdict == "unknown";
  }
}

// "3-7, 9", the first few.
std::string ranges(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    if (parts.size() == 8) {
      parts.push_back("...");
      break;
    }
    parts.push_back(end == i ? fmt::format("{}", numbers[i])
                             : fmt::format("{}-{}", numbers[i], numbers[end]));
    i = end + 1;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// All of the folders' campaigns, and from how many files.
std::size_t add_all(const std::vector<std::string>& folders, Sum& sum) {
  std::size_t files = 0;
  for (const std::string& folder : folders) {
    const auto all = read_campaign_folder(folder);
    if (all.empty()) {
      throw UsageError(
          fmt::format("{}: no *.results.jsonl there; expected a folder that "
                      "fuzz --campaign wrote",
                      folder));
    }
    for (const CampaignLines& lines : all) add(lines, folder, sum);
    files += all.size();
  }
  return files;
}

void tell_units(const Sum& sum, std::size_t files, const std::vector<std::uint64_t>& missing) {
  fmt::print("campaign {} of ringfence {}, seed {}: {} files, canary {}\n", sum.campaign,
             sum.version, sum.seed, files, sum.canary ? "found" : "not looked for");
  fmt::print("{} of {} units, {} schedules, {} points, {:.1f} s of searching{}\n",
             sum.verdicts.size(), sum.of, sum.schedules, sum.points, sum.seconds,
             sum.again > 0 ? fmt::format("; {} units ran twice", sum.again) : "");
  if (!missing.empty()) fmt::print("missing units: {}\n", ranges(missing));
  if (!sum.disagree.empty()) {
    fmt::print("units with two verdicts: {}\n", ranges({sum.disagree.begin(), sum.disagree.end()}));
  }
}

Json finding_json(const std::string& id, const Found& f) {
  return Json{{"id", id},
              {"kind", f.kind},
              {"mode", f.mode},
              {"judged", f.judged},
              {"message", f.message},
              {"trace", f.trace},
              {"units", f.units.size()}};
}

verify::JunitCase junit_of(const std::string& id, const Found& f) {
  verify::JunitCase one;
  one.classname = "merge." + f.kind;
  one.name = id;
  one.status = verify::JunitCase::Status::failed;
  one.message = f.message;
  one.detail = replay_command(f.trace);
  return one;
}

}  // namespace

Exit run(const MergeOptions& o) {
  check_writable(o.reports);
  Sum sum;
  const std::size_t files = add_all(o.folders, sum);
  std::vector<std::uint64_t> missing;
  for (std::uint64_t n = 0; n < sum.of; ++n) {
    if (!sum.verdicts.contains(n)) missing.push_back(n);
  }
  tell_units(sum, files, missing);
  bool judged = false;
  Json findings = Json::array();
  verify::JunitSuite suite;
  suite.name = "merge";
  for (const auto& [id, f] : sum.findings) {
    judged |= f.judged;
    fmt::print("\n{} in {}, found by {} units: {}\n  {}\n", f.kind, f.mode, f.units.size(),
               f.message, replay_command(f.trace));
    findings.push_back(finding_json(id, f));
    suite.cases.push_back(junit_of(id, f));
  }
  const bool incomplete = !missing.empty() || sum.unknown > 0;
  const Verdict verdict = judged ? Verdict::finding : incomplete ? Verdict::unknown : Verdict::pass;
  verify::JunitCase whole;
  whole.classname = "merge";
  whole.name = "all units";
  whole.seconds = sum.seconds;
  if (incomplete) {
    whole.status = verify::JunitCase::Status::error;
    whole.message =
        fmt::format("{} units missing, {} without a verdict", missing.size(), sum.unknown);
  }
  suite.cases.push_back(whole);
  fmt::print("\n{}\n", verdict == Verdict::finding
                           ? fmt::format("FINDINGS: {}", sum.findings.size())
                       : verdict == Verdict::unknown ? "UNKNOWN: not all units have a verdict"
                                                     : "clean (except load buffering)");

  Json j = result_head("merge", verdict, sum.seed);
  j["campaign"] = sum.campaign;
  j["units"] = Json{{"of", sum.of},
                    {"done", sum.verdicts.size()},
                    {"missing", missing.size()},
                    {"unknown", sum.unknown},
                    {"again", sum.again}};
  j["canary"] = sum.canary;
  j["executions"] = sum.schedules;
  j["points"] = sum.points;
  j["seconds"] = sum.seconds;
  j["findings"] = findings;
  write_reports(o.reports, j, {suite});
  if (!sum.disagree.empty()) {
    throw std::runtime_error("equal units came to different verdicts: " +
                             ranges({sum.disagree.begin(), sum.disagree.end()}));
  }
  return verdict == Verdict::finding ? Exit::finding : incomplete ? Exit::unknown : Exit::clean;
}

}  // namespace ringfence::cli
