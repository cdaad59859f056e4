#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "verify/error.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

const Tensor& take(const std::string& path, const Safetensors& file, const char* name) {
  const Tensor* tensor = file.find(name);
  if (tensor == nullptr) {
    throw InputError(
        fmt::format("{}: no tensor '{}': the operator needs attn (or x), weight, residual "
                    "and gamma",
                    path, name));
  }
  return *tensor;
}

void check_shape(const std::string& path, const char* name, const Tensor& tensor,
                 const Shape& wanted, const char* meaning) {
  if (tensor.shape != wanted) {
    throw InputError(fmt::format("{}: tensor '{}' has shape {}: {} {} is right beside the others",
                                 path, name, shape_text(tensor.shape), meaning,
                                 shape_text(wanted)));
  }
}

float parse_eps(const std::string& path, const std::string& text) {
  double eps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), eps);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(eps) || eps < 0) {
    throw InputError(fmt::format(
        "{}: __metadata__.eps is '{}': use a finite decimal number, 0 or more", path, text));
  }
  return static_cast<float>(eps);
}

}  // namespace

LoadedInputs load_inputs(const std::string& path) {
  Safetensors file = read_safetensors(path);
  if (file.find("attn") != nullptr && file.find("x") != nullptr) {
    throw InputError(fmt::format("{}: both 'attn' and its alias 'x' are there: keep one", path));
  }
  const char* x_name = file.find("x") != nullptr ? "x" : "attn";
  LoadedInputs loaded;
  const Tensor& x = take(path, file, x_name);
  const Tensor& weight = take(path, file, "weight");
  const Tensor& residual = take(path, file, "residual");
  const Tensor& gamma = take(path, file, "gamma");
  const Tensor* beta = file.find("beta");
  if (x.shape.size() != 2) {
    throw InputError(fmt::format("{}: tensor '{}' has shape {}: [tokens, inner] is right", path,
                                 x_name, shape_text(x.shape)));
  }
  if (weight.shape.size() != 2) {
    throw InputError(fmt::format("{}: tensor 'weight' has shape {}: [hidden, inner] is right", path,
                                 shape_text(weight.shape)));
  }
  loaded.tokens = x.shape[0];
  loaded.inner = x.shape[1];
  loaded.hidden = weight.shape[0];
  loaded.dtype = x.dtype;
  check_shape(path, "weight", weight, {loaded.hidden, loaded.inner}, "[hidden, inner] =");
  check_shape(path, "residual", residual, {loaded.tokens, loaded.hidden}, "[tokens, hidden] =");
  check_shape(path, "gamma", gamma, {loaded.hidden}, "[hidden] =");
  if (beta != nullptr) check_shape(path, "beta", *beta, {loaded.hidden}, "[hidden] =");
  if (loaded.dtype == Dtype::f32) {
    throw InputError(
        fmt::format("{}: tensor '{}' is F32: the operator takes BF16 or F16", path, x_name));
  }
  for (const auto& [name, tensor] : file.tensors) {
    const bool used = name == "weight" || name == "residual" || name == "gamma" || name == "beta";
    if (used && tensor.dtype != loaded.dtype) {
      throw InputError(fmt::format("{}: tensor '{}' is {} and '{}' is {}: use one dtype", path,
                                   name, dtype_name(tensor.dtype), x_name,
                                   dtype_name(loaded.dtype)));
    }
  }
  const auto eps = file.metadata.find("eps");
  if (eps != file.metadata.end()) {
    loaded.has_eps = true;
    loaded.eps = parse_eps(path, eps->second);
  }
  for (auto& [name, tensor] : file.tensors) {
    if (name == x_name) loaded.inputs.x = std::move(tensor);
    if (name == "weight") loaded.inputs.weight = std::move(tensor);
    if (name == "residual") loaded.inputs.residual = std::move(tensor);
    if (name == "gamma") loaded.inputs.gamma = std::move(tensor);
    if (name == "beta") loaded.inputs.beta = std::move(tensor);
  }
  loaded.metadata = std::move(file.metadata);
  return loaded;
}

void adopt(Problem& problem, const LoadedInputs& loaded, bool keep_eps) {
  problem.tokens = loaded.tokens;
  problem.inner = loaded.inner;
  problem.hidden = loaded.hidden;
  problem.dtype = loaded.dtype;
  problem.has_beta = loaded.inputs.has_beta();
  if (loaded.has_eps && !keep_eps) problem.eps = loaded.eps;
}

}  // namespace ringfence::verify
