// Decoders of control flow, barriers and exchanges within a warp.

#include "emulator/ptx/calls.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {

void Decoder::bra() {
  mods_.take("uni");
  operand_count(1, 1);
  if (operand(0).kind != Operand::Kind::label) fail("bra needs a label");
  op_.kind = Kind::branch;
  op_.detail = function_.labels[operand(0).index].target;
}

void Decoder::brx() {
  mods_.take("idx");
  mods_.take("uni");
  operand_count(2, 2);
  if (operand(1).kind != Operand::Kind::label) fail("brx.idx needs a list of labels");
  const Label& list = function_.labels[operand(1).index];
  if (list.branches.empty()) fail("the label has no .branchtargets");
  std::vector<std::uint32_t> targets;
  for (const std::uint32_t label : list.branches) targets.push_back(function_.labels[label].target);
  op_.kind = Kind::branch_index;
  op_.a = source(0, Type::u32);
  op_.detail = static_cast<std::uint32_t>(program_.targets.size());
  program_.targets.push_back(std::move(targets));
}

void Decoder::ret() {
  mods_.take("uni");
  operand_count(0, 0);
  op_.kind = Kind::exit;
}

void Decoder::trap() {
  operand_count(0, 0);
  op_.kind = Kind::trap;
}

void Decoder::call() {
  mods_.take("uni");
  std::vector<const Operand*> lists;
  std::string_view name;
  for (const Operand& item : in_->operands) {
    if (item.kind == Operand::Kind::list) lists.push_back(&item);
    if (item.kind == Operand::Kind::function) name = item.name;
  }
  const auto argument = [&](const Operand& list, std::size_t index) {
    if (index >= list.elements.size()) fail("too few arguments");
    const Operand& element = list.elements[index];
    if (element.kind != Operand::Kind::variable || element.owner != Operand::Owner::function) {
      fail("an argument is no .param variable of this body");
    }
    return source(element, Type::b64);
  };
  if (name == "vprintf") {
    if (lists.size() != 2) fail("vprintf has another form");
    op_.kind = Kind::print;
    op_.a = argument(*lists[1], 0);
    op_.b = argument(*lists[1], 1);
    op_.c = argument(*lists[0], 0);
    return;
  }
  if (name == "__assertfail") {
    if (lists.size() != 1) fail("__assertfail has another form");
    op_.kind = Kind::assert_fail;
    std::vector<Slot> slots;
    for (std::size_t i = 0; i < 5; ++i) slots.push_back(argument(*lists[0], i));
    return extra({}, slots);
  }
  fail(name.empty() ? "the call has another form"
                    : "unsupported call of '" + std::string(name) +
                          "', which nothing here defines: link the module that does");
}

// What stands where a call leads nowhere (calls.hpp).
void Decoder::no_call() {
  op_.kind = Kind::trap;
  if (in_->opcode == kNoTarget) {
    op_.detail = static_cast<std::uint32_t>(TrapKind::no_target);
    op_.a = source(0, Type::b64);
  } else {
    op_.detail = static_cast<std::uint32_t>(TrapKind::recursion);
    op_.immediate = operand(0).value;
  }
}

void Decoder::bar() {
  if (mods_.take("warp")) {
    if (!mods_.take("sync")) fail("unsupported form");
    operand_count(1, 1);
    op_.kind = Kind::warp_sync;
    op_.a = source(0, Type::b32);
    return;
  }
  mods_.take("cta");
  BarrierOp barrier;
  barrier.aligned = true;
  if (in_->opcode == "barrier") barrier.aligned = mods_.take("aligned");
  std::size_t first = 0;
  if (mods_.take("arrive")) {
    barrier.arrive_only = true;
    operand_count(2, 2);
  } else if (mods_.take("red")) {
    const std::string_view word = mods_.take_one({"popc", "and", "or"});
    barrier.reduce = word == "popc"  ? BarrierOp::Reduce::popc
                     : word == "and" ? BarrierOp::Reduce::and_
                                     : BarrierOp::Reduce::or_;
    if (word.empty()) fail("bar.red needs .popc, .and or .or");
    const Type result = type();
    operand_count(3, 4);
    if (word == "popc") {
      op_.d = destination(0, result);
    } else {
      op_.e = predicate_destination(operand(0));
    }
    op_.c = predicate_source(operand(in_->operands.size() - 1), kNegateC);
    first = 1;
  } else {
    if (!mods_.take("sync")) fail("unsupported form");
    operand_count(1, 2);
  }
  op_.a = source(first, Type::b32);
  const std::size_t last =
      in_->operands.size() - (barrier.reduce == BarrierOp::Reduce::none ? 0 : 1);
  if (last > first + 1) {
    barrier.has_count = true;
    op_.b = source(first + 1, Type::b32);
  }
  op_.kind = Kind::barrier;
  op_.detail = static_cast<std::uint32_t>(program_.barriers.size());
  program_.barriers.push_back(barrier);
}

void Decoder::barrier() {
  if (!mods_.take("cluster")) return bar();
  mods_.take("aligned");
  operand_count(0, 0);
  const std::string_view order = mods_.take_one({"release", "acquire", "relaxed"});
  if (mods_.take("arrive")) {
    if (order == "acquire") fail("an arrival is .release or .relaxed");
    op_.kind = Kind::cluster_arrive;
    op_.immediate = order == "relaxed" ? 1 : 0;
  } else if (mods_.take("wait")) {
    if (order == "release" || order == "relaxed") fail("a wait is .acquire");
    op_.kind = Kind::cluster_wait;
  } else {
    fail("unsupported form");
  }
}

namespace {
ExchangeOp exchange_of(ExchangeKind kind) {
  ExchangeOp out;
  out.kind = kind;
  return out;
}
}  // namespace

void Decoder::shfl() {
  mods_.take("sync");
  const std::string_view mode = mods_.take_one({"up", "down", "bfly", "idx"});
  if (mode.empty()) fail("shfl needs a mode");
  if (size_of(type()) != 4) fail("unsupported form");
  operand_count(5, 5);  // shfl without .sync is gone since sm_70
  const ExchangeOp exchange = exchange_of(mode == "up"     ? ExchangeKind::shuffle_up
                                          : mode == "down" ? ExchangeKind::shuffle_down
                                          : mode == "bfly" ? ExchangeKind::shuffle_butterfly
                                                           : ExchangeKind::shuffle_index);
  const Operand& target = operand(0);
  if (target.kind == Operand::Kind::pair) {
    op_.d = destination(target.elements[0], Type::b32);
    op_.e = predicate_destination(target.elements[1]);
  } else {
    op_.d = destination(target, Type::b32);
  }
  op_.a = source(1, Type::b32);
  op_.b = source(2, Type::b32);
  op_.c = source(3, Type::b32);
  op_.f = source(4, Type::b32);
  op_.kind = Kind::exchange;
  op_.detail = static_cast<std::uint32_t>(program_.exchanges.size());
  program_.exchanges.push_back(exchange);
}

// Exchanges keep their member mask in slot f.
void Decoder::vote() {
  if (!mods_.take("sync")) fail("vote without .sync is gone since sm_70");
  const std::string_view mode = mods_.take_one({"all", "any", "uni", "ballot"});
  type();
  operand_count(3, 3);
  const ExchangeOp exchange = exchange_of(mode == "all"   ? ExchangeKind::vote_all
                                          : mode == "any" ? ExchangeKind::vote_any
                                          : mode == "uni" ? ExchangeKind::vote_uniform
                                                          : ExchangeKind::vote_ballot);
  if (mode.empty()) fail("vote needs a mode");
  if (mode == "ballot") {
    op_.d = destination(0, Type::b32);
  } else {
    op_.e = predicate_destination(operand(0));
  }
  op_.a = predicate_source(operand(1), kNegateA);
  op_.f = source(2, Type::b32);
  op_.kind = Kind::exchange;
  op_.detail = static_cast<std::uint32_t>(program_.exchanges.size());
  program_.exchanges.push_back(exchange);
}

void Decoder::match() {
  mods_.take("sync");
  const std::string_view mode = mods_.take_one({"any", "all"});
  if (mode.empty()) fail("match needs a mode");
  const Type width = type();
  operand_count(3, 3);
  ExchangeOp exchange =
      exchange_of(mode == "any" ? ExchangeKind::match_any : ExchangeKind::match_all);
  exchange.wide = size_of(width) == 8;
  const Operand& target = operand(0);
  if (target.kind == Operand::Kind::pair) {
    op_.d = destination(target.elements[0], Type::b32);
    op_.e = predicate_destination(target.elements[1]);
  } else {
    op_.d = destination(target, Type::b32);
  }
  op_.a = source(1, width);
  op_.f = source(2, Type::b32);
  op_.kind = Kind::exchange;
  op_.detail = static_cast<std::uint32_t>(program_.exchanges.size());
  program_.exchanges.push_back(exchange);
}

void Decoder::redux() {
  mods_.take("sync");
  const std::string_view word = mods_.take_one({"add", "min", "max", "and", "or", "xor"});
  const bool magnitudes = mods_.take("abs");
  const bool keeps_nan = mods_.take("NaN");
  const Type width = type();
  const bool floats = width == Type::f32 && (word == "min" || word == "max");
  if (word.empty() || size_of(width) != 4 || (is_float(width) && !floats) ||
      (!floats && (magnitudes || keeps_nan))) {
    fail("unsupported form");
  }
  operand_count(3, 3);
  ExchangeOp exchange = exchange_of(word == "add"   ? ExchangeKind::redux_add
                                    : word == "min" ? ExchangeKind::redux_min
                                    : word == "max" ? ExchangeKind::redux_max
                                    : word == "and" ? ExchangeKind::redux_and
                                    : word == "or"  ? ExchangeKind::redux_or
                                                    : ExchangeKind::redux_xor);
  exchange.is_signed = is_signed(width);
  exchange.of_floats = floats;
  exchange.magnitudes = magnitudes;
  exchange.keeps_nan = keeps_nan;
  op_.d = destination(0, width);
  op_.a = source(1, width);
  op_.f = source(2, Type::b32);
  op_.kind = Kind::exchange;
  op_.detail = static_cast<std::uint32_t>(program_.exchanges.size());
  program_.exchanges.push_back(exchange);
}

void Decoder::elect() {
  mods_.take("sync");
  operand_count(2, 2);
  const Operand& target = operand(0);
  if (target.kind != Operand::Kind::pair) fail("d|p is needed");
  op_.d = destination(target.elements[0], Type::b32);
  op_.e = predicate_destination(target.elements[1]);
  op_.f = source(1, Type::b32);
  op_.kind = Kind::exchange;
  op_.detail = static_cast<std::uint32_t>(program_.exchanges.size());
  program_.exchanges.push_back(exchange_of(ExchangeKind::elect));
}

void Decoder::active_mask() {
  operand_count(1, 1);
  type();
  op_.kind = Kind::active_mask;
  op_.d = destination(0, Type::b32);
}

void Decoder::nanosleep() {
  operand_count(1, 1);
  type();
  op_.kind = Kind::sleep;
  op_.a = source(0, Type::u32);
}

void Decoder::griddepcontrol() {
  operand_count(0, 0);
  if (mods_.take("wait")) {
    op_.kind = Kind::launch_wait;
  } else if (mods_.take("launch_dependents")) {
    op_.kind = Kind::launch_trigger;
  } else {
    fail("unsupported form");
  }
}

}  // namespace ringfence::ptx
