#include "tests/oracle/compare.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "emulator/cases/case_program.hpp"
#include "emulator/check/explorer.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "tests/oracle/print.hpp"

namespace ringfence::oracle {
namespace {

namespace fs = std::filesystem;

// A folder of its own for the PTX that a case names, gone with it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "ringfence-oracle-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Comparison {
 public:
  // The search may be in another mode than that of the schedules.
  Comparison(const Kernel& kernel, const Limits& limits)
      : Comparison(kernel, limits, limits.boundary) {}
  Comparison(const Kernel& kernel, const Limits& limits, machine::Boundary searched)
      : kernel_(kernel), limits_(limits), searched_(searched) {
    std::ofstream(folder_.path() / "k.ptx") << to_ptx(kernel);
    case_ = cases::parse_case(to_case(kernel, "k.ptx"), (folder_.path() / "k.toml").string());
  }

  Judged run(bool past_findings) {
    if (!past_findings) {
      search({});
      judged_.verdict = result_.verdict == check::Verdict::pass   ? Verdict::pass
                        : result_.verdict == check::Verdict::fail ? Verdict::fail
                                                                  : Verdict::unknown;
      if (const auto f = schedule::failure(result_.outcome); judged_.verdict == Verdict::fail) {
        judged_.finding = f ? machine::name(f->kind) : "?";
      }
      judged_.whole = judged_.verdict == Verdict::pass;
    }
    std::vector<machine::FindingKind> ignore;
    if (past_findings || judged_.verdict == Verdict::fail) {
      using machine::FindingKind;
      ignore = {FindingKind::data_race, FindingKind::deadlock, FindingKind::livelock,
                FindingKind::lost_signal};
      judged_.outcomes.clear();
      search(ignore);
      // Of a run that a missed phase of an mbarrier leaves stuck, check does not explore those in
      // which the wait came earlier: it has failed, and with deadlocks passed over they are left
      // out. The same at the point of coherence.
      const bool coherent = limits_.boundary == machine::Boundary::coherent;
      const bool missed = result_.blocked > 0 && (!kernel_.mbarriers.empty() || coherent);
      judged_.undefined = result_.verdict == check::Verdict::fail || missed;
      // Orders of lanes that were left out show where one matters, but not where lanes are the
      // threads, or at the point of coherence; what has no run at all does not.
      const bool lacks = std::any_of(
          result_.left_out.begin(), result_.left_out.end(), [&](const check::LeftOut& o) {
            return kernel_.paired || coherent || o.what != check::LeftOut::What::lanes;
          });
      judged_.whole = !judged_.undefined && !lacks && result_.explored == 1 && result_.bounded == 0;
    }
    for (const check::LeftOut& o : result_.left_out) {
      judged_.left_out += fmt::format("{}{} {} {:x}", judged_.left_out.empty() ? "" : ", ",
                                      o.word(), program()->site_name(o.first), o.label);
    }
    judged_.executions = result_.complete + result_.blocked;
    if (judged_.whole && limits_.schedules > 0) fuzz(ignore);
    return std::move(judged_);
  }

 private:
  schedule::RunSpec run_spec(const std::vector<machine::FindingKind>& ignore,
                             machine::Boundary boundary) const {
    schedule::RunSpec spec;
    spec.policy.boundary = boundary;
    spec.ignore = ignore;
    spec.point_limit = 1U << 14;
    return spec;
  }

  std::unique_ptr<cases::CaseProgram> program() const {
    return std::make_unique<cases::CaseProgram>(case_, cases::Settings{});
  }

  // Calls f(address) for each word of an outcome.
  template <class F>
  void each_word(const schedule::Program& program, const machine::Machine& machine, F f) const {
    std::vector<machine::RegionId> results, memories;
    for (int r = 0; r < kernel_.ranks; ++r) {
      for (machine::RegionId id = 0; id < machine.region_count(); ++id) {
        const std::string name = program.region_name(id);
        if (name == fmt::format("out of rank {}", r)) results.push_back(id);
        if (name == fmt::format("m of rank {}", r)) memories.push_back(id);
      }
    }
    for (int t = 0; t < static_cast<int>(kernel_.threads.size()); ++t) {
      const auto& code = kernel_.threads[static_cast<std::size_t>(t)];
      for (int i = 0; i < static_cast<int>(code.size()); ++i) {
        if (!has_result(code[static_cast<std::size_t>(i)].kind)) continue;
        f(machine::Address{results.at(static_cast<std::size_t>(kernel_.rank_of(t))),
                           static_cast<std::uint64_t>(result_offset(kernel_, t, i))});
      }
    }
    for (int l = 0; l < static_cast<int>(kernel_.locations.size()); ++l) {
      const Location& location = kernel_.locations[static_cast<std::size_t>(l)];
      if (location.shared) continue;
      f(machine::Address{memories.at(static_cast<std::size_t>(location.owner)),
                         static_cast<std::uint64_t>(global_offset(l))});
    }
  }

  void search(const std::vector<machine::FindingKind>& ignore) {
    check::CheckSpec spec;
    spec.run = run_spec(ignore, searched_);
    std::uint32_t orders = 1;
    double seconds = limits_.seconds;
    std::uint64_t blocked = 0, bounded = 0;
    // For each order of what the program itself chooses, such as launches that may overlap.
    for (spec.sum_order = 0; spec.sum_order < orders; ++spec.sum_order) {
      spec.seconds = seconds;
      result_ = check::check([&] { return program(); }, spec, 1,
                             [&](const check::Execution& e) { add_outcomes(e); });
      orders = std::max(orders, result_.sum_orders);
      result_.blocked = blocked += result_.blocked;
      result_.bounded = bounded += result_.bounded;
      seconds -= result_.seconds;
      if (result_.verdict != check::Verdict::pass) return;
      if (seconds <= 0 && spec.sum_order + 1 < orders) {
        result_.verdict = check::Verdict::unknown;
        result_.explored = 0;
        return;
      }
    }
  }

  void add_outcomes(const check::Execution& e) {
    if (e.outcome.end != schedule::RunEnd::complete) return;
    Outcomes partial = {{}};
    each_word(e.program, e.machine, [&](machine::Address at) {
      Outcomes longer;
      for (const std::uint64_t v : e.final_values(at, 4)) {
        for (Outcome o : partial) {
          o.push_back(v);
          longer.insert(std::move(o));
        }
      }
      partial = std::move(longer);
    });
    judged_.outcomes.merge(partial);
  }

  void fuzz(const std::vector<machine::FindingKind>& ignore) {
    const auto program = this->program();
    schedule::InlineExecutor executor(*program);
    schedule::RunSpec spec = run_spec(ignore, limits_.boundary);
    for (std::uint64_t n = 0; n < limits_.schedules; ++n) {
      spec.strategy.kind = n == 0       ? schedule::StrategySpec::Kind::first
                           : n % 2 == 0 ? schedule::StrategySpec::Kind::random
                                        : schedule::StrategySpec::Kind::pct;
      spec.strategy.stale = n % 3 == 0 ? 0.3 : 0.05;
      spec.strategy.seed = kernel_.seed * 1000003 + n;
      const schedule::Outcome run = executor.run(spec);
      if (n == 0) spec.expected_points = run.points;
      if (const auto f = schedule::failure(run)) {
        judged_.difference = fmt::format("schedule {} fails: {}\n", n, machine::name(f->kind));
        return;
      }
      if (run.end != schedule::RunEnd::complete) continue;
      Outcome outcome;
      each_word(*program, executor.machine(), [&](machine::Address at) {
        std::uint32_t value = 0;
        executor.machine().peek(at, std::as_writable_bytes(std::span(&value, 1)));
        outcome.push_back(value);
      });
      if (judged_.outcomes.contains(outcome)) continue;
      judged_.difference =
          fmt::format("schedule {} ends with{}\n", n, oracle::text(kernel_, outcome));
      return;
    }
  }

  const Kernel& kernel_;
  const Limits& limits_;
  const machine::Boundary searched_;
  Folder folder_;
  cases::CaseFile case_;
  check::CheckResult result_;
  Judged judged_;
};

// What two lanes of one warp do, against the same by two warps: both are threads.
std::string difference_from_warps(const Kernel& kernel, const Judged& lanes, const Judged& warps) {
  if (!warps.difference.empty()) return "apart, " + warps.difference;
  if (lanes.verdict == Verdict::unknown || warps.verdict == Verdict::unknown) return "";
  const auto word = [](Verdict v) { return v == Verdict::pass ? "PASS" : "FAIL"; };
  if (lanes.verdict != warps.verdict) {
    return fmt::format("{} as lanes of a warp, {} as warps\n", word(lanes.verdict),
                       word(warps.verdict));
  }
  if (!lanes.whole || !warps.whole) return "";
  for (const auto& [some, others, who] :
       {std::tuple(&lanes, &warps, "lanes"), std::tuple(&warps, &lanes, "warps")}) {
    for (const Outcome& o : some->outcomes) {
      if (!others->outcomes.contains(o)) {
        return fmt::format("only {} end with{}\n", who, text(kernel, o));
      }
    }
  }
  return "";
}

// What passes in mode stream passes in mode coherent, and ends there with nothing else
// (check::check_by_stream).
std::string difference_from_stream(const Kernel& kernel, const Judged& coherent,
                                   const Limits& limits) {
  const Judged stream = Comparison(kernel, limits, machine::Boundary::stream).run(false);
  if (stream.verdict != Verdict::pass) return "";
  if (!stream.difference.empty()) return "by mode stream, " + stream.difference;
  if (coherent.verdict == Verdict::fail) {
    return fmt::format("{} in mode coherent, PASS in mode stream\n", coherent.finding);
  }
  for (const Outcome& o : coherent.outcomes) {
    if (!stream.outcomes.contains(o)) {
      return fmt::format("only mode coherent ends with{}\n", text(kernel, o));
    }
  }
  return "";
}

}  // namespace

Judged judge(const Kernel& kernel, const Limits& limits, bool past_findings) {
  Judged judged = Comparison(kernel, limits).run(past_findings);
  if (limits.boundary == machine::Boundary::coherent && judged.difference.empty()) {
    judged.difference = difference_from_stream(kernel, judged, limits);
    if (!judged.difference.empty()) return judged;
  }
  if (!kernel.paired || !judged.difference.empty()) return judged;
  Kernel apart = kernel;
  apart.paired = false;
  judged.difference =
      difference_from_warps(kernel, judged, Comparison(apart, limits).run(past_findings));
  return judged;
}

std::string text(const Kernel& kernel, const Outcome& outcome) {
  std::string text;
  std::size_t at = 0;
  for (std::size_t t = 0; t < kernel.threads.size(); ++t) {
    for (std::size_t i = 0; i < kernel.threads[t].size(); ++i) {
      if (!has_result(kernel.threads[t][i].kind)) continue;
      text += fmt::format(" T{}:r{}={}", t, i, outcome.at(at++));
    }
  }
  for (std::size_t l = 0; l < kernel.locations.size(); ++l) {
    if (!kernel.locations[l].shared) text += fmt::format(" m{}={}", l, outcome.at(at++));
  }
  return text;
}

}  // namespace ringfence::oracle
