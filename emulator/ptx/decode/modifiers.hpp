#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/memory.hpp"
#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// The modifiers of one instruction as a set: compilers write them in any order, so each decoder
/// takes those that it knows and whatever is left at the end is unsupported. Types keep their
/// order.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string_view>& words) : left_(words) {}

  bool take(std::string_view word) {
    for (auto it = left_.begin(); it != left_.end(); ++it) {
      if (*it != word) continue;
      left_.erase(it);
      return true;
    }
    return false;
  }
  /// The first of `words` that is present, taken; empty when none is.
  std::string_view take_one(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
      if (take(word)) return word;
    }
    return {};
  }
  /// Drops every modifier that starts with one of the prefixes (cache hints and the like).
  void drop(std::initializer_list<std::string_view> prefixes) {
    for (auto it = left_.begin(); it != left_.end();) {
      bool hit = false;
      for (const std::string_view prefix : prefixes) hit = hit || it->starts_with(prefix);
      it = hit ? left_.erase(it) : it + 1;
    }
  }
  std::optional<Type> take_type() {
    for (auto it = left_.begin(); it != left_.end(); ++it) {
      if (const auto type = type_of(*it)) {
        left_.erase(it);
        return type;
      }
    }
    return std::nullopt;
  }
  std::optional<Scope> take_scope() {
    if (take("cta")) return Scope::cta;
    if (take("cluster")) return Scope::cluster;
    if (take("gpu")) return Scope::gpu;
    if (take("sys")) return Scope::sys;
    return std::nullopt;
  }
  bool empty() const { return left_.empty(); }
  std::string_view first() const { return left_.front(); }

 private:
  std::vector<std::string_view> left_;
};

}  // namespace ringfence::ptx
