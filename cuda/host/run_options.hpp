// What `gpu run` and `gpu bench` are asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/kernels/limits.hpp"
#include "verify/inputs.hpp"
#include "verify/problem.hpp"

namespace ringfence::cuda {

struct RunOptions {
  verify::Flavour protocol = verify::Flavour::tokenweave;
  verify::Dtype dtype = verify::Dtype::bf16;
  std::vector<int64_t> tokens = {256};  // call c takes number c, cyclically
  int64_t hidden = 4096;
  int64_t inner = 4096;  // over all ranks
  double eps = 1e-6;
  bool eps_given = false;
  bool beta = false;
  bool fp32_rows = false;  // gamma and beta are in fp32: those of an input are taken as they are
  verify::Fill fill = verify::Fill::normal;
  uint64_t seed = 1;
  int calls = 3;

  int virtual_ranks = 0;  // 0: real ranks
  int ranks = 0;          // real ranks; 0: as many as there are devices, or as the launcher says
  std::string launch = "auto";  // auto | one-process | fork | env
  int device = 0;               // of virtual ranks
  bool share_device = false;    // several processes on device 0
  bool stream_a_rank = false;
  bool dependent_launch = false;

  std::string transport = "auto";
  int64_t push_tokens = -1;  // transport auto: calls of up to so many tokens push; -1: chosen
  StartOrder start = StartOrder::relaxed;
  int blocks = 0;       // a rank; 0: chosen
  int wave_blocks = 0;  // bench: blocks a rank beside a product; 0: chosen
  int tile_rows = 8;
  int chunk = 0;              // pypto; 0: chosen
  int slots = 0;              // pypto; 0: chosen
  std::optional<bool> owned;  // pypto: rows are summed at their owners; none: chosen
  bool pipelined = true;
  double timeout_seconds = 0;

  bool graph = false;
  int die_rank = -1;  // fault injection: this rank does not come to call die_call
  int die_call = 0;

  std::string input;
  std::string output;
  std::string record;
  std::string trace;
  std::string json;
  std::string junit;
};

}  // namespace ringfence::cuda
