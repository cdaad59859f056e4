#include "emulator/schedule/label.hpp"

#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace ringfence::schedule {
namespace {

// From the top: the group's upper bits 3, role 3, its lower bits 4, rank 10, call 12, block 16,
// index 16.
constexpr std::uint32_t kMaxRank = 1023, kMaxCall = 4095, kMaxBlock = 65535;
constexpr unsigned kLowGroup = 4;

void require(std::uint32_t value, std::uint32_t limit, const char* what) {
  if (value > limit) {
    throw std::invalid_argument("agent label: " + std::string(what) + " " + std::to_string(value) +
                                " is beyond " + std::to_string(limit));
  }
}

[[noreturn]] void bad(const std::string& text) {
  throw std::invalid_argument("agent label \"" + text +
                              "\": expected a name like r1.c0.b2.t3 or r1.host");
}

}  // namespace

std::uint64_t pack(const AgentLabel& l) {
  require(l.rank, kMaxRank, "rank");
  require(l.call, kMaxCall, "call");
  require(l.group, kMaxGroup, "group");
  require(l.block, kMaxBlock, "block");
  require(l.index, kMaxBlock, "index");
  const std::uint64_t group = l.group;
  return (group >> kLowGroup) << 61 | std::uint64_t{static_cast<std::uint8_t>(l.role)} << 58 |
         (group & 15) << 54 | std::uint64_t{l.rank} << 44 | std::uint64_t{l.call} << 32 |
         std::uint64_t{l.block} << 16 | l.index;
}

AgentLabel unpack(std::uint64_t p) {
  AgentLabel l;
  l.role = static_cast<Role>(p >> 58 & 7);
  l.group = static_cast<std::uint16_t>((p >> 61) << kLowGroup | (p >> 54 & 15));
  l.rank = static_cast<std::uint16_t>(p >> 44 & kMaxRank);
  l.call = static_cast<std::uint16_t>(p >> 32 & kMaxCall);
  l.block = static_cast<std::uint32_t>(p >> 16 & kMaxBlock);
  l.index = static_cast<std::uint32_t>(p & kMaxBlock);
  return l;
}

std::string text(const AgentLabel& l) {
  const bool host = l.role == Role::host;
  std::string s = "r";
  s += std::to_string(l.rank);
  if (!host || l.call > 0) s += ".c" + std::to_string(l.call);
  if (l.group > 0) s += ".g" + std::to_string(l.group);
  switch (l.role) {
    case Role::host:
      s += ".host";
      break;
    case Role::product:
      s += ".product";
      break;
    case Role::thread:
      break;
    case Role::task:
      s += ".task";
      break;
    case Role::consumer:
      s += ".consumer";
      break;
  }
  if (!host || l.block > 0 || l.index > 0) {
    s += ".b" + std::to_string(l.block) + ".t" + std::to_string(l.index);
  }
  return s;
}

AgentLabel parse_label(const std::string& whole) {
  AgentLabel l;
  l.role = Role::thread;
  bool have_rank = false, have_block = false, have_index = false;
  std::string_view rest = whole;
  while (!rest.empty()) {
    const std::size_t dot = rest.find('.');
    const std::string_view word = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    if (word.empty() || (dot != std::string_view::npos && rest.empty())) bad(whole);
    if (word == "host") {
      l.role = Role::host;
    } else if (word == "product") {
      l.role = Role::product;
    } else if (word == "task") {
      l.role = Role::task;
    } else if (word == "consumer") {
      l.role = Role::consumer;
    } else {
      std::uint32_t n = 0;
      const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), n);
      if (error != std::errc{} || end != word.data() + word.size()) bad(whole);
      if (n > kMaxBlock) bad(whole);
      switch (word[0]) {
        case 'r':
          l.rank = static_cast<std::uint16_t>(n);
          have_rank = true;
          break;
        case 'c':
          l.call = static_cast<std::uint16_t>(n);
          break;
        case 'g':
          l.group = static_cast<std::uint16_t>(n);
          break;
        case 'b':
          l.block = n;
          have_block = true;
          break;
        case 't':
          l.index = n;
          have_index = true;
          break;
        default:
          bad(whole);
      }
    }
  }
  if (!have_rank || (l.role != Role::host && !(have_block && have_index))) bad(whole);
  pack(l);  // checks the ranges
  return l;
}

}  // namespace ringfence::schedule
