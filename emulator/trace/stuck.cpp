#include "emulator/trace/stuck.hpp"

#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "emulator/schedule/label.hpp"

namespace ringfence::trace {

namespace {

// Stuck agents by the block they belong to, and whom each block waits for.
struct BlockName {
  int rank, block;
  friend auto operator<=>(const BlockName&, const BlockName&) = default;
};

// A writer is named "r2.b1" (with or without the call between).
std::optional<BlockName> parse_writer(const std::string& text) {
  int rank = 0, call = 0, block = 0;
  if (std::sscanf(text.c_str(), "r%d.b%d", &rank, &block) == 2 ||
      std::sscanf(text.c_str(), "r%d.c%d.b%d", &rank, &call, &block) == 3) {
    return BlockName{rank, block};
  }
  return std::nullopt;
}

BlockName block_of(std::uint64_t label) {
  const schedule::AgentLabel l = schedule::unpack(label);
  return {l.rank, static_cast<int>(l.block)};
}

// Blocks on a cycle of waits.
std::set<BlockName> cycle(const std::vector<StuckNames>& stuck) {
  std::map<BlockName, std::set<BlockName>> waits;
  for (const StuckNames& s : stuck) {
    if (auto w = parse_writer(s.writer)) waits[block_of(s.label)].insert(*w);
  }
  // A block is on a cycle if it can be reached from one it waits for.
  std::set<BlockName> on;
  for (const auto& [start, unused] : waits) {
    std::set<BlockName> seen;
    std::vector<BlockName> open(waits[start].begin(), waits[start].end());
    while (!open.empty()) {
      const BlockName b = open.back();
      open.pop_back();
      if (!seen.insert(b).second) continue;
      if (auto it = waits.find(b); it != waits.end()) {
        open.insert(open.end(), it->second.begin(), it->second.end());
      }
    }
    if (seen.contains(start)) on.insert(start);
  }
  return on;
}

}  // namespace

std::vector<StuckRow> stuck_rows(const std::vector<StuckNames>& stuck) {
  const std::set<BlockName> on_cycle = cycle(stuck);
  std::map<BlockName, std::string> doing;
  for (const StuckNames& s : stuck) {
    if (!s.writer.empty()) doing.try_emplace(block_of(s.label), s.slot);
  }
  std::vector<StuckRow> rows;
  for (const bool slots : {true, false}) {
    for (const StuckNames& s : stuck) {
      if (s.writer.empty() == slots) continue;
      StuckRow row{s, slots, slots && on_cycle.contains(block_of(s.label)), ""};
      if (const auto writer = slots ? parse_writer(s.writer) : std::nullopt) {
        const auto it = doing.find(*writer);
        row.which = it != doing.end()                 ? "waits for " + it->second
                    : s.writer.ends_with(" (killed)") ? "is gone"
                                                      : "does not wait";
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace ringfence::trace
