#include "emulator/analysis/run.hpp"

#include <algorithm>
#include <chrono>

#include "emulator/analysis/errors.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "verify/report.hpp"

namespace ringfence::analysis {

namespace {

using machine::FindingKind;

bool ignores(const Task& task, FindingKind kind) {
  return std::find(task.ignore.begin(), task.ignore.end(), kind) != task.ignore.end();
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

machine::Boundary mode_of(const Task& task) {
  if (task.subject->kernels()) return task.judged.front();
  return *std::min_element(task.judged.begin(), task.judged.end());
}

RunResult run(const Task& task, machine::Boundary mode, const ExecutorOptions& executor,
              bool history, const Watch& watch) {
  RunResult r;
  const auto prepared = std::chrono::steady_clock::now();
  r.instance = make_instance(*task.subject, executor);
  r.preparing = seconds_since(prepared);
  const schedule::Program& program = *r.instance.program;
  if (watch.begun) watch.begun(program);
  r.spec = run_spec(task, mode);
  r.spec.strategy.kind = schedule::StrategySpec::Kind::first;
  r.spec.free_running = true;
  r.spec.history = history;
  r.spec.point_limit = ~std::uint32_t{0};
  r.spec.ignore.push_back(FindingKind::numeric_mismatch);
  r.spec.ignore.push_back(FindingKind::replica_mismatch);
  const auto began = std::chrono::steady_clock::now();
  r.outcome = r.instance.executor->run(r.spec);
  r.seconds = seconds_since(began);
  if (schedule::interrupted()) throw Interrupted();

  r.complete = r.outcome.end == schedule::RunEnd::complete;
  if (r.complete) {
    r.comparisons = task.subject->compare(program);
    r.replicas = task.subject->replicas(program);
  }
  r.numbers_wrong = !r.comparisons.empty() && !verify::all_passed(r.comparisons) &&
                    !ignores(task, FindingKind::numeric_mismatch);
  r.replicas_wrong =
      r.complete && !r.replicas.agree && !ignores(task, FindingKind::replica_mismatch);
  const auto finding = schedule::failure(r.outcome);
  r.verdict = finding || r.numbers_wrong || r.replicas_wrong ? Verdict::finding
              : r.complete                                   ? Verdict::pass
                                                             : Verdict::unknown;
  r.kind = finding            ? std::string(machine::name(finding->kind))
           : r.numbers_wrong  ? "numeric-mismatch"
           : r.replicas_wrong ? "replica-mismatch"
                              : "";
  r.notes = task.subject->notes(program);
  return r;
}

}  // namespace ringfence::analysis
