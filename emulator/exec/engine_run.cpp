// What is pending runs: as one case, under the memory model.

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>

#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/finding.hpp"
#include "emulator/analysis/fuzz.hpp"
#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/exec/engine.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::exec {
namespace {

using Kind = Operation::Kind;
using machine::FindingKind;

// What a GPU goes on past, with whatever values it gives; the others end its kernel, or it never
// ends.
bool goes_on(FindingKind kind) {
  switch (kind) {
    case FindingKind::data_race:
    case FindingKind::stale_read:
    case FindingKind::lost_signal:
    case FindingKind::unrestored_signal:
    case FindingKind::uninitialised_read:
    case FindingKind::uninitialised_barrier:
    case FindingKind::incoherent_read:
      return true;
    default:
      return false;
  }
}

std::span<const std::uint8_t> bytes_of(const verify::Safetensors& memories, const Allocation& a) {
  const verify::Tensor& t = *memories.find(fmt::format("{}.{}", a.memory, a.device));
  return {reinterpret_cast<const std::uint8_t*>(t.bytes.data()), t.bytes.size()};
}

// What kernels print, of whichever process they are a part.
class Printed {
 public:
  Printed() : file_(memfd_create("printed", MFD_CLOEXEC)) {}
  ~Printed() { close(file_); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  void add(const std::string& text) const {
    static_cast<void>(!write(file_, text.data(), text.size()));
  }
  std::string take() const {
    std::string out(static_cast<std::size_t>(std::max<off_t>(0, lseek(file_, 0, SEEK_CUR))), '\0');
    const ssize_t got = pread(file_, out.data(), out.size(), 0);
    out.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    static_cast<void>(!ftruncate(file_, 0));
    lseek(file_, 0, SEEK_SET);
    return out;
  }

 private:
  int file_;
};

std::vector<const Operation*> without_touches(std::vector<const Operation*> batch) {
  std::erase_if(batch, [](const Operation* o) { return o->kind == Kind::touch; });
  return batch;
}

std::int32_t status_of(FindingKind kind, const std::string& message) {
  switch (kind) {
    case FindingKind::deadlock:
    case FindingKind::residency:
    case FindingKind::livelock:
      return kLaunchTimeout;
    case FindingKind::out_of_bounds:
    case FindingKind::multicast_misuse:
      return kIllegalAddress;
    case FindingKind::misaligned:
      return kMisalignedAddress;
    default:
      return message.find("assertion") != std::string::npos ? kAssertion : kLaunchFailure;
  }
}

}  // namespace

Engine::Numbers Engine::on_stream(std::uint64_t stream) const {
  Numbers out;
  for (const Operation& o : devices_.pending) {
    if (o.stream == stream) out.insert(o.number);
  }
  return with_past(out);
}

Engine::Numbers Engine::all_pending() const {
  Numbers out;
  for (const Operation& o : devices_.pending) out.insert(o.number);
  return out;
}

Engine::Numbers Engine::with_past(const Numbers& wanted) const {
  Numbers out = wanted;
  const auto before = order(devices_);
  for (auto o = devices_.pending.rbegin(); o != devices_.pending.rend(); ++o) {
    if (out.count(o->number) == 0) continue;
    for (const std::uint64_t n : before.at(o->number)) out.insert(n);
  }
  // What is over is pending no more.
  std::erase_if(out, [&](std::uint64_t n) { return before.count(n) == 0; });
  return out;
}

// A GPU may be as slow as it likes, and done with some streams before others. By the default all
// runs at the first query.
void Engine::query(Turn& turn, const Numbers& wanted) {
  if (wanted.empty()) return;
  if (options_.seed == 0) return wait_for(turn, wanted, true);
  const auto [at, first] = queried_.emplace(*wanted.rbegin(), Answers{});
  Answers& answers = at->second;
  if (first) {
    constexpr std::uint64_t kMostNotReady = 3;
    answers.not_ready = draws_() % (kMostNotReady + 1);
    answers.alone = draws_() % 2 != 0;
  }
  if (answers.not_ready != 0) {
    --answers.not_ready;
    turn.status = kNotReady;
    return;
  }
  wait_for(turn, wanted, true, answers.alone);
}

void Engine::wait_for(Turn& turn, const Numbers& wanted, bool query, bool alone) {
  const auto left = [&] {
    return std::any_of(devices_.pending.begin(), devices_.pending.end(),
                       [&](const Operation& o) { return wanted.count(o.number) != 0; });
  };
  if (devices_.pending.empty()) return;
  // Not again, where nothing came since they got stuck.
  const bool in_vain = stuck_at_ == next_operation_ &&
                       std::none_of(devices_.memory.begin(), devices_.memory.end(),
                                    [](const auto& m) { return m.second.changed_by_host(); });
  const Numbers all = all_pending(), needed = with_past(wanted);
  Ran ran = in_vain ? Ran::stuck : run(turn, alone ? needed : all, true);
  if (ran == Ran::stuck && needed.size() < all.size() && !needed.empty()) {
    stuck_at_ = next_operation_;
    ran = run(turn, alone && !in_vain ? all : needed, true);
  }
  if (ran == Ran::stuck) {
    stuck_at_ = next_operation_;
    if (query) {
      turn.status = left() || wanted.empty() ? kNotReady : kSuccess;
      return;
    }
    if (turn.request.last_word == 0) {
      turn.again = true;  // another thread of the program may bring what is missing
      return;
    }
    ran = run(turn, needed.empty() ? all : needed, false);
  }
  if (ran == Ran::failed) return;
  if (turn.callbacks != 0) turn.again = true;
}

Engine::Ran Engine::run(Turn& turn, const Numbers& numbers, bool may_stick) {
  // A callback holds up all that comes after it.
  const auto before = order(devices_);
  Numbers held;
  std::vector<const Operation*> batch, callbacks;
  for (const Operation& o : devices_.pending) {
    if (numbers.count(o.number) == 0) continue;
    const std::vector<std::uint64_t>& past = before.at(o.number);
    const bool behind =
        std::any_of(past.begin(), past.end(), [&](std::uint64_t n) { return held.count(n) != 0; });
    if (!behind && o.kind != Kind::callback) {
      batch.push_back(&o);
      continue;
    }
    held.insert(o.number);
    if (!behind) callbacks.push_back(&o);
  }
  const bool any_launch = std::any_of(batch.begin(), batch.end(),
                                      [](const Operation* o) { return o->kind == Kind::launch; });
  if (any_launch) {
    const Ran ran = run_case(turn, batch, may_stick);
    if (ran != Ran::done) return ran;
  } else {
    for (const Operation* o : batch) {
      if (o->kind == Kind::copy || o->kind == Kind::fill) apply(turn, *o);
    }
  }
  Numbers over;
  if (numbers.size() == devices_.pending.size()) {
    for (const Operation& o : devices_.pending) {
      if (o.kind == Kind::touch) over.insert(o.number);
    }
  }
  for (const Operation* o : callbacks) {
    ++turn.callbacks;
    turn.to_call.put(o->function).put(o->argument);
    over.insert(o->number);
  }
  finish(batch);
  drop(over);
  return Ran::done;
}

void Engine::finish(const std::vector<const Operation*>& batch) {
  Numbers over;
  const auto now = std::chrono::steady_clock::now();
  for (const Operation* o : batch) {
    over.insert(o->number);
    if (o->kind == Kind::release) devices_.memory.erase(o->to);
    if (o->kind != Kind::record) continue;
    const auto at = devices_.events.find(o->event);
    if (at != devices_.events.end() && at->second.record == o->number) at->second = {0, now};
  }
  drop(over);
}

void Engine::tell(const std::string& kind, const std::string& story) {
  summary_.findings.push_back(kind);
  say(story);
}

// By device: those whose memories it was given access to.
std::vector<std::vector<std::uint32_t>> Engine::reach() const {
  std::vector<std::vector<std::uint32_t>> out(devices_.count);
  for (const auto& [device, peer] : peers_) out[device].push_back(peer);
  return out;
}

analysis::Task Engine::task_of(const Stretch& stretch, const std::string& name) const {
  const std::string path =
      options_.capture.empty() ? name + ".toml" : options_.capture + "/" + name + ".toml";
  cases::CaseFile file = cases::parse_case(stretch.toml, path);
  file.contents[path] = stretch.toml;
  for (const auto& [file_name, bytes] : stretch.files)
    file.contents[file.beside(file_name)] = bytes;
  trace::CaseConfig config = analysis::config_of(file);
  config.calls = 1;
  analysis::Task task;
  task.subject = analysis::make_case_subject(std::move(file), config);
  task.policy = options_.policy;
  task.ignore = options_.ignore;
  task.modes = task.judged = task.claimed = {options_.boundary};
  return task;
}

schedule::StrategySpec Engine::strategy() const {
  schedule::StrategySpec out;
  out.kind = schedule::StrategySpec::Kind::first;
  if (options_.seed == 0) return out;
  out.kind = schedule::StrategySpec::Kind::portfolio;
  out.seed = options_.seed * 1000003 + summary_.stretches;
  return schedule::drawn(out);
}

// The host may see what kernels that got stuck have told it so far, and answer.
void Engine::show(const verify::Safetensors& memories) {
  for (auto& [address, a] : devices_.memory) {
    if (a.host != nullptr) a.show(bytes_of(memories, a).data());
  }
}

// What became of the memories.
void Engine::take(Turn& turn, const Stretch& stretch, cases::CaseProgram& program) {
  const verify::Safetensors memories = program.final_memories();
  for (auto& [address, a] : devices_.memory) {
    const std::span<const std::uint8_t> then = bytes_of(memories, a);
    if (a.host != nullptr) {
      a.end(then.data(), !kept_);
      continue;
    }
    if (std::all_of(then.begin(), then.end(), [](std::uint8_t b) { return b == 0; })) {
      a.content.clear();
    } else {
      a.content.assign(then.begin(), then.end());
    }
    if (a.unset.empty()) continue;
    const Pieces not_written = program.not_written(a.memory, a.device);
    std::uint64_t at = 0;
    for (const auto& [begin, end] : not_written) {
      if (at < begin) cut(a.unset, at, begin);
      at = end;
    }
    if (at < a.bytes) cut(a.unset, at, a.bytes);
  }
  for (const Stretch::ToHost& h : stretch.to_host) {
    const verify::Tensor& t = *memories.find(fmt::format("{}.{}", h.memory, h.rank));
    ++turn.writes;
    turn.to_host.put(h.to).blob({reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()});
  }
}

// Runs once more, with a history of the run.
void Engine::tell_again(const analysis::Task& task, const analysis::Instance& instance,
                        schedule::RunSpec spec, FindingKind finding, const std::string& name) {
  spec.history = true;
  const schedule::Outcome outcome = instance.executor->run(spec);
  trace::Trace t;
  t.header.made_by = analysis::version();
  t.header.config = task.config();
  t.header.policy = spec.policy;
  t.verdict = trace::make_verdict(outcome, *instance.program);
  trace::StoryOptions o;
  o.color = options_.color;
  const std::string kind(machine::name(finding));
  tell(kind, fmt::format("\nringfence exec: {} in stretch {}\n{}", kind, name,
                         trace::story(t, outcome, *instance.program, o)));
}

// What these operations are as a case. False: nobody can say, and it was told why.
bool Engine::prepare(const std::vector<const Operation*>& batch, const std::string& name,
                     Stretch& stretch, analysis::Task& task) {
  try {
    // Who waits for all of it has no accesses beside it but those there were.
    if (watches()) keep(batch, name);
    const std::vector<const Operation*> own = without_touches(batch);
    for (auto& [address, a] : devices_.memory) {
      if (a.host != nullptr) a.begin();
    }
    stretch =
        make_stretch(devices_, reach(), own, name, std::string(machine::name(options_.boundary)));
    write_capture(stretch, name);
    task = task_of(stretch, name);
    return true;
  } catch (const std::exception& e) {
    say(fmt::format("ringfence exec: {}", e.what()));
    summary_.unknown = true;
    return false;
  }
}

Engine::Ran Engine::run_case(Turn& turn, const std::vector<const Operation*>& batch,
                             bool may_stick) {
  const std::string name = fmt::format("{:03}", summary_.stretches + 1);
  const auto fail = [&](std::int32_t status) {
    sticky_ = turn.status = status;
    return Ran::failed;
  };
  analysis::Task task;
  Stretch stretch;
  if (!prepare(batch, name, stretch, task)) return fail(kNotSupported);

  Printed printed;
  std::vector<FindingKind> told;
  for (;;) {
    analysis::Instance instance;
    schedule::RunSpec spec = analysis::run_spec(task, options_.boundary);
    schedule::Outcome outcome;
    try {
      instance = analysis::make_instance(*task.subject, options_.executor);
      auto& program = static_cast<cases::CaseProgram&>(*instance.program);
      program.print_to([&](const std::string& text) { printed.add(text); });
      spec.point_limit = ~std::uint32_t{0};
      spec.strategy = strategy();
      static_cast<void>(printed.take());
      outcome = instance.executor->run(spec);
    } catch (const std::exception& e) {
      say(fmt::format("ringfence exec: {}", e.what()));
      summary_.unknown = true;
      return fail(kNotSupported);
    }
    auto& program = static_cast<cases::CaseProgram&>(*instance.program);
    const auto finding = schedule::failure(outcome);
    if (!finding && outcome.end != schedule::RunEnd::complete) {
      if (!schedule::interrupted())
        say(fmt::format("ringfence exec: stretch {} did not end", name));
      summary_.unknown = true;
      return fail(kUnknown);
    }
    if (finding) {
      const bool stuck =
          schedule::waits_for_ever(finding->kind) || finding->kind == FindingKind::livelock;
      if (stuck && may_stick) {
        show(program.final_memories());
        kept_.reset();  // all of it is pending still, and so is what the host does from now on
        return Ran::stuck;
      }
      const trace::Verdict verdict = trace::make_verdict(outcome, program);
      if (options_.print) options_.print(printed.take());
      tell_again(task, instance, spec, finding->kind, name);
      if (!goes_on(finding->kind)) {
        ++summary_.stretches;
        return fail(status_of(finding->kind, verdict.message));
      }
      // A GPU goes on: so does the program, with what this schedule makes of it.
      task.ignore.push_back(finding->kind);
      told.push_back(finding->kind);
      continue;
    }
    if (options_.print) options_.print(printed.take());
    take(turn, stretch, program);
    break;
  }
  ++summary_.stretches;
  stuck_at_ = 0;
  if (!told.empty()) kept_.reset();
  if (options_.explore != 0 && told.empty()) {
    explore(task, options_.explore, fmt::format("another schedule of stretch {}", name), false);
  }
  // Without accesses beside it, what ran is what was kept: others may come yet.
  if (kept_ && kept_->accesses == 0 && turn.request.call == Call::step) {
    kept_->stretch = std::move(stretch);
  }
  return Ran::done;
}

// Other schedules of the stretch: their findings are told, their results are nobody's.
void Engine::explore(const analysis::Task& task, std::uint64_t schedules, const std::string& where,
                     bool hosts) {
  analysis::FuzzSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::portfolio;
  spec.strategy.seed = std::max<std::uint64_t>(1, options_.seed);
  spec.schedules = schedules;
  spec.executor.executor = "inline";
  spec.remedies = false;
  try {
    analysis::FuzzResult result = analysis::fuzz(task, spec, analysis::Budget(0), {});
    for (analysis::FuzzMode& m : result.modes) {
      if (!m.settled) continue;
      if (hosts && !goes_on(m.settled->finding.kind)) continue;
      analysis::RecordOptions record;
      record.executor = spec.executor;
      record.color = options_.color;
      record.write = !options_.capture.empty();
      record.folder = options_.capture;
      const analysis::Finding f = analysis::write_finding(std::move(*m.settled), record);
      const std::string kind(machine::name(f.kind));
      tell(kind, fmt::format("\nringfence exec: {} in {}\n{}", kind, where, f.story));
    }
  } catch (const std::exception& e) {
    if (schedule::interrupted()) return;
    say(fmt::format("ringfence exec: {}", e.what()));
    summary_.unknown = true;
  }
}

void Engine::write_captured(const std::string& path, const std::string& bytes) {
  trace::write_text_file(path, bytes);
  summary_.captured.insert(path);
}

void Engine::write_capture(const Stretch& stretch, const std::string& name) {
  if (options_.capture.empty()) return;
  namespace fs = std::filesystem;
  for (const auto& [file, bytes] : stretch.files) {
    const std::string path = options_.capture + "/" + file;
    std::error_code none;
    // A module's text is the same in all stretches.
    if (file.ends_with(".ptx") && fs::exists(path, none) &&
        fs::file_size(path, none) == bytes.size()) {
      continue;
    }
    write_captured(path, bytes);
  }
  write_captured(options_.capture + "/" + name + ".toml", stretch.toml);
}

}  // namespace ringfence::exec
