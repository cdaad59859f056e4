#pragma once
// Shapes of models in use, so that a case can be named by one.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringfence::cli {

// A decoder layer has the fused operator twice: after the attention's output projection and after
// the MLP's down projection. Both give `hidden`; their inner sizes differ.
struct ModelShape {
  std::string_view name;
  std::uint32_t hidden = 0;
  std::uint32_t mlp_inner = 0;        // intermediate_size (deepseek-v3: of its dense layers)
  std::uint32_t attention_inner = 0;  // heads times the size of a head's value
  double eps = 0;                     // rms_norm_eps
  std::string_view source;
};

std::span<const ModelShape> models();

// What --model names: NAME for the down projection, NAME/attention for the output projection.
struct NamedShape {
  std::uint32_t hidden = 0, inner = 0;
  double eps = 0;
};
// Throws UsageError.
NamedShape find_shape(const std::string& name);

}  // namespace ringfence::cli
