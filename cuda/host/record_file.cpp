#include "cuda/host/record_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"
#include "verify/diff.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cuda {
namespace {

using verify::Problem;
using verify::Tensor;

/// The first rows of what a rank holds.
Tensor tensor_of(const Problem& p, const std::vector<uint16_t>& rows) {
  Tensor t(p.dtype, {p.tokens, p.hidden});
  std::copy_n(rows.data(), t.elements(), t.bits());
  return t;
}

/// As `inputs`, with the columns of x that are rank `r`'s alone and no residual.
verify::Inputs alone(const Problem& p, const verify::Inputs& inputs, int r) {
  verify::Inputs out = inputs;
  const int64_t each = p.inner / p.ranks;
  for (int64_t t = 0; t < p.tokens; ++t) {
    uint16_t* row = out.x.row(t);
    std::fill(row, row + r * each, uint16_t{0});
    std::fill(row + (r + 1) * each, row + p.inner, uint16_t{0});
  }
  std::fill_n(out.residual.bits(), out.residual.elements(), uint16_t{0});
  return out;
}

}  // namespace

void require_recordable(const RunOptions& options, const World& world) {
  if (options.record.empty()) return;
  if (world.kind() == World::Kind::processes) {
    throw Error(ErrorCode::invalid_argument,
                "--record needs all ranks in one process: use --virtual-ranks or --launch "
                "one-process");
  }
  if (options.graph) {
    throw Error(ErrorCode::invalid_argument, "--record records a launch: leave --graph out");
  }
}

void write_record(const RunOptions& options, const Session& session, const verify::Inputs& inputs,
                  int64_t tokens, const CallResult& result, const Caller& call) {
  const Problem p = session.problem(tokens);
  const bool pypto = p.flavour == verify::Flavour::pypto;
  verify::Safetensors file;
  file.add("residual", inputs.residual);
  file.add("gamma", inputs.gamma);
  if (inputs.has_beta()) file.add("beta", inputs.beta);
  for (int r = 0; r < p.ranks; ++r) {
    const std::string name = fmt::format("partial.{}", r);
    if (pypto) {
      const CallResult one = call(alone(p, inputs, r));
      file.add(name, tensor_of(p, one.residual_out[static_cast<size_t>(r)]));
    } else {
      file.add(name, tensor_of(p, result.partial[static_cast<size_t>(r)]));
    }
  }
  if (pypto) {
    for (int r = 0; r < p.ranks; ++r) {
      file.add(fmt::format("out.{}", r), tensor_of(p, result.out[static_cast<size_t>(r)]));
      file.add(fmt::format("residual_out.{}", r),
               tensor_of(p, result.residual_out[static_cast<size_t>(r)]));
    }
  } else {
    file.add("out", whole_out(p, result));
    file.add("residual_out", whole_residual_out(p, result));
  }
  file.metadata[verify::kMetaProtocol] = verify::flavour_name(p.flavour);
  file.metadata[verify::kMetaRanks] = std::to_string(p.ranks);
  file.metadata[verify::kMetaEps] = fmt::format("{}", p.eps);
  file.metadata["blocks"] = std::to_string(options.blocks);
  file.metadata["transport"] = options.transport;
  file.metadata["dtype"] = verify::dtype_name(p.dtype);
  file.metadata["device"] = require_device(session.world().members().front().device).name;
  file.metadata["driver"] = driver_version();
  verify::write_safetensors(options.record, file);
}

}  // namespace ringfence::cuda
