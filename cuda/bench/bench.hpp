// `gpu bench`: the kernels against their baselines, in one run, as a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/host/bootstrap.hpp"
#include "cuda/host/run_options.hpp"

namespace ringfence::cuda {

struct BenchOptions {
  std::vector<std::string> methods;  // empty: those that the world allows
  std::vector<int> blocks;           // empty: RunOptions::blocks, or chosen
  int iterations = 0;                // 0: by size
  int samples = 15;
  std::string json;
  std::string nccl_id_file;  // how the ncclUniqueId travels; empty: over the bootstrap
};

const char* bench_methods_help();

int run_bench(const RunOptions& options, const BenchOptions& bench,
              const std::optional<Place>& place);

}  // namespace ringfence::cuda
