#include "emulator/analysis/operator_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "verify/diff.hpp"
#include "verify/product.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::analysis {

namespace {

using programs::OperatorProgram;
using programs::Payload;

// "out", "out, call 2", "out, group 1"
std::string name_of(const char* tensor, const Payload& payload, std::uint32_t group,
                    std::uint32_t call) {
  std::string name = tensor;
  if (payload.groups() > 1) name += fmt::format(", group {}", group);
  if (payload.calls() > 1) name += fmt::format(", call {}", call);
  return name;
}

verify::Comparison compare_product(const Payload& payload, std::uint32_t group,
                                   std::uint32_t call) {
  const Payload::Call& c = payload.call(group, call);
  const verify::Inputs inputs = payload.inputs(group, call);
  const verify::Shape shape{c.problem.tokens, c.problem.hidden};
  verify::Comparison whole;
  for (int r = 0; r < c.problem.ranks; ++r) {
    // In slices of rows, as the double-precision reference takes four times the space.
    constexpr std::int64_t kRows = 256;
    for (std::int64_t row = 0; row < c.problem.tokens; row += kRows) {
      const verify::RowRange rows{row, std::min(row + kRows, c.problem.tokens)};
      const auto expected = verify::product_reference(c.problem, inputs, r, rows);
      const auto first = static_cast<std::size_t>(row * c.problem.hidden);
      const auto part = verify::compare(
          name_of("partial", payload, group, call), c.problem.dtype, shape,
          c.partial(static_cast<std::uint32_t>(r)) + first * verify::dtype_bytes(c.problem.dtype),
          expected.value.data(), expected.bound.data(), expected.value.size(), first);
      if (r == 0 && row == 0) {
        whole = part;
      } else {
        whole.merge(part);
      }
    }
  }
  return whole;
}

// One rank's rows of out or residual_out.
verify::Comparison compare_rows(std::string name, const Payload::Call& c, bool is_residual,
                                const std::byte* got, verify::RowRange rows) {
  const verify::Shape shape{c.problem.tokens, c.problem.hidden};
  const auto first = static_cast<std::size_t>(rows.begin * c.problem.hidden);
  const auto count = static_cast<std::size_t>(rows.count() * c.problem.hidden);
  const std::size_t at = first * verify::dtype_bytes(c.problem.dtype);
  if (c.exact) {
    return verify::compare_bits(std::move(name), c.problem.dtype, shape, got + at,
                                (is_residual ? c.residual_out : c.out).bytes.data() + at, count,
                                first);
  }
  const verify::FusedReference& r = c.reference;
  return verify::compare(std::move(name), c.problem.dtype, shape, got + at,
                         (is_residual ? r.residual_out : r.out).data() + first,
                         (is_residual ? r.residual_out_bound : r.out_bound).data() + first, count,
                         first);
}

}  // namespace

std::vector<verify::Comparison> compare_results(const OperatorProgram& p) {
  const Payload& payload = p.payload();
  std::vector<verify::Comparison> all;
  for (std::uint32_t g = 0; g < payload.groups(); ++g) {
    for (std::uint32_t call = 0; call < payload.calls(); ++call) {
      const Payload::Call& c = payload.call(g, call);
      all.push_back(compare_product(payload, g, call));
      for (const bool is_residual : {false, true}) {
        const std::string name = name_of(is_residual ? "residual_out" : "out", payload, g, call);
        verify::Comparison whole;
        bool any = false;
        for (std::uint32_t r = 0; r < p.ranks(); ++r) {
          const verify::RowRange rows = is_residual ? c.problem.rows_of(static_cast<int>(r))
                                                    : verify::RowRange{0, c.problem.tokens};
          if (rows.count() == 0) continue;
          auto part =
              compare_rows(name, c, is_residual,
                           is_residual ? p.residual_out(g, call, r) : p.out(g, call, r), rows);
          part.add_rank(static_cast<int>(r));
          if (any) {
            whole.merge(part);
          } else {
            whole = part;
          }
          any = true;
        }
        all.push_back(whole);
      }
    }
  }
  return all;
}

ReplicaCheck check_replicas(const OperatorProgram& p) {
  const Payload& payload = p.payload();
  for (std::uint32_t g = 0; g < payload.groups(); ++g) {
    for (std::uint32_t call = 0; call < payload.calls(); ++call) {
      const verify::Problem& problem = payload.call(g, call).problem;
      const auto count = static_cast<std::size_t>(problem.tokens * problem.hidden);
      const std::size_t element = verify::dtype_bytes(problem.dtype);
      const std::byte* a = p.out(g, call, 0);
      for (std::uint32_t r = 1; r < p.ranks(); ++r) {
        const std::byte* b = p.out(g, call, r);
        const std::byte* differs = std::mismatch(a, a + count * element, b).first;
        if (differs == a + count * element) continue;
        const std::size_t i = static_cast<std::size_t>(differs - a) / element;
        if (!p.replicas_agree(payload.call(g, call))) {
          return {true,
                  "out differs in its last bits, as each rank's adds came in an order of their "
                  "own; every replica is judged above"};
        }
        const auto bits = [&](const std::byte* of) {
          return verify::load_pattern(problem.dtype, of + i * element);
        };
        return {false, fmt::format("{} [{}, {}] differs: 0x{:0{}x} on rank 0, 0x{:0{}x} on rank {}",
                                   name_of("out", payload, g, call),
                                   i / static_cast<std::size_t>(problem.hidden),
                                   i % static_cast<std::size_t>(problem.hidden), bits(a),
                                   2 * element, bits(b), 2 * element, r)};
      }
    }
  }
  return {true, "out is equal bit for bit"};
}

verify::Safetensors result_tensors(const OperatorProgram& p, const programs::Config& config) {
  const verify::Problem& problem = p.payload().call(0, 0).problem;
  const auto tensor = [&](const std::byte* bits) {
    verify::Tensor t(problem.dtype, {problem.tokens, problem.hidden});
    std::memcpy(t.bytes.data(), bits, t.bytes.size());
    return t;
  };
  verify::Safetensors file;
  file.add("out", tensor(p.out(0, 0, 0)));
  file.add("residual_out", tensor(p.residual_out(0, 0, 0)));
  file.metadata[verify::kMetaProtocol] = verify::flavour_name(problem.flavour);
  file.metadata[verify::kMetaRanks] = std::to_string(config.ranks);
  file.metadata[verify::kMetaSummation] = verify::summation_name(p.payload().summation());
  file.metadata[verify::kMetaEps] = fmt::format("{}", problem.eps);
  return file;
}

}  // namespace ringfence::analysis
