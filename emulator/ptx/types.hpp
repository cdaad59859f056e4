#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringfence::ptx {

/// PTX's fundamental and packed types, as they stand behind a dot in the text.
enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f32x2,
  f64,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  e4m3x4,
  e5m2x4,
  u16x2,
  s16x2,
};

/// Bytes in memory; pred and none have 0.
unsigned size_of(Type type);
bool is_signed(Type type);
/// f16, bf16, f32, f64 and the packed forms of them.
bool is_float(Type type);
/// e4m3, e5m2 and the packed forms of them.
bool is_fp8(Type type);
std::string_view name_of(Type type);
/// "f32" -> Type::f32; without the dot.
std::optional<Type> type_of(std::string_view name);

/// Where a variable lives or an access goes; generic is decided by the address.
enum class Space : std::uint8_t { generic, global, constant, shared, local, param };
std::string_view name_of(Space space);

/// Registers that the machine fills; the order within a triple is x, y, z.
enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock_hi,
  clock64,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
  dynamic_smem_size,
  total_smem_size,
  envreg,  ///< any of %envreg0 to %envreg31: nothing sets them, so 0
};
/// "%tid.x" -> Special::tid_x.
std::optional<Special> special_of(std::string_view name);
/// clock64 and globaltimer are 64 bits wide, all others 32.
bool is_wide(Special special);

}  // namespace ringfence::ptx
