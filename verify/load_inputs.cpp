#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "verify/error.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

// The operator's tensors, and the second name that some have.
struct Known {
  const char* name;
  const char* alias;
};
constexpr Known kKnown[] = {
    {"attn", "x"}, {"weight", ""}, {"residual", ""}, {"gamma", ""}, {"beta", "bias"}};

// What the file calls a tensor of the operator; empty where it has none.
std::string name_in(const std::string& path, const Safetensors& file, const InputNames& names,
                    const Known& known) {
  const auto mapped = names.find(known.name);
  if (mapped != names.end()) {
    if (file.find(mapped->second) != nullptr) return mapped->second;
    throw InputError(
        fmt::format("{}: no tensor '{}', which is to be {}", path, mapped->second, known.name));
  }
  const bool first = file.find(known.name) != nullptr;
  const bool second = *known.alias != 0 && file.find(known.alias) != nullptr;
  if (first && second) {
    throw InputError(fmt::format("{}: both '{}' and its alias '{}' are there: keep one", path,
                                 known.name, known.alias));
  }
  return first ? known.name : second ? known.alias : "";
}

Tensor take(const std::string& path, Safetensors& file, const std::string& name,
            const char* known) {
  for (auto& [found, tensor] : file.tensors) {
    if (!name.empty() && found == name) return std::move(tensor);
  }
  throw InputError(
      fmt::format("{}: no tensor '{}': the operator needs attn (or x), weight, "
                  "residual and gamma, or other names for them",
                  path, known));
}

// gamma or beta: [H]. In fp32 beside 16-bit data it stays so.
void as_row(const std::string& path, const std::string& name, LoadedInputs& loaded, Tensor& row) {
  const Dtype dtype = loaded.dtype;
  if (row.shape == Shape{1, loaded.hidden}) row.shape = {loaded.hidden};
  if (row.dtype != Dtype::f32 || dtype == Dtype::f32) return;
  loaded.notes.push_back(fmt::format(
      "{}: '{}' is F32 beside {} data: the norm multiplies by it as it is, and rounds the result",
      path, name, dtype_name(dtype)));
}

// In fp32, which has every value of 16 bits.
Tensor widened(const Tensor& row) {
  if (row.dtype == Dtype::f32) return row;
  Tensor wide(Dtype::f32, row.shape);
  for (std::size_t i = 0; i < row.elements(); ++i) {
    wide.floats()[i] = to_float(row.dtype, row.bits()[i]);
  }
  return wide;
}

void check_shape(const std::string& path, const char* name, const Tensor& tensor,
                 const Shape& wanted, const char* meaning) {
  if (tensor.shape != wanted) {
    throw InputError(fmt::format("{}: tensor '{}' has shape {}: expected {} {} beside the others",
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

// "gamma=NAME"
void add_input_name(const std::string& text, const std::string& option, InputNames& names) {
  const auto equals = text.find('=');
  const std::string name = text.substr(0, equals);
  for (const Known& known : kKnown) {
    if (equals == std::string::npos || equals + 1 == text.size()) break;
    if (name != known.name && name != known.alias) continue;
    if (!names.emplace(known.name, text.substr(equals + 1)).second) {
      throw InputError(fmt::format("{} {}: '{}' has a name already", option, text, name));
    }
    return;
  }
  throw InputError(
      fmt::format("{} {}: expected NAME=TENSOR, NAME being attn, weight, residual, gamma or beta",
                  option, text));
}

}  // namespace

InputNames parse_input_names(const std::string& text, const std::string& option) {
  InputNames names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    add_input_name(text.substr(at, comma - at), option, names);
    at = comma + 1;
  }
  return names;
}

LoadedInputs load_inputs(const std::string& path, const InputNames& names, bool halves) {
  Safetensors file = read_safetensors(path);
  LoadedInputs loaded;
  std::string called[std::size(kKnown)];
  for (std::size_t i = 0; i < std::size(kKnown); ++i) {
    called[i] = name_in(path, file, names, kKnown[i]);
    if (!called[i].empty() && std::find(called, called + i, called[i]) != called + i) {
      throw InputError(fmt::format(
          "{}: '{}' is named twice: each tensor has one part in the operator", path, called[i]));
    }
  }
  std::string unused;
  for (const auto& [name, tensor] : file.tensors) {
    if (std::find(std::begin(called), std::end(called), name) != std::end(called)) continue;
    unused += (unused.empty() ? "'" : ", '") + name + "'";
  }
  if (!unused.empty()) loaded.notes.push_back(fmt::format("{}: not used: {}", path, unused));
  Inputs& in = loaded.inputs;
  Tensor* const tensors[] = {&in.x, &in.weight, &in.residual, &in.gamma, &in.beta};
  for (std::size_t i = 0; i < std::size(kKnown); ++i) {
    const bool optional = tensors[i] == &in.beta;
    if (!optional || !called[i].empty()) {
      *tensors[i] = take(path, file, called[i], kKnown[i].name);
    }
  }
  const char* const x_name = called[0].c_str();
  if (in.x.shape.size() != 2) {
    throw InputError(fmt::format("{}: tensor '{}' has shape {}: expected [tokens, inner]", path,
                                 x_name, shape_text(in.x.shape)));
  }
  if (in.weight.shape.size() != 2) {
    throw InputError(fmt::format("{}: tensor '{}' has shape {}: expected [hidden, inner]", path,
                                 called[1], shape_text(in.weight.shape)));
  }
  loaded.tokens = in.x.shape[0];
  loaded.inner = in.x.shape[1];
  // What most of them say: the tensor that is told as wrong should be the one that is.
  const bool rows = in.residual.shape.size() == 2 &&
                    in.residual.shape[1] == static_cast<std::int64_t>(in.gamma.elements());
  loaded.hidden = rows ? in.residual.shape[1] : in.weight.shape[0];
  loaded.dtype = in.x.dtype;
  if (halves ? !is_half(loaded.dtype) : !is_operator_dtype(loaded.dtype)) {
    throw InputError(fmt::format(
        "{}: tensor '{}' is {}: {}", path, x_name, safetensors_name(loaded.dtype),
        halves ? "the kernels take BF16 or F16" : "the operator takes BF16, F16 or F32"));
  }
  as_row(path, called[3], loaded, in.gamma);
  if (!called[4].empty()) as_row(path, called[4], loaded, in.beta);
  check_shape(path, called[1].c_str(), in.weight, {loaded.hidden, loaded.inner},
              "[hidden, inner] =");
  check_shape(path, called[2].c_str(), in.residual, {loaded.tokens, loaded.hidden},
              "[tokens, hidden] =");
  check_shape(path, called[3].c_str(), in.gamma, {loaded.hidden}, "[hidden] =");
  if (!called[4].empty())
    check_shape(path, called[4].c_str(), in.beta, {loaded.hidden}, "[hidden] =");
  for (std::size_t i = 1; i < std::size(kKnown); ++i) {
    if (called[i].empty() || tensors[i]->dtype == loaded.dtype) continue;
    const bool row = tensors[i] == &in.gamma || tensors[i] == &in.beta;
    if (row && tensors[i]->dtype == Dtype::f32) continue;
    throw InputError(fmt::format("{}: tensor '{}' is {} and '{}' is {}: use one dtype", path,
                                 called[i], dtype_name(tensors[i]->dtype), x_name,
                                 dtype_name(loaded.dtype)));
  }
  if (halves && (in.gamma.dtype == Dtype::f32 || in.beta.dtype == Dtype::f32)) {
    in.gamma = widened(in.gamma);
    if (in.has_beta()) in.beta = widened(in.beta);
  }
  const auto eps = file.metadata.find("eps");
  if (eps != file.metadata.end()) {
    loaded.has_eps = true;
    loaded.eps = parse_eps(path, eps->second);
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
