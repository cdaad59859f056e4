#include "emulator/cli/case_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "emulator/cli/models.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"
#include "emulator/programs/config.hpp"

namespace ringfence::cli {

void add_case_options(CLI::App& app, CaseOptions& o) {
  programs::Config& c = o.config;
  const char* group = "Case";
  std::vector<std::string> protocols;
  for (const programs::Protocol& p : programs::protocols()) protocols.push_back(p.name);
  CLI::Option* protocol =
      app.add_option("--protocol", c.protocol, fmt::format("{}", fmt::join(protocols, ", ")))
          ->capture_default_str()
          ->group(group);
  app.add_option("--case", c.case_file,
                 "A case file (TOML) in place of a protocol: PTX kernels and how to launch them")
      ->group(group);
  CLI::Option* ranks =
      app.add_option("--ranks", c.ranks,
                     "Ranks R; divides inner, and tokens for all protocols but pypto")
          ->capture_default_str()
          ->group(group);
  o.tokens =
      app.add_option("--tokens", c.tokens, "Token rows T")->capture_default_str()->group(group);
  o.hidden = app.add_option("--hidden", c.hidden, "Hidden size H, a multiple of 8")
                 ->capture_default_str()
                 ->group(group);
  o.inner = app.add_option("--inner", c.inner, "Inner size K of the product")
                ->capture_default_str()
                ->group(group);
  CLI::Option* blocks =
      app.add_option("--blocks", c.blocks, "Blocks a rank")->capture_default_str()->group(group);
  o.calls = app.add_option("--calls", c.calls,
                           "Calls of the operator, each with its own payload (a case: its file's)")
                ->capture_default_str()
                ->group(group);
  o.dtype = app.add_option("--dtype", c.dtype, "bf16 or fp16; tokenweave and pypto: fp32 too")
                ->capture_default_str()
                ->group(group);
  o.eps = app.add_option("--eps", c.eps, "RMSNorm epsilon (default: the file's, else 1e-6)")
              ->group(group);
  CLI::Option* input = app.add_option("--input", c.input,
                                      "safetensors file with attn (or x), weight, residual, gamma "
                                      "and optionally beta (or bias); else inputs are generated")
                           ->group(group);
  app.add_option("--map", c.input_map,
                 "Names of tensors in the file of --input: gamma=NAME,beta=NAME, ...")
      ->group(group);
  CLI::Option* payload =
      app.add_option("--payload", c.payload, "Generated inputs: exact, integers or normal")
          ->capture_default_str()
          ->group(group);
  app.add_option("--payload-seed", c.payload_seed, "Seed of the generated inputs")
      ->capture_default_str()
      ->group(group);
  std::string known;
  for (const ModelShape& m : models()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", m.name);
  }
  CLI::Option* model =
      app.add_option("--model", o.model,
                     fmt::format("Hidden, inner and eps of a model's MLP down projection, or with "
                                 "NAME/attention of its attention's output projection, where not "
                                 "given: {}",
                                 known))
          ->group(group);
  app.add_option(
         "--set", o.set,
         "A switch of the protocol, KEY=VALUE; may be repeated (ringfence switches PROTOCOL "
         "lists them). With --case: FILE:LINE/WHAT=VALUE of the PTX, WHAT being order, "
         "scope, fence or barrier.")
      ->group(group)
      ->allow_extra_args(false);
  o.no_case = {protocol, ranks, o.tokens, o.hidden, o.inner, blocks,
               o.dtype,  o.eps, input,    payload,  model};
}

void add_model_options(CLI::App& app, CaseOptions& o) {
  const char* group = "Memory model";
  app.add_option(
         "--boundary", o.boundary,
         "What a kernel boundary does for other ranks: strict, stream, coherent, or all; the "
         "exit status judges the modes that the protocol claims, or the one named here")
      ->capture_default_str()
      ->group(group);
  app.add_option("--policy", o.policy,
                 "NAME=VALUE; may be repeated: multicast-flag=cohere|strict, "
                 "alias-data=cohere|fence-required, timeout=spared|taken, load-buffering=off, "
                 "summation=POLICY; of compiled kernels: plain-multicast=refuse|allow, "
                 "fresh-lines=off|on, syncthreads=warp|cuda, progress=fit|letter, "
                 "mbarrier-remote=shipped|letter, async-war=note|fence-required|off")
      ->group(group)
      ->allow_extra_args(false);
  app.add_option("--registers", o.registers,
                 "Registers that a thread of a compiled kernel has (ptxas -v says how many): they "
                 "limit how many blocks are resident; not given: by .maxnreg, else not at all")
      ->check(CLI::Range(1, 255))
      ->group(group);
  app.add_option(
         "--suppress", o.suppress,
         "A file of findings of a case that are known and passed over: [[ignore]] tables as "
         "in a case file (docs/cases.md)")
      ->group(group);
  app.add_option(
         "--ignore", o.ignore,
         "A kind of finding to pass over; may be repeated. data-race: what the race does is "
         "searched for; deadlock, livelock: a run that is stuck ends there")
      ->group(group)
      ->allow_extra_args(false);
}

void add_executor_options(CLI::App& app, ExecutorOptions& o) {
  const char* group = "Execution";
  app.add_option("--executor", o.executor,
                 "processes: one process a rank; inline: all ranks in this process, with the same "
                 "outcome and faster; auto: inline, but processes where ranks run freely (run)")
      ->check(CLI::IsMember({"processes", "inline", "auto"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--stall", o.stall_seconds,
                 "Seconds that a rank may go without a step, of processor time or asleep; then "
                 "there is no verdict")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
}

}  // namespace ringfence::cli
