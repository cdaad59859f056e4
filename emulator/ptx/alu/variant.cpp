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

// clang-format off
#include "emulator/ptx/alu/find_integer.inc"
#include "emulator/ptx/alu/find_float.inc"
#include "emulator/ptx/alu/find_compare.inc"
#include "emulator/ptx/alu/find_convert.inc"
// clang-format on

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
  if (key.type == Type::f32x2) return find_pair_of_floats(key);
  if ((key.three || key.xorsign)) return nullptr;
  if (key.type == Type::f64) return find_double(key);
  return find_integer(key);
}

}  // namespace ringfence::ptx::RF_VARIANT
