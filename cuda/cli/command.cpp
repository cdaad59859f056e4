#include "cuda/cli/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "cuda/bench/bench.hpp"
#include "cuda/cli/run_command.hpp"
#include "cuda/host/error.hpp"
#include "cuda/kernels/push.hpp"
#include "verify/error.hpp"

namespace ringfence::cuda {
namespace {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::not_supported:
      return 2;
    case ErrorCode::no_device:
      return 77;
    case ErrorCode::peer_lost:
    case ErrorCode::communication:
      return 1;
    case ErrorCode::driver:
      return 70;
  }
  return 70;
}

/// Runs and turns exceptions into one message and the exit status.
template <class F>
int guarded(const char* name, F&& body) {
  try {
    return body();
  } catch (const Error& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return exit_status(e.code());
  } catch (const verify::InputError& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: internal error: {}\n", name, e.what());
    return 70;
  }
}

/// Option values as text, turned into their types after parsing.
struct Texts {
  std::string protocol = "tokenweave";
  std::string dtype = "bf16";
  std::string fill = "normal";
  std::string start = "relaxed";
  std::string pipeline = "on";
  std::string sums = "auto";
};

void add_common(CLI::App& app, RunOptions& o, Texts& t) {
  app.add_option("--protocol", t.protocol, "tokenweave or pypto")->capture_default_str();
  app.add_option("--dtype", t.dtype, "bf16 or fp16")->capture_default_str();
  app.add_option("--tokens", o.tokens, "tokens T; the calls use the numbers of a list in turn")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--hidden", o.hidden, "hidden size H")->capture_default_str();
  app.add_option("--inner", o.inner, "inner size K over all ranks")->capture_default_str();
  app.add_option("--eps", o.eps, "RMSNorm epsilon")->each([&o](const std::string&) {
    o.eps_given = true;
  });
  app.add_flag("--beta", o.beta, "add a beta (bias) after the norm");
  app.add_option("--seed", o.seed, "seed of the generated inputs")->capture_default_str();

  const char* group = "Ranks";
  app.add_option("--virtual-ranks", o.virtual_ranks, "R ranks on one GPU")->group(group);
  app.add_option("--ranks", o.ranks, "R ranks, one GPU each (default: all GPUs)")->group(group);
  app.add_option("--launch", o.launch,
                 "auto, one-process, fork, or env (torchrun, mpirun, mpiexec, srun)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--device", o.device, "the GPU of virtual ranks")->group(group);
  app.add_flag("--share-device", o.share_device, "several processes on GPU 0 (slow: time slices)")
      ->group(group);
  app.add_flag("--stream-a-rank", o.stream_a_rank,
               "virtual ranks: one launch per rank instead of one cooperative launch")
      ->group(group);

  group = "Kernel";
  app.add_option("--transport", o.transport,
                 "auto (push for few tokens, else peer), peer, multimem, or push (no barriers)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--push-tokens", o.push_tokens,
                 fmt::format("transport auto: use push up to this many tokens (default: 2 rows per "
                             "block, 4 with 128 blocks, at most {} tokens; on one GPU 0)",
                             kPushTokens))
      ->group(group);
  app.add_flag("--dependent-launch", o.dependent_launch,
               "tokenweave: a launch may start before the preceding one ends")
      ->group(group);
  app.add_option("--start-order", t.start, "relaxed, or strict (release/acquire)")
      ->group(group)
      ->capture_default_str();
  app.add_option(
         "--blocks", o.blocks,
         "blocks per rank (default: one for each of a rank's rows up to 128, from 32 rows on "
         "128; virtual ranks share 128; pypto 128, on one GPU 8)")
      ->group(group)
      ->check(CLI::Range(1, 16384));
  app.add_option("--tile-rows", o.tile_rows, "pypto: 8, 64 or 128")
      ->group(group)
      ->capture_default_str();
  app.add_option("--chunk", o.chunk,
                 "pypto: columns of a tile that a block multiplies at once: 128 or 64, with tiles "
                 "of 128 rows 256 or 128 (default: by size)")
      ->group(group);
  app.add_option("--slots", o.slots,
                 "pypto: number of tiles in the rings (default: 6, with sums at their owner 8)")
      ->group(group);
  app.add_option("--sums", t.sums,
                 "pypto: everywhere (each rank adds into every rank's tile), owner (each row is "
                 "summed at one rank, where the others read it), or auto (owner from 3 ranks on, "
                 "on one GPU from 2)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--pipeline", t.pipeline, "pypto: on or off")->group(group);
  app.add_option("--timeout", o.timeout_seconds,
                 "seconds after which a waiting thread gives up (0: never)")
      ->group(group);
}

void resolve(RunOptions& o, const Texts& t) {
  o.protocol = verify::parse_flavour(t.protocol);
  o.dtype = verify::parse_dtype(t.dtype);
  o.fill = verify::parse_fill(t.fill);
  if (t.start != "relaxed" && t.start != "strict") {
    throw Error(ErrorCode::invalid_argument, "--start-order is relaxed or strict");
  }
  o.start = t.start == "strict" ? StartOrder::strict : StartOrder::relaxed;
  if (t.pipeline != "on" && t.pipeline != "off") {
    throw Error(ErrorCode::invalid_argument, "--pipeline is on or off");
  }
  o.pipelined = t.pipeline == "on";
  if (t.sums != "auto" && t.sums != "everywhere" && t.sums != "owner") {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--sums {}: use auto, everywhere or owner", t.sums));
  }
  if (t.sums != "auto") o.owned = t.sums == "owner";
  (void)parse_transport(o.transport);
  for (int64_t tokens : o.tokens) {
    if (tokens < 1) throw Error(ErrorCode::invalid_argument, "--tokens must be 1 or more");
  }
  if (o.hidden < 1 || o.inner < 1 || o.calls < 1) {
    throw Error(ErrorCode::invalid_argument, "--hidden, --inner and --calls must be 1 or more");
  }
  if (o.virtual_ranks < 0 || o.virtual_ranks > kMaxRanks || o.ranks < 0 || o.ranks > kMaxRanks) {
    throw Error(ErrorCode::invalid_argument, fmt::format("use 1 to {} ranks", kMaxRanks));
  }
  if (o.launch != "auto" && o.launch != "one-process" && o.launch != "fork" && o.launch != "env") {
    throw Error(ErrorCode::invalid_argument, "--launch is auto, one-process, fork or env");
  }
  // The gate speaks before any driver call.
  if (parse_transport(o.transport) == Transport::multimem) {
    require_multicast(Transport::multimem, process_environment(), [] { return true; });
  }
}

/// Finds out who this process is, forks if asked to, and runs `body` as each rank.
int as_ranks(const char* name, const RunOptions& o,
             const std::function<int(const std::optional<Place>&)>& body) {
  std::optional<Place> place;
  if (o.virtual_ranks == 0 && (o.launch == "auto" || o.launch == "env")) {
    place = place_from_environment(process_environment());
    if (!place && o.launch == "env") {
      throw Error(
          ErrorCode::communication,
          "--launch env: no launcher's variables are set (torchrun, mpirun, mpiexec, srun)");
    }
  }
  if (o.virtual_ranks == 0 && o.launch == "fork") {
    const int ranks = o.ranks > 0 ? o.ranks : 2;
    return fork_ranks(ranks,
                      [&](const Place& mine) { return guarded(name, [&] { return body(mine); }); });
  }
  return body(place);
}

}  // namespace

int gpu_command(int argc, const char* const* argv) {
  const std::string program = argc > 0 ? argv[0] : "ringfence gpu";
  return guarded(program.c_str(), [&] {
    CLI::App app{
        "Runs and measures the CUDA kernels on this machine's GPUs, or on virtual ranks of one "
        "GPU.",
        program};
    app.require_subcommand(1);
    CLI::App* info =
        app.add_subcommand("info", "lists the devices and the transports that they support");
    CLI::App* run = app.add_subcommand("run", "executes the operator and judges the results");
    CLI::App* bench = app.add_subcommand("bench", "times the kernels against their baselines");

    RunOptions o;
    Texts t;
    add_common(*run, o, t);
    run->add_option("--calls", o.calls, "number of calls, each with new inputs")
        ->capture_default_str();
    run->add_option("--fill", t.fill, "normal, integers or exact-rows")->capture_default_str();
    run->add_flag("--graph", o.graph, "also capture a graph, and check three replays");
    run->add_option("--input", o.input,
                    "read inputs from a safetensors file instead of generating them");
    run->add_option("--output", o.output, "write out and residual_out of the last call");
    run->add_option("--record", o.record,
                    "write inputs, partials and every rank's outputs of the last call");
    run->add_option("--trace", o.trace,
                    "log the events of the barriers, and check that they are a legal execution");
    run->add_option("--json", o.json, "write the result as JSON");
    run->add_option("--junit", o.junit, "write the result as JUnit XML");
    run->add_option("--die-rank", o.die_rank, "fault injection: this rank is missing from a call")
        ->group("Fault injection");
    run->add_option("--die-call", o.die_call, "number of that call")->group("Fault injection");

    BenchOptions b;
    RunOptions bo;
    Texts bt;
    bo.hidden = 8192;
    bo.inner = 8192;
    bo.tokens = {8, 64, 256, 1024, 4096, 8192};
    add_common(*bench, bo, bt);
    bench->add_option("--methods", b.methods, bench_methods_help())->delimiter(',');
    bench->add_option("--block-list", b.blocks, "block counts to try (default: --blocks)")
        ->delimiter(',');
    bench->add_option("--wave-blocks", bo.wave_blocks,
                      "waves: blocks a rank beside a product (default: an eighth of the GPU)");
    bench->add_option("--iterations", b.iterations, "calls in a graph (default: by size)");
    bench->add_option("--samples", b.samples, "timed replays of the graph")->capture_default_str();
    bench->add_option("--json", b.json, "write the table as JSON");
    bench->add_option("--nccl-id-file", b.nccl_id_file,
                      "pass the ncclUniqueId through this file (default: by the launcher)");

    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      const int status = app.exit(e, std::cout, std::cerr);
      return status == 0 ? 0 : 2;
    }
    if (info->parsed()) return print_info();
    if (run->parsed()) {
      resolve(o, t);
      return as_ranks(program.c_str(), o,
                      [&](const std::optional<Place>& place) { return run_operator(o, place); });
    }
    resolve(bo, bt);
    return as_ranks(program.c_str(), bo,
                    [&](const std::optional<Place>& place) { return run_bench(bo, b, place); });
  });
}

}  // namespace ringfence::cuda
