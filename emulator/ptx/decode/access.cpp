// Decoders of memory instructions. What the manual says of defaults is applied here: ld and st are
// weak, atom and red relaxed at gpu scope, multimem.red relaxed at sys scope.

#include "emulator/ptx/atomic.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {

Space Decoder::space() {
  if (mods_.take("global")) return Space::global;
  if (!mods_.take_one({"shared", "shared::cta", "shared::cluster"}).empty()) return Space::shared;
  if (mods_.take("local")) return Space::local;
  if (!mods_.take_one({"param", "param::entry", "param::func"}).empty()) return Space::param;
  if (mods_.take("const")) return Space::constant;
  return Space::generic;
}

void Decoder::order(Access& access) {
  // Each access once and none merged (PTX ISA 8.4.1): so are all here. It is relaxed at sys scope.
  const bool mmio = mods_.take("mmio");
  const std::string_view word =
      mods_.take_one({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"});
  std::optional<Scope> scope = mods_.take_scope();
  if (word == "volatile") {
    access.order = Order::relaxed;
    scope = Scope::sys;
  } else if (word == "relaxed") {
    access.order = Order::relaxed;
  } else if (word == "acquire") {
    access.order = Order::acquire;
  } else if (word == "release") {
    access.order = Order::release;
  } else if (word == "acq_rel") {
    access.order = Order::acq_rel;
  }
  if (mmio && (word != "relaxed" || scope != Scope::sys)) fail(".mmio is .relaxed.sys");
  const bool plain = access.operation == Operation::load || access.operation == Operation::store;
  if (plain && access.order != Order::weak && !scope) fail("a strong access needs a scope");
  const bool atomic =
      access.operation == Operation::atomic || access.operation == Operation::reduce;
  access.scope = scope.value_or(atomic ? Scope::gpu : Scope::sys);
}

Combine Decoder::combine(Access& access) {
  const std::string_view word =
      mods_.take_one({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  access.combine = word == "add"    ? Combine::add
                   : word == "min"  ? Combine::min
                   : word == "max"  ? Combine::max
                   : word == "and"  ? Combine::and_
                   : word == "or"   ? Combine::or_
                   : word == "xor"  ? Combine::xor_
                   : word == "exch" ? Combine::exchange
                   : word == "cas"  ? Combine::cas
                   : word == "inc"  ? Combine::inc
                   : word == "dec"  ? Combine::dec
                                    : Combine::none;
  if (access.combine == Combine::none) fail("the instruction has no operation");
  return access.combine;
}

void Decoder::finish_access(MemoryOp memory, const Operand& address_operand) {
  // .param variables of a body are the slots of a call; they lie in the thread's local memory.
  if (memory.access.space == Space::param && address_operand.kind == Operand::Kind::address &&
      !address_operand.elements.empty() &&
      address_operand.elements[0].kind == Operand::Kind::variable &&
      address_operand.elements[0].owner == Operand::Owner::function) {
    memory.access.space = Space::local;
  }
  op_.a = address(address_operand, memory.offset, memory.wide_address);
  if (memory.access.space == Space::generic && !memory.wide_address) {
    fail("a generic address needs 64 bits");
  }
  op_.kind = Kind::memory;
  op_.detail = static_cast<std::uint32_t>(program_.accesses.size());
  program_.accesses.push_back(memory);
}

namespace {
unsigned vector_length(Modifiers& mods) {
  const std::string_view word = mods.take_one({"v2", "v4", "v8"});
  return word.empty() ? 1 : static_cast<unsigned>(word[1] - '0');
}
}  // namespace

std::vector<Slot> Decoder::loaded(const Operand& target, MemoryOp& memory) {
  std::vector<Operand> list = {target};
  if (target.kind == Operand::Kind::vector) list = target.elements;
  if (list.size() != memory.access.elements) fail("the vector's length differs from the modifier");
  std::vector<Slot> out;
  unsigned register_bytes = 0;
  for (const Operand& element : list) {
    if (element.kind == Operand::Kind::sink) {
      out.push_back({});
      continue;
    }
    const Type have = register_type(element);
    const unsigned bytes = size_of(have);
    if (have == Type::pred || bytes > 8) fail("a predicate cannot be loaded");
    if (bytes < size_of(memory.access.type)) fail("the register is narrower than the type");
    if (register_bytes != 0 && bytes != register_bytes)
      fail("registers of unequal size in a vector");
    register_bytes = bytes;
    out.push_back(Slot::reg(element.index));
  }
  if (register_bytes == 0) register_bytes = size_of(memory.access.type);
  memory.lane_bytes = register_bytes == 8 ? 8 : 4;
  memory.register_bytes = register_bytes;
  memory.sign_extend =
      is_signed(memory.access.type) && register_bytes > size_of(memory.access.type);
  for (Slot& slot : out) {
    if (!slot) slot = scratch(register_bytes == 8 ? Type::b64 : Type::b32);
  }
  return out;
}

std::vector<Slot> Decoder::stored(const Operand& from, MemoryOp& memory) {
  std::vector<Operand> list = {from};
  if (from.kind == Operand::Kind::vector) list = from.elements;
  if (list.size() != memory.access.elements) fail("the vector's length differs from the modifier");
  unsigned lane_bytes = 0;
  for (const Operand& element : list) {
    if (element.kind != Operand::Kind::reg) continue;
    const Type have = register_type(element);
    if (have == Type::pred || size_of(have) > 8) fail("a predicate cannot be stored");
    if (size_of(have) < size_of(memory.access.type)) fail("the register is narrower than the type");
    const unsigned bytes = size_of(have) == 8 ? 8 : 4;
    if (lane_bytes != 0 && bytes != lane_bytes) fail("registers of unequal size in a vector");
    lane_bytes = bytes;
  }
  if (lane_bytes == 0) lane_bytes = size_of(memory.access.type) == 8 ? 8 : 4;
  memory.lane_bytes = lane_bytes;
  std::vector<Slot> out;
  for (const Operand& element : list) {
    if (element.kind == Operand::Kind::reg) {
      out.push_back(Slot::reg(element.index));
    } else if (element.kind == Operand::Kind::variable) {
      out.push_back(source(element, lane_bytes == 8 ? Type::b64 : Type::b32));
    } else {
      out.push_back(integer_constant(literal(element, memory.access.type), lane_bytes == 8));
    }
  }
  return out;
}

namespace {
// One access of 16 bytes is two of 8 that are one (halves.hpp).
void as_halves(Access& access) {
  if (access.type != Type::b128 || access.elements != 1) return;
  access.type = Type::b64;
  access.elements = 2;
  access.whole = true;
}
}  // namespace

void Decoder::load() {
  MemoryOp memory;
  Access& access = memory.access;
  access.operation = Operation::load;
  access.non_coherent = mods_.take("nc");
  const bool hinted = mods_.take("L2::cache_hint");
  mods_.drop({"L1::", "L2::"});
  mods_.take_one({"ca", "cg", "cs", "lu", "cv"});
  order(access);
  access.space = space();
  access.elements = static_cast<std::uint8_t>(vector_length(mods_));
  access.type = type();
  as_halves(access);
  if (access.type == Type::pred || size_of(access.type) > 8) fail("unsupported form");
  operand_count(2, hinted ? 3 : 2);
  const Operand& from = operand(1);
  const bool parameter = from.kind == Operand::Kind::address && from.elements.size() == 1 &&
                         from.elements[0].kind == Operand::Kind::variable &&
                         from.elements[0].owner == Operand::Owner::parameter;
  const std::vector<Slot> targets = loaded(operand(0), memory);
  if (access.space == Space::param && parameter && access.elements == 1) {
    // A parameter at a fixed place is a constant of the launch.
    const Variable& variable = function_.parameters[from.elements[0].index];
    if (from.offset < 0 ||
        static_cast<std::uint64_t>(from.offset) + size_of(access.type) > variable.bytes) {
      fail("the access runs out of the parameter");
    }
    Constant value;
    value.source = Constant::Source::parameter;
    value.type = access.type;
    value.offset =
        program_.parameter_offset[from.elements[0].index] + static_cast<std::uint64_t>(from.offset);
    value.wide = memory.lane_bytes == 8;
    value.bits = memory.register_bytes;
    AluKey key;
    key.type = value.wide ? Type::b64 : Type::b32;
    op_.d = targets[0];
    op_.a = constant(value);
    return use(key);
  }
  extra(targets, {});
  finish_access(memory, from);
}

void Decoder::store() {
  MemoryOp memory;
  Access& access = memory.access;
  access.operation = Operation::store;
  if (mods_.take("async")) return remote();
  if (mods_.take("bulk")) fail("unsupported form");
  const bool hinted = mods_.take("L2::cache_hint");
  mods_.drop({"L1::", "L2::"});
  mods_.take_one({"wb", "cg", "cs", "wt"});
  order(access);
  access.space = space();
  access.elements = static_cast<std::uint8_t>(vector_length(mods_));
  access.type = type();
  as_halves(access);
  if (access.type == Type::pred || size_of(access.type) > 8) fail("unsupported form");
  operand_count(2, hinted ? 3 : 2);
  extra({}, stored(operand(1), memory));
  finish_access(memory, operand(0));
}

void Decoder::atomic() {
  const bool returns = in_->opcode == "atom";
  if (!returns && mods_.take("async")) return remote();
  MemoryOp memory;
  Access& access = memory.access;
  access.operation = returns ? Operation::atomic : Operation::reduce;
  access.order = Order::relaxed;
  if (mods_.take("async")) fail("unsupported form");
  mods_.take("noftz");
  mods_.drop({"L1::", "L2::"});
  Access ordered = access;
  ordered.order = Order::weak;
  order(ordered);
  if (ordered.order != Order::weak) access.order = ordered.order;
  access.scope = ordered.scope;
  access.space = space();
  combine(access);
  access.elements = static_cast<std::uint8_t>(vector_length(mods_));
  access.type = type();
  if (access.type == Type::b128) return atomic_halves(memory);
  if (!may_combine(access.combine, access.type)) fail("unsupported form");
  const bool vector = access.elements > 1;
  const bool reaches_global = access.space == Space::global || access.space == Space::generic;
  if (vector && (!is_float(access.type) || (returns && !reaches_global))) fail("unsupported form");
  if (!returns && (access.combine == Combine::cas || access.combine == Combine::exchange)) {
    fail("unsupported form");
  }
  access.flush = access.type == Type::f32;
  const std::size_t first = returns ? 1 : 0;
  const bool cas = access.combine == Combine::cas;
  operand_count(first + (cas ? 3 : 2), first + (cas ? 3 : 2));
  memory.lane_bytes = size_of(access.type) == 8 ? 8 : 4;
  memory.register_bytes = memory.lane_bytes;
  std::vector<Slot> results;
  if (vector && returns) {
    const Operand& to = operand(0);
    if (to.kind != Operand::Kind::vector || to.elements.size() != access.elements) {
      fail("the vector's length differs from the modifier");
    }
    for (const Operand& element : to.elements) {
      results.push_back(destination(element, access.type));
    }
  } else if (returns) {
    op_.d = destination(0, access.type);
  }
  if (cas) {
    op_.c = source(first + 1, access.type);
    extra({}, {source(first + 2, access.type)});
  } else {
    const Operand& value = operand(first + 1);
    std::vector<Slot> slots;
    if (value.kind == Operand::Kind::vector) {
      for (const Operand& element : value.elements) slots.push_back(source(element, access.type));
    } else {
      slots.push_back(source(value, access.type));
    }
    if (slots.size() != access.elements) fail("the vector's length differs from the modifier");
    extra(results, slots);
  }
  finish_access(memory, operand(first));
}

// atom.exch and atom.cas of 16 bytes: two registers each (halves.hpp), and one operation.
void Decoder::atomic_halves(MemoryOp memory) {
  Access& access = memory.access;
  const bool cas = access.combine == Combine::cas;
  if (access.operation != Operation::atomic || access.elements != 1 ||
      (!cas && access.combine != Combine::exchange)) {
    fail("unsupported form");
  }
  access.type = Type::b64;
  access.elements = 2;
  access.whole = true;
  memory.lane_bytes = memory.register_bytes = 8;
  operand_count(cas ? 4 : 3, cas ? 4 : 3);
  const auto halves = [&](std::size_t index) {
    const Operand& o = operand(index);
    if (o.kind != Operand::Kind::vector || o.elements.size() != 2)
      fail("expected a .b128 register");
    return o.elements;
  };
  std::vector<Slot> results, operands;
  if (operand(0).kind == Operand::Kind::sink) {
    results = {scratch(Type::b64), scratch(Type::b64)};
  } else {
    for (const Operand& o : halves(0)) results.push_back(destination(o, Type::b64));
  }
  if (cas) {
    const std::vector<Operand> compare = halves(2);
    op_.c = source(compare[0], Type::b64);
    op_.f = source(compare[1], Type::b64);
  }
  for (const Operand& o : halves(cas ? 3 : 2)) operands.push_back(source(o, Type::b64));
  extra(results, operands);
  finish_access(memory, operand(1));
}

void Decoder::multimem() {
  MemoryOp memory;
  Access& access = memory.access;
  const std::string_view form = mods_.take_one({"ld_reduce", "st", "red"});
  access.operation = form == "ld_reduce" ? Operation::multimem_load_reduce
                     : form == "st"      ? Operation::multimem_store
                                         : Operation::multimem_reduce;
  if (form.empty() || mods_.take("async")) fail("unsupported form");
  mods_.drop({"L1::", "L2::"});
  order(access);
  if (form == "red" && access.order == Order::weak) access.order = Order::relaxed;
  access.space = Space::global;
  mods_.take("global");
  if (form != "st") combine(access);
  if (mods_.take("acc::f32")) access.accumulate = Type::f32;
  if (mods_.take("acc::f16")) access.accumulate = Type::f16;
  access.elements = static_cast<std::uint8_t>(vector_length(mods_));
  access.type = type();
  const std::uint32_t bytes = access.bytes();
  const bool packed = access.type == Type::f16x2 || access.type == Type::bf16x2;
  const bool half = packed || access.type == Type::f16 || access.type == Type::bf16;
  const bool bytewise = is_fp8(access.type);
  if (is_float(access.type)) {
    if (!half && !bytewise && access.type != Type::f32 && access.type != Type::f64)
      fail("unsupported form");
    if (bytewise && form == "red") fail("unsupported form");
    if (form != "st" && access.combine != Combine::add && ((!half && !bytewise) || form == "red"))
      fail("unsupported form");
    if (access.combine > Combine::max) fail("unsupported form");
    if (bytes != 4 && bytes != 8 && bytes != 16) fail("a multimem access has 4, 8 or 16 bytes");
    if (access.type == Type::f64 && access.elements > 1) fail("unsupported form");
  } else {
    if (access.elements > 1 || size_of(access.type) < 4 || size_of(access.type) > 8)
      fail("unsupported form");
    if (form != "st" &&
        (!may_combine(access.combine, access.type) || access.combine > Combine::xor_)) {
      fail("unsupported form");
    }
  }
  if (access.accumulate == Type::f32 && !half) fail("unsupported form");
  if (access.accumulate == Type::f16 && !bytewise) fail("unsupported form");
  operand_count(2, 2);
  if (form == "ld_reduce") {
    extra(loaded(operand(0), memory), {});
    if (memory.register_bytes > 4 && size_of(access.type) < 8)
      fail("a register has another size than the type");
    finish_access(memory, operand(1));
  } else {
    extra({}, stored(operand(1), memory));
    finish_access(memory, operand(0));
  }
}

void Decoder::fence() {
  Fence fence;
  if (mods_.take("mbarrier_init")) {
    mods_.take("release");
    mods_.take("cluster");
    operand_count(0, 0);
    fence.order = Order::release;
    fence.scope = Scope::cluster;
    fence.inits_only = true;
    op_.kind = Kind::fence;
    op_.detail = static_cast<std::uint32_t>(program_.fences.size());
    program_.fences.push_back(fence);
    return;
  }
  if (!mods_.take_one({"proxy"}).empty()) {
    if (mods_.take("alias")) {
      fence.proxy = Proxy::alias;
    } else if (mods_.take("async") || mods_.take("async::generic")) {
      fence.proxy = Proxy::async;
      const Space where = space();
      fence.global = where != Space::shared;
      fence.shared = where != Space::global;
    } else if (mods_.take("tensormap") || mods_.take("tensormap::generic")) {
      fence.proxy = Proxy::tensormap;
    } else {
      fail("unsupported form");
    }
    const std::string_view word = mods_.take_one({"acquire", "release"});
    if (word == "acquire") fence.order = Order::acquire;
    if (word == "release") fence.order = Order::release;
    fence.one_way = fence.proxy == Proxy::async && !word.empty();
    if (fence.one_way) {
      mods_.take("sync_restrict::shared::cluster");
      mods_.take("sync_restrict::shared::cta");
    }
    fence.scope = mods_.take_scope().value_or(Scope::sys);
    if (fence.proxy == Proxy::tensormap && word == "acquire") {
      operand_count(2, 2);
    } else {
      operand_count(0, 0);
    }
  } else {
    const std::string_view word = mods_.take_one({"sc", "acq_rel", "acquire", "release"});
    fence.order = word == "sc"        ? Order::sc
                  : word == "acquire" ? Order::acquire
                  : word == "release" ? Order::release
                                      : Order::acq_rel;
    const auto scope = mods_.take_scope();
    if (!scope) fail("a fence needs a scope");
    fence.scope = *scope;
    operand_count(0, 0);
  }
  op_.kind = Kind::fence;
  op_.detail = static_cast<std::uint32_t>(program_.fences.size());
  program_.fences.push_back(fence);
}

void Decoder::membar() {
  Fence fence;
  fence.order = Order::sc;
  if (mods_.take("proxy")) {
    fence.order = Order::acq_rel;
    if (!mods_.take("alias")) fail("unsupported form");
    fence.proxy = Proxy::alias;
  } else if (mods_.take("gl")) {
    fence.scope = Scope::gpu;
  } else {
    const auto scope = mods_.take_scope();
    if (!scope) fail("membar needs .cta, .gl or .sys");
    fence.scope = *scope;
  }
  operand_count(0, 0);
  op_.kind = Kind::fence;
  op_.detail = static_cast<std::uint32_t>(program_.fences.size());
  program_.fences.push_back(fence);
}

// Addresses in a space and generic ones: the executor adds or takes away the window's base.
void Decoder::cvta() {
  operand_count(2, 2);
  const bool to_space = mods_.take("to");
  const Space which = space();
  const Type width = type();
  if (size_of(width) != 8 && size_of(width) != 4) fail("unsupported form");
  if (size_of(width) == 4) fail("32-bit generic addresses are not supported");
  if (which == Space::generic) fail("cvta needs a state space");
  op_.kind = Kind::to_space;
  op_.detail = static_cast<std::uint32_t>(which);
  op_.immediate = to_space ? 0 : 1;
  op_.d = destination(0, width);
  op_.a = source(1, width);
}

void Decoder::isspacep() {
  operand_count(2, 2);
  const Space which = space();
  if (which == Space::generic) fail("isspacep needs a state space");
  op_.kind = Kind::to_space;
  op_.detail = static_cast<std::uint32_t>(which);
  op_.immediate = 2;
  op_.d = predicate_destination(operand(0));
  op_.a = source(1, Type::b64);
}

void Decoder::mapa() {
  operand_count(3, 3);
  const Space which = space();
  const Type width = type();
  if (size_of(width) < 4) fail("unsupported form");
  op_.kind = Kind::map_address;
  op_.detail = which == Space::shared ? 1 : 0;
  op_.immediate = size_of(width);
  op_.d = destination(0, width);
  op_.a = source(1, width);
  op_.b = source(2, Type::u32);
}

// How a cache treats what is accessed: an opaque word, of no effect here.
void Decoder::create_policy() {
  const bool range = mods_.take("range");
  const bool convert = !range && mods_.take("cvt");
  if (!range && !convert && !mods_.take("fractional")) fail("unsupported form");
  mods_.drop({"L2"});
  mods_.take("global");
  if (type() != Type::b64) fail("unsupported form");
  operand_count(range ? 4 : 1, range ? 4 : convert ? 2 : 2);
  AluKey key;
  key.type = Type::b64;
  op_.d = destination(0, Type::b64);
  op_.a = integer_constant(0, true);
  use(key);
}

void Decoder::hint() {
  mods_ = Modifiers({});
  op_.kind = Kind::nothing;
}

}  // namespace ringfence::ptx
