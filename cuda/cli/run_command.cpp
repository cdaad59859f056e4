#include "cuda/cli/run_command.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"
#include "cuda/host/record_file.hpp"
#include "cuda/host/session.hpp"
#include "cuda/host/trace_file.hpp"
#include "verify/diff.hpp"
#include "verify/junit.hpp"
#include "verify/report.hpp"
#include "verify/report_json.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cuda {
namespace {

using verify::Comparison;

/// The captured work of one configuration, a graph a stream.
class Graphs {
 public:
  Graphs(Session& session, int64_t tokens) : streams_(session.streams()) {
    for (cudaStream_t s : streams_) {
      check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "capture");
    }
    session.enqueue_product(tokens);
    session.enqueue_protocol(tokens);
    // All captures end before anything is instantiated, which a capture of this thread forbids.
    std::vector<cudaGraph_t> graphs;
    for (cudaStream_t s : streams_) {
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(s, &graph), "capture");
      graphs.push_back(graph);
    }
    for (cudaGraph_t graph : graphs) {
      cudaGraphExec_t executable = nullptr;
      const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
      (void)cudaGraphDestroy(graph);
      check(made, "cudaGraphInstantiate");
      executables_.push_back(executable);
    }
  }
  ~Graphs() {
    for (cudaGraphExec_t e : executables_) (void)cudaGraphExecDestroy(e);
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void launch() const {
    for (size_t i = 0; i < executables_.size(); ++i) {
      check(cudaGraphLaunch(executables_[i], streams_[i]), "cudaGraphLaunch");
    }
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<cudaGraphExec_t> executables_;
};

struct Totals {
  std::vector<Comparison> comparisons;
  std::vector<std::string> faults;
  void add(const CallVerdict& verdict, const std::string& call) {
    for (const Comparison& c : verdict.comparisons) {
      const auto same = std::find_if(comparisons.begin(), comparisons.end(),
                                     [&](const Comparison& t) { return t.name == c.name; });
      if (same == comparisons.end()) {
        comparisons.push_back(c);
      } else {
        same->merge(c);
      }
    }
    for (const std::string& fault : verdict.faults) faults.push_back(call + ": " + fault);
  }
  bool passed() const { return faults.empty() && verify::all_passed(comparisons); }
};

const char* kind_name(World::Kind kind) {
  switch (kind) {
    case World::Kind::virtual_ranks:
      return "virtual ranks on one GPU";
    case World::Kind::one_process:
      return "one process, a GPU a rank";
    case World::Kind::processes:
      return "a process a rank";
  }
  return "";
}

/// One call from upload to verdict. replay: the captured work instead of launches.
CallVerdict one_call(Session& session, const RunOptions& o, const verify::Inputs& inputs,
                     int64_t tokens, const Graphs* replay, bool die, CallResult* keep) {
  const World& world = session.world();
  session.upload(inputs, tokens);
  world.barrier();
  CallResult result;
  if (replay != nullptr) {
    // The graph holds product and protocol; the partials are gone afterwards, so the product runs
    // once by itself for the reference.
    session.enqueue_product(tokens);
    world.barrier();
    if (world.is_root()) result.partial = session.fetch_partials(tokens);
    world.barrier();
    session.upload(inputs, tokens);
    world.barrier();
    replay->launch();
  } else {
    session.enqueue_product(tokens);
    world.barrier();
    if (world.is_root()) result.partial = session.fetch_partials(tokens);
    world.barrier();
    // Fault injection: the rank ends after the last exchange on the host, so that the others meet
    // its absence on the GPU.
    if (die) {
      if (world.kind() == World::Kind::processes) {
        if (world.members().front().rank == o.die_rank) (void)kill(getpid(), SIGKILL);
      } else if (session.tokenweave() != nullptr) {
        session.tokenweave()->set_absent(o.die_rank);
      } else {
        session.pypto()->set_absent(o.die_rank);
      }
    }
    session.enqueue_protocol(tokens);
  }
  world.synchronize();
  try {
    session.require_no_timeout();
  } catch (const Error& e) {
    // Who waits for whom, and then what the pads hold: a signal that is there was not waited for.
    throw Error(e.code(), e.what() + session.pads_in_use());
  }
  world.barrier();
  CallVerdict verdict;
  if (world.is_root()) {
    session.fetch_outputs(result);
    verdict = judge(session.problem(tokens), o.fill, inputs, result);
    const std::string pads = session.pads_in_use();
    if (!pads.empty()) verdict.faults.push_back("unrestored-signal: " + pads);
    if (keep != nullptr) *keep = std::move(result);
  }
  world.barrier();
  return verdict;
}

void write_output(const RunOptions& o, const verify::Problem& p, const CallResult& result) {
  verify::Safetensors file;
  file.add("out", whole_out(p, result));
  file.add("residual_out", whole_residual_out(p, result));
  file.metadata[verify::kMetaProtocol] = verify::flavour_name(p.flavour);
  file.metadata[verify::kMetaRanks] = std::to_string(p.ranks);
  file.metadata[verify::kMetaSummation] = verify::summation_name(
      p.flavour == verify::Flavour::pypto ? verify::Summation::each_step
                                          : verify::Summation::fp32_rank_order);
  file.metadata[verify::kMetaEps] = fmt::format("{}", p.eps);
  verify::write_safetensors(o.output, file);
}

nlohmann::ordered_json configuration(const RunOptions& o, const World& world) {
  nlohmann::ordered_json j;
  j["protocol"] = verify::flavour_name(o.protocol);
  j["world"] = kind_name(world.kind());
  j["ranks"] = world.size();
  j["tokens"] = o.tokens;
  j["hidden"] = o.hidden;
  j["inner"] = o.inner;
  j["dtype"] = verify::dtype_name(o.dtype);
  j["eps"] = o.eps;
  j["beta"] = o.beta;
  j["fill"] = o.input.empty() ? verify::fill_name(o.fill) : "file";
  j["calls"] = o.calls;
  j["blocks"] = o.blocks;
  j["transport"] = o.transport;
  j["start"] = o.start == StartOrder::relaxed ? "relaxed" : "strict";
  j["graph"] = o.graph;
  j["device"] = require_device(world.members().front().device).name;
  j["driver"] = driver_version();
  j["runtime"] = runtime_version();
  return j;
}

void write_reports(const RunOptions& o, const World& world, const Totals& totals, double seconds) {
  if (!o.json.empty()) {
    nlohmann::ordered_json j;
    j["version"] = 1;
    j["command"] = "gpu run";
    j["verdict"] = totals.passed() ? "pass" : "finding";
    j["seed"] = o.seed;
    j["configuration"] = configuration(o, world);
    j["tensors"] = verify::to_json(totals.comparisons);
    j["faults"] = totals.faults;
    j["seconds"] = seconds;
    std::ofstream(o.json) << j.dump(2) << "\n";
  }
  if (!o.junit.empty()) {
    verify::JunitSuite suite = verify::junit_suite("gpu.run", totals.comparisons);
    for (const std::string& fault : totals.faults) {
      verify::JunitCase c;
      c.classname = "gpu.run";
      c.name = fault.substr(0, fault.find(' '));
      c.status = verify::JunitCase::Status::failed;
      c.message = fault;
      suite.cases.push_back(c);
    }
    std::ofstream(o.junit) << verify::junit_xml({suite});
  }
}

}  // namespace

int run_operator(const RunOptions& given, const std::optional<Place>& place) {
  const auto begin = std::chrono::steady_clock::now();
  RunOptions o = given;
  std::optional<verify::LoadedInputs> loaded;
  if (!o.input.empty()) {
    loaded = verify::load_inputs(o.input, {}, /*halves=*/true);
    o.tokens = {loaded->tokens};
    o.hidden = loaded->hidden;
    o.inner = loaded->inner;
    o.dtype = loaded->dtype;
    o.beta = loaded->inputs.has_beta();
    o.fp32_rows = loaded->inputs.gamma.dtype == verify::Dtype::f32;
    o.fill = verify::Fill::normal;
    if (loaded->has_eps && !o.eps_given) o.eps = loaded->eps;
  }
  const World world = make_world(o, place);
  require_recordable(o, world);
  const int64_t max_tokens = *std::max_element(o.tokens.begin(), o.tokens.end());
  if (o.blocks == 0) o.blocks = chosen_blocks(o, world, max_tokens);
  // Rows beyond the last token keep their poison, or a store went astray.
  Session session(world, o, max_tokens + 2);
  std::unique_ptr<TraceRecorder> recorder;
  if (!o.trace.empty()) recorder = std::make_unique<TraceRecorder>(session, o);
  if (world.is_root() && loaded) {
    for (const std::string& note : loaded->notes) fmt::print(stderr, "{}\n", note);
  }
  if (world.is_root()) {
    fmt::print("# ringfence gpu run: {}, {} {}, hidden {}, inner {}, {}, {} blocks a rank\n",
               verify::flavour_name(o.protocol), world.size(), kind_name(world.kind()), o.hidden,
               o.inner, verify::dtype_name(o.dtype), o.blocks);
    std::fflush(stdout);
  }

  Totals totals;
  CallResult last;
  verify::Inputs recorded;
  std::unique_ptr<Graphs> graphs;
  int64_t tokens = o.tokens.front();
  const int direct = o.calls;
  const int replays = o.graph ? 3 : 0;
  for (int call = 0; call < direct + replays; ++call) {
    const bool replay = call >= direct;
    if (!replay) tokens = o.tokens[static_cast<size_t>(call) % o.tokens.size()];
    session.prepare(tokens);
    if (replay && !graphs) graphs = std::make_unique<Graphs>(session, tokens);
    const verify::Inputs inputs =
        loaded ? loaded->inputs
               : make_inputs(session.problem(tokens), o.fill, o.seed, static_cast<uint64_t>(call));
    if (!o.record.empty() && call + 1 == direct) recorded = inputs;
    session.set_call(static_cast<uint32_t>(call));
    const bool die = o.die_rank >= 0 && call == o.die_call;
    const CallVerdict verdict = one_call(session, o, inputs, tokens, graphs.get(), die,
                                         call + 1 == direct + replays ? &last : nullptr);
    if (!world.is_root()) continue;
    totals.add(verdict, fmt::format("call {}", call));
    fmt::print(stderr, "call {} ({} tokens{}): {}\n", call, tokens, replay ? ", graph replay" : "",
               verdict.passed() ? "ok" : "MISMATCH");
  }
  if (!o.record.empty() && totals.passed()) {
    const auto again = [&](const verify::Inputs& inputs) {
      CallResult result;
      const CallVerdict verdict = one_call(session, o, inputs, tokens, nullptr, false, &result);
      totals.add(verdict, "call for the record");
      return result;
    };
    write_record(o, session, recorded, tokens, last, again);
  }
  if (recorder) {
    for (const std::string& fault : recorder->write_and_check(session)) {
      totals.faults.push_back(fault);
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  int status = 0;
  if (world.is_root()) {
    fmt::print("{}", verify::comparison_table(totals.comparisons));
    for (const std::string& fault : totals.faults) fmt::print("{}\n", fault);
    fmt::print("{} calls, {} replays: {}\n", direct, replays, totals.passed() ? "pass" : "FAIL");
    if (!o.output.empty()) write_output(o, session.problem(tokens), last);
    write_reports(o, world, totals, seconds);
    std::fflush(stdout);
    status = totals.passed() ? 0 : 1;
  }
  return status;
}

int fork_ranks(int ranks, const std::function<int(const Place&)>& child) {
  const std::string job =
      fmt::format("{}-{}", getpid(), std::chrono::steady_clock::now().time_since_epoch().count());
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = fork();
    if (pid < 0) throw Error(ErrorCode::communication, "fork failed");
    if (pid == 0) {
      const int status = child(Place{r, ranks, r, "fork", job});
      std::fflush(nullptr);
      _exit(status);
    }
    children.push_back(pid);
  }
  int worst = 0;
  for (int r = 0; r < ranks; ++r) {
    int status = 0;
    (void)waitpid(children[static_cast<size_t>(r)], &status, 0);
    if (WIFSIGNALED(status)) {
      fmt::print(stderr, "rank {} was ended by signal {}\n", r, WTERMSIG(status));
      worst = std::max(worst, 1);
    } else {
      worst = std::max(worst, WEXITSTATUS(status));
    }
  }
  return worst;
}

int print_info() {
  const std::vector<Device> all = devices();
  if (all.empty()) {
    fmt::print(stderr, "no CUDA device: nothing to show\n");
    return 77;
  }
  fmt::print("driver {}, runtime {}\n", driver_version(), runtime_version());
  for (const Device& d : all) {
    fmt::print("{}: {}, sm_{}{}, {} multiprocessors, {:.0f} GiB, L2 {:.0f} MiB, multicast {}\n",
               d.ordinal, d.name, d.major, d.minor, d.multiprocessors, d.memory_gib, d.l2_mib,
               d.multicast_supported ? "supported by the device" : "not supported");
  }
  try {
    require_multicast(Transport::multimem, process_environment(),
                      [&] { return all.front().multicast_supported; });
    fmt::print("transports: peer, multimem\n");
  } catch (const Error& e) {
    fmt::print("transports: peer ({})\n", e.what());
  }
  return 0;
}

}  // namespace ringfence::cuda
