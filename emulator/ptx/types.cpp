#include "emulator/ptx/types.hpp"

#include <array>
#include <utility>

namespace ringfence::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  Type type;
  unsigned bytes;
};

constexpr std::array kTypes = {
    TypeRow{"none", Type::none, 0},     TypeRow{"pred", Type::pred, 0},
    TypeRow{"b8", Type::b8, 1},         TypeRow{"b16", Type::b16, 2},
    TypeRow{"b32", Type::b32, 4},       TypeRow{"b64", Type::b64, 8},
    TypeRow{"b128", Type::b128, 16},    TypeRow{"u8", Type::u8, 1},
    TypeRow{"u16", Type::u16, 2},       TypeRow{"u32", Type::u32, 4},
    TypeRow{"u64", Type::u64, 8},       TypeRow{"s8", Type::s8, 1},
    TypeRow{"s16", Type::s16, 2},       TypeRow{"s32", Type::s32, 4},
    TypeRow{"s64", Type::s64, 8},       TypeRow{"f16", Type::f16, 2},
    TypeRow{"f16x2", Type::f16x2, 4},   TypeRow{"bf16", Type::bf16, 2},
    TypeRow{"bf16x2", Type::bf16x2, 4}, TypeRow{"tf32", Type::tf32, 4},
    TypeRow{"f32", Type::f32, 4},       TypeRow{"f32x2", Type::f32x2, 8},
    TypeRow{"f64", Type::f64, 8},       TypeRow{"e4m3", Type::e4m3, 1},
    TypeRow{"e5m2", Type::e5m2, 1},     TypeRow{"e4m3x2", Type::e4m3x2, 2},
    TypeRow{"e5m2x2", Type::e5m2x2, 2}, TypeRow{"e4m3x4", Type::e4m3x4, 4},
    TypeRow{"e5m2x4", Type::e5m2x4, 4}, TypeRow{"u16x2", Type::u16x2, 4},
    TypeRow{"s16x2", Type::s16x2, 4},
};

constexpr std::array<std::pair<std::string_view, Special>, 46> kSpecials = {{
    {"%tid.x", Special::tid_x},
    {"%tid.y", Special::tid_y},
    {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x},
    {"%ntid.y", Special::ntid_y},
    {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x},
    {"%ctaid.y", Special::ctaid_y},
    {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x},
    {"%nctaid.y", Special::nctaid_y},
    {"%nctaid.z", Special::nctaid_z},
    {"%clusterid.x", Special::clusterid_x},
    {"%clusterid.y", Special::clusterid_y},
    {"%clusterid.z", Special::clusterid_z},
    {"%nclusterid.x", Special::nclusterid_x},
    {"%nclusterid.y", Special::nclusterid_y},
    {"%nclusterid.z", Special::nclusterid_z},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z},
    {"%cluster_ctarank", Special::cluster_ctarank},
    {"%cluster_nctarank", Special::cluster_nctarank},
    {"%is_explicit_cluster", Special::is_explicit_cluster},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%smid", Special::smid},
    {"%nsmid", Special::nsmid},
    {"%gridid", Special::gridid},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%clock", Special::clock},
    {"%clock_hi", Special::clock_hi},
    {"%clock64", Special::clock64},
    {"%globaltimer", Special::globaltimer},
    {"%globaltimer_lo", Special::globaltimer_lo},
    {"%globaltimer_hi", Special::globaltimer_hi},
    {"%dynamic_smem_size", Special::dynamic_smem_size},
    {"%total_smem_size", Special::total_smem_size},
}};

const TypeRow& row(Type type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

unsigned size_of(Type type) { return row(type).bytes; }
std::string_view name_of(Type type) { return row(type).name; }

bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_float(Type type) { return type >= Type::f16 && type <= Type::e5m2x4; }

bool is_fp8(Type type) { return type >= Type::e4m3 && type <= Type::e5m2x4; }

std::optional<Type> type_of(std::string_view name) {
  for (const TypeRow& candidate : kTypes) {
    if (candidate.type != Type::none && candidate.name == name) return candidate.type;
  }
  return std::nullopt;
}

std::string_view name_of(Space space) {
  constexpr std::array<std::string_view, 6> kNames = {"generic", "global", "const",
                                                      "shared",  "local",  "param"};
  return kNames[static_cast<std::size_t>(space)];
}

std::optional<Special> special_of(std::string_view name) {
  for (const auto& [text, special] : kSpecials) {
    if (text == name) return special;
  }
  constexpr std::string_view kEnvironment = "%envreg";
  if (name.starts_with(kEnvironment)) {
    const std::string_view number = name.substr(kEnvironment.size());
    const bool digits = !number.empty() && number.size() <= 2 &&
                        number.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && (number.size() == 1 || (number[0] != '0' && number <= "31"))) {
      return Special::envreg;
    }
  }
  return std::nullopt;
}

bool is_wide(Special special) {
  return special == Special::clock64 || special == Special::globaltimer;
}

}  // namespace ringfence::ptx
