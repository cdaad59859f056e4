// The steps of `gpu run` and `gpu bench`, behind gpu_command.
#pragma once

#include <functional>
#include <optional>

#include "cuda/host/bootstrap.hpp"
#include "cuda/host/run_options.hpp"

namespace ringfence::cuda {

/// Executes the operator --calls times and judges each result. Throws Error and verify::InputError.
int run_operator(const RunOptions& options, const std::optional<Place>& place);

/// Forks `ranks` processes before any CUDA call, runs `child` in each and waits. Returns the worst
/// exit status; a child that a signal ended counts as 1 and is named on stderr.
int fork_ranks(int ranks, const std::function<int(const Place&)>& child);

/// What the devices are, and which transports they could take.
int print_info();

}  // namespace ringfence::cuda
