// The one place that decides whether an NVLink multicast object may be made.
//
// A multicast object is a resource of the fabric that all tenants of a host share, so sites switch
// multicast off by environment variables that the communication libraries honour. ringfence honours
// the same ones: if any is set, the transport `multimem` is refused before any driver call.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cuda/kernels/limits.hpp"

namespace ringfence::cuda {

/// Reads an environment variable; nothing if it is not set. A parameter so that tests need not
/// change the process's environment.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

/// `auto` (and `peer`) is peer; `multimem` is multimem. Anything else is an Error that lists these.
Transport parse_transport(const std::string& name);

/// Returns if a multicast object may be made. Throws Error (not_supported), with the reason and the
/// transport to use instead, if
///   - the transport asked for is not multimem,
///   - one of NCCL_NVLS_ENABLE=0, TORCH_SYMM_MEM_DISABLE_MULTICAST=1, NVSHMEM_DISABLE_NVLS=1 is set,
///   - the device does not support multicast.
/// device_supports asks the driver; it is called last, and only if nothing before has refused.
void require_multicast(Transport transport, const Environment& environment,
                       const std::function<bool()>& device_supports);

}  // namespace ringfence::cuda
