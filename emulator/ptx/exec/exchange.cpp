// What the lanes of a warp exchange: shuffles, votes, matches and reductions.

#include <string>

#include "emulator/ptx/alu/scalar.hpp"
#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// Which lane a shuffle reads, and whether it is in range (the predicate).
std::uint32_t shuffle_source(ExchangeKind kind, std::uint32_t lane, std::uint32_t b,
                             std::uint32_t c, bool& in_range) {
  const std::uint32_t segment = c >> 8 & 31U;
  const std::uint32_t clamp = c & 31U;
  const std::uint32_t most = (lane & segment) | (clamp & ~segment);
  const std::uint32_t least = lane & segment;
  b &= 31U;
  std::uint32_t source = lane;
  switch (kind) {
    case ExchangeKind::shuffle_up: {
      const auto j = static_cast<std::int32_t>(lane) - static_cast<std::int32_t>(b);
      in_range = j >= static_cast<std::int32_t>(most);
      source = static_cast<std::uint32_t>(j);
      break;
    }
    case ExchangeKind::shuffle_down:
      source = lane + b;
      in_range = source <= most;
      break;
    case ExchangeKind::shuffle_butterfly:
      source = lane ^ b;
      in_range = source <= most;
      break;
    default:
      source = least | (b & ~segment);
      in_range = source <= most;
      break;
  }
  return in_range ? source : lane;
}

// redux of f32: of the lanes' values or magnitudes. A NaN counts only if all are, or with .NaN.
std::uint32_t reduce_floats(const ExchangeOp& form, const std::uint32_t* a, std::uint32_t mask) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU;
  const auto value = [&](std::uint32_t lane) {
    return as_float(form.magnitudes ? a[lane] & kMagnitude : a[lane]);
  };
  float out = canonical(value(first_lane(mask)));
  bool nan = false;
  each_lane(mask, [&](std::uint32_t lane) {
    const float x = value(lane);
    nan = nan || x != x;
    out = form.kind == ExchangeKind::redux_min ? minimum(out, x) : maximum(out, x);
  });
  return nan && form.keeps_nan ? kMagnitude : bits_of(out);
}

std::uint32_t reduce_lanes(const ExchangeOp& form, const std::uint32_t* a, std::uint32_t mask) {
  if (form.of_floats) return reduce_floats(form, a, mask);
  std::uint32_t out = a[first_lane(mask)];
  for (std::uint32_t left = mask & (mask - 1); left != 0; left &= left - 1) {
    const std::uint32_t x = a[first_lane(left)];
    const bool less =
        form.is_signed ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(out) : x < out;
    switch (form.kind) {
      case ExchangeKind::redux_add:
        out += x;
        break;
      case ExchangeKind::redux_min:
        out = less ? x : out;
        break;
      case ExchangeKind::redux_max:
        out = less ? out : x;
        break;
      case ExchangeKind::redux_and:
        out &= x;
        break;
      case ExchangeKind::redux_or:
        out |= x;
        break;
      default:
        out ^= x;
        break;
    }
  }
  return out;
}

// What the lanes that take part get, and the predicate of each.
struct Exchanged {
  std::uint32_t results[kLanes] = {};
  std::uint32_t flags = 0;
};

void shuffle(ExchangeKind kind, const std::uint32_t* a, const std::uint32_t* b,
             const std::uint32_t* c, std::uint32_t mask, Exchanged& out) {
  // What a sum over a warp does, 32 times a row: every lane reads another, none is out of range.
  if (kind == ExchangeKind::shuffle_butterfly && mask == 0xFFFFFFFFU) {
    std::uint32_t other = 0;
    for (std::uint32_t i = 0; i < kLanes; ++i) other |= (b[i] ^ b[0]) | (c[i] ^ 31U);
    if (other == 0) {
      const std::uint32_t distance = b[0] & 31U;
      for (std::uint32_t i = 0; i < kLanes; ++i) out.results[i] = a[i ^ distance];
      out.flags = mask;
      return;
    }
  }
  each_lane(mask, [&](std::uint32_t lane) {
    bool in_range = false;
    const std::uint32_t source = shuffle_source(kind, lane, b[lane], c[lane], in_range);
    if ((mask >> source & 1U) == 0) {
      throw Fault(FaultKind::undefined,
                  "the shuffle reads lane " + std::to_string(source) + ", which does not take part",
                  lane);
    }
    out.results[lane] = a[source];
    out.flags |= static_cast<std::uint32_t>(in_range) << lane;
  });
}

// `p`: the lanes whose predicate holds.
void vote(ExchangeKind kind, std::uint32_t p, std::uint32_t mask, Exchanged& out) {
  const bool all = p == mask;
  const bool any = p != 0;
  const bool value = kind == ExchangeKind::vote_all   ? all
                     : kind == ExchangeKind::vote_any ? any
                                                      : all || !any;
  out.flags = value ? mask : 0;
  each_lane(mask, [&](std::uint32_t lane) { out.results[lane] = p; });
}

template <class Value>
void match(ExchangeKind kind, std::uint32_t mask, const Value& value, Exchanged& out) {
  bool all = true;
  each_lane(mask, [&](std::uint32_t lane) {
    each_lane(mask, [&](std::uint32_t other) {
      if (value(lane) == value(other)) out.results[lane] |= 1U << other;
    });
    all = all && out.results[lane] == mask;
  });
  if (kind != ExchangeKind::match_all) return;
  out.flags = all ? mask : 0;
  each_lane(mask, [&](std::uint32_t lane) { out.results[lane] = all ? mask : 0; });
}

}  // namespace

void Execution::State::perform_exchange(Warp& warp, const Op& op, std::uint32_t mask) {
  const ExchangeOp& form = program_.exchanges[op.detail];
  if (!warp.tried) memory_.exchanged(agents(warp, mask));
  Exchanged out;
  switch (form.kind) {
    case ExchangeKind::shuffle_up:
    case ExchangeKind::shuffle_down:
    case ExchangeKind::shuffle_butterfly:
    case ExchangeKind::shuffle_index:
      shuffle(form.kind, words(warp, op.a), words(warp, op.b), words(warp, op.c), mask, out);
      break;
    case ExchangeKind::vote_all:
    case ExchangeKind::vote_any:
    case ExchangeKind::vote_uniform:
    case ExchangeKind::vote_ballot:
      vote(form.kind, (predicate(warp, op.a) ^ ((op.immediate & kNegateA) != 0 ? ~0U : 0U)) & mask,
           mask, out);
      break;
    case ExchangeKind::match_any:
    case ExchangeKind::match_all:
      match(
          form.kind, mask,
          [&](std::uint32_t lane) -> std::uint64_t {
            return form.wide ? longs(warp, op.a)[lane] : words(warp, op.a)[lane];
          },
          out);
      break;
    case ExchangeKind::elect:
      // Which lane leads is unspecified: always the lowest here.
      out.flags = 1U << first_lane(mask);
      each_lane(mask, [&](std::uint32_t lane) { out.results[lane] = first_lane(mask); });
      break;
    default: {
      const std::uint32_t sum = reduce_lanes(form, words(warp, op.a), mask);
      each_lane(mask, [&](std::uint32_t lane) { out.results[lane] = sum; });
      break;
    }
  }
  if (op.d) {
    std::uint32_t* d = words(warp, op.d);
    each_lane(mask, [&](std::uint32_t lane) { d[lane] = out.results[lane]; });
  }
  if (op.e) {
    std::uint32_t& p = *words(warp, op.e);
    p = (p & ~mask) | out.flags;
  }
}

}  // namespace ringfence::ptx
