// The arithmetic handlers, compiled once for each instruction set: RF_VARIANT is the namespace that
// the build sets together with -march. Everything but find() is local to this file, so that no
// function compiled for a wide instruction set can replace another's.

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "emulator/ptx/alu/alu.hpp"
#include "emulator/ptx/alu/scalar.hpp"
#include "emulator/ptx/alu/slow.hpp"
#include "emulator/ptx/program.hpp"

#define RF_INLINE_MEMBER [[gnu::always_inline]] inline

namespace ringfence::ptx::RF_VARIANT {

Handler find(const AluKey& key);

namespace {

// In this order: each uses what the one before defines.
// clang-format off
#include "emulator/ptx/alu/lanes.inc"
#include "emulator/ptx/alu/integer.inc"
#include "emulator/ptx/alu/float.inc"
#include "emulator/ptx/alu/convert.inc"
// clang-format on

bool is_pair(Type type) { return type == Type::u16x2 || type == Type::s16x2; }

bool plain(const AluKey& key) { return key.rounding == Rounding::nearest && !key.saturate; }

template <template <class> class F>
Handler binary_signless(Type type) {
  switch (size_of(type)) {
    case 2:
      return map2<F<std::uint16_t>, std::uint16_t, std::uint16_t, std::uint16_t>;
    case 4:
      return map2<F<std::uint32_t>, std::uint32_t, std::uint32_t, std::uint32_t>;
    case 8:
      return map2<F<std::uint64_t>, std::uint64_t, std::uint64_t, std::uint64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler unary_signless(Type type) {
  switch (size_of(type)) {
    case 2:
      return map1<F<std::uint16_t>, std::uint16_t, std::uint16_t>;
    case 4:
      return map1<F<std::uint32_t>, std::uint32_t, std::uint32_t>;
    case 8:
      return map1<F<std::uint64_t>, std::uint64_t, std::uint64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler binary_integer(Type type) {
  switch (type) {
    case Type::s16:
      return map2<F<std::int16_t>, std::int16_t, std::int16_t, std::int16_t>;
    case Type::s32:
      return map2<F<std::int32_t>, std::int32_t, std::int32_t, std::int32_t>;
    case Type::s64:
      return map2<F<std::int64_t>, std::int64_t, std::int64_t, std::int64_t>;
    case Type::u16:
      return map2<F<std::uint16_t>, std::uint16_t, std::uint16_t, std::uint16_t>;
    case Type::u32:
      return map2<F<std::uint32_t>, std::uint32_t, std::uint32_t, std::uint32_t>;
    case Type::u64:
      return map2<F<std::uint64_t>, std::uint64_t, std::uint64_t, std::uint64_t>;
    default:
      return nullptr;
  }
}
template <template <class> class F>
Handler ternary_integer(Type type) {
  switch (type) {
    case Type::s16:
      return map3<F<std::int16_t>, std::int16_t, std::int16_t, std::int16_t, std::int16_t>;
    case Type::s32:
      return map3<F<std::int32_t>, std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
    case Type::s64:
      return map3<F<std::int64_t>, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
    case Type::u16:
      return map3<F<std::uint16_t>, std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;
    case Type::u32:
      return map3<F<std::uint32_t>, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
    case Type::u64:
      return map3<F<std::uint64_t>, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
    default:
      return nullptr;
  }
}
template <class T>
Handler multiply_wide() {
  return map2<MulWide<T>, typename MulWide<T>::D, T, T>;
}
template <class T>
Handler mad_wide() {
  return map3<MadWide<T>, typename MadWide<T>::D, T, T, typename MadWide<T>::D>;
}
template <class T>
Handler shift_left() {
  return map2<Shl<T>, T, T, std::uint32_t>;
}
template <class T>
Handler shift_right() {
  return map2<Shr<T>, T, T, std::uint32_t>;
}

Handler shift(const AluKey& key) {
  const bool left = key.op == Alu::shl;
  switch (key.type) {
    case Type::b16:
    case Type::u16:
      return left ? shift_left<std::uint16_t>() : shift_right<std::uint16_t>();
    case Type::b32:
    case Type::u32:
      return left ? shift_left<std::uint32_t>() : shift_right<std::uint32_t>();
    case Type::b64:
    case Type::u64:
      return left ? shift_left<std::uint64_t>() : shift_right<std::uint64_t>();
    case Type::s16:
      return left ? shift_left<std::uint16_t>() : shift_right<std::int16_t>();
    case Type::s32:
      return left ? shift_left<std::uint32_t>() : shift_right<std::int32_t>();
    case Type::s64:
      return left ? shift_left<std::uint64_t>() : shift_right<std::int64_t>();
    default:
      return nullptr;
  }
}

template <class F0, class F1>
Handler float2(const AluKey& key) {
  if (!plain(key)) return slow2;
  return key.flush ? map2<F1, float, float, float> : map2<F0, float, float, float>;
}
template <class F0, class F1>
Handler float1(const AluKey& key) {
  if (!plain(key)) return nullptr;
  return key.flush ? map1<F1, float, float> : map1<F0, float, float>;
}
template <class Operation>
Handler half2(Type type) {
  using U = std::uint32_t;
  switch (type) {
    case Type::bf16:
      return map2<Half2<Bf16, Operation, false>, U, U, U>;
    case Type::bf16x2:
      return map2<Half2<Bf16, Operation, true>, U, U, U>;
    case Type::f16:
      return map2<Half2<Fp16, Operation, false>, U, U, U>;
    case Type::f16x2:
      return map2<Half2<Fp16, Operation, true>, U, U, U>;
    default:
      return nullptr;
  }
}
bool is_half(Type type) {
  return type == Type::bf16 || type == Type::bf16x2 || type == Type::f16 || type == Type::f16x2;
}

Handler find_half(const AluKey& key) {
  using U = std::uint32_t;
  if (key.saturate || key.flush || key.rounding != Rounding::nearest) return nullptr;
  const bool packed = key.type == Type::bf16x2 || key.type == Type::f16x2;
  switch (key.op) {
    case Alu::add:
      return half2<HalfAdd>(key.type);
    case Alu::sub:
      return half2<HalfSub>(key.type);
    case Alu::mul_lo:
      return half2<HalfMul>(key.type);
    case Alu::min:
      return key.propagate_nan ? half2<HalfMinNan>(key.type) : half2<HalfMin>(key.type);
    case Alu::max:
      return key.propagate_nan ? half2<HalfMaxNan>(key.type) : half2<HalfMax>(key.type);
    case Alu::neg:
      return packed ? map1<HalfSign<true, false>, U, U> : map1<HalfSign<false, false>, U, U>;
    case Alu::abs:
      return packed ? map1<HalfSign<true, true>, U, U> : map1<HalfSign<false, true>, U, U>;
    case Alu::fma:
      switch (key.type) {
        case Type::bf16:
          return map3<HalfFma<Bf16, false>, U, U, U, U>;
        case Type::bf16x2:
          return map3<HalfFma<Bf16, true>, U, U, U, U>;
        case Type::f16:
          return map3<HalfFma<Fp16, false>, U, U, U, U>;
        default:
          return map3<HalfFma<Fp16, true>, U, U, U, U>;
      }
    default:
      return nullptr;
  }
}

Handler find_float(const AluKey& key) {
  switch (key.op) {
    case Alu::add:
      return float2<AddF<false>, AddF<true>>(key);
    case Alu::sub:
      return float2<SubF<false>, SubF<true>>(key);
    case Alu::mul_lo:
      return float2<MulF<false>, MulF<true>>(key);
    case Alu::div:
      if (key.approximate) return slow2;
      return float2<DivF<false>, DivF<true>>(key);
    case Alu::min:
      if (key.propagate_nan) return float2<MinNanF<false>, MinNanF<true>>(key);
      return float2<MinF<false>, MinF<true>>(key);
    case Alu::max:
      if (key.propagate_nan) return float2<MaxNanF<false>, MaxNanF<true>>(key);
      return float2<MaxF<false>, MaxF<true>>(key);
    case Alu::fma:
      if (!plain(key)) return slow3;
      return key.flush ? map3<FmaF<true>, float, float, float, float>
                       : map3<FmaF<false>, float, float, float, float>;
    case Alu::neg:
      return float1<NegF<false>, NegF<true>>(key);
    case Alu::abs:
      return float1<AbsF<false>, AbsF<true>>(key);
    case Alu::rcp:
      if (key.approximate) return slow1<SlowOperation::rcp_approx>;
      if (!plain(key)) return slow1<SlowOperation::rcp>;
      return float1<RcpF<false>, RcpF<true>>(key);
    case Alu::sqrt:
      if (key.approximate) return slow1<SlowOperation::sqrt_approx>;
      if (!plain(key)) return slow1<SlowOperation::sqrt>;
      return float1<SqrtF<false>, SqrtF<true>>(key);
    case Alu::rsqrt:
      return slow1<SlowOperation::rsqrt_approx>;
    case Alu::ex2:
      return slow1<SlowOperation::ex2_approx>;
    case Alu::lg2:
      return slow1<SlowOperation::lg2_approx>;
    case Alu::sin:
      return slow1<SlowOperation::sin_approx>;
    case Alu::cos:
      return slow1<SlowOperation::cos_approx>;
    case Alu::tanh:
      return slow1<SlowOperation::tanh_approx>;
    default:
      return nullptr;
  }
}

Handler find_double(const AluKey& key) {
  using D = double;
  if (key.flush || key.saturate) return nullptr;
  const bool nearest = key.rounding == Rounding::nearest;
  switch (key.op) {
    case Alu::add:
      return nearest ? map2<AddD, D, D, D> : slow_double<2>;
    case Alu::sub:
      return nearest ? map2<SubD, D, D, D> : slow_double<2>;
    case Alu::mul_lo:
      return nearest ? map2<MulD, D, D, D> : slow_double<2>;
    case Alu::div:
      return nearest ? map2<DivD, D, D, D> : slow_double<2>;
    case Alu::min:
      return map2<MinD, D, D, D>;
    case Alu::max:
      return map2<MaxD, D, D, D>;
    case Alu::fma:
      return nearest ? map3<FmaD, D, D, D, D> : slow_double<3>;
    case Alu::neg:
      return map1<NegD, std::uint64_t, std::uint64_t>;
    case Alu::abs:
      return map1<AbsD, std::uint64_t, std::uint64_t>;
    case Alu::rcp:
      return nearest ? map1<RcpD, D, D> : slow_double<1>;
    case Alu::sqrt:
      return nearest ? map1<SqrtD, D, D> : slow_double<1>;
    default:
      return nullptr;
  }
}

template <template <Compare> class Pick>
Handler by_compare(Compare compare) {
  switch (compare) {
#define RF_CASE(name) \
  case Compare::name: \
    return Pick<Compare::name>::handler();
    RF_CASE(eq)
    RF_CASE(ne)
    RF_CASE(lt)
    RF_CASE(le)
    RF_CASE(gt)
    RF_CASE(ge)
    RF_CASE(equ)
    RF_CASE(neu)
    RF_CASE(ltu)
    RF_CASE(leu)
    RF_CASE(gtu)
    RF_CASE(geu)
    RF_CASE(num)
    RF_CASE(nan)
#undef RF_CASE
    case Compare::lo:
      return Pick<Compare::lt>::handler();
    case Compare::ls:
      return Pick<Compare::le>::handler();
    case Compare::hi:
      return Pick<Compare::gt>::handler();
    case Compare::hs:
      return Pick<Compare::ge>::handler();
  }
  return nullptr;
}
template <class T>
struct SetpOf {
  template <Compare kCompare>
  struct Pick {
    static Handler handler() { return set_predicates<Test<kCompare, T>, T>; }
  };
};
template <class T>
struct SetOf {
  template <Compare kCompare>
  struct Pick {
    static Handler handler() { return set_value<Test<kCompare, T>, T>; }
  };
};
template <Compare kCompare>
struct SetpFlush {
  static Handler handler() { return set_predicates<TestFlush<kCompare>, float>; }
};
template <class Format>
struct SetpHalf {
  template <Compare kCompare>
  struct Pick {
    static Handler handler() { return set_predicates<TestHalf<kCompare, Format>, std::uint32_t>; }
  };
  template <Compare kCompare>
  struct PickPacked {
    static Handler handler() { return set_predicates_packed<kCompare, Format>; }
  };
};

Handler find_setp(const AluKey& key) {
  const Compare compare = key.compare;
  switch (key.source) {
    case Type::b16:
    case Type::u16:
      return by_compare<SetpOf<std::uint16_t>::Pick>(compare);
    case Type::b32:
    case Type::u32:
      return by_compare<SetpOf<std::uint32_t>::Pick>(compare);
    case Type::b64:
    case Type::u64:
      return by_compare<SetpOf<std::uint64_t>::Pick>(compare);
    case Type::s16:
      return by_compare<SetpOf<std::int16_t>::Pick>(compare);
    case Type::s32:
      return by_compare<SetpOf<std::int32_t>::Pick>(compare);
    case Type::s64:
      return by_compare<SetpOf<std::int64_t>::Pick>(compare);
    case Type::f32:
      return key.flush ? by_compare<SetpFlush>(compare) : by_compare<SetpOf<float>::Pick>(compare);
    case Type::f64:
      return by_compare<SetpOf<double>::Pick>(compare);
    case Type::bf16:
      return by_compare<SetpHalf<Bf16>::Pick>(compare);
    case Type::f16:
      return by_compare<SetpHalf<Fp16>::Pick>(compare);
    case Type::bf16x2:
      return by_compare<SetpHalf<Bf16>::PickPacked>(compare);
    case Type::f16x2:
      return by_compare<SetpHalf<Fp16>::PickPacked>(compare);
    default:
      return nullptr;
  }
}
Handler find_set(const AluKey& key) {
  if (key.flush) return nullptr;
  switch (key.source) {
    case Type::b32:
    case Type::u32:
      return by_compare<SetOf<std::uint32_t>::Pick>(key.compare);
    case Type::s32:
      return by_compare<SetOf<std::int32_t>::Pick>(key.compare);
    case Type::b64:
    case Type::u64:
      return by_compare<SetOf<std::uint64_t>::Pick>(key.compare);
    case Type::s64:
      return by_compare<SetOf<std::int64_t>::Pick>(key.compare);
    case Type::f32:
      return by_compare<SetOf<float>::Pick>(key.compare);
    default:
      return nullptr;
  }
}

template <class S>
Handler resize_from(const AluKey& key) {
#define RF_CASE(type, D) \
  case Type::type:       \
    return key.saturate ? map1<Resize<D, S, true>, D, S> : map1<Resize<D, S, false>, D, S>;
  switch (key.type) {
    RF_CASE(u8, std::uint8_t)
    RF_CASE(u16, std::uint16_t)
    RF_CASE(u32, std::uint32_t)
    RF_CASE(u64, std::uint64_t)
    RF_CASE(s8, std::int8_t)
    RF_CASE(s16, std::int16_t)
    RF_CASE(s32, std::int32_t) RF_CASE(s64, std::int64_t) default : return nullptr;
  }
#undef RF_CASE
}
template <class S>
Handler float_from(const AluKey& key) {
  using U = std::uint32_t;
  if (key.saturate || key.rounding != Rounding::nearest) return nullptr;
  switch (key.type) {
    case Type::f32:
      return map1<IntToFloat<S>, float, S>;
    case Type::f64:
      return map1<IntToDouble<S>, double, S>;
    case Type::bf16:
      return map1<IntToHalf<S, Bf16>, U, S>;
    case Type::f16:
      return map1<IntToHalf<S, Fp16>, U, S>;
    default:
      return nullptr;
  }
}
template <class S>
Handler convert_from_integer(const AluKey& key) {
  return is_float(key.type) ? float_from<S>(key) : resize_from<S>(key);
}

// Conversions lane by lane; the types stand in the immediate (see decode).
template <class D, class S>
void slow_cvt(const AluContext& c, const Op& op) {
  const Lane<S>* a = at<S>(c, op.a);
  Lane<D>* d = at<D>(c, op.d);
  const auto to = static_cast<Type>(op.immediate >> 32 & 0xFFU);
  const auto from = static_cast<Type>(op.immediate >> 40 & 0xFFU);
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((c.mask >> i & 1U) != 0) {
      d[i] = static_cast<Lane<D>>(slow_convert(to, from, op.immediate, a[i]));
    }
  }
}

Handler find_slow_cvt(const AluKey& key) {
  using U = std::uint32_t;
  if (key.relu || key.finite || key.type == Type::pred || size_of(key.type) > 8) return nullptr;
  const bool wide_from = size_of(key.source) == 8;
  if (size_of(key.type) == 8) {
    return wide_from ? slow_cvt<std::uint64_t, std::uint64_t> : slow_cvt<std::uint64_t, U>;
  }
  return wide_from ? slow_cvt<U, std::uint64_t> : slow_cvt<U, U>;
}

Handler find_cvt(const AluKey& key) {
  using U = std::uint32_t;
  if (!is_float(key.source) && is_float(key.type) && !plain(key)) {
    return key.type == Type::f32 || key.type == Type::f64 ? find_slow_cvt(key) : nullptr;
  }
  switch (key.source) {
    case Type::u8:
    case Type::b8:
      return convert_from_integer<std::uint8_t>(key);
    case Type::u16:
    case Type::b16:
      return convert_from_integer<std::uint16_t>(key);
    case Type::u32:
    case Type::b32:
      return convert_from_integer<std::uint32_t>(key);
    case Type::u64:
    case Type::b64:
      return convert_from_integer<std::uint64_t>(key);
    case Type::s8:
      return convert_from_integer<std::int8_t>(key);
    case Type::s16:
      return convert_from_integer<std::int16_t>(key);
    case Type::s32:
      return convert_from_integer<std::int32_t>(key);
    case Type::s64:
      return convert_from_integer<std::int64_t>(key);
    default:
      break;
  }
  const bool simple = key.rounding == Rounding::nearest && !key.saturate && !key.to_integral &&
                      !key.relu && !key.finite;
  if (simple) {
    if (key.source == Type::f32 && key.type == Type::bf16) {
      return key.flush ? map1<FloatToBf16<true>, U, float> : map1<FloatToBf16<false>, U, float>;
    }
    if (!key.flush) {
      if (key.source == Type::f32 && key.type == Type::f16) return map1<FloatToF16, U, float>;
      if (key.source == Type::bf16 && key.type == Type::f32) return map1<Bf16ToFloat, U, U>;
      if (key.source == Type::f16 && key.type == Type::f32) return map1<F16ToFloat, float, U>;
      if (key.source == Type::f32 && key.type == Type::f64)
        return map1<FloatToDouble, double, float>;
      if (key.source == Type::f64 && key.type == Type::f32)
        return map1<DoubleToFloat, float, double>;
      if (key.source == Type::f32 && key.type == Type::tf32) return map1<FloatToTf32Even, U, U>;
    }
  }
  if (key.source == Type::f32 && key.type == Type::tf32 && !key.relu) {
    return key.rounding == Rounding::nearest_away ? map1<FloatToTf32, U, U> : nullptr;
  }
  if (key.source == Type::e4m3x2 && key.type == Type::f16x2 && !key.relu)
    return map1<UnpackFp8<true>, U, U>;
  if (key.source == Type::e5m2x2 && key.type == Type::f16x2 && !key.relu)
    return map1<UnpackFp8<false>, U, U>;
  if (key.source == Type::f16x2 && key.type == Type::e4m3x2 && !key.relu)
    return map1<PackFp8FromHalf<true>, std::uint16_t, U>;
  if (key.source == Type::f16x2 && key.type == Type::e5m2x2 && !key.relu)
    return map1<PackFp8FromHalf<false>, std::uint16_t, U>;
  const bool from = key.source == Type::f32 || key.source == Type::f64 || key.source == Type::f16 ||
                    key.source == Type::bf16;
  const bool to = !is_float(key.type) || key.type == Type::f32 || key.type == Type::f64 ||
                  key.type == Type::f16 || key.type == Type::bf16;
  return from && to ? find_slow_cvt(key) : nullptr;
}

Handler find_cvt_pack(const AluKey& key) {
  if (key.source != Type::f32 || key.rounding != Rounding::nearest || key.flush) return nullptr;
  using U = std::uint32_t;
  switch (key.type) {
    case Type::bf16x2:
      if (key.finite) return nullptr;
      return key.relu ? map2<PackPair<Bf16, true>, U, float, float>
                      : map2<PackPair<Bf16, false>, U, float, float>;
    case Type::f16x2:
      if (key.finite) return nullptr;
      return key.relu ? map2<PackPair<Fp16, true>, U, float, float>
                      : map2<PackPair<Fp16, false>, U, float, float>;
    case Type::e4m3x2:
      return key.relu || !key.finite ? nullptr : map2<PackFp8<true>, std::uint16_t, float, float>;
    case Type::e5m2x2:
      return key.relu || !key.finite ? nullptr : map2<PackFp8<false>, std::uint16_t, float, float>;
    default:
      return nullptr;
  }
}

template <bool kHigh>
Handler find_dp2a(const AluKey& key) {
  using U = std::uint32_t;
  const bool a = key.type == Type::s32;
  const bool b = key.source == Type::s32;
  if (a)
    return b ? map3<Dot2<std::int8_t, std::int8_t, kHigh>, U, U, U, U>
             : map3<Dot2<std::int8_t, std::uint8_t, kHigh>, U, U, U, U>;
  return b ? map3<Dot2<std::uint8_t, std::int8_t, kHigh>, U, U, U, U>
           : map3<Dot2<std::uint8_t, std::uint8_t, kHigh>, U, U, U, U>;
}

Handler find_bits(const AluKey& key) {
  if (is_float(key.type) || is_pair(key.type)) return nullptr;
  using U = std::uint32_t;
  using L = std::uint64_t;
  const bool wide = size_of(key.type) == 8;
  switch (key.op) {
    case Alu::bit_and:
      return key.type == Type::pred ? predicates : binary_signless<And>(key.type);
    case Alu::bit_or:
      return key.type == Type::pred ? predicates : binary_signless<Or>(key.type);
    case Alu::bit_xor:
      return key.type == Type::pred ? predicates : binary_signless<Xor>(key.type);
    case Alu::bit_not:
      return key.type == Type::pred ? predicates : unary_signless<Not>(key.type);
    case Alu::cnot:
      return unary_signless<Cnot>(key.type);
    case Alu::shl:
    case Alu::shr:
      return shift(key);
    case Alu::shf_left_wrap:
      return map3<Funnel<true, true>, U, U, U, U>;
    case Alu::shf_left_clamp:
      return map3<Funnel<true, false>, U, U, U, U>;
    case Alu::shf_right_wrap:
      return map3<Funnel<false, true>, U, U, U, U>;
    case Alu::shf_right_clamp:
      return map3<Funnel<false, false>, U, U, U, U>;
    case Alu::bfe:
      switch (key.type) {
        case Type::u32:
          return map3<ExtractField<U>, U, U, U, U>;
        case Type::s32:
          return map3<ExtractField<std::int32_t>, std::int32_t, std::int32_t, U, U>;
        case Type::u64:
          return map3<ExtractField<L>, L, L, U, U>;
        case Type::s64:
          return map3<ExtractField<std::int64_t>, std::int64_t, std::int64_t, U, U>;
        default:
          return nullptr;
      }
    case Alu::bfi:
      return wide ? map4<InsertField<L>, L> : map4<InsertField<U>, U>;
    case Alu::brev:
      return wide ? map1<ReverseBits<L>, L, L> : map1<ReverseBits<U>, U, U>;
    case Alu::popc:
      return wide ? map1<CountOnes<L>, U, L> : map1<CountOnes<U>, U, U>;
    case Alu::clz:
      return wide ? map1<CountLeadingZeros<L>, U, L> : map1<CountLeadingZeros<U>, U, U>;
    case Alu::bfind:
    case Alu::bfind_shift: {
      const bool s = key.op == Alu::bfind_shift;
      switch (key.type) {
        case Type::u32:
          return s ? map1<FindLeading<U, true>, U, U> : map1<FindLeading<U, false>, U, U>;
        case Type::s32:
          return s ? map1<FindLeading<std::int32_t, true>, U, std::int32_t>
                   : map1<FindLeading<std::int32_t, false>, U, std::int32_t>;
        case Type::u64:
          return s ? map1<FindLeading<L, true>, U, L> : map1<FindLeading<L, false>, U, L>;
        case Type::s64:
          return s ? map1<FindLeading<std::int64_t, true>, U, std::int64_t>
                   : map1<FindLeading<std::int64_t, false>, U, std::int64_t>;
        default:
          return nullptr;
      }
    }
    case Alu::fns:
      return map3<FindNthSet, U, U, U, std::int32_t>;
    case Alu::prmt:
      return map3<Permute, U, U, U, U>;
    case Alu::lop3:
      return map3<Lop3, U, U, U, U>;
    case Alu::lop3_predicate:
      return lop3_predicate;
    case Alu::dp4a: {
      const bool a = key.type == Type::s32;
      const bool b = key.source == Type::s32;
      if (a)
        return b ? map3<Dot4<std::int8_t, std::int8_t>, U, U, U, U>
                 : map3<Dot4<std::int8_t, std::uint8_t>, U, U, U, U>;
      return b ? map3<Dot4<std::uint8_t, std::int8_t>, U, U, U, U>
               : map3<Dot4<std::uint8_t, std::uint8_t>, U, U, U, U>;
    }
    case Alu::dp2a_lo:
      return find_dp2a<false>(key);
    case Alu::dp2a_hi:
      return find_dp2a<true>(key);
    default:
      return nullptr;
  }
}

Handler find_integer(const AluKey& key) {
  if (is_float(key.type) || is_pair(key.type)) return nullptr;
  switch (key.op) {
    case Alu::add:
      return key.saturate ? nullptr : binary_signless<Add>(key.type);
    case Alu::sub:
      return key.saturate ? nullptr : binary_signless<Sub>(key.type);
    case Alu::mul_lo:
      return binary_signless<MulLo>(key.type);
    case Alu::mul_hi:
      return binary_integer<MulHi>(key.type);
    case Alu::mul24_lo:
      return key.type == Type::s32   ? binary_integer<Mul24>(key.type)
             : key.type == Type::u32 ? binary_integer<Mul24>(key.type)
                                     : nullptr;
    case Alu::mad24_lo:
      return ternary_integer<Mad24>(key.type);
    case Alu::mul_wide:
      switch (key.type) {
        case Type::u16:
          return multiply_wide<std::uint16_t>();
        case Type::s16:
          return multiply_wide<std::int16_t>();
        case Type::u32:
          return multiply_wide<std::uint32_t>();
        case Type::s32:
          return multiply_wide<std::int32_t>();
        default:
          return nullptr;
      }
    case Alu::mad_wide:
      switch (key.type) {
        case Type::u16:
          return mad_wide<std::uint16_t>();
        case Type::s16:
          return mad_wide<std::int16_t>();
        case Type::u32:
          return mad_wide<std::uint32_t>();
        case Type::s32:
          return mad_wide<std::int32_t>();
        default:
          return nullptr;
      }
    case Alu::mad_lo:
      return ternary_integer<MadLo>(key.type);
    case Alu::mad_hi:
      return ternary_integer<MadHi>(key.type);
    case Alu::sad:
      return ternary_integer<Sad>(key.type);
    case Alu::div:
      return binary_integer<Div>(key.type);
    case Alu::rem:
      return binary_integer<Rem>(key.type);
    case Alu::min:
      return binary_integer<Min>(key.type);
    case Alu::max:
      return binary_integer<Max>(key.type);
    case Alu::neg:
      return unary_signless<Neg>(key.type);
    case Alu::abs:
      switch (key.type) {
        case Type::s16:
          return map1<Abs<std::int16_t>, std::int16_t, std::int16_t>;
        case Type::s32:
          return map1<Abs<std::int32_t>, std::int32_t, std::int32_t>;
        case Type::s64:
          return map1<Abs<std::int64_t>, std::int64_t, std::int64_t>;
        default:
          return nullptr;
      }
    case Alu::add_carry:
      return size_of(key.type) == 8 ? carry<std::uint64_t, false> : carry<std::uint32_t, false>;
    case Alu::sub_carry:
      return size_of(key.type) == 8 ? carry<std::uint64_t, true> : carry<std::uint32_t, true>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler find(const AluKey& key) {
  if (size_of(key.type) > 8) return nullptr;
  const bool wide = size_of(key.type) == 8;
  switch (key.op) {
    case Alu::mov:
      if (key.type == Type::pred) return predicates;
      return wide ? map1<Mov<std::uint64_t>, std::uint64_t, std::uint64_t>
                  : map1<Mov<std::uint32_t>, std::uint32_t, std::uint32_t>;
    case Alu::pack2:
      return wide ? pack_parts<std::uint64_t, 2> : pack_parts<std::uint32_t, 2>;
    case Alu::pack4:
      return wide ? pack_parts<std::uint64_t, 4> : nullptr;
    case Alu::unpack2:
      return wide ? unpack_parts<std::uint64_t, 2> : unpack_parts<std::uint32_t, 2>;
    case Alu::unpack4:
      return wide ? unpack_parts<std::uint64_t, 4> : nullptr;
    case Alu::selp:
      return wide ? select<std::uint64_t> : select<std::uint32_t>;
    case Alu::slct:
      if (key.flush) return nullptr;
      if (key.source == Type::s32) {
        return wide ? map3<SelectBySign<std::uint64_t, std::int32_t>, std::uint64_t, std::uint64_t,
                           std::uint64_t, std::int32_t>
                    : map3<SelectBySign<std::uint32_t, std::int32_t>, std::uint32_t, std::uint32_t,
                           std::uint32_t, std::int32_t>;
      }
      return wide ? map3<SelectBySign<std::uint64_t, float>, std::uint64_t, std::uint64_t,
                         std::uint64_t, float>
                  : map3<SelectBySign<std::uint32_t, float>, std::uint32_t, std::uint32_t,
                         std::uint32_t, float>;
    case Alu::setp:
      return find_setp(key);
    case Alu::set:
      return find_set(key);
    case Alu::testp:
      return key.type == Type::f64 ? test_property<double> : test_property<float>;
    case Alu::copysign:
      return wide ? map2<CopySign<std::uint64_t>, std::uint64_t, std::uint64_t, std::uint64_t>
                  : map2<CopySign<std::uint32_t>, std::uint32_t, std::uint32_t, std::uint32_t>;
    case Alu::cvt:
      return find_cvt(key);
    case Alu::cvt_pack:
      return find_cvt_pack(key);
    default:
      break;
  }
  if (const Handler bits = find_bits(key); bits != nullptr) return bits;
  if (is_half(key.type)) return find_half(key);
  if (key.type == Type::f32) return find_float(key);
  if (key.type == Type::f64) return find_double(key);
  return find_integer(key);
}

}  // namespace ringfence::ptx::RF_VARIANT
