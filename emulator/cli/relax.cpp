// relax: which orders, scopes, fences and barriers of a protocol or of compiled kernels are needed,
// and how strong.
#include "emulator/cli/relax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/analysis/budget.hpp"
#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/relax.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

const char* what_ended(const RelaxResult& r) {
  return r.end == RelaxEnd::signal ? "interrupted" : "--time is over";
}

void print_table(machine::Boundary mode, const RelaxResult& r, std::uint64_t schedules) {
  const std::vector<RelaxedSite>& sites = r.sites;
  std::size_t key = 4, where = 0;
  bool searched = false;
  for (const RelaxedSite& s : sites) {
    key = std::max(key, s.key.size());
    where = std::max(where, s.where.size());
    searched |= s.searched;
  }
  const auto place = [&](const std::string& text) {
    return where == 0 ? std::string() : fmt::format("  {:<{}}", text, where);
  };
  fmt::print("mode {}\n{:<{}}{}  {:<8} {:<8} {:<8} {:<5} {}\n", machine::name(mode), "site", key,
             place("instruction (CUDA line)"), "present", "alone", "jointly", "by",
             "why not weaker");
  for (const RelaxedSite& s : sites) {
    fmt::print("{:<{}}{}  {:<8} {:<8} {:<8} {:<5} {}{}\n", s.key, key, place(s.where), s.present,
               s.alone, s.jointly.empty() ? "-" : s.jointly, s.searched ? "fuzz" : "check", s.why,
               s.trace.empty() ? "" : " (" + s.trace + ")");
  }
  if (searched) {
    fmt::print(
        "fuzz: a limit ended the exhaustive search, and {} random schedules found nothing: no "
        "proof\n",
        schedules);
  }
  const bool joined = !sites.empty() && sites.back().jointly.empty();
  if (r.untried > 0) {
    fmt::print("{}: {} more site{} not tried\n", what_ended(r), r.untried,
               r.untried == 1 ? " was" : "s were");
  } else if (joined) {
    fmt::print("{}: -: not tried with the others weakened\n", what_ended(r));
  }
  fmt::print("\n");
}

}  // namespace

Exit run(const RelaxOptions& o) {
  const Task c = resolve(o.c);
  check_writable(o.reports);
  if (!o.traces.empty()) check_writable("--traces", o.traces + "/x");
  check_memory(*c.subject, o.jobs);
  const Budget budget(o.seconds);
  fmt::print(
      "relax {}\npolicies {}\nexhaustive at these sizes, at most {} executions and {} s per "
      "variant; beyond that {} schedules{}\n\n",
      trace::case_text(c.config()), trace::policy_text(c.policy, c.config()), o.executions,
      o.variant_seconds, o.schedules,
      o.seconds > 0 ? fmt::format("; at most {} s in all", o.seconds) : "");
  std::fflush(stdout);
  Json tables = Json::object();
  bool any = false;
  RelaxEnd end = RelaxEnd::whole;
  const RelaxSpec spec{o.executions, o.variant_seconds, budget.end(), o.schedules,
                       o.jobs,       o.traces};
  ShownProgress shown("checks");
  for (const machine::Boundary mode : c.modes) {
    const RelaxResult r = relax(c, mode, spec, shown.watch());
    end = std::max(end, r.end);
    if (!r.any()) {
      fmt::print("mode {}: {}\n\n", machine::name(mode),
                 r.start == Answer::fails   ? "it fails unchanged, so there is nothing to relax"
                 : r.end != RelaxEnd::whole ? fmt::format("{}: not decided", what_ended(r))
                                            : "not decided within the limits");
      tables[std::string(machine::name(mode))] = nullptr;
      continue;
    }
    any = true;
    print_table(mode, r, o.schedules);
    std::fflush(stdout);
    Json rows = Json::array();
    for (const RelaxedSite& s : r.sites) {
      rows.push_back(Json{{"site", s.key},
                          {"where", s.where},
                          {"present", s.present},
                          {"alone", s.alone},
                          {"jointly", s.jointly},
                          {"exhaustive", !s.searched},
                          {"why", s.why},
                          {"trace", s.trace}});
    }
    tables[std::string(machine::name(mode))] = rows;
  }
  if (end == RelaxEnd::time) fmt::print("UNKNOWN: --time ended it before all was tried\n");
  if (end == RelaxEnd::signal) fmt::print("UNKNOWN: interrupted before all was tried\n");
  const bool whole = any && end == RelaxEnd::whole;
  Json j = result_head("relax", whole ? Verdict::pass : Verdict::unknown, 0);
  j["configuration"] = config_json(c.config());
  j["policy"] = policy_json(c.policy, c.config());
  j["modes"] = tables;
  write_reports(o.reports, j, {});
  if (end == RelaxEnd::signal) return Exit::interrupted;
  return whole ? Exit::clean : Exit::unknown;
}

}  // namespace ringfence::cli
