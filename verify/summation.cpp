#include "verify/summation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "verify/error.hpp"

namespace ringfence::verify {
namespace {

struct PolicyName {
  Summation policy;
  const char* name;
};
constexpr PolicyName kNames[] = {{Summation::fp32_rank_order, "rank-order"},
                                 {Summation::fp32_given_order, "seeded-order"},
                                 {Summation::exact_once, "exact"},
                                 {Summation::each_step, "each-step"},
                                 {Summation::fp32_truncated, "truncate"}};

// The sum of a few doubles without error: a list of parts that do not overlap, smallest first
// (Shewchuk's grow-expansion), whose total is exact.
class ExactSum {
 public:
  void add(double value) noexcept {
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      const double high = value + parts_[i];
      const double virtual_part = high - value;
      const double low = (value - (high - virtual_part)) + (parts_[i] - virtual_part);
      if (low != 0) parts_[kept++] = low;
      value = high;
    }
    parts_[kept++] = value;
    count_ = kept;
  }

  // The total rounded to odd, so that one more rounding to a narrower type gives the rounding of
  // the exact total.
  double rounded_to_odd() const noexcept {
    double high = parts_[count_ - 1];
    double low = 0;
    for (int i = count_ - 2; i >= 0 && low == 0; --i) {
      const double sum = high + parts_[i];
      low = parts_[i] - (sum - high);
      high = sum;
    }
    if (low == 0) return high;
    std::uint64_t bits;
    std::memcpy(&bits, &high, sizeof bits);
    // `low` is at most half an ulp of `high`. An odd last place stays: it is the rounding to odd
    // from either side. An even one moves towards the exact total.
    if ((bits & 1u) == 0) bits += (low > 0) == (high > 0) ? 1 : -1;
    std::memcpy(&high, &bits, sizeof high);
    return high;
  }

 private:
  // Each addition adds at most one part, and floats span 2^-149..2^128, which six doubles cover;
  // one for each addend is enough in any case.
  double parts_[kMaxRanks + 1] = {};
  int count_ = 0;
};

// To nearest even, of a sum that is exact or rounded to odd.
template <typename Bits>
Bits rounded_once(Dtype dtype, double value) noexcept {
  if constexpr (sizeof(Bits) == 4) {
    return float_bits(static_cast<float>(value));
  } else {
    return round_double_to(dtype, value);
  }
}

template <typename Bits>
Bits exact_sum(Dtype dtype, const Bits* const* parts, int ranks, std::size_t i) noexcept {
  double sum = to_float(dtype, parts[0][i]);
  bool exact = true;
  for (int r = 1; r < ranks; ++r) {
    const double part = to_float(dtype, parts[r][i]);
    const double next = sum + part;
    const double back = next - sum;
    exact = exact && (sum - (next - back)) == 0 && (part - back) == 0;
    sum = next;
  }
  // Nearly always: the exponents lie within a double's 53 bits. Infinities and NaN end here as
  // well.
  if (exact || !std::isfinite(sum)) return rounded_once<Bits>(dtype, sum);
  ExactSum total;
  for (int r = 0; r < ranks; ++r) total.add(to_float(dtype, parts[r][i]));
  return rounded_once<Bits>(dtype, total.rounded_to_odd());
}

// Elements that are summed side by side: each in its own order, as one alone.
constexpr std::size_t kTogether = 8;

// sums[i] of the elements at `first` and behind it, `count` of them, at most kTogether.
template <typename Bits, typename D, typename Step>
void sum_in_order(D dtype, const Bits* const* parts, int ranks, const int* order, std::size_t first,
                  std::size_t count, float* sums, Step step) noexcept {
  const Bits* const start = parts[order ? order[0] : 0] + first;
  for (std::size_t i = 0; i < count; ++i) sums[i] = to_float(dtype, start[i]);
  for (int k = 1; k < ranks; ++k) {
    const Bits* const part = parts[order ? order[k] : k] + first;
    for (std::size_t i = 0; i < count; ++i) sums[i] = step(sums[i] + to_float(dtype, part[i]));
  }
}

}  // namespace

const char* summation_name(Summation policy) {
  for (const PolicyName& entry : kNames) {
    if (entry.policy == policy) return entry.name;
  }
  return "unknown";
}

Summation parse_summation(const std::string& name) {
  for (const PolicyName& entry : kNames) {
    if (name == entry.name) return entry.policy;
  }
  throw InputError(fmt::format(
      "unknown summation policy '{}': use rank-order, seeded-order, exact, each-step or truncate",
      name));
}

template <typename Bits>
void reduce_vector(Summation policy, Dtype dtype, const Bits* const* parts, int ranks,
                   const int* order, std::size_t count, std::type_identity_t<Bits>* sum) noexcept {
  with_constant<Bits>(dtype, [&](auto d) {
    const auto in_fp32 = [](float value) { return value; };
    const auto in_dtype = [d](float value) { return to_float(d, rounded_to<Bits>(d, value)); };
    if (policy == Summation::exact_once) {
      for (std::size_t i = 0; i < count; ++i) sum[i] = exact_sum<Bits>(d, parts, ranks, i);
      return;
    }
    if (policy == Summation::fp32_rank_order) order = nullptr;
    for (std::size_t first = 0; first < count; first += kTogether) {
      const std::size_t some = std::min(kTogether, count - first);
      float sums[kTogether];
      if (policy == Summation::each_step) {
        sum_in_order(d, parts, ranks, order, first, some, sums, in_dtype);
      } else {
        sum_in_order(d, parts, ranks, order, first, some, sums, in_fp32);
      }
      for (std::size_t i = 0; i < some; ++i) {
        sum[first + i] = policy == Summation::fp32_truncated ? truncated_to<Bits>(d, sums[i])
                                                             : rounded_to<Bits>(d, sums[i]);
      }
    }
  });
}

template <typename Bits>
void atomic_add(Dtype dtype, const Bits* part, std::size_t count, Bits* tile) noexcept {
  with_constant<Bits>(dtype, [&](auto d) {
    for (std::size_t i = 0; i < count; ++i) {
      tile[i] = rounded_to<Bits>(d, to_float(d, tile[i]) + to_float(d, part[i]));
    }
  });
}

#define RINGFENCE_SUMS(Bits)                                                                      \
  template void reduce_vector(Summation, Dtype, const Bits* const*, int, const int*, std::size_t, \
                              Bits*) noexcept;                                                    \
  template void atomic_add(Dtype, const Bits*, std::size_t, Bits*) noexcept;
RINGFENCE_SUMS(std::uint16_t)
RINGFENCE_SUMS(std::uint32_t)
#undef RINGFENCE_SUMS

}  // namespace ringfence::verify
