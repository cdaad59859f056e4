#include "verify/problem.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/error.hpp"

namespace ringfence::verify {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

void check_size(const char* option, std::int64_t value) {
  if (value < 1) throw InputError(fmt::format("{} is {}: use 1 or more", option, value));
}

// Bytes of everything the operator has, by the 8-byte elements of the reference, must be countable.
void check_total(const Problem& p) {
  // 2^59 elements of 8 bytes are 2^62 bytes. In long double each product is exact enough to decide.
  const long double t = p.tokens, k = p.inner, h = p.hidden, r = p.ranks;
  const long double elements = t * k + h * k + (3 + r) * t * h + 2 * h;
  if (elements > 0x1p59L) {
    throw InputError(fmt::format(
        "--tokens {} --inner {} --hidden {}: the tensors' sizes overflow; use smaller ones",
        p.tokens, p.inner, p.hidden));
  }
}

}  // namespace

const char* flavour_name(Flavour flavour) {
  return flavour == Flavour::tokenweave ? "tokenweave" : "pypto";
}

Flavour parse_flavour(const std::string& name) {
  if (name == "tokenweave") return Flavour::tokenweave;
  if (name == "pypto") return Flavour::pypto;
  throw InputError(fmt::format("unknown protocol '{}': use tokenweave or pypto", name));
}

RowRange Problem::rows_of(int rank) const {
  if (flavour == Flavour::pypto) return {0, tokens};
  const std::int64_t share = (tokens + ranks - 1) / ranks;
  return {std::min(tokens, rank * share), std::min(tokens, (rank + 1) * share)};
}

void validate(const Problem& p, const Requirements& requirements) {
  if (p.ranks < 1 || p.ranks > kMaxRanks) {
    throw InputError(fmt::format("--ranks is {}: use 1 to {}", p.ranks, kMaxRanks));
  }
  check_size("--tokens", p.tokens);
  check_size("--inner", p.inner);
  check_size("--hidden", p.hidden);
  check_total(p);
  if (p.inner % p.ranks != 0) {
    throw InputError(
        fmt::format("--inner {} does not divide by --ranks {}: use a multiple, such as {}", p.inner,
                    p.ranks, round_up(p.inner, p.ranks)));
  }
  if (p.hidden % kVectorElements != 0) {
    throw InputError(fmt::format("--hidden {} is not a multiple of 8 (16-byte vectors): use {}",
                                 p.hidden, round_up(p.hidden, kVectorElements)));
  }
  if (p.flavour == Flavour::tokenweave && requirements.ranks_divide_tokens &&
      p.tokens % p.ranks != 0) {
    throw InputError(fmt::format("--tokens {} does not divide by --ranks {}: pad to {}", p.tokens,
                                 p.ranks, round_up(p.tokens, p.ranks)));
  }
  if (requirements.halves ? !is_half(p.dtype) : !is_operator_dtype(p.dtype)) {
    throw InputError(fmt::format("--dtype {} is not supported here: use {}", dtype_name(p.dtype),
                                 requirements.halves ? "bf16 or fp16" : "bf16, fp16 or fp32"));
  }
  if (!std::isfinite(p.eps) || p.eps < 0) {
    throw InputError(fmt::format("--eps is {}: use a finite number, 0 or more", p.eps));
  }
}

}  // namespace ringfence::verify
