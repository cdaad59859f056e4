#include "verify/bounds.hpp"

#include <cmath>

namespace ringfence::verify {
namespace {

constexpr double kFp32Roundoff = 0x1p-24;

// A value known up to an error.
struct Approximate {
  double value;
  double error;
};

// What a conversion with this overflow threshold makes of it: surely infinite, surely not, or
// either (an infinite error).
Approximate overflow(Approximate a, double threshold) {
  if (!std::isfinite(a.value)) return {a.value, 0};
  const double magnitude = std::abs(a.value);
  if (magnitude - a.error >= threshold) return {std::copysign(kInfinity, a.value), 0};
  if (magnitude + a.error >= threshold) return {a.value, kInfinity};
  return a;
}

// (1 + u)^n - 1: what n roundings in a row may add up to.
double accumulated(double u, std::int64_t n) {
  return std::expm1(static_cast<double>(n) * std::log1p(u));
}

// The error of adding R numbers, as a part of Σ|p_r|.
double summation_factor(const Problem& p, Summation policy) {
  // The reference adds in double; that it errs too matters only where huge partials cancel.
  const double own = p.ranks * 0x1p-53;
  if (policy == Summation::exact_once) return own;
  const double u = policy == Summation::each_step ? unit_roundoff(p.dtype) : kFp32Roundoff;
  return own + accumulated(u, p.ranks - 1);
}

class Row {
 public:
  Row(const Problem& problem, Summation policy)
      : p_(problem),
        policy_(problem.flavour == Flavour::pypto ? Summation::each_step : policy),
        u_(unit_roundoff(problem.dtype)),
        eta_(subnormal_floor(problem.dtype)),
        factor_(summation_factor(problem, policy_)) {}

  // v, the sum over the ranks as the policy rounds it.
  Approximate sum(double sum, double magnitude, double partials_error) const {
    const double error = partials_error + factor_ * (magnitude + partials_error);
    const bool each_step = policy_ == Summation::each_step;
    // An order may overflow on the way to a finite sum.
    const double threshold = overflow_threshold(each_step ? p_.dtype : Dtype::f32);
    if (std::isfinite(sum) && magnitude + partials_error >= threshold) {
      const bool one_sign = std::abs(sum) == magnitude;
      if (!one_sign) return {sum, kInfinity};
    }
    if (policy_ == Summation::fp32_truncated) {
      const double largest = largest_finite(p_.dtype);
      const Approximate in_fp32 = overflow({sum, error}, threshold);
      if (!std::isfinite(in_fp32.value) || !std::isfinite(in_fp32.error)) return in_fp32;
      if (std::abs(sum) > largest) return {std::copysign(largest, sum), error};
      return {sum, error + 2 * u_ * (std::abs(sum) + error) + eta_ * 2};
    }
    const Approximate v = overflow({sum, error}, overflow_threshold(p_.dtype));
    return {v.value, rounded(v, u_, eta_)};
  }

  // z = v + residual, as the norm has it.
  Approximate add(const Approximate& v, double residual) const {
    const bool fp32 = p_.flavour == Flavour::pypto;
    const Approximate z =
        overflow({v.value + residual, v.error},
                 fp32 ? overflow_threshold(Dtype::f32) : overflow_threshold(p_.dtype));
    return {z.value, fp32 ? rounded(z, kFp32Roundoff, 0) : rounded(z, u_, eta_)};
  }

  // residual_out: pypto rounds z for it.
  double residual_out_error(const Approximate& z) const {
    return p_.flavour == Flavour::pypto ? rounded(z, u_, eta_) : z.error;
  }

  static double rounded(const Approximate& a, double u, double eta) {
    if (!std::isfinite(a.value)) return a.error;
    return a.error + u * (std::abs(a.value) + a.error) + eta;
  }

 private:
  const Problem& p_;
  const Summation policy_;
  const double u_;
  const double eta_;
  const double factor_;
};

// s = 1/sqrt(mean + eps) with its relative error; infinite where nothing can be said.
struct Scale {
  double value;
  double relative_error;
};

Scale scale_of(const Problem& p, double sum_squares, double sum_squares_error,
               double largest_square) {
  const double h = static_cast<double>(p.hidden);
  // NaN, or an infinite z: 1/sqrt(infinity) = 0 exactly.
  if (!std::isfinite(sum_squares)) return {1 / std::sqrt(sum_squares), 0};
  const double gamma = (h + 4) * kFp32Roundoff;
  // What overflows first in fp32: tokenweave sums whole squares, pypto parts of 1/H.
  const double critical = p.flavour == Flavour::pypto ? largest_square : sum_squares;
  const Approximate in_fp32 =
      overflow({critical, sum_squares_error + gamma * critical}, overflow_threshold(Dtype::f32));
  if (!std::isfinite(in_fp32.value)) return {0, 0};
  const double denominator = sum_squares / h + static_cast<double>(p.eps);
  // Squares that fall below fp32's subnormals are lost whole.
  const double t = (sum_squares_error / h + h * 0x1p-149) / denominator;
  const double s = 1 / std::sqrt(denominator);
  if (!std::isfinite(in_fp32.error) || !(t < 1)) return {s, kInfinity};
  return {s, 1 / std::sqrt(1 - t) - 1 + gamma + 0x1p-22};
}

// The bound of out[i] = z·s·gamma (+ beta).
double out_error(const Problem& p, const Approximate& z, const Scale& s, double gamma, double beta,
                 double out, bool gamma_is_wide) {
  if (!std::isfinite(out)) return 0;
  if (!std::isfinite(s.relative_error) || !std::isfinite(z.error)) return kInfinity;
  const double u = unit_roundoff(p.dtype);
  const double eta = subnormal_floor(p.dtype);
  const double scale = std::abs(gamma) * s.value;
  const double carried =
      scale * (z.error * (1 + s.relative_error) + std::abs(z.value) * s.relative_error);
  const double product = scale * std::abs(z.value) + carried;
  if (p.flavour == Flavour::pypto) {
    const double in_fp32 = 2 * kFp32Roundoff * (1 + kFp32Roundoff) * product;
    return carried + in_fp32 + (u + 2 * kFp32Roundoff) * (std::abs(out) + carried + in_fp32) + eta +
           (1 + std::abs(gamma)) * 0x1p-149;
  }
  // Two roundings to the dtype, the first of a product in fp32; and so the second, where gamma has
  // more places than the dtype.
  const double wide = gamma_is_wide ? 1 + kFp32Roundoff : 1;
  const double roundings = (1 + u) * (1 + u) * (1 + kFp32Roundoff) * wide - 1;
  double error = carried + product * roundings + eta * (std::abs(gamma) * (1 + u) + 1);
  if (beta != 0) error += u * (std::abs(out) + error) + eta;
  return error;
}

}  // namespace

void bound_row(const Problem& p, Summation policy, const BoundRow& row) {
  const Row rounding(p, policy);
  const auto h = static_cast<std::size_t>(p.hidden);
  double sum_squares = 0;
  double sum_squares_error = 0;
  double largest_square = 0;
  for (std::size_t i = 0; i < h; ++i) {
    const Approximate v =
        rounding.sum(row.sum[i], row.magnitude[i], row.error != nullptr ? row.error[i] : 0);
    const Approximate z = rounding.add(v, row.residual[i]);
    const double square = z.value * z.value;
    sum_squares += square;
    sum_squares_error += 2 * std::abs(z.value) * z.error + z.error * z.error;
    if (square > largest_square) largest_square = square;
    row.residual_out[i] = z.value;
    row.residual_out_bound[i] = z.error;  // what the norm sees; widened below for pypto
  }
  const Scale s = scale_of(p, sum_squares, sum_squares_error, largest_square);
  for (std::size_t i = 0; i < h; ++i) {
    const Approximate z{row.residual_out[i], row.residual_out_bound[i]};
    const double beta = row.beta != nullptr ? row.beta[i] : 0;
    const double out = z.value * s.value * row.gamma[i] + beta;
    row.out[i] = out;
    row.out_bound[i] = out_error(p, z, s, row.gamma[i], beta, out, row.gamma_is_wide);
    row.residual_out_bound[i] = rounding.residual_out_error(z);
  }
}

}  // namespace ringfence::verify
