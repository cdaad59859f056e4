#include "emulator/cli/exec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "emulator/analysis/task.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/exec/session.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::cli {

namespace {

exec::EngineOptions engine_options(const ExecOptions& o) {
  exec::EngineOptions e;
  e.devices = o.gpus;
  e.seed = o.seed;
  e.explore = o.explore;
  const auto mode = machine::parse_boundary(o.boundary);
  if (!mode)
    throw UsageError(fmt::format("--boundary {}: expected strict, stream or coherent", o.boundary));
  e.boundary = *mode;
  std::string summation;
  for (const std::string& p : o.policy) apply_policy(p, e.policy, summation);
  if (!summation.empty()) {
    throw UsageError("--policy summation: exec sums in rank order; run --case supports the others");
  }
  e.policy.registers = o.registers;
  e.policy.boundary = *mode;
  e.ignore = parse_ignore(o.ignore);
  e.capture = o.capture;
  e.executor.executor = o.executor;
  e.host_accesses = o.host_accesses == "on";
  if (!o.device_profile.empty()) e.profile = exec::read_device_profile(o.device_profile);
  e.color = wants_color(STDERR_FILENO);
  e.say = [](const std::string& text) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  e.print = [](const std::string& text) {
    if (text.empty()) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  return e;
}

// Whether the program has been found wrong, by ringfence or by itself.
bool fails(const exec::Ended& run) { return !run.summary.findings.empty() || run.status != 0; }

// The program with one seed after another, until it fails; the summary is of all of them. Of what
// was captured the last run's stays.
struct Runs {
  exec::Ended last;
  std::uint64_t count = 0;
};
Runs run_seeds(exec::Session session, std::uint64_t more) {
  Runs out;
  exec::Summary all;
  const std::uint64_t first = session.engine.seed;
  for (;; ++out.count) {
    session.engine.seed = first + out.count;
    session.engine.refused = all.refused;
    out.last = exec::run(session);
    exec::Summary& s = out.last.summary;
    all.refused.merge(s.refused);
    s.refused = all.refused;
    all.launches = s.launches += all.launches;
    all.stretches = s.stretches += all.stretches;
    all.unknown = s.unknown = s.unknown || all.unknown;
    if (out.count == more || fails(out.last) || schedule::interrupted()) break;
    std::error_code none;
    for (const std::string& file : s.captured) std::filesystem::remove(file, none);
  }
  ++out.count;
  return out;
}

// What is said at the end, on standard error: standard output is the program's.
void conclude(const Runs& runs, const ExecOptions& options) {
  const exec::Summary& s = runs.last.summary;
  const std::string& capture = options.capture;
  std::string line =
      fmt::format("ringfence exec: {} launches in {} stretches", s.launches, s.stretches);
  const std::uint64_t seed = options.seed + runs.count - 1;
  if (options.schedules != 0) {
    line += fmt::format(" of {} runs, seeds {} to {}", runs.count, options.seed, seed);
  }
  if (!capture.empty() && s.stretches != 0) line += fmt::format(", captured in {}", capture);
  if (s.left != 0)
    line += fmt::format("; {} operations that nothing waited for did not run", s.left);
  std::fprintf(stderr, "%s\n", line.c_str());
  if (!s.refused.empty()) {
    std::fprintf(stderr, "ringfence exec: called but not supported: %s\n",
                 fmt::format("{}", fmt::join(s.refused, ", ")).c_str());
  }
  if (options.schedules != 0 && fails(runs.last) && !schedule::interrupted()) {
    std::fprintf(stderr, "ringfence exec: the last run failed; --seed %llu runs it again\n",
                 static_cast<unsigned long long>(seed));
  }
  if (!s.findings.empty()) {
    std::fprintf(stderr, "FINDING: %s\n", fmt::format("{}", fmt::join(s.findings, ", ")).c_str());
  } else if (s.unknown) {
    std::fprintf(stderr, "UNKNOWN: not all of the program could be run\n");
  }
}

}  // namespace

int run(const ExecOptions& o) {
  exec::Session session;
  session.command = o.command;
  session.engine = engine_options(o);
  session.library = exec::library_folder();
  if (session.library.empty()) {
    throw UsageError(
        "exec: ringfence's libcudart.so.13 is not beside this program: build it (the target "
        "ringfence_cudart), or set RINGFENCE_EXEC_LIBRARY to its path");
  }
  if (!o.capture.empty()) {
    std::error_code error;
    std::filesystem::create_directories(o.capture, error);
    if (error) throw UsageError(fmt::format("--capture {}: {}", o.capture, error.message()));
  }
  std::fflush(stdout);
  const Runs runs = run_seeds(std::move(session), o.schedules);
  const exec::Ended& ended = runs.last;
  conclude(runs, o);
  if (schedule::interrupted()) throw Interrupted();
  if (!ended.summary.findings.empty()) {
    note_told();
    return static_cast<int>(Exit::finding);
  }
  if (WIFSIGNALED(ended.status)) {
    std::fprintf(stderr, "ringfence exec: the program was killed by signal %d (%s)\n",
                 WTERMSIG(ended.status), strsignal(WTERMSIG(ended.status)));
    return 128 + WTERMSIG(ended.status);
  }
  const int status = WEXITSTATUS(ended.status);
  return status == 0 && ended.summary.unknown ? static_cast<int>(Exit::unknown) : status;
}

// nvcc_arguments: what is given comes last, so that a program's own choice of either stands where
// nvcc takes the later one; architectures add up.
std::vector<std::string> nvcc_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> out{"-cudart", "shared", "-lineinfo"};
  const bool debug = std::any_of(arguments.begin(), arguments.end(), [](const std::string& a) {
    return a == "-G" || a == "--device-debug";
  });
  if (debug) out.pop_back();  // which nvcc refuses beside it
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    // -arch beside -gencode is refused by nvcc: what it says becomes one more.
    const auto value = [&](const char* name) -> std::string {
      const std::string with = std::string(name) + "=";
      if (a.starts_with(with)) return a.substr(with.size());
      if (a == name && i + 1 < arguments.size()) return arguments[++i];
      return {};
    };
    std::string arch;
    for (const char* name : {"-arch", "--gpu-architecture", "-gpu-architecture"}) {
      if (arch.empty()) arch = value(name);
    }
    if (arch.empty()) {
      out.push_back(arguments[i]);
      continue;
    }
    if (!arch.starts_with("sm_")) continue;  // native, all: the one below is what runs
    const std::string number = arch.substr(3);
    if (number == "90a") continue;
    out.insert(out.end(), {"-gencode", fmt::format("arch=compute_{0},code=sm_{0}", number)});
  }
  out.insert(out.end(), {"-gencode", "arch=compute_90a,code=compute_90a"});
  return out;
}

Exit nvcc(const std::vector<std::string>& arguments) {
  const char* const chosen = std::getenv("NVCC");
  const std::string compiler = chosen != nullptr && *chosen != '\0' ? chosen : "nvcc";
  std::vector<std::string> words = nvcc_arguments(arguments);
  words.insert(words.begin(), compiler);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(compiler.c_str(), argv.data());
  throw UsageError(
      fmt::format("nvcc: {} cannot be started ({}); install CUDA 13's compiler, or set NVCC",
                  compiler, std::strerror(errno)));
}

}  // namespace ringfence::cli
