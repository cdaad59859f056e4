// Decoder of st.async and red.async: writes into the shared memory of a block of the cluster, whose
// end an mbarrier there is told.

#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {
namespace {

bool may_store(Type type) {
  switch (type) {
    case Type::b32:
    case Type::u32:
    case Type::s32:
    case Type::f32:
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return true;
    default:
      return false;
  }
}

bool may_reduce(Combine combine, Type type) {
  switch (combine) {
    case Combine::inc:
    case Combine::dec:
      return type == Type::u32;
    case Combine::min:
    case Combine::max:
      return type == Type::u32 || type == Type::s32;
    case Combine::add:
      return type == Type::u32 || type == Type::s32 || type == Type::u64;
    case Combine::and_:
    case Combine::or_:
    case Combine::xor_:
      return type == Type::b32;
    default:
      return false;
  }
}

}  // namespace

// With .release, to global memory: nobody is told of the end, and what matters of it is that it
// publishes what came before, so it is a release that is done when issued.
void Decoder::remote_release(MemoryOp memory) {
  Access& access = memory.access;
  const bool stores = in_->opcode == "st";
  const bool mmio = mods_.take("mmio");
  access.order = Order::release;
  const auto scope = mods_.take_scope();
  if (!scope || *scope < Scope::gpu || (mmio && *scope != Scope::sys)) fail("unsupported form");
  access.scope = *scope;
  access.space = Space::global;
  if (!mods_.take("global")) fail("unsupported form");
  if (!stores && combine(access) == Combine::none) fail("unsupported form");
  access.type = type();
  if (stores ? size_of(access.type) > 8 || access.type == Type::pred
             : !may_reduce(access.combine, access.type)) {
    fail("unsupported form");
  }
  operand_count(2, 2);
  extra({}, stored(operand(1), memory));
  finish_access(memory, operand(0));
}

void Decoder::remote() {
  CopyOp copy;
  MemoryOp memory;
  Access& access = memory.access;
  const bool stores = in_->opcode == "st";
  access.operation = stores ? Operation::store : Operation::reduce;
  if (mods_.take("release")) return remote_release(memory);
  access.space = Space::shared;
  if (stores) {
    copy.form = CopyOp::Form::remote_store;
    mods_.take("weak");
  } else {
    copy.form = CopyOp::Form::remote_reduce;
    access.order = Order::relaxed;
    access.scope = Scope::cluster;
    if (!mods_.take("relaxed") || !mods_.take("cluster")) fail("unsupported form");
  }
  mods_.take("shared::cluster");
  if (!mods_.take("mbarrier::complete_tx::bytes")) fail("unsupported form");
  if (!stores) combine(access);
  const std::string_view length = mods_.take_one({"v2", "v4"});
  access.elements = length.empty() ? 1 : static_cast<std::uint8_t>(length[1] - '0');
  access.type = type();
  if (stores ? !may_store(access.type)
             : !may_reduce(access.combine, access.type) || access.elements != 1) {
    fail("unsupported form");
  }
  operand_count(3, 3);
  op_.a = address(operand(0), copy.destination_offset, copy.wide_destination);
  extra({}, stored(operand(1), memory));
  op_.f = address(operand(2), copy.barrier_offset, copy.wide_barrier);
  copy.remote = access;
  copy.lane_bytes = memory.lane_bytes;
  op_.kind = Kind::copy_async;
  op_.detail = static_cast<std::uint32_t>(program_.copies.size());
  program_.copies.push_back(copy);
}

}  // namespace ringfence::ptx
