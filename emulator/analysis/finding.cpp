#include "emulator/analysis/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/nearest.hpp"
#include "emulator/analysis/reduce.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/shrink.hpp"
#include "emulator/trace/cause.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/token.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::analysis {

namespace {

// The smallest failing run: choices first, as a shorter run makes configurations cheap to compare.
void make_small(SubjectPtr& subject, const schedule::RunSpec& base, schedule::Outcome& outcome,
                machine::FindingKind kind, const Watch& watch) {
  const auto shrink_choices = [&] {
    const Instance instance = make_inline_instance(*subject);
    const std::size_t before = outcome.decisions.size();
    schedule::Shrunk shrunk = schedule::shrink(*instance.executor, base, outcome, kind);
    outcome = std::move(shrunk.outcome);
    watch.info(
        fmt::format("{}: {} choices shrunk to {} in {} runs{}", machine::name(kind), before,
                    outcome.decisions.size(), shrunk.runs,
                    shrunk.minimal ? "" : "; a limit ended the shrinking, fewer may be enough"));
  };
  Reduced reduced = reduce(subject, base, outcome, kind);
  subject = reduced.subject;
  outcome = std::move(reduced.outcome);
  watch.info(fmt::format("{}: smallest case with the same failure: {}", machine::name(kind),
                         trace::case_text(subject->config())));
  shrink_choices();
}

trace::Header header_of(const Task& task, const trace::Configuration& config,
                        const schedule::RunSpec& base, const schedule::StrategySpec& strategy,
                        const std::string& executor) {
  trace::Header h;
  h.made_by = version();
  h.config = config;
  h.input_digest = task.input_digest;
  h.policy = base.policy;
  h.ignore = base.ignore;
  h.strategy = std::string(schedule::name(strategy.kind));
  h.seed = strategy.seed;
  h.executor = executor;
  h.faults = schedule::text(task.faults);
  h.survive = task.survive;
  return h;
}

// A token is for a line of a report: a run of very many choices has its file.
std::string short_token(const trace::Trace& t) {
  constexpr std::size_t kMost = 2000;
  if (t.header.config.own() != nullptr) return {};  // no command could take it
  std::string token = trace::to_token(t);
  return token.size() <= kMost ? token : std::string();
}

// Text that a shell takes as one word.
std::string shell_word(const std::string& text) {
  const bool plain =
      !text.empty() && text.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                           "_-./=+,:@%") == std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (char ch : text) quoted += ch == '\'' ? std::string("'\\''") : std::string(1, ch);
  return quoted + "'";
}

// What makes a finding smaller or tells more of it: as long as there is time and memory for it.
template <class F>
void in_time(const RecordOptions& options, F&& f) {
  double left = 0;
  if (options.until) {
    left = std::chrono::duration<double>(*options.until - RecordOptions::Clock::now()).count();
    if (left <= 0) return;
  }
  const schedule::TimeLimit limit(left);
  try {
    f();
  } catch (const std::bad_alloc&) {
    options.watch.info("out of memory: the finding is not shrunk or explained any further");
  } catch (const schedule::OutOfMemory&) {
    options.watch.info("out of memory: the finding is not shrunk or explained any further");
  }
}

// Why a run that confirms a finding came to no end; empty if it did.
std::string no_end(const schedule::Outcome& again) {
  if (!again.lost.empty()) return trace::lost_text(again.lost.front());
  if (again.end != schedule::RunEnd::stopped) return "";
  return schedule::interrupted() ? "interrupted" : "the time was over";
}

// Runs it again over rank processes, and inline with its history.
void confirm(Settled& s, const schedule::RunSpec& base, const RecordOptions& options) {
  Finding& r = s.finding;
  schedule::RunSpec again = schedule::replay_spec(base, s.outcome.decisions);
  // Whether `executor` runs it as it was found; if not, why.
  const auto same = [&](schedule::Executor& executor, schedule::Outcome& out) {
    out = schedule::run_to_its_end(executor, again);
    r.unconfirmed = no_end(out);
    if (!r.unconfirmed.empty()) return false;
    r.disagree = !schedule::same_run(s.outcome, out);
    if (r.disagree) r.unconfirmed = "the executors disagree on it, which is a bug in ringfence";
    return !r.disagree;
  };
  try {
    ExecutorOptions over_processes = options.executor;
    over_processes.executor = s.subject->forks() ? "processes" : "inline";
    const Instance processes = make_instance(*s.subject, over_processes);
    schedule::Outcome out;
    r.confirmed = same(*processes.executor, out);
  } catch (const std::invalid_argument&) {
    throw;                             // of the case, not of this run
  } catch (const std::exception& e) {  // no memory for the segment or for a process
    r.unconfirmed = e.what();
  }
  const std::string unconfirmed = r.unconfirmed;
  try {
    s.instance = make_inline_instance(*s.subject);
    again.history = true;
    schedule::Outcome told;
    if (same(*s.instance.executor, told)) {
      s.outcome.history = std::move(told.history);
    } else {
      r.confirmed = false;
    }
  } catch (const std::bad_alloc& e) {
    r.confirmed = false;
    r.unconfirmed = "not enough memory to run it again";
  } catch (const schedule::OutOfMemory& e) {
    r.confirmed = false;
    r.unconfirmed = e.what();
  }
  // For the names in the story.
  if (s.instance.program == nullptr) s.instance.program = s.subject->make_program();
  if (!unconfirmed.empty()) r.unconfirmed = unconfirmed;
  if (r.disagree) options.watch.error("the executors disagree on a run: a bug in ringfence");
}

}  // namespace

namespace {

// The keys of the other instructions of a site's line of the source that do the same: what is put
// in at that line comes to all of them.
std::vector<std::string> same_line(const Subject& subject, const schedule::Program& program,
                                   std::uint16_t site) {
  const auto does = [](const std::string& name) {
    std::string text = name.substr(std::min(name.size(), name.find(": ")));
    if (text.starts_with(": ")) text.erase(0, 2);
    if (text.starts_with('@')) text.erase(0, std::min(text.size(), text.find(' ')) + 1);
    return text.substr(0, text.find(' '));
  };
  const std::string name = program.site_name(site), line = trace::line_of(name);
  std::vector<std::string> out;
  if (name.starts_with(line)) return out;  // a line of the PTX
  for (std::uint16_t other = 0; other < 0xffff; ++other) {
    const std::string its = program.site_name(other);
    if (its.starts_with("site ")) break;
    if (other == site || trace::line_of(its) != line || does(its) != does(name)) continue;
    out.push_back(subject.site_key(program, other));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::erase(out, subject.site_key(program, site));
  std::erase(out, std::string());
  return out;
}

}  // namespace

Clues clues_of(const Subject& subject, const schedule::Outcome& outcome,
               const schedule::Program& program, const trace::Verdict& verdict) {
  Clues clues;
  clues.cause_known = !verdict.cause.empty();
  const auto add = [&](std::uint16_t site) {
    const std::string key = subject.site_key(program, site);
    const auto& known = clues.sites;
    if (key.empty() || std::find(known.begin(), known.end(), key) != known.end()) return;
    clues.sites.push_back(key);
  };
  for (const trace::Hint& hint : verdict.hints) {
    using What = trace::Hint::What;
    if (hint.what == What::init || hint.what == What::clear) {
      const std::string key = subject.memory_key(program, hint.region);
      if (key.empty()) continue;
      const auto put_in = [&](const char* property, const char* value) {
        clues.insertions.push_back({key + property, "", value, program.region_name(hint.region)});
      };
      if (hint.what == What::init) {
        put_in("/init", "zero");
      } else {
        put_in("/clear", "call");
        put_in("/clear", "launch");
      }
      continue;
    }
    const std::string key = subject.site_key(program, hint.site);
    if (key.empty()) continue;
    if (hint.what == What::strong) {
      clues.flags.push_back(key);
      continue;
    }
    const char* what = "";
    switch (hint.what) {
      case What::barrier:
        what = "bar.sync";
        break;
      case What::fence:
        what = "fence.acq_rel.sys";
        break;
      case What::proxy_fence:
        what = "fence.proxy.async";
        break;
      case What::bulk_wait:
        what = "cp.async.bulk.wait_group";
        break;
      case What::bulk_wait_barrier:
        what = "cp.async.bulk.wait_group+bar.sync";
        break;
      case What::copy_wait:
        what = "cp.async.wait_group";
        break;
      case What::grid_wait:
        what = "griddepcontrol.wait";
        break;
      case What::init:
      case What::clear:
      case What::strong:
        break;
    }
    const char* const place = hint.behind ? "/after" : "/before";
    std::vector<std::string> also = same_line(subject, program, hint.site);
    for (std::string& other : also) other += place;
    clues.insertions.push_back(
        {key + place, "", what, trace::line_of(program.site_name(hint.site)), std::move(also)});
  }
  for (const std::size_t i : verdict.cause_steps) add(outcome.history[i].site);
  if (verdict.finding && verdict.finding->has_first) add(verdict.finding->first.site);
  if (verdict.finding && verdict.finding->has_second) add(verdict.finding->second.site);
  return clues;
}

std::string replay_command(const std::string& path) {
  return "ringfence replay " + shell_word(path);
}

Settled settle_finding(const Task& task, machine::Boundary mode,
                       const schedule::SearchResult& result, const RecordOptions& options) {
  const schedule::RunSpec base = run_spec(task, mode);
  Settled s;
  s.subject = task.subject;
  s.outcome = result.outcome;
  Finding& r = s.finding;
  r.kind = schedule::failure(s.outcome)->kind;
  if (options.shrink) {
    in_time(options, [&] { make_small(s.subject, base, s.outcome, r.kind, options.watch); });
  }
  confirm(s, base, options);
  r.trace.header =
      header_of(task, s.subject->config(), base, result.strategy, options.executor.executor);
  r.trace.decisions = s.outcome.decisions;
  r.trace.verdict = trace::make_verdict(s.outcome, *s.instance.program);
  trace::explain(r.trace.verdict, s.outcome, *s.instance.program, base.policy);
  try_remedies(s, task, mode, options);
  return s;
}

void try_remedies(Settled& s, const Task& task, machine::Boundary mode,
                  const RecordOptions& options) {
  if (options.remedies) {
    const schedule::RunSpec base = run_spec(task, mode);
    Finding& r = s.finding;
    const Clues clues = clues_of(*s.subject, s.outcome, *s.instance.program, r.trace.verdict);
    in_time(options, [&] {
      r.remedies = find_remedies(*s.subject, base, s.outcome.decisions, options.limits, clues,
                                 options.watch);
      r.remedies.instead = r.trace.verdict.fix;
    });
  }
}

Finding write_finding(Settled s, const RecordOptions& options) {
  Finding& r = s.finding;
  r.token = short_token(r.trace);
  std::string replay;
  const std::string folder = options.folder.empty() ? "" : options.folder + "/";
  if (options.write) {
    r.path = options.path.empty() ? folder + trace::file_name(r.trace) : options.path;
    replay = replay_command(r.path);
  }
  const auto written = [&](auto&& write) {
    try {
      write();
      return true;
    } catch (const std::exception& e) {
      if (r.unwritten.empty()) r.unwritten = e.what();
      return false;
    }
  };
  const auto write = [&] {
    if (options.path.empty() && !folder.empty()) std::filesystem::create_directories(folder);
    trace::write_file(r.path, r.trace);
  };
  if (options.write && !written(write)) {
    replay.clear();  // the token is told, too
    std::error_code not_empty;
    if (options.path.empty() && !folder.empty()) std::filesystem::remove(options.folder, not_empty);
  }
  r.story = trace::story(
      r.trace, s.outcome, *s.instance.program,
      {.replay = replay, .token = r.token, .remedy = text(r.remedies), .color = options.color});
  written([&] {
    std::optional<schedule::Outcome> passing;
    if (!options.pictures.html.empty()) {
      passing = nearest_passing(*s.subject, r.trace, s.outcome);
    }
    write_pictures(options.pictures, *s.subject, r.trace, s.outcome, *s.instance.program, replay,
                   text(r.remedies), passing ? &*passing : nullptr);
  });
  return std::move(r);
}

Finding record_finding(const Task& task, machine::Boundary mode,
                       const schedule::SearchResult& result, const RecordOptions& options) {
  return write_finding(settle_finding(task, mode, result, options), options);
}

void show_default_schedule(const Task& task, machine::Boundary mode,
                           const PictureOptions& pictures) {
  const Instance instance = make_inline_instance(*task.subject);
  schedule::RunSpec spec = run_spec(task, mode);
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  spec.history = true;
  const schedule::Outcome outcome = instance.executor->run(spec);
  trace::Trace t;
  t.header = header_of(task, task.config(), spec, spec.strategy, "inline");
  t.decisions = outcome.decisions;
  t.verdict = trace::make_verdict(outcome, *instance.program);
  write_pictures(pictures, *task.subject, t, outcome, *instance.program, "");
}

}  // namespace ringfence::analysis
