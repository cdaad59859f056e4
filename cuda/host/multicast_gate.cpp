#include "cuda/host/multicast_gate.hpp"

#include <array>
#include <cstdlib>

#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

/// A variable that switches multicast off, and the values that do.
struct Switch {
  const char* name;
  bool off_when_zero;  // "0" switches off; else any value that is not empty and not "0" does
};

constexpr std::array kSwitches = {
    Switch{"NCCL_NVLS_ENABLE", true},
    Switch{"TORCH_SYMM_MEM_DISABLE_MULTICAST", false},
    Switch{"NVSHMEM_DISABLE_NVLS", false},
};

bool is_zero(const std::string& value) {
  return value == "0" || value == "false" || value == "FALSE" || value == "no" || value == "NO";
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Transport parse_transport(const std::string& name) {
  if (name == "auto" || name == "peer") return Transport::peer;
  if (name == "multimem") return Transport::multimem;
  if (name == "push") return Transport::push;
  throw Error(ErrorCode::invalid_argument,
              "transport '" + name + "' is not known: use auto, peer, push or multimem");
}

void require_multicast(Transport transport, const Environment& environment,
                       const std::function<bool()>& device_supports) {
  if (transport != Transport::multimem) {
    throw Error(
        ErrorCode::not_supported,
        "a multicast object is made for transport multimem only, and another was asked for");
  }
  for (const Switch& s : kSwitches) {
    const std::optional<std::string> value = environment(s.name);
    if (!value || value->empty()) continue;
    if (is_zero(*value) == s.off_when_zero) {
      throw Error(ErrorCode::not_supported, "transport multimem is switched off by " +
                                                std::string(s.name) + "=" + *value +
                                                ": use --transport peer");
    }
  }
  if (!device_supports()) {
    throw Error(ErrorCode::not_supported,
                "transport multimem: the device does not support multicast "
                "(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0): use --transport peer");
  }
}

}  // namespace ringfence::cuda
