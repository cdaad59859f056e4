#include "verify/diff.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "verify/error.hpp"
#include "verify/inputs.hpp"
#include "verify/reference.hpp"
#include "verify/report.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

// Rows of the double-precision reference that are in memory at a time.
constexpr std::int64_t kRowsAtOnce = 128;

template <typename Number>
Number parse_number(const std::string& path, const char* key, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError(
        fmt::format("{}: __metadata__.{} is '{}': use a decimal number", path, key, text));
  }
  return value;
}

// Reads a name from the metadata; an error says in which file and key.
template <typename Parse>
auto parse_name(const std::string& path, const char* key, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: __metadata__.{}: {}", path, key, error.what()));
  }
}

// One file of results, with how it was made.
struct Side {
  std::string path;
  Safetensors file;
  Problem problem;
  Summation summation = Summation::fp32_truncated;

  const std::string* metadata(const char* key) const {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? nullptr : &found->second;
  }

  const Tensor& tensor(const char* name) const {
    const Tensor* found = file.find(name);
    if (found == nullptr) {
      throw InputError(
          fmt::format("{}: no tensor '{}': results have out and residual_out", path, name));
    }
    const Shape wanted = {problem.tokens, problem.hidden};
    if (found->dtype != problem.dtype || found->shape != wanted) {
      throw InputError(
          fmt::format("{}: tensor '{}' is {} {}: by the reference's inputs {} {} is right", path,
                      name, dtype_name(found->dtype), shape_text(found->shape),
                      dtype_name(problem.dtype), shape_text(wanted)));
    }
    return *found;
  }
};

void settle(Side& side, const DiffOptions& options) {
  Problem& p = side.problem;
  if (options.has_flavour) {
    p.flavour = options.flavour;
  } else if (const std::string* protocol = side.metadata(kMetaProtocol)) {
    p.flavour = parse_name(side.path, kMetaProtocol, *protocol, parse_flavour);
  }
  if (options.has_ranks) {
    p.ranks = options.ranks;
  } else if (const std::string* ranks = side.metadata(kMetaRanks)) {
    p.ranks = parse_number<int>(side.path, kMetaRanks, *ranks);
  } else {
    throw InputError(fmt::format("{}: metadata has no '{}': give --ranks", side.path, kMetaRanks));
  }
  if (options.has_summation) {
    side.summation = options.summation;
  } else if (const std::string* summation = side.metadata(kMetaSummation)) {
    side.summation = parse_name(side.path, kMetaSummation, *summation, parse_summation);
  }
  if (options.has_eps) {
    p.eps = options.eps;
  } else if (const std::string* eps = side.metadata(kMetaEps)) {
    p.eps = static_cast<float>(parse_number<double>(side.path, kMetaEps, *eps));
  }
  validate(p, {false, false});
}

Side open_side(const std::string& path, const LoadedInputs& inputs, const DiffOptions& options) {
  Side side;
  side.path = path;
  side.file = read_safetensors(path);
  adopt(side.problem, inputs);
  settle(side, options);
  return side;
}

// One output tensor of both sides, block by block of rows.
class TensorDiff {
 public:
  TensorDiff(const char* name, const Side& a, const Side& b)
      : a_(a.tensor(name)), b_(b.tensor(name)) {
    const std::string suffix = std::string(" ") + name;
    results_ = {named("A" + suffix), named("B" + suffix), named("A-B" + suffix)};
  }

  void add(std::int64_t row, const std::vector<double>& expected_a,
           const std::vector<double>& bound_a, const std::vector<double>& expected_b,
           const std::vector<double>& bound_b) {
    const std::size_t first = static_cast<std::size_t>(row * a_.shape[1]);
    const std::size_t count = expected_a.size();
    const std::size_t at = first * dtype_bytes(a_.dtype);
    merge(0, a_.bytes.data() + at, expected_a, bound_a, first);
    merge(1, b_.bytes.data() + at, expected_b, bound_b, first);
    // Both within their bounds of one mathematical value are within the sum of each other, and so B
    // is expected where A is.
    std::vector<double> values(count), bounds(count);
    to_double(a_.dtype, a_.bytes.data() + at, values.data(), count);
    for (std::size_t i = 0; i < count; ++i) bounds[i] = bound_a[i] + bound_b[i];
    merge(2, b_.bytes.data() + at, values, bounds, first);
  }

  const std::vector<Comparison>& results() const { return results_; }

 private:
  Comparison named(std::string name) const {
    Comparison c;
    c.name = std::move(name);
    c.dtype = a_.dtype;
    c.shape = a_.shape;
    return c;
  }

  void merge(std::size_t which, const std::byte* actual, const std::vector<double>& expected,
             const std::vector<double>& bound, std::size_t first) {
    Comparison& c = results_[which];
    c.merge(compare(c.name, c.dtype, c.shape, actual, expected.data(), bound.data(),
                    expected.size(), first));
  }

  const Tensor& a_;
  const Tensor& b_;
  std::vector<Comparison> results_;
};

bool same_judgement(const Side& a, const Side& b) {
  return a.problem.flavour == b.problem.flavour && a.problem.ranks == b.problem.ranks &&
         a.problem.eps == b.problem.eps && a.summation == b.summation;
}

}  // namespace

bool Diff::passed() const { return all_passed(comparisons); }

Diff diff(const std::string& a_path, const std::string& b_path, const std::string& reference,
          const DiffOptions& options) {
  const LoadedInputs loaded = load_inputs(reference, options.names);
  const Side a = open_side(a_path, loaded, options);
  const Side b = open_side(b_path, loaded, options);
  if (loaded.tokens == 0)
    throw InputError(fmt::format("{}: no rows to compare: tokens is 0", reference));
  TensorDiff out("out", a, b);
  const bool both = a.file.find("residual_out") && b.file.find("residual_out");
  std::vector<TensorDiff> residual_out;
  if (both) residual_out.emplace_back("residual_out", a, b);
  for (std::int64_t row = 0; row < loaded.tokens; row += kRowsAtOnce) {
    const RowRange rows{row, std::min(loaded.tokens, row + kRowsAtOnce)};
    const FusedReference of_a = operator_reference(a.problem, loaded.inputs, a.summation, rows);
    FusedReference other;
    if (!same_judgement(a, b)) {
      other = operator_reference(b.problem, loaded.inputs, b.summation, rows);
    }
    const FusedReference& of_b = other.out.empty() ? of_a : other;
    out.add(row, of_a.out, of_a.out_bound, of_b.out, of_b.out_bound);
    if (both) {
      residual_out[0].add(row, of_a.residual_out, of_a.residual_out_bound, of_b.residual_out,
                          of_b.residual_out_bound);
    }
  }
  Diff result{a.problem, b.problem, loaded.notes, out.results()};
  if (both) {
    const auto& more = residual_out[0].results();
    result.comparisons.insert(result.comparisons.end(), more.begin(), more.end());
  }
  return result;
}

}  // namespace ringfence::verify
