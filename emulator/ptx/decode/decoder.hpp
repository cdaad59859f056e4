#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "emulator/ptx/alu/slow.hpp"
#include "emulator/ptx/decode/modifiers.hpp"
#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// What a decoder of one instruction works on. Slots of registers hold the register's number until
/// allocate_registers() places them.
class Decoder {
 public:
  Decoder(const Module& module, const Function& function, Program& program);

  /// Decodes instruction `index` into program.ops[index]. Throws Error.
  void instruction(std::uint32_t index);

  /// Finds who touches the registers of wgmma.mma_async; call it once all are decoded.
  void watch_products();

  /// Types of the registers, those that the decoder added included.
  const std::vector<Type>& register_types() const { return register_types_; }

 private:
  using Method = void (Decoder::*)();
  static const std::map<std::string_view, Method>& table();

  // Helpers; all of them fail() on what does not fit.
  [[noreturn]] void fail(const std::string& reason) const;
  const Operand& operand(std::size_t index) const;
  void operand_count(std::size_t least, std::size_t most) const;
  Type type();
  Slot source(const Operand& operand, Type type);
  Slot source(std::size_t index, Type type) { return source(operand(index), type); }
  Slot destination(const Operand& operand, Type type);
  Slot destination(std::size_t index, Type type) { return destination(operand(index), type); }
  Slot predicate_source(const Operand& operand, std::uint64_t negate_bit);
  Slot predicate_destination(const Operand& operand);
  Slot integer_constant(std::uint64_t bits, bool wide);
  Slot constant(Constant constant);
  Slot scratch(Type type);
  std::uint64_t literal(const Operand& operand, Type type) const;
  std::uint64_t immediate(std::size_t index) const;
  std::optional<std::uint64_t> known(const Operand& operand) const;
  void check_bulk_bytes(std::uint64_t bytes) const;
  Type register_type(const Operand& operand) const;
  bool is_wide(const Operand& operand) const;
  void extra(const std::vector<Slot>& written, const std::vector<Slot>& read);
  /// Splits an address operand: base in the slot returned, offset and width in the references.
  Slot address(const Operand& operand, std::int64_t& offset, bool& wide);
  Rounding rounding();
  void use(const AluKey& key);
  std::uint64_t slow_flags(SlowOperation operation, const AluKey& key) const;

  // decode/arithmetic.cpp
  void add_sub();
  void mul();
  void mad();
  void fma();
  void div();
  void rem();
  void min_max();
  void neg_abs();
  void sad();
  void unary_function();
  /// use(), with the flags that a handler working lane by lane reads.
  void slow_binary(SlowOperation operation, AluKey key);
  // decode/bits.cpp
  void logic();
  void bit_not();
  void shift();
  void funnel();
  void bit_field();
  void bit_count();
  void mask_or_extend();
  void fns();
  void permute();
  void lop3();
  void dot_product();
  void distances();
  void mov();
  void selp();
  void slct();
  void setp();
  void set();
  void testp();
  void copysign();
  // decode/convert.cpp
  void cvt();
  // decode/access.cpp
  void load();
  void store();
  void atomic();
  void atomic_halves(MemoryOp memory);
  void multimem();
  void fence();
  void membar();
  void cvta();
  void isspacep();
  void mapa();
  void hint();
  void create_policy();
  Space space();
  void order(Access& access);
  Combine combine(Access& access);
  void finish_access(MemoryOp memory, const Operand& address_operand);
  std::vector<Slot> loaded(const Operand& operand, MemoryOp& memory);
  std::vector<Slot> stored(const Operand& operand, MemoryOp& memory);
  // decode/control.cpp
  void bra();
  void brx();
  void ret();
  void trap();
  void call();
  void no_call();
  void bar();
  void barrier();
  void shfl();
  void vote();
  void match();
  void redux();
  void elect();
  void active_mask();
  void nanosleep();
  void griddepcontrol();
  // decode/async.cpp
  void cp();
  void mbarrier();
  MbarrierOp::Form mbarrier_form();
  void mbarrier_operands(MbarrierOp& barrier);
  void ldmatrix();
  void mma();
  void bulk_copy(bool reduces);
  /// Where a bulk copy goes and how its end is told: the mbarrier, or else the group.
  struct CopyEnds {
    std::array<std::string_view, 2> spaces;  // the destination's first
    bool signals = false;
    bool grouped = false;
  };
  CopyEnds copy_ends();
  // decode/remote.cpp
  void remote();
  void remote_release(MemoryOp memory);
  // decode/tensor.cpp
  void tensor_copy(bool reduces);
  /// The coordinates behind a tensor map's address, as slots.
  std::vector<Slot> coordinates(const Operand& map);
  /// The map's address without them.
  Slot map_address(const Operand& map, std::int64_t& offset, bool& wide);
  // decode/wgmma.cpp
  void wgmma();
  GroupProduct product_form();

  const Module& module_;
  const Function& function_;
  Program& program_;
  std::vector<Type> register_types_;
  std::map<std::tuple<int, std::uint64_t, std::uint64_t, std::uint64_t>, std::uint32_t> known_;
  std::uint32_t carry_register_ = 0;

  const Instruction* in_ = nullptr;
  Modifiers mods_{{}};
  Op op_;
};

}  // namespace ringfence::ptx
