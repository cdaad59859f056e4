#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/cursor.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/scope.hpp"

namespace ringfence::ptx {

/// Reads operands of one statement and resolves their names, innermost block first. A name that is
/// nothing else becomes a label reference by name, settled by the parser when the body closes.
class OperandReader {
 public:
  OperandReader(Cursor& cursor, Module& module, Function& function, std::vector<NameScope>& scopes)
      : cursor_(cursor), module_(module), function_(function), scopes_(scopes) {}

  Operand operand(unsigned depth = 0);
  /// The function of that name, as an index in Module::functions; fails when there is none.
  std::uint32_t function(std::string_view name) const;
  /// A register by name, for guards; fails when there is none.
  std::uint32_t predicate(std::string_view name);
  /// True while names that are unknown stand for labels (branches).
  void labels_allowed(bool allowed) { labels_allowed_ = allowed; }

 private:
  Operand word(std::string_view name);
  Operand address(unsigned depth);
  Operand sequence(Operand::Kind kind, std::string_view close, unsigned depth);
  std::optional<std::uint32_t> function_named(std::string_view name) const;
  bool variable(std::string_view name, Operand& out) const;

  Cursor& cursor_;
  Module& module_;
  Function& function_;
  std::vector<NameScope>& scopes_;
  bool labels_allowed_ = false;
};

}  // namespace ringfence::ptx
