#pragma once

#include <vector>

#include "emulator/ptx/cursor.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/operands.hpp"
#include "emulator/ptx/scope.hpp"

namespace ringfence::ptx {

/// Reads one function's body, from behind its '{' to its '}'.
class BodyReader {
 public:
  BodyReader(Cursor& cursor, Module& module, Function& function);
  void read();

 private:
  // A label that is used before its place is known: by an instruction's operand or by a
  // .branchtargets list.
  struct Pending {
    bool in_targets = false;
    std::uint32_t index = 0;    // instruction or label
    std::uint32_t element = 0;  // operand or entry of the list
    std::string_view name;
    std::uint32_t line = 0;
    std::string_view text;
  };

  void statement();
  void directive();
  void registers();
  void variables(Space space);
  void label(std::string_view name);
  void branch_targets(std::uint32_t label_index);
  void instruction();
  void location();
  void open_block();
  void close_block();
  void declare(std::string_view name);

  Cursor& cursor_;
  Module& module_;
  Function& function_;
  std::vector<NameScope> scopes_;
  std::vector<std::vector<Pending>> pending_;
  OperandReader operands_;
  std::optional<SourceLocation> location_;
  std::vector<SourceLocation> seen_;  // that are inlined somewhere
};

/// .loc FILE LINE COLUMN [, function_name ..., inlined_at ...]: the whole line belongs to it.
SourceLocation parse_location(Cursor& cursor, SourceLocation* inlined_at = nullptr);

}  // namespace ringfence::ptx
