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
  app.add_option("--case", o.case_file,
                 "A case file (TOML) instead of a protocol: PTX kernels and how to launch them")
      ->group(group);
  CLI::Option* ranks =
      app.add_option("--ranks", c.ranks, "Ranks R; must divide inner and, except for pypto, tokens")
          ->capture_default_str()
          ->group(group);
  o.tokens = app.add_option("--tokens", c.tokens, "Tokens T: rows of the result")
                 ->capture_default_str()
                 ->group(group);
  o.hidden = app.add_option("--hidden", c.hidden, "Hidden size H, a multiple of 8")
                 ->capture_default_str()
                 ->group(group);
  o.inner = app.add_option("--inner", c.inner, "Inner size K of the product")
                ->capture_default_str()
                ->group(group);
  CLI::Option* blocks =
      app.add_option("--blocks", c.blocks, "Blocks per rank")->capture_default_str()->group(group);
  o.calls = app.add_option("--calls", c.calls,
                           "Calls of the operator, each with inputs of its own (for a case: "
                           "default from its file)")
                ->capture_default_str()
                ->group(group);
  o.dtype = app.add_option("--dtype", c.dtype, "bf16 or fp16; for tokenweave and pypto also fp32")
                ->capture_default_str()
                ->group(group);
  o.eps = app.add_option("--eps", c.eps, "RMSNorm epsilon (default: the file's, else 1e-6)")
              ->group(group);
  CLI::Option* input = app.add_option("--input", c.input,
                                      "safetensors file with attn (or x), weight, residual, gamma "
                                      "and optionally beta (or bias); else inputs are generated")
                           ->group(group);
  app.add_option("--map", c.input_map,
                 "Names of the tensors in the --input file: gamma=NAME,beta=NAME, ...")
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
      app.add_option(
             "--model", o.model,
             fmt::format(
                 "Take hidden, inner and eps, where not given, from a model's MLP down projection, "
                 "or with NAME/attention from its attention output projection: {}",
                 known))
          ->group(group);
  app.add_option("--set", o.set,
                 "Set a switch of the protocol, KEY=VALUE; may be repeated (ringfence switches "
                 "PROTOCOL lists them). With --case: FILE:LINE/WHAT=VALUE changes an instruction "
                 "of the PTX; WHAT is order, scope, fence or barrier (docs/cases.md, Edits)")
      ->group(group)
      ->allow_extra_args(false);
  o.no_case = {protocol, ranks, o.tokens, o.hidden, o.inner, blocks,
               o.dtype,  o.eps, input,    payload,  model};
}

void add_model_options(CLI::App& app, CaseOptions& o) {
  const char* group = "Memory model";
  app.add_option("--boundary", o.boundary,
                 "What the end of a kernel orders for other ranks (docs/modes.md): strict, stream, "
                 "coherent, or all; the exit status depends on the modes that the protocol or case "
                 "claims, or on the one named here")
      ->capture_default_str()
      ->group(group);
  app.add_option("--policy", o.policy,
                 "NAME=VALUE; may be repeated: multicast-flag=cohere|strict, "
                 "alias-data=cohere|fence-required, timeout=spared|taken, load-buffering=off, "
                 "summation=POLICY; of compiled kernels: plain-multicast=refuse|allow, "
                 "fresh-lines=off|on, vector=elements|atomic, line=lanes|ordered, "
                 "syncthreads=warp|cuda, progress=fit|letter, "
                 "mbarrier-remote=shipped|letter, async-war=note|fence-required|off")
      ->group(group)
      ->allow_extra_args(false);
  app.add_option("--registers", o.registers,
                 "Registers per thread of a compiled kernel, as ptxas -v reports them; they limit "
                 "how many blocks are resident (default: .maxnreg of the kernel, else no limit)")
      ->check(CLI::Range(1, 255))
      ->group(group);
  app.add_option("--suppress", o.suppress,
                 "File of known findings of a case to ignore: [[ignore]] tables as in a case file "
                 "(docs/cases.md)")
      ->group(group);
  app.add_option("--ignore", o.ignore,
                 "A kind of finding to ignore; may be repeated. data-race: go on, and look for the "
                 "wrong results that the race causes; deadlock, livelock: end the stuck run, and "
                 "go on with the next one")
      ->group(group)
      ->allow_extra_args(false);
}

void add_executor_options(CLI::App& app, ExecutorOptions& o) {
  const char* group = "Execution";
  app.add_option(
         "--executor", o.executor,
         "processes: one process per rank; inline: all ranks in this process, faster and with the "
         "same outcome; auto: inline, except for run, whose ranks run freely: processes")
      ->check(CLI::IsMember({"processes", "inline", "auto"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--stall", o.stall_seconds,
                 "Give up without a verdict if a rank makes no step for this many seconds, of "
                 "processor time or asleep")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
}

}  // namespace ringfence::cli
