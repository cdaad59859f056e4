#pragma once
// An agent's name: the same on every run of a case, so that choices, traces and findings can refer
// to it. Packed, because every message of the machine carries one.

#include <compare>
#include <cstdint>
#include <string>

namespace ringfence::schedule {

enum class Role : std::uint8_t {
  host,      // the rank's host thread: starts launches
  product,   // the launch that writes the partial sums
  thread,    // a thread of the protocol's kernel: `block`, `index` in the block
  task,      // an operation of a task graph: `block` is its tile, `index` its number in the tile
  consumer,  // the launch that reads the result
};

inline constexpr std::uint32_t kMaxGroup = 127;

struct AgentLabel {
  Role role = Role::host;
  std::uint16_t rank = 0;   // up to 1023
  std::uint16_t call = 0;   // up to 4095
  std::uint16_t group = 0;  // up to kMaxGroup: groups of ranks that run at once
  std::uint32_t block = 0;  // up to 65535
  std::uint32_t index = 0;  // up to 65535

  friend auto operator<=>(const AgentLabel&, const AgentLabel&) = default;
};

std::uint64_t pack(const AgentLabel& label);
AgentLabel unpack(std::uint64_t packed);
// "r1.c0.b2.t3"; "r1.host", "r1.c0.product.b0.t0", "r1.c0.task.b2.t7", with ".g1" if group > 0
std::string text(const AgentLabel& label);
AgentLabel parse_label(const std::string& text);  // throws std::invalid_argument

}  // namespace ringfence::schedule
