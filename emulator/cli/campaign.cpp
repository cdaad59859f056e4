#include "emulator/cli/campaign.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/analysis/budget.hpp"
#include "emulator/analysis/check.hpp"
#include "emulator/analysis/fuzz.hpp"
#include "emulator/analysis/json.hpp"
#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/swarm.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/cli/campaign_file.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/shard.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

using schedule::StrategySpec;

// FNV-1a, as the digits are for telling campaigns apart and nothing else.
std::string digest(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("{:016x}", h);
}

Json strategy_json(const StrategySpec& s) {
  Json j{{"name", schedule::name(s.kind)}, {"depth", s.depth}, {"stale", s.stale}};
  if (s.faults.any()) j["faults"] = schedule::text(s.faults);
  return j;
}

Json head_of(const CampaignOptions& o, const std::vector<Task>& cases,
             const CampaignSearch& search) {
  const Task& base = cases.front();
  Json what{{"configuration", config_json(base.config())},
            {"policy", policy_json(base.policy, base.config())},
            {"strategy", strategy_json(search.strategy)},
            {"swarm", o.swarm},
            {"draw_protocol", search.draw_protocol}};
  Json modes = Json::array(), ignore = Json::array();
  for (const auto mode : base.modes) modes.push_back(machine::name(mode));
  for (const auto kind : base.ignore) ignore.push_back(machine::name(kind));
  what["modes"] = modes;
  what["ignore"] = ignore;
  if (!o.cases.empty()) {
    what["cases"] = Json::array();
    for (const Task& c : cases) what["cases"].push_back(config_json(c.config()));
  }
  if (o.exhaustive) what["exhaustive"] = search.executions;
  if (base.survive) what["survive"] = true;
  // Then what a unit finds depends on what was there when it ran.
  if (!search.corpus.empty()) what["corpus"] = true;
  Json head{{"version", kCampaignVersion},   {"ringfence", version()},
            {"seed", search.strategy.seed},  {"units", o.units},
            {"schedules", search.schedules}, {"what", what}};
  Json out{{"campaign", digest(head.dump())}};
  out.update(head);
  return out;
}

// One unit: its case, and what its searches in each judged mode found.
class Unit {
 public:
  Unit(const CampaignOptions& o, const Task& base, const CampaignSearch& search,
       std::uint64_t number)
      : options_(o), search_(search), number_(number), case_(base), strategy_(search.strategy) {
    strategy_.seed = schedule::schedule_seed(search.strategy.seed, number);
    if (!o.swarm) return;
    const SwarmChoice drawn =
        draw_swarm(*base.config().protocol(), strategy_, strategy_.seed, search.draw_protocol);
    case_.subject = make_subject(drawn.config);
    strategy_ = drawn.strategy;
    case_.faults = strategy_.faults;
    if (base.modes.size() > 1) case_.judged = case_.subject->claims();
  }

  Json run() {
    check_memory(*case_.subject, search_.jobs);
    Json modes = Json::object(), findings = Json::array();
    Verdict verdict = Verdict::pass;
    std::uint64_t schedules = 0, distinct = 0, points = 0;
    double seconds = 0;
    for (const machine::Boundary mode : case_.modes) {
      // What nobody claims is no finding of a campaign: one search is enough to know it.
      if (!case_.judges(mode)) continue;
      const schedule::SearchResult r =
          options_.exhaustive ? explore_mode(case_, mode, search_.executions, search_.jobs)
                              : search_mode(case_, mode, spec());
      if (schedule::interrupted()) throw Interrupted();
      if (!r.found) schedule::throw_if_stopped();  // in the middle of a unit: it is left
      schedules += r.schedules;
      distinct += r.distinct;
      points += r.points;
      seconds += r.seconds;
      const Verdict v = r.found           ? Verdict::finding
                        : r.undecided > 0 ? Verdict::unknown
                                          : Verdict::pass;
      modes[std::string(machine::name(mode))] = name(v);
      if (v == Verdict::finding || (v == Verdict::unknown && verdict == Verdict::pass)) {
        verdict = v;
      }
      if (r.found) findings.push_back(record(mode, r));
      if (schedule::interrupted()) throw Interrupted();
    }
    return Json{
        {"unit", number_},
        {"seed", strategy_.seed},
        {"configuration", config_json(case_.config())},
        {"strategy", options_.exhaustive ? Json{{"name", "check"}, {"depth", 0}, {"stale", 0}}
                                         : strategy_json(strategy_)},
        {"verdict", name(verdict)},
        {"modes", modes},
        {"schedules", schedules},
        {"distinct", distinct},
        {"points", points},
        {"seconds", seconds},
        {"findings", findings}};
  }

  std::string text() const {
    const std::string faults = schedule::text(strategy_.faults);
    return fmt::format("unit {}, seed {}: {}{}", number_, strategy_.seed,
                       trace::case_text(case_.config()),
                       faults.empty() ? "" : ", faults " + faults);
  }

 private:
  FuzzSpec spec() const {
    FuzzSpec s;
    s.strategy = strategy_;
    s.schedules = search_.schedules;
    s.jobs = search_.jobs;
    s.executor = search_.executor;
    s.corpus = search_.corpus;
    return s;
  }

  // The trace is named by its content: what was found before has its file already.
  Json record(machine::Boundary mode, const schedule::SearchResult& r) const {
    RecordOptions record;
    record.executor = search_.executor;
    record.shrink = search_.shrink;
    record.folder = options_.folder;
    record.until = search_.until;
    const Finding found = record_finding(case_, mode, r, record);
    if (!found.unwritten.empty()) {
      // The campaign is its files: no line without its trace. But the finding is told.
      fmt::print("{}\n", found.story);
      note_told();
      throw UsageError(found.unwritten);
    }
    const std::string file = std::filesystem::path(found.path).filename().string();
    return Json{{"id", file.substr(0, file.size() - trace::kSuffix.size())},
                {"kind", machine::name(found.kind)},
                {"mode", machine::name(mode)},
                {"claimed", case_.claims(mode)},
                {"judged", case_.judges(mode)},
                {"strategy", options_.exhaustive ? "check" : schedule::name(r.strategy.kind)},
                {"message", found.trace.verdict.message},
                {"cause", found.trace.verdict.cause},
                {"fix", found.trace.verdict.fix},
                {"trace", file},
                {"confirmed", found.confirmed},
                {"remedies", to_json(found.remedies)}};
  }

  const CampaignOptions& options_;
  const CampaignSearch& search_;
  std::uint64_t number_;
  Task case_;
  StrategySpec strategy_;
};

// A fault that every search finds: where it is not found, nothing would be.
bool canary_is_found(const CampaignSearch& search, Json& line) {
  programs::Config config;
  config.ranks = 2;
  config.blocks = 1;
  config.tokens = 2;
  config.set = {{"end.put", "relaxed"}};
  Task task;
  task.subject = make_subject(config);
  FuzzSpec spec;
  spec.strategy = search.strategy;
  spec.schedules = search.schedules;
  spec.executor = search.executor;
  task.faults = search.strategy.faults;
  const auto r = search_mode(task, machine::Boundary::coherent, spec);
  const auto f = r.found ? schedule::failure(r.outcome) : std::nullopt;
  line = Json{{"canary", f ? "found" : "missed"},
              {"kind", f ? Json(machine::name(f->kind)) : Json(nullptr)},
              {"configuration", config_json(config)}};
  return f.has_value();
}

const char* environment(const char* name) { return std::getenv(name); }

// What became of a shard's units.
struct Tally {
  std::uint64_t ran = 0, resumed = 0, left = 0, found = 0, unknown = 0, schedules = 0;
  double seconds = 0;
  Json findings = Json::array();
};

Tally run_units(const CampaignOptions& o, const std::vector<Task>& cases,
                const CampaignSearch& search, const Shard& shard, CampaignWriter& writer) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Tally t;
  for (std::uint64_t number = 0; number < o.units; ++number) {
    if (!shard.takes(number)) continue;
    if (writer.done().contains(number)) {
      ++t.resumed;
      continue;
    }
    if (search.seconds > 0 && seconds() >= search.seconds) {
      ++t.left;
      continue;
    }
    Unit unit(o, cases[number % cases.size()], search, number);
    if (o.swarm || cases.size() > 1) {
      fmt::print("{}\n", unit.text());
      std::fflush(stdout);
    }
    Json line;
    try {
      line = unit.run();
    } catch (const schedule::StopRequested&) {
      if (schedule::interrupted()) throw;
      ++t.left;
      continue;
    }
    writer.append(line);
    ++t.ran;
    t.schedules += line["schedules"].get<std::uint64_t>();
    t.unknown += line["verdict"] == "unknown";
    for (const Json& f : line["findings"]) {
      ++t.found;
      t.findings.push_back(f);
      fmt::print("unit {}: {} in {}: {}\n  {}\n", number, f["kind"].get<std::string>(),
                 f["mode"].get<std::string>(), f["message"].get<std::string>(),
                 replay_command(
                     (std::filesystem::path(o.folder) / f["trace"].get<std::string>()).string()));
    }
    std::fflush(stdout);
  }
  t.seconds = seconds();
  return t;
}

Exit report_campaign(const Tally& t, const Json& head, const Shard& shard, const Task& base,
                     const CampaignSearch& search, const ReportOptions& reports) {
  const Verdict verdict = t.found > 0     ? Verdict::finding
                          : t.unknown > 0 ? Verdict::unknown
                                          : Verdict::pass;
  Json j = result_head("fuzz", verdict, search.strategy.seed);
  j["campaign"] = head["campaign"];
  j["shard"] = fmt::format("{}/{}", shard.index + 1, shard.count);
  j["configuration"] = config_json(base.config());
  j["units"] = Json{{"ran", t.ran}, {"resumed", t.resumed}, {"left", t.left}};
  j["executions"] = t.schedules;
  j["seconds"] = t.seconds;
  j["findings"] = t.findings;
  verify::JunitCase one;
  one.classname = "fuzz.campaign";
  one.name = fmt::format("shard {} of {}", shard.index + 1, shard.count);
  one.seconds = t.seconds;
  if (verdict != Verdict::pass) {
    one.status = t.found > 0 ? verify::JunitCase::Status::failed : verify::JunitCase::Status::error;
    one.message = fmt::format("{} findings, {} units without a verdict", t.found, t.unknown);
  }
  verify::JunitSuite suite;
  suite.name = "fuzz";
  suite.cases = {one};
  suite.properties = properties(base.config());
  write_reports(reports, j, {suite});
  return verdict == Verdict::finding   ? Exit::finding
         : verdict == Verdict::unknown ? Exit::unknown
                                       : Exit::clean;
}

}  // namespace

Exit run_campaign(CampaignOptions o, const std::vector<Task>& cases, CampaignSearch search,
                  const ReportOptions& reports) {
  const Task& base = cases.front();
  if (o.swarm && (base.config().protocol() == nullptr || !base.subject->input_file().empty())) {
    throw UsageError(
        "--swarm draws the sizes: expected neither --case nor --input, which fix them");
  }
  if (o.exhaustive && (search.strategy.faults.any() || !search.corpus.empty() || o.swarm)) {
    throw UsageError("--exhaustive explores all: expected neither --faults, --corpus nor --swarm");
  }
  // A second unit of one case would be the same search again.
  if (o.exhaustive && !given(o.units_given)) o.units = cases.size();
  const Shard shard = find_shard(o.shard, environment);
  acknowledge_shard(environment);
  const Json head = head_of(o, cases, search);
  CampaignWriter writer(o.folder, fmt::format("shard-{}-of-{}", shard.index + 1, shard.count),
                        head);
  fmt::print("campaign {}, shard {} of {}, {} units of {} schedules a mode, seed {}{}\n",
             head["campaign"].get<std::string>(), shard.index + 1, shard.count, o.units,
             search.schedules, search.strategy.seed, o.swarm ? ", swarm" : "");
  if (!o.swarm) {
    for (const Task& c : cases) fmt::print("{}\n", trace::case_text(c.config()));
  }
  if (o.canary) {
    Json line;
    const bool found = canary_is_found(search, line);
    writer.append(line);
    fmt::print("canary {}\n", found ? "found" : "MISSED");
    if (!found)
      throw std::runtime_error(
          "the canary's bug was not found: this search would miss other bugs, too");
  }

  const Budget budget(search.seconds);
  search.until = budget.end();
  const Tally t = run_units(o, cases, search, shard, writer);
  fmt::print("{} units ran, {} were done before, {} left; {} schedules in {:.1f} s; {} findings\n",
             t.ran, t.resumed, t.left, t.schedules, t.seconds, t.found);
  return report_campaign(t, head, shard, base, search, reports);
}

}  // namespace ringfence::cli
