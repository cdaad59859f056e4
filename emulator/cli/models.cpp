#include "emulator/cli/models.hpp"

#include <fmt/format.h>

#include "emulator/cli/errors.hpp"

namespace ringfence::cli {

namespace {

// Each from the config.json that its makers publish with the weights.
constexpr ModelShape kModels[] = {
    {"llama-3.1-8b", 4096, 14336, 32 * 128, 1e-5, "config.json of meta-llama/Llama-3.1-8B"},
    {"llama-3.1-70b", 8192, 28672, 64 * 128, 1e-5, "config.json of meta-llama/Llama-3.1-70B"},
    {"llama-3.1-405b", 16384, 53248, 128 * 128, 1e-5, "config.json of meta-llama/Llama-3.1-405B"},
    {"qwen3-32b", 5120, 25600, 64 * 128, 1e-6, "config.json of Qwen/Qwen3-32B"},
    {"deepseek-v3", 7168, 18432, 128 * 128, 1e-6, "config.json of deepseek-ai/DeepSeek-V3"},
};

}  // namespace

std::span<const ModelShape> models() { return kModels; }

NamedShape find_shape(const std::string& name) {
  constexpr std::string_view kAttention = "/attention";
  std::string_view model = name;
  const bool attention = model.ends_with(kAttention);
  if (attention) model.remove_suffix(kAttention.size());
  std::string known;
  for (const ModelShape& m : kModels) {
    if (m.name == model) {
      return {m.hidden, attention ? m.attention_inner : m.mlp_inner, m.eps};
    }
    known += (known.empty() ? "" : ", ") + std::string(m.name);
  }
  throw UsageError(fmt::format(
      "--model {}: unknown; expected one of {}, each also as NAME/attention", name, known));
}

}  // namespace ringfence::cli
