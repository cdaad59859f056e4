// Decoder of tensor copies (cp.async.bulk.tensor).

#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/tensor_map.hpp"

namespace ringfence::ptx {

std::vector<Slot> Decoder::coordinates(const Operand& map) {
  if (map.kind != Operand::Kind::address || map.elements.size() != 2) {
    fail("a tensor's address is [map, {coordinates}]");
  }
  const Operand& list = map.elements[1];
  std::vector<Operand> elements = {list};
  if (list.kind == Operand::Kind::vector) elements = list.elements;
  std::vector<Slot> out;
  for (const Operand& element : elements) out.push_back(source(element, Type::s32));
  return out;
}

Slot Decoder::map_address(const Operand& map, std::int64_t& offset, bool& wide) {
  Operand alone = map;
  alone.elements.resize(1);
  return address(alone, offset, wide);
}

void Decoder::tensor_copy(bool reduces) {
  const std::string_view shape = mods_.take_one({"1d", "2d", "3d", "4d", "5d"});
  if (shape.empty()) fail("unsupported form");
  mods_.take("tile");
  const bool hinted = mods_.take("L2::cache_hint");
  CopyOp copy;
  if (reduces) {
    // The map says of which type (PTX ISA, cp.reduce.async.bulk.tensor).
    copy.reduces = true;
    copy.remote.order = Order::relaxed;
    copy.remote.scope = Scope::sys;
    combine(copy.remote);
    if (copy.remote.combine == Combine::exchange || copy.remote.combine == Combine::cas)
      fail("unsupported form");
  }
  copy.coordinates = static_cast<std::uint8_t>(shape[0] - '0');
  copy.multicast = mods_.take("multicast::cluster");
  const auto [spaces, signals, grouped] = copy_ends();
  const bool loads = spaces[0] != "global" && spaces[1] == "global" && signals;
  const bool stores = spaces[0] == "global" && spaces[1] != "global" && grouped && !copy.multicast;
  if ((!loads && !stores) || (reduces && !stores)) fail("unsupported form");
  copy.form = loads ? CopyOp::Form::tensor_to_shared : CopyOp::Form::tensor_to_global;
  const std::size_t count = loads ? 3 : 2;
  const std::size_t most = count + (copy.multicast ? 1 : 0) + (hinted ? 1 : 0);
  operand_count(most, most);
  const Operand& map = operand(loads ? 1 : 0);
  std::vector<Slot> slots = coordinates(map);
  if (slots.size() != copy.coordinates) fail("another number of coordinates than dimensions");
  if (loads) {
    op_.a = address(operand(0), copy.destination_offset, copy.wide_destination);
    op_.b = map_address(map, copy.source_offset, copy.wide_source);
    op_.f = address(operand(2), copy.barrier_offset, copy.wide_barrier);
  } else {
    op_.a = map_address(map, copy.destination_offset, copy.wide_destination);
    op_.b = address(operand(1), copy.source_offset, copy.wide_source);
  }
  if (copy.multicast) slots.push_back(source(3, Type::u16));
  extra({}, slots);
  op_.kind = Kind::copy_async;
  op_.detail = static_cast<std::uint32_t>(program_.copies.size());
  program_.copies.push_back(copy);
}

}  // namespace ringfence::ptx
