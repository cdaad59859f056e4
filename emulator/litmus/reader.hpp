// What the parts of the parser share: the token stream, the test under construction, the names.
// Internal to emulator/litmus; users take parser.hpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/lexer.hpp"

namespace ringfence::litmus {

class Reader {
 public:
  // start stands at the state section's opening brace.
  Reader(Cursor start, const std::string& file)
      : lexer_(start, file),
        default_type_(has_wide_numbers(Lexer(start, file)) ? kWide : kNarrow) {}

  // The whole test but for name and comments.
  Test read();

 private:
  // parser.cpp: tokens and names
  [[noreturn]] void fail(Position at, const std::string& message) const;
  bool next_is(std::string_view text) const;
  bool accept(std::string_view symbol_or_word);
  Token expect(std::string_view symbol, const std::string& where);
  Token expect_word(const std::string& what);
  std::int64_t expect_integer(const std::string& what);
  int expect_small_integer(const std::string& what, int limit);
  std::optional<LocationId> find_location(std::string_view name) const;
  // The location of that name; one that is not declared is made, and starts at 0.
  LocationId use_location(const Token& name);
  // -1 where the word is no P<number>.
  static int thread_number(std::string_view word);
  static bool is_register_name(std::string_view word);
  // The register's index, made on first mention; used: an instruction or the condition reads it.
  RegisterId reg(int thread, std::string_view name);
  RegisterId read_register(int thread, const Token& name);
  RegisterId write_register(int thread, const Token& name);
  void check_registers() const;

  // read_state.cpp: `{ … }`
  void read_state();
  void read_declaration();
  void read_register_declaration(int thread, Position at);
  void read_location_declaration(const Token& first);
  void read_initial_values(Location& location);
  void read_alias(Location location);
  LocationId add_location(Location location);
  void resolve_names();
  static bool has_wide_numbers(Lexer lexer);

  // read_program.cpp: the table
  void read_placements();
  void read_placement(int number);
  void check_clusters() const;
  void read_rows();
  void declare_registers();
  void resolve_labels();

  // read_instruction.cpp: one cell
  struct Modifiers;
  void read_instruction(int thread);
  Modifiers read_modifiers(const Token& mnemonic);
  Instruction read_load(int thread, const Token& mnemonic, Proxy proxy);
  void check_move(int thread, const Load& load, const Token& mnemonic) const;
  Instruction read_store(int thread, const Token& mnemonic, Proxy proxy);
  Instruction read_atomic(int thread, const Token& mnemonic, Proxy proxy, bool returns);
  Instruction read_multimem(int thread);
  Instruction read_fence(const Token& mnemonic);
  Instruction read_barrier(int thread, const Token& mnemonic);

  // read_async.cpp: mbarriers, the cluster's barrier, copies
  void read_mbarrier_declaration();
  Instruction read_mbarrier(int thread, const Token& mnemonic);
  Instruction read_cluster_barrier();
  Instruction read_copy(const Token& mnemonic);
  LocationId read_object();
  Address read_copied();
  void check_phases() const;

  // read_instruction.cpp, again
  Instruction read_local(int thread, LocalOp op);
  Instruction read_branch(int thread, std::optional<Compare> comparison);
  Operand read_operand(int thread);
  Address read_address(int thread);
  std::int64_t read_index(const Location& location);
  std::vector<RegisterId> read_destinations(int thread, int vector);
  std::vector<Operand> read_values(int thread, int vector);
  void check_access(const Address& address, Type type, std::size_t elements, Position at) const;
  void check_multicast(const Address& address, Position at) const;
  void check_fits(std::int64_t value, int bits, Position at) const;
  void check_fits(const Operand& value, const Address& address, Type type, Position at) const;

  // read_condition.cpp: what follows the table
  void read_condition_part();
  void read_observed();
  Formula read_whole_formula();
  Formula read_formula(int depth);
  Formula read_conjunction(int depth);
  Formula read_comparison(int depth);
  Term read_term();
  Variable read_variable();
  Variable read_register_variable(std::int64_t thread, const Token& token);

  struct PendingRegister {
    int thread;
    Token name;
    std::int64_t value;
    std::optional<Token> address;
  };
  struct PendingLocation {
    LocationId location;
    Token target;
    enum { Address, Alias, Replica } use;
  };

  static constexpr Type kNarrow{'b', 32};
  static constexpr Type kWide{'b', 64};

  Lexer lexer_;
  // Of locations without a type.
  const Type default_type_;
  Test test_;
  std::map<std::string, LocationId, std::less<>> location_ids_;
  std::vector<PendingRegister> pending_registers_;
  std::vector<PendingLocation> pending_locations_;
  // For each thread: labels by name, and the branches to patch.
  struct PendingBranch {
    std::size_t instruction;
    Token label;
  };
  std::vector<std::map<std::string, int, std::less<>>> labels_;
  std::vector<std::vector<PendingBranch>> branches_;
  // For each thread: registers written somewhere, and the first read of each.
  std::vector<std::set<RegisterId>> written_;
  std::vector<std::map<RegisterId, Position>> first_read_;
};

}  // namespace ringfence::litmus
