#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringfence::ptx {

/// Names of one { } block. Inline assembly redeclares registers and labels in nested blocks, so
/// every block has its own table and looks outward for what it does not hold.
class NameScope {
 public:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  void add_register(std::string_view name, std::uint32_t index) { registers_[name] = index; }
  void add_range(std::string_view prefix, Range range) { ranges_[prefix] = range; }
  void add_variable(std::string_view name, std::uint32_t index) { variables_[name] = index; }
  void add_label(std::string_view name, std::uint32_t index) { labels_[name] = index; }

  bool holds(std::string_view name) const {
    return registers_.contains(name) || variables_.contains(name) || labels_.contains(name) ||
           ranges_.contains(name);
  }

  std::optional<std::uint32_t> find_register(std::string_view name) const {
    if (const auto it = registers_.find(name); it != registers_.end()) return it->second;
    const std::size_t end = name.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == name.size()) return std::nullopt;
    // A prefix may itself end in a digit ("%r1_<4>" does not, "%f16<4>" does): try every split.
    for (std::size_t split = end + 1; split < name.size(); ++split) {
      const auto it = ranges_.find(name.substr(0, split));
      if (it == ranges_.end()) continue;
      const std::string_view digits = name.substr(split);
      std::uint32_t number = 0;
      const auto [stop, status] =
          std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (status != std::errc() || stop != digits.data() + digits.size()) continue;
      if (digits.size() > 1 && digits[0] == '0') continue;
      if (number < it->second.count) return it->second.first + number;
    }
    return std::nullopt;
  }
  std::optional<std::uint32_t> find_variable(std::string_view name) const {
    return find(variables_, name);
  }
  std::optional<std::uint32_t> find_label(std::string_view name) const {
    return find(labels_, name);
  }

 private:
  using Table = std::map<std::string_view, std::uint32_t>;
  static std::optional<std::uint32_t> find(const Table& table, std::string_view name) {
    const auto it = table.find(name);
    return it == table.end() ? std::nullopt : std::optional(it->second);
  }

  Table registers_;
  std::map<std::string_view, Range> ranges_;
  Table variables_;
  Table labels_;
};

}  // namespace ringfence::ptx
