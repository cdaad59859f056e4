#include "emulator/ptx/reduction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "emulator/ptx/alu/scalar.hpp"
#include "emulator/ptx/atomic.hpp"
#include "emulator/ptx/eight_bits.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::size_t kMostReplicas = 64;
constexpr std::array<std::string_view, 5> kNames = {"rank-order", "seeded-order", "exact",
                                                    "element-steps", "truncated"};

std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

struct ReplicaOrder {
  std::array<std::uint8_t, kMostReplicas> rank;
  ReplicaOrder(std::size_t count, SumPolicy policy, std::uint64_t seed) {
    for (std::size_t i = 0; i < count; ++i) rank[i] = static_cast<std::uint8_t>(i);
    if (policy != SumPolicy::seeded_order) return;
    for (std::size_t i = count; i > 1; --i) {
      seed = mix(seed);
      std::swap(rank[i - 1], rank[(seed >> 32) * i >> 32]);
    }
  }
};

// The exact sum as an expansion of doubles that do not overlap, then added up from the smallest
// with rounding to odd, so that one later rounding is as if done on the exact sum.
double exact_sum(std::span<const double> values) {
  std::array<double, kMostReplicas + 1> parts{};
  std::size_t count = 0;
  for (double x : values) {
    if (!std::isfinite(x)) {
      double sum = 0;
      for (const double y : values) sum += y;
      return sum;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double s = x + parts[i];
      const double bb = s - x;
      const double error = (x - (s - bb)) + (parts[i] - bb);
      if (error != 0) parts[kept++] = error;
      x = s;
    }
    parts[kept++] = x;
    count = kept;
  }
  double sum = count == 0 ? 0 : parts[0];
  for (std::size_t i = 1; i < count; ++i) sum = add_to_odd(parts[i], sum);
  return sum;
}

std::uint32_t truncate_to_half(bool bf16, float x) {
  if (x != x) return 0x7FFFU;
  if (bf16) return bits_of(x) >> 16;
  // Towards zero: the nearest value, one place down where that went up; overflow stays finite.
  const std::uint32_t near = to_f16(x) & 0xFFFFU;
  const float back = from_f16(near);
  const float magnitude = x < 0 ? -x : x;
  const float rounded = back < 0 ? -back : back;
  return rounded > magnitude ? near - 1 : near;
}

std::uint32_t add_halves(bool bf16, const Access& access, SumPolicy policy,
                         const ReplicaOrder& order, std::span<const std::uint32_t> values) {
  const auto widen = [&](std::uint32_t x) { return bf16 ? from_bf16(x) : from_f16(x); };
  const auto narrow = [&](float x) { return (bf16 ? to_bf16(x) : to_f16(x)) & 0xFFFFU; };
  if (policy == SumPolicy::exact) {
    std::array<double, kMostReplicas> wide{};
    for (std::size_t r = 0; r < values.size(); ++r) wide[r] = widen(values[r]);
    return narrow(round_to_odd(exact_sum(std::span(wide.data(), values.size()))));
  }
  const bool steps = policy == SumPolicy::element_steps ||
                     (access.accumulate != Type::f32 && policy != SumPolicy::truncated);
  float sum = widen(values[order.rank[0]]);
  for (std::size_t r = 1; r < values.size(); ++r) {
    sum += widen(values[order.rank[r]]);
    if (steps) sum = widen(narrow(sum));
  }
  return policy == SumPolicy::truncated ? truncate_to_half(bf16, sum) : narrow(sum);
}

std::uint32_t extreme_halves(bool bf16, Combine combine, std::span<const std::uint32_t> values) {
  const Type type = bf16 ? Type::bf16 : Type::f16;
  std::uint64_t out = values[0];
  for (const std::uint32_t value : values.subspan(1)) {
    out = apply_atomic(combine, type, false, out, value);
  }
  return static_cast<std::uint32_t>(out);
}

std::uint32_t narrow_fp8(bool e5m2, float x) {
  return e5m2 ? to_fp8(x, 2, 15, 0x7B, 0x7F) : to_fp8(x, 3, 7, 0x7E, 0x7F);
}

// What the manual says is the intermediate precision: .acc::f16, or the type's own. How the result
// becomes 8 bits it does not say: as cvt.rn.satfinite does.
std::uint32_t add_bytes(bool e5m2, const Access& access, SumPolicy policy,
                        const ReplicaOrder& order, std::span<const std::uint32_t> values) {
  const auto widen = [&](std::uint32_t x) { return from_fp8(e5m2, x); };
  if (policy == SumPolicy::exact) {
    std::array<double, kMostReplicas> wide{};
    for (std::size_t r = 0; r < values.size(); ++r) wide[r] = widen(values[r]);
    return narrow_fp8(e5m2, round_to_odd(exact_sum(std::span(wide.data(), values.size()))));
  }
  const bool halves = access.accumulate == Type::f16 && policy != SumPolicy::element_steps;
  float sum = widen(values[order.rank[0]]);
  for (std::size_t r = 1; r < values.size(); ++r) {
    sum += widen(values[order.rank[r]]);
    sum = halves ? from_f16(to_f16(sum) & 0xFFFFU) : widen(narrow_fp8(e5m2, sum));
  }
  return narrow_fp8(e5m2, sum);
}

std::uint32_t extreme_bytes(bool e5m2, Combine combine, std::span<const std::uint32_t> values) {
  float out = canonical(from_fp8(e5m2, values[0]));
  for (const std::uint32_t value : values.subspan(1)) {
    const float x = from_fp8(e5m2, value);
    out = combine == Combine::min ? minimum(out, x) : maximum(out, x);
  }
  return narrow_fp8(e5m2, out);
}

std::uint32_t add_floats(SumPolicy policy, const ReplicaOrder& order,
                         std::span<const std::uint64_t> values) {
  const auto bits = [&](std::size_t r) { return as_float(static_cast<std::uint32_t>(values[r])); };
  if (policy == SumPolicy::exact) {
    std::array<double, kMostReplicas> wide{};
    for (std::size_t r = 0; r < values.size(); ++r) wide[r] = bits(r);
    return bits_of(canonical(static_cast<float>(exact_sum(std::span(wide.data(), values.size())))));
  }
  float sum = bits(order.rank[0]);
  for (std::size_t r = 1; r < values.size(); ++r) sum += bits(order.rank[r]);
  return bits_of(canonical(sum));
}

}  // namespace

std::string_view name_of(SumPolicy policy) { return kNames[static_cast<std::size_t>(policy)]; }

std::optional<SumPolicy> sum_policy_of(std::string_view name) {
  for (const SumPolicy policy : kSumPolicies) {
    if (name_of(policy) == name) return policy;
  }
  return std::nullopt;
}

std::uint64_t reduce_replicas(const Access& access, SumPolicy policy, std::uint64_t seed,
                              std::span<const std::uint64_t> replicas) {
  const std::size_t count = std::min(replicas.size(), kMostReplicas);
  const ReplicaOrder order(count, policy, seed);
  const Type type = access.type;
  const bool bf16 = type == Type::bf16 || type == Type::bf16x2;
  if (bf16 || type == Type::f16 || type == Type::f16x2) {
    const bool packed = type == Type::bf16x2 || type == Type::f16x2;
    std::uint64_t out = 0;
    for (unsigned half = 0; half < (packed ? 2U : 1U); ++half) {
      std::array<std::uint32_t, kMostReplicas> values;
      for (std::size_t r = 0; r < count; ++r) {
        values[r] = static_cast<std::uint32_t>(replicas[r] >> (16 * half)) & 0xFFFFU;
      }
      const std::span<const std::uint32_t> span(values.data(), count);
      const std::uint64_t result = access.combine == Combine::add
                                       ? add_halves(bf16, access, policy, order, span)
                                       : extreme_halves(bf16, access.combine, span);
      out |= result << (16 * half);
    }
    return out;
  }
  if (is_fp8(type)) {
    const bool e5m2 = type == Type::e5m2 || type == Type::e5m2x2 || type == Type::e5m2x4;
    std::uint64_t out = 0;
    for (unsigned byte = 0; byte < size_of(type); ++byte) {
      std::array<std::uint32_t, kMostReplicas> values;
      for (std::size_t r = 0; r < count; ++r) {
        values[r] = static_cast<std::uint32_t>(replicas[r] >> (8 * byte)) & 0xFFU;
      }
      const std::span<const std::uint32_t> span(values.data(), count);
      const std::uint64_t result = access.combine == Combine::add
                                       ? add_bytes(e5m2, access, policy, order, span)
                                       : extreme_bytes(e5m2, access.combine, span);
      out |= result << (8 * byte);
    }
    return out;
  }
  if (type == Type::f32 && access.combine == Combine::add) {
    return add_floats(policy, order, replicas.first(count));
  }
  std::uint64_t out = replicas[order.rank[0]];
  for (std::size_t r = 1; r < count; ++r) {
    out = apply_atomic(access.combine, type, false, out, replicas[order.rank[r]]);
  }
  return out;
}

void reduce_replica_lanes(const Access& access, SumPolicy policy, std::uint64_t seed,
                          std::span<const std::uint32_t* const> replicas, std::uint32_t* out) {
  // The usual case, vectorised: bf16 pairs summed in f32 in rank order.
  if (access.type == Type::bf16x2 && access.combine == Combine::add &&
      access.accumulate == Type::f32 && policy == SumPolicy::rank_order) {
    alignas(64) float low[kLanes];
    alignas(64) float high[kLanes];
    for (unsigned i = 0; i < kLanes; ++i) {
      low[i] = as_float(replicas[0][i] << 16);
      high[i] = as_float(replicas[0][i] & 0xFFFF0000U);
    }
    for (const std::uint32_t* replica : replicas.subspan(1)) {
      for (unsigned i = 0; i < kLanes; ++i) {
        low[i] += as_float(replica[i] << 16);
        high[i] += as_float(replica[i] & 0xFFFF0000U);
      }
    }
    for (unsigned i = 0; i < kLanes; ++i) {
      out[i] = (to_bf16(low[i]) & 0xFFFFU) | to_bf16(high[i]) << 16;
    }
    return;
  }
  std::array<std::uint64_t, kMostReplicas> values;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (std::size_t r = 0; r < replicas.size(); ++r) values[r] = replicas[r][lane];
    out[lane] = static_cast<std::uint32_t>(reduce_replicas(
        access, policy, mix(seed + lane), std::span(values.data(), replicas.size())));
  }
}

}  // namespace ringfence::ptx
