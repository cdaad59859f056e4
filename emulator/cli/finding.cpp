#include "emulator/cli/finding.hpp"

#include <fmt/format.h>

#include <exception>

#include "emulator/cli/instance.hpp"
#include "emulator/cli/log.hpp"
#include "emulator/cli/reduce.hpp"
#include "emulator/cli/version.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/shrink.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/token.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::cli {

namespace {

// The smallest failing run: choices first, as a shorter run makes configurations cheap to compare.
void make_small(programs::Config& config, const schedule::RunSpec& base, schedule::Outcome& outcome,
                machine::FindingKind kind) {
  const auto shrink_choices = [&] {
    const Instance instance = make_inline_instance(config);
    const std::size_t before = outcome.decisions.size();
    schedule::Shrunk shrunk = schedule::shrink(*instance.executor, base, outcome, kind);
    outcome = std::move(shrunk.outcome);
    log_info(fmt::format("{}: {} choices shrunk to {} in {} runs{}", machine::name(kind), before,
                         outcome.decisions.size(), shrunk.runs,
                         shrunk.minimal ? "" : "; a limit ended it, fewer may do"));
  };
  Reduced reduced = reduce(config, base, outcome, kind);
  config = reduced.config;
  outcome = std::move(reduced.outcome);
  log_info(fmt::format("{}: smallest case that fails alike: {}", machine::name(kind),
                       trace::case_text(config)));
  shrink_choices();
}

trace::Header header_of(const Case& c, const programs::Config& config,
                        const schedule::RunSpec& base, const schedule::StrategySpec& strategy,
                        const std::string& executor) {
  trace::Header h;
  h.made_by = version();
  h.config = config;
  h.input_digest = c.input_digest;
  h.policy = base.policy;
  h.ignore = base.ignore;
  h.strategy = std::string(schedule::name(strategy.kind));
  h.seed = strategy.seed;
  h.executor = executor;
  h.faults = schedule::text(c.faults);
  h.survive = c.survive;
  return h;
}

// A token is for a line of a report: a run of very many choices has its file.
std::string short_token(const trace::Trace& t) {
  constexpr std::size_t kMost = 2000;
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

}  // namespace

schedule::RunSpec run_spec(const Case& c, machine::Boundary mode) {
  schedule::RunSpec spec;
  spec.policy = c.policy;
  spec.policy.boundary = mode;
  spec.ignore = c.ignore;
  spec.strategy.faults = c.faults;
  spec.survive = c.survive;
  return spec;
}

std::string replay_command(const std::string& path) {
  return "ringfence replay " + shell_word(path);
}

Recorded record_finding(const Case& c, machine::Boundary mode, const schedule::SearchResult& result,
                        const RecordOptions& options) {
  const schedule::RunSpec base = run_spec(c, mode);
  programs::Config config = c.config;
  schedule::Outcome outcome = result.outcome;
  Recorded r;
  r.kind = schedule::failure(outcome)->kind;

  // A process that was lost is no choice of the schedule; a kernel's trap is found again.
  const bool replayable = outcome.lost.empty();
  if (replayable && options.shrink) make_small(config, base, outcome, r.kind);

  // Told from an inline run with its history, confirmed over processes without.
  const Instance inline_instance = make_inline_instance(config);
  if (replayable) {
    schedule::RunSpec again = schedule::replay_spec(base, outcome.decisions);
    ExecutorOptions over_processes = options.executor;
    over_processes.executor = "processes";
    const Instance processes = make_instance(config, over_processes);
    r.confirmed = schedule::same_run(outcome, processes.executor->run(again));
    again.history = true;
    const schedule::Outcome told = inline_instance.executor->run(again);
    r.confirmed = r.confirmed && schedule::same_run(outcome, told);
    if (!r.confirmed) log_error("the executors disagree on a run: a fault of ringfence");
    outcome.history = told.history;
  }

  r.trace.header = header_of(c, config, base, result.strategy, options.executor.executor);
  r.trace.decisions = outcome.decisions;
  r.trace.verdict = trace::make_verdict(outcome, *inline_instance.program);
  const std::string folder = options.folder.empty() ? "" : options.folder + "/";
  r.path = options.path.empty() ? folder + trace::file_name(r.trace) : options.path;
  if (replayable) r.token = short_token(r.trace);
  std::string replay = replay_command(r.path);
  std::exception_ptr unwritten;
  try {
    trace::write_file(r.path, r.trace);
  } catch (const std::exception&) {
    unwritten = std::current_exception();
    replay.clear();  // the token is told, too
  }
  if (replayable && options.remedies) {
    r.remedies = find_remedies(config, base, outcome.decisions);
  }
  r.story = trace::story(
      r.trace, outcome, *inline_instance.program,
      {.replay = replay, .token = r.token, .remedy = text(r.remedies), .color = options.color});
  try {
    if (unwritten) std::rethrow_exception(unwritten);
    write_pictures(options.pictures, r.trace, outcome, *inline_instance.program, replay,
                   text(r.remedies));
  } catch (const std::exception&) {
    // Whoever catches this has no room for a story, and a finding may not be lost for a full disk.
    fmt::print("{}\n", r.story);
    throw;
  }
  return r;
}

void show_default_schedule(const Case& c, machine::Boundary mode, const PictureOptions& pictures) {
  const Instance instance = make_inline_instance(c.config);
  schedule::RunSpec spec = run_spec(c, mode);
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  spec.history = true;
  const schedule::Outcome outcome = instance.executor->run(spec);
  trace::Trace t;
  t.header = header_of(c, c.config, spec, spec.strategy, "inline");
  t.decisions = outcome.decisions;
  t.verdict = trace::make_verdict(outcome, *instance.program);
  write_pictures(pictures, t, outcome, *instance.program, "");
}

}  // namespace ringfence::cli
