#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// A PTX text as read: names resolved, nothing decided about what an instruction does.
/// Every string_view points into Module::source.

/// A place in the CUDA or Triton source, from .file and .loc; file is an index in Module::files.
struct SourceLocation {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t outer = 0;  ///< where that is inlined: in Module::calls, from 1; 0: it is not, or
                            ///< the text does not say
};

/// Part of an initial value that is an address: bytes offset..offset+size hold that of a variable,
/// or of a function, plus addend.
struct Relocation {
  std::uint64_t offset = 0;
  std::uint32_t size = 8;
  std::string_view name;
  std::int64_t addend = 0;
  bool of_function = false;
  std::uint32_t index = 0;  ///< in Module::variables or Module::functions
};

/// Who else may name a variable or a function.
enum class Linkage : std::uint8_t {
  internal,  ///< no other module
  visible,   ///< any; one definition alone
  weak,      ///< any; of several definitions one counts (.weak, .common)
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  Type type = Type::b8;
  std::uint64_t bytes = 0;  ///< 0 for an unsized array (.extern .shared name[])
  std::uint32_t alignment = 1;
  Linkage linkage = Linkage::internal;
  bool external = false;
  bool in_register = false;  ///< a parameter declared as .reg
  bool unsized = false;
  std::vector<std::uint8_t>
      initial;  ///< the first bytes; the rest is zero for global, undefined else
  std::vector<Relocation> relocations;
  std::uint32_t line = 0;
};

struct Register {
  std::string_view name;
  std::uint32_t number = 0;  ///< the n of a range %r<n>; names print as name + number if ranged
  bool ranged = false;
  Type type = Type::none;
  std::string text() const { return std::string(name) + (ranged ? std::to_string(number) : ""); }
};

struct Operand {
  enum class Kind : std::uint8_t {
    reg,       ///< index = register
    special,   ///< special
    integer,   ///< value
    float32,   ///< value holds the 32 bits
    float64,   ///< value holds the 64 bits
    variable,  ///< the address of a variable: owner, index, offset
    address,   ///< [base + offset]: elements[0] is reg or variable; none: absolute; more:
               ///< coordinates
    vector,    ///< {a, b, ..}: elements
    pair,      ///< d|p: two elements
    label,     ///< index in Function::labels
    function,  ///< name; index = function of the module
    list,      ///< (a, b) of a call
    sink,      ///< _
  };
  enum class Owner : std::uint8_t { module, function, parameter, result };

  Kind kind = Kind::sink;
  Owner owner = Owner::module;
  bool negated = false;  ///< !p
  Special special = Special::tid_x;
  std::uint32_t index = 0;
  std::uint64_t value = 0;
  std::int64_t offset = 0;
  std::string_view name;
  std::vector<Operand> elements;
};

struct Instruction {
  std::string_view opcode;                  ///< before the first dot
  std::vector<std::string_view> modifiers;  ///< between the dots, in the text's order
  std::vector<Operand> operands;
  std::int32_t guard = -1;  ///< register of @p
  bool guard_negated = false;
  std::uint16_t unit = 0;  ///< of Module::units: whose line that is
  std::uint32_t line = 0;
  std::optional<SourceLocation> location;
  std::string_view text;
  /// opcode.modifiers as written.
  std::string spelling() const;
};

struct Label {
  std::string_view name;
  std::uint32_t target = 0;             ///< index in Function::instructions
  std::vector<std::uint32_t> branches;  ///< .branchtargets: labels in order
  std::uint32_t line = 0;
  bool prototype = false;              ///< .callprototype, or ...
  std::vector<std::uint32_t> callees;  ///< ... .calltargets: functions of the module
};

struct Function {
  std::string_view name;
  Linkage linkage = Linkage::internal;
  std::uint16_t unit = 0;  ///< of Module::units
  bool entry = false;
  bool has_body = false;
  std::vector<Variable> parameters;
  std::vector<Variable> results;
  std::vector<Register> registers;
  std::vector<Variable> variables;  ///< .shared, .local and .param slots of the body
  std::vector<Instruction> instructions;
  std::vector<Label> labels;
  std::optional<std::array<std::uint32_t, 3>> max_threads;       ///< .maxntid
  std::optional<std::array<std::uint32_t, 3>> required_threads;  ///< .reqntid
  std::optional<std::array<std::uint32_t, 3>> cluster;           ///< .reqnctapercluster
  std::optional<std::uint32_t> min_blocks;                       ///< .minnctapersm
  std::optional<std::uint32_t> max_registers;                    ///< .maxnreg
  std::uint32_t line = 0;
};

struct Module {
  std::shared_ptr<const std::string> source;
  std::vector<std::shared_ptr<const std::string>> sources;  ///< of further units
  std::string file;                                         ///< name for messages
  std::vector<std::string> units;     ///< the files of modules linked together; empty: `file` alone
  std::string_view version;           ///< "9.0"
  std::string_view target;            ///< "sm_90a"
  std::vector<std::string> files;     ///< .file table; index 0 is unused where files count from 1
  std::vector<SourceLocation> calls;  ///< of .loc: inlined_at
  std::vector<Variable> variables;    ///< .global, .const, .shared of the module
  std::vector<Function> functions;    ///< entries, functions and external declarations

  /// The kernel whose name contains `part` (an equal name wins); where no name does, that whose
  /// demangled name does. Throws Error when none or several do.
  const Function& kernel(std::string_view part) const;
  /// The file that an instruction's line, or a function's, is of.
  const std::string& file_of(std::uint16_t unit) const {
    return unit < units.size() ? units[unit] : file;
  }
};

/// A function's address: what `mov` of its name gives, and an indirect call takes.
std::uint64_t function_address(std::uint32_t index);

/// The place to show for an instruction: from the innermost outwards the first one in a file beside
/// the module's own, else the first that is in no folder of headers. nullptr: it has none.
const SourceLocation* shown_location(const Module& module, const Instruction& instruction);

/// The variable that an operand of kind variable names.
const Variable& variable_of(const Module& module, const Function& function, const Operand& operand);

}  // namespace ringfence::ptx
