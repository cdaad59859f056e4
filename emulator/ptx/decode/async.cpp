// Decoders of asynchronous copies, mbarriers and matrix instructions.

#include <algorithm>

#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {

Decoder::CopyEnds Decoder::copy_ends() {
  CopyEnds ends;
  ends.signals = mods_.take("mbarrier::complete_tx::bytes");
  ends.grouped = mods_.take("bulk_group");
  std::size_t count = 0;
  for (const std::string_view word : in_->modifiers) {
    if (word != "global" && !word.starts_with("shared")) continue;
    if (count < ends.spaces.size()) ends.spaces[count] = word;
    ++count;
  }
  mods_.drop({"global", "shared"});
  if (count != ends.spaces.size() || ends.signals == ends.grouped) fail("unsupported form");
  return ends;
}

void Decoder::bulk_copy(bool reduces) {
  if (mods_.take("prefetch")) return hint();
  if (mods_.take("tensor")) return tensor_copy(reduces);
  if (mods_.take("commit_group")) {
    operand_count(0, 0);
    op_.kind = Kind::copy_commit;
    op_.immediate = 1;
    return;
  }
  if (mods_.take("wait_group")) {
    op_.kind = Kind::copy_wait;
    op_.detail = mods_.take("read") ? 3 : 1;
    op_.immediate = immediate(0);
    return;
  }
  const bool hinted = mods_.take("L2::cache_hint");
  mods_.drop({"L2::"});
  CopyOp copy;
  if (reduces) {
    copy.reduces = true;
    copy.remote.order = Order::relaxed;
    copy.remote.scope = Scope::sys;  // PTX ISA 9.3; 9.2 says .gpu
    combine(copy.remote);
    mods_.take("noftz");
    copy.remote.type = type();
  }
  copy.multicast = mods_.take("multicast::cluster");
  const auto [spaces, signals, grouped] = copy_ends();
  const std::size_t count = signals ? 4 : 3;
  const std::size_t most = count + (copy.multicast ? 1 : 0) + (hinted ? 1 : 0);
  operand_count(most, most);
  if (spaces[0] != "global" && spaces[1] == "global" && signals) {
    copy.form = CopyOp::Form::bulk_to_shared;
  } else if (spaces[0] == "global" && spaces[1] != "global" && grouped) {
    copy.form = CopyOp::Form::bulk_to_global;
  } else if (spaces[0] != "global" && spaces[1] != "global" && signals) {
    copy.form = CopyOp::Form::bulk_to_cluster;
  } else {
    fail("unsupported form");
  }
  if (reduces && copy.form != CopyOp::Form::bulk_to_global) fail("unsupported form");
  if (copy.multicast && copy.form != CopyOp::Form::bulk_to_shared) {
    fail("a copy to several blocks goes from global to shared::cluster");
  }
  if (const auto bytes = known(operand(2))) check_bulk_bytes(*bytes);
  op_.a = address(operand(0), copy.destination_offset, copy.wide_destination);
  op_.b = address(operand(1), copy.source_offset, copy.wide_source);
  op_.c = source(2, Type::u32);
  if (signals) op_.f = address(operand(3), copy.barrier_offset, copy.wide_barrier);
  if (copy.multicast) extra({}, {source(4, Type::u16)});
  op_.kind = Kind::copy_async;
  op_.detail = static_cast<std::uint32_t>(program_.copies.size());
  program_.copies.push_back(copy);
}

// The value of an operand that no execution can change: a constant, or a register that one mov of
// a constant sets.
std::optional<std::uint64_t> Decoder::known(const Operand& operand) const {
  if (operand.kind == Operand::Kind::integer) return operand.value;
  if (operand.kind != Operand::Kind::reg) return std::nullopt;
  const auto is_it = [&](const Operand& o) {
    return o.kind == Operand::Kind::reg && o.index == operand.index;
  };
  std::optional<std::uint64_t> value;
  for (const Instruction& i : function_.instructions) {
    if (i.operands.empty()) continue;
    const Operand& first = i.operands.front();  // what it sets, if it sets anything
    const bool grouped = first.kind == Operand::Kind::vector || first.kind == Operand::Kind::pair;
    if (grouped && std::any_of(first.elements.begin(), first.elements.end(), is_it)) {
      return std::nullopt;
    }
    if (!is_it(first)) continue;
    const bool sets = i.opcode == "mov" && i.guard < 0 && !value && i.operands.size() == 2 &&
                      i.operands[1].kind == Operand::Kind::integer;
    if (!sets) return std::nullopt;
    value = i.operands[1].value;
  }
  return value;
}

void Decoder::check_bulk_bytes(std::uint64_t bytes) const {
  const auto size = static_cast<std::uint32_t>(bytes);
  if (size % 16 != 0 || size > kMostSharedBytes) {
    fail("a bulk copy of " + std::to_string(static_cast<std::int32_t>(size)) +
         " bytes: expected a multiple of 16, and at most the " + std::to_string(kMostSharedBytes) +
         " bytes of a block's shared memory");
  }
}

void Decoder::cp() {
  const bool reduces = mods_.take("reduce");
  if (!mods_.take("async")) fail("unsupported form");
  if (mods_.take("bulk")) return bulk_copy(reduces);
  if (reduces) fail("unsupported form");
  if (mods_.take("commit_group")) {
    operand_count(0, 0);
    op_.kind = Kind::copy_commit;
    return;
  }
  if (mods_.take("wait_group")) {
    operand_count(1, 1);
    op_.kind = Kind::copy_wait;
    op_.immediate = immediate(0);
    return;
  }
  if (mods_.take("wait_all")) {
    operand_count(0, 0);
    op_.kind = Kind::copy_wait;
    op_.immediate = 0;
    op_.detail = 2;  // also what is not committed yet
    return;
  }
  if (mods_.take("mbarrier")) {
    if (!mods_.take("arrive")) fail("unsupported form");
    MbarrierOp barrier;
    barrier.form = MbarrierOp::Form::async_arrive;
    barrier.no_increment = mods_.take("noinc");
    space();
    type();
    operand_count(1, 1);
    op_.a = address(operand(0), barrier.offset, barrier.wide_address);
    op_.kind = Kind::mbarrier;
    op_.detail = static_cast<std::uint32_t>(program_.mbarriers.size());
    program_.mbarriers.push_back(barrier);
    return;
  }
  const bool hinted = mods_.take("L2::cache_hint");
  mods_.drop({"L2::"});
  if (mods_.take_one({"ca", "cg"}).empty()) fail("unsupported form");
  mods_.take_one({"shared", "shared::cta"});
  mods_.take("global");
  CopyOp copy;
  operand_count(3, hinted ? 5 : 4);
  op_.a = address(operand(0), copy.destination_offset, copy.wide_destination);
  op_.b = address(operand(1), copy.source_offset, copy.wide_source);
  const std::uint64_t bytes = immediate(2);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async copies 4, 8 or 16 bytes");
  copy.bytes = static_cast<std::uint32_t>(bytes);
  if (in_->operands.size() > (hinted ? 4U : 3U)) {
    if (operand(3).kind == Operand::Kind::reg && register_type(operand(3)) == Type::pred) {
      fail("unsupported form");
    }
    copy.has_source_size = true;
    op_.c = source(3, Type::u32);
  }
  op_.kind = Kind::copy_async;
  op_.detail = static_cast<std::uint32_t>(program_.copies.size());
  program_.copies.push_back(copy);
}

MbarrierOp::Form Decoder::mbarrier_form() {
  using Form = MbarrierOp::Form;
  const bool expect = mods_.take("expect_tx");
  if (mods_.take("init")) return Form::init;
  if (mods_.take("inval")) return Form::inval;
  if (mods_.take("arrive")) return expect ? Form::arrive_expect_tx : Form::arrive;
  if (mods_.take("arrive_drop")) {
    if (expect) fail("unsupported form");
    return Form::arrive_drop;
  }
  if (expect) return Form::expect_tx;
  if (mods_.take("complete_tx")) return Form::complete_tx;
  if (mods_.take("test_wait")) return Form::test_wait;
  if (mods_.take("try_wait")) return Form::try_wait;
  if (mods_.take("pending_count")) return Form::pending_count;
  fail("unsupported form");
}

void Decoder::mbarrier_operands(MbarrierOp& barrier) {
  using Form = MbarrierOp::Form;
  const auto at = [&](std::size_t index) {
    op_.a = address(operand(index), barrier.offset, barrier.wide_address);
  };
  switch (barrier.form) {
    case Form::init:
    case Form::expect_tx:
    case Form::complete_tx:
      operand_count(2, 2);
      at(0);
      op_.b = source(1, Type::u32);
      break;
    case Form::inval:
      operand_count(1, 1);
      at(0);
      break;
    case Form::arrive:
    case Form::arrive_drop:
    case Form::arrive_expect_tx:
      if (operand(0).kind == Operand::Kind::address) {  // the state may be left out
        at(0);
        barrier.has_count = in_->operands.size() > 1;
        if (barrier.has_count) op_.b = source(1, Type::u32);
        operand_count(1, 2);
      } else {
        operand_count(2, 3);
        op_.d = destination(0, Type::b64);
        at(1);
        barrier.has_count = in_->operands.size() > 2;
        if (barrier.has_count) op_.b = source(2, Type::u32);
      }
      if (barrier.form == Form::arrive_expect_tx && !barrier.has_count) fail("too few operands");
      break;
    case Form::test_wait:
    case Form::try_wait:
      operand_count(3, 4);
      op_.e = predicate_destination(operand(0));
      at(1);
      op_.b = source(2, barrier.parity ? Type::u32 : Type::b64);
      break;
    case Form::pending_count:
      operand_count(2, 2);
      op_.d = destination(0, Type::b32);
      op_.b = source(1, Type::b64);
      break;
    case Form::async_arrive:
      break;
  }
}

void Decoder::mbarrier() {
  using Form = MbarrierOp::Form;
  MbarrierOp barrier;
  barrier.form = mbarrier_form();
  barrier.parity = mods_.take("parity");
  // PTX ISA 9.7.15.16: arrivals default to .release, waits to .acquire, both to .cta; what only
  // counts bytes is relaxed.
  const bool waits = barrier.form == Form::test_wait || barrier.form == Form::try_wait;
  const std::string_view order = mods_.take_one({"release", "acquire", "relaxed"});
  barrier.order.order = order == "relaxed" ? Order::relaxed
                        : waits            ? Order::acquire
                                           : Order::release;
  if ((order == "acquire" && !waits) || (order == "release" && waits)) fail("unsupported form");
  const auto scope = mods_.take_scope();
  barrier.order.scope = scope.value_or(Scope::cta);
  barrier.has_scope = scope.has_value();
  const auto& words = in_->modifiers;
  barrier.remote = std::find(words.begin(), words.end(), "shared::cluster") != words.end();
  space();
  type();
  mbarrier_operands(barrier);
  op_.kind = Kind::mbarrier;
  op_.detail = static_cast<std::uint32_t>(program_.mbarriers.size());
  program_.mbarriers.push_back(barrier);
}

void Decoder::ldmatrix() {
  MatrixOp matrix;
  const bool loads = in_->opcode == "ldmatrix";
  matrix.form = loads ? MatrixOp::Form::load : MatrixOp::Form::store;
  mods_.take("sync");
  mods_.take("aligned");
  if (!mods_.take("m8n8")) fail("unsupported form");
  const std::string_view count = mods_.take_one({"x1", "x2", "x4"});
  if (count.empty()) fail("unsupported form");
  matrix.count = static_cast<unsigned>(count[1] - '0');
  matrix.transposed = mods_.take("trans");
  space();
  if (type() != Type::b16) fail("unsupported form");
  operand_count(2, 2);
  const Operand& list = operand(loads ? 0 : 1);
  std::vector<Operand> elements = {list};
  if (list.kind == Operand::Kind::vector) elements = list.elements;
  if (elements.size() != matrix.count) fail("the vector's length differs from the modifier");
  std::vector<Slot> slots;
  for (const Operand& element : elements) {
    slots.push_back(loads ? destination(element, Type::b32) : source(element, Type::b32));
  }
  if (loads) {
    extra(slots, {});
  } else {
    extra({}, slots);
  }
  op_.a = address(operand(loads ? 1 : 0), matrix.offset, matrix.wide_address);
  op_.kind = Kind::matrix_load;
  op_.detail = static_cast<std::uint32_t>(program_.matrices.size());
  program_.matrices.push_back(matrix);
}

void Decoder::mma() {
  MatrixOp matrix;
  matrix.form = MatrixOp::Form::multiply;
  mods_.take("sync");
  mods_.take("aligned");
  const std::string_view shape = mods_.take_one({"m16n8k32", "m16n8k16", "m16n8k8", "m16n8k4"});
  if (shape.empty() || !mods_.take("row") || !mods_.take("col")) fail("unsupported form");
  matrix.k = shape == "m16n8k32" ? 32 : shape == "m16n8k16" ? 16 : shape == "m16n8k8" ? 8 : 4;
  matrix.saturate = mods_.take("satfinite");
  matrix.result = type();
  matrix.a = type();
  matrix.b = type();
  matrix.accumulate = type();
  const bool half = matrix.a == Type::f16 || matrix.a == Type::bf16;
  const bool bytes = matrix.a == Type::s8 || matrix.a == Type::u8;
  const auto check = [&](bool there) {
    if (!there) fail("unsupported form");
  };
  check(matrix.accumulate == matrix.result);
  if (bytes) {
    check(matrix.b == Type::s8 || matrix.b == Type::u8);
    check(matrix.k >= 16 && matrix.result == Type::s32);
  } else {
    check((half || matrix.a == Type::tf32) && matrix.b == matrix.a && !matrix.saturate);
    check(half ? matrix.k == 8 || matrix.k == 16 : matrix.k <= 8);
    check(matrix.result == Type::f32 || (matrix.result == Type::f16 && matrix.a == Type::f16));
  }
  operand_count(4, 4);
  const std::size_t per_register = bytes ? 4 : half ? 2 : 1;
  const std::size_t sums = matrix.result == Type::f16 ? 2 : 4;
  const std::size_t counts[4] = {sums, 16 * matrix.k / 32 / per_register,
                                 8 * matrix.k / 32 / per_register, sums};
  std::vector<Slot> written;
  std::vector<Slot> read;
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<Operand> elements = {operand(i)};
    if (operand(i).kind == Operand::Kind::vector) elements = operand(i).elements;
    if (elements.size() != counts[i]) fail("a fragment has another number of registers");
    for (const Operand& element : elements) {
      if (i == 0) {
        written.push_back(destination(element, Type::b32));
      } else {
        read.push_back(source(element, Type::b32));
      }
    }
  }
  extra(written, read);
  op_.kind = Kind::matrix_multiply;
  op_.detail = static_cast<std::uint32_t>(program_.matrices.size());
  program_.matrices.push_back(matrix);
}

}  // namespace ringfence::ptx
