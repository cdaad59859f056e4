#include "emulator/ptx/call_slots.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace ringfence::ptx {
namespace {

struct SlotAccess {
  std::uint32_t variable = 0;
  std::uint64_t offset = 0;
  Type type = Type::none;
  bool store = false;
};

// Names of PTX types by size.
std::string_view word(bool sign, unsigned bytes) {
  constexpr std::array<std::string_view, 4> kUnsigned = {"u8", "u16", "u32", "u64"};
  constexpr std::array<std::string_view, 4> kSigned = {"s8", "s16", "s32", "s64"};
  const std::size_t i = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return sign ? kSigned[i] : kUnsigned[i];
}

const Operand* slot_of(const Operand& o) {
  const Operand* base = &o;
  if (o.kind == Operand::Kind::address && o.elements.size() == 1) base = o.elements.data();
  const bool own = base->kind == Operand::Kind::variable && base->owner == Operand::Owner::function;
  return own ? base : nullptr;
}

// The access of a .param variable by an instruction that does no more; none: it is used in some
// other way.
std::optional<SlotAccess> access_of(const Instruction& i) {
  const bool load = i.opcode == "ld";
  if ((!load && i.opcode != "st") || i.operands.size() != 2) return std::nullopt;
  const Operand& at = i.operands[load ? 1 : 0];
  const Operand* const base = slot_of(at);
  if (at.kind != Operand::Kind::address || base == nullptr) return std::nullopt;
  SlotAccess out;
  bool param = false;
  for (const std::string_view m : i.modifiers) {
    param = param || m == "param" || m == "param::func";
    if (const auto type = type_of(m)) out.type = *type;
  }
  const unsigned bytes = size_of(out.type);
  const std::int64_t offset = at.offset + base->offset;
  if (!param || bytes == 0 || bytes > 8 || offset < 0) return std::nullopt;
  out.variable = base->index;
  out.offset = static_cast<std::uint64_t>(offset);
  out.store = !load;
  return out;
}

std::vector<Operand> data_of(const Instruction& i) {
  const Operand& data = i.operands[i.opcode == "ld" ? 0 : 1];
  return data.kind == Operand::Kind::vector ? data.elements : std::vector<Operand>{data};
}

class Promotion {
 public:
  explicit Promotion(Function& function)
      : function_(function),
        parts_(function.variables.size()),
        stays_(function.variables.size(), 0) {}

  void run() {
    find_parts();
    check_loads();
    std::vector<Instruction> old = std::move(function_.instructions);
    function_.instructions.clear();
    std::vector<std::uint32_t> moved;
    for (Instruction& i : old) {
      moved.push_back(static_cast<std::uint32_t>(function_.instructions.size()));
      const auto access = access_of(i);
      if (access && is_slot(access->variable) && stays_[access->variable] == 0) {
        replace(i, *access);
      } else {
        function_.instructions.push_back(std::move(i));
      }
    }
    moved.push_back(static_cast<std::uint32_t>(function_.instructions.size()));
    move_labels(function_, moved);
    // The slots are gone, but numbers stay.
    for (std::size_t v = 0; v < parts_.size(); ++v) {
      if (is_slot(v) && stays_[v] == 0) function_.variables[v].bytes = 0;
    }
  }

 private:
  bool is_slot(std::size_t v) const { return function_.variables[v].space == Space::param; }

  void stay(const Operand& o) {
    if (const Operand* base = slot_of(o)) stays_[base->index] = 1;
    for (const Operand& e : o.elements) stay(e);
  }

  void find_parts() {
    for (const Instruction& i : function_.instructions) {
      const auto access = access_of(i);
      if (!access) {
        for (const Operand& o : i.operands) stay(o);
        continue;
      }
      for (const Operand& o : data_of(i)) stay(o);  // the address of a slot is data
      if (!access->store) continue;
      std::uint64_t at = access->offset;
      const unsigned bytes = size_of(access->type);
      for (std::size_t e = 0; e < data_of(i).size(); ++e, at += bytes) {
        for (const auto& [offset, part] : parts_[access->variable]) {
          const bool same = offset == at && part.bytes == bytes;
          if (!same && offset < at + bytes && at < offset + part.bytes)
            stays_[access->variable] = 1;
        }
        parts_[access->variable][at] = {bytes, 0};
      }
    }
  }

  void check_loads() {
    for (const Instruction& i : function_.instructions) {
      const auto access = access_of(i);
      if (!access || access->store) continue;
      std::uint64_t at = access->offset;
      for (std::size_t e = 0; e < data_of(i).size(); ++e, at += size_of(access->type)) {
        const auto part = parts_[access->variable].find(at);
        if (part == parts_[access->variable].end() || part->second.bytes < size_of(access->type)) {
          stays_[access->variable] = 1;
        }
      }
    }
  }

  Operand register_of(std::uint32_t variable, std::uint64_t offset) {
    auto& part = parts_[variable].at(offset);
    if (part.number == 0) {
      part.number = add_register(part.bytes);
      part.number += 1;
    }
    return reg(part.number - 1);
  }

  std::uint32_t add_register(unsigned bytes) {
    Register fresh;
    fresh.name = "%call";
    fresh.ranged = true;
    fresh.number = static_cast<std::uint32_t>(function_.registers.size());
    fresh.type = bytes == 8 ? Type::b64 : bytes == 4 ? Type::b32 : Type::b16;
    function_.registers.push_back(fresh);
    return fresh.number;
  }

  static Operand reg(std::uint32_t number) {
    Operand out;
    out.kind = Operand::Kind::reg;
    out.index = number;
    return out;
  }

  void emit(const Instruction& like, std::string_view opcode, std::vector<std::string_view> words,
            Operand to, Operand from) {
    Instruction out = like;
    out.opcode = opcode;
    out.modifiers = std::move(words);
    out.operands = {std::move(to), std::move(from)};
    function_.instructions.push_back(std::move(out));
  }

  void replace(const Instruction& i, const SlotAccess& access) {
    std::uint64_t at = access.offset;
    const unsigned bytes = size_of(access.type);
    for (const Operand& o : data_of(i)) {
      const Operand part = register_of(access.variable, at);
      if (access.store) {
        store(i, access.type, part, o);
      } else if (o.kind != Operand::Kind::sink) {
        load(i, access.type, o, part);
      }
      at += bytes;
    }
  }

  void store(const Instruction& i, Type type, const Operand& to, Operand from) {
    const unsigned bytes = size_of(type);
    if (from.kind != Operand::Kind::reg) {
      if (from.kind == Operand::Kind::integer && bytes == 1) from.value &= 0xFF;
      return emit(i, "mov", {bytes == 1 ? std::string_view("b16") : name_of(type)}, to, from);
    }
    const unsigned have = size_of(function_.registers[from.index].type);
    if (have == bytes) return emit(i, "mov", {mov_word(bytes)}, to, from);
    // The low part of a register that is wider than the type.
    emit(i, "cvt", {word(false, std::max(2U, bytes)), word(false, bytes)}, to, from);
  }

  void load(const Instruction& i, Type type, const Operand& to, const Operand& from) {
    const unsigned bytes = size_of(type);
    const unsigned have = size_of(function_.registers[from.index].type);
    const unsigned wants = size_of(function_.registers[to.index].type);
    if (have == bytes && wants == bytes) return emit(i, "mov", {mov_word(bytes)}, to, from);
    const bool sign = is_signed(type);
    emit(i, "cvt", {word(sign, wants), word(sign, bytes)}, to, from);
  }

  static std::string_view mov_word(unsigned bytes) {
    return bytes == 2 ? "b16" : bytes == 4 ? "b32" : "b64";
  }

  struct Piece {
    unsigned bytes = 0;
    std::uint32_t number = 0;  // of its register, from 1
  };
  Function& function_;
  std::vector<std::map<std::uint64_t, Piece>> parts_;  // by variable: what is written, by offset
  std::vector<std::uint8_t> stays_;                    // by variable: it is used in another way
};

}  // namespace

void move_labels(Function& function, const std::vector<std::uint32_t>& moved) {
  for (Label& label : function.labels) label.target = moved[label.target];
}

void slots_to_registers(Function& function) { Promotion(function).run(); }

}  // namespace ringfence::ptx
