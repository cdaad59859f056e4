#include "emulator/programs/protocols/pull.hpp"

#include <fmt/format.h>

namespace ringfence::programs {

using machine::Access;
using machine::Order;
using machine::Proxy;
using machine::RegionKind;

void PullSwitches::list_pull(SwitchList& list, const std::string& second_name, bool two_shot) {
  list.none("start", start.there);
  list.none(second_name, second.there);
  list.order("start.put", Orders::red, start.put);
  list.order("start.wait", Orders::poll, start.wait);
  list.order(second_name + ".put", Orders::red, second.put);
  list.order(second_name + ".wait", Orders::poll, second.wait);
  list.order("ld.order", Orders::read, load);
  if (two_shot) list.order("st.order", Orders::write, st);
  list.none(second_name + ".block_barrier", block_barrier);
}

Pull::Pull(const Config& config, const PullSwitches& switches, Shots shots, Pad pad)
    : Exchange(config, switches), orders_(switches), shots_(shots), layout_(pad) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(payload().problem().tokens) * row_bytes();
  const std::uint64_t slots = slot(blocks(), 0, 0);
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    if (two_shot()) staging_.push_back(add_region("staging", r, 0, RegionKind::data, bytes));
    pad_.push_back(layout_.slots == Slots::counters
                       ? add_counters("pad", r, slots)
                       : add_region("pad", r, 0, RegionKind::signal, slots));
  }
}

std::uint64_t Pull::slot(std::uint32_t block, std::uint32_t set, std::uint32_t from) const {
  const std::uint64_t senders = layout_.one_sender ? 1 : ranks();
  return ((std::uint64_t{block} * layout_.sets + set) * senders + from) * kSlotBytes;
}

void Pull::kernel(Lane& lane) {
  const verify::RowRange all{0, lane.call.problem.tokens};
  const verify::RowRange own = two_shot() ? lane.call.problem.rows_of(lane.place.rank) : all;
  if (orders_.start.there) turn(lane, true);
  lane.agent.sync(lane.block, kStartSync);
  std::vector<std::uint16_t> parts(ranks() * hidden());
  for_rows(lane, own, [&](std::int64_t row) {
    for (std::uint16_t peer = 0; peer < ranks(); ++peer) {
      load_row(lane, row_of(input_, peer, row), words(orders_.load, kLoadInput),
               std::span(parts).subspan(peer * hidden(), hidden()));
    }
    const auto out = compute(lane, row, parts);
    if (two_shot()) {
      store_row(lane, row_of(staging_, lane.place.rank, row), words(orders_.st, kStoreStaging),
                out);
    } else {
      store_row(lane, out_row(lane.place, row), words(Order::weak, kStoreOut), out);
    }
  });
  if (orders_.block_barrier) lane.agent.sync(lane.block, kEndSync);
  if (orders_.second.there) turn(lane, false);
  if (!two_shot()) return;
  lane.agent.sync(lane.block, kGatherSync);
  std::vector<std::uint16_t> row_of_peer(hidden());
  for (std::uint16_t peer = 0; peer < ranks(); ++peer) {
    for_rows(lane, lane.call.problem.rows_of(peer), [&](std::int64_t row) {
      load_row(lane, row_of(staging_, peer, row), words(orders_.load, kLoadStaging), row_of_peer);
      store_row(lane, out_row(lane.place, row), words(Order::weak, kStoreOut), row_of_peer);
    });
  }
}

void Pull::put(const Turn& t, machine::Address to, const Access& access, std::uint32_t value) {
  t.lane.agent.write(to, access, std::as_bytes(std::span(&value, 1)));
}

Access Pull::clearing(const Turn& t) {
  Access clear = t.signal;
  clear.order = Order::relaxed;
  clear.site = t.start ? kStartClear : kEndClear;
  return clear;
}

void Pull::turn(Lane& lane, bool start) {
  if (lane.thread >= ranks()) return;
  const PullSwitches::Barrier& orders = start ? orders_.start : orders_.second;
  const Access signal{orders.put,     orders_.scope, kSlotBytes,
                      Proxy::generic, false,         start ? kStartPut : kEndPut};
  Access poll = signal;
  poll.order = orders.wait;
  poll.site = start ? kStartWait : kEndWait;
  Turn t{lane, lane.place.call * 2 + (start ? 0 : 1), start, signal, poll};
  barrier(t);
}

// -- names ----------------------------------------------------------------------------------------

std::uint32_t Pull::slot_at_end(const RegionInfo&, std::uint64_t offset) const {
  const auto set = static_cast<std::uint32_t>(offset / kSlotBytes / ranks() % layout_.sets);
  return value_after(payload().calls() * 2, set);
}

schedule::SlotName Pull::slot_of(const RegionInfo& region, std::uint64_t offset) const {
  const auto slot = static_cast<std::uint32_t>(offset / kSlotBytes);
  schedule::SlotName name;
  const std::uint32_t from = slot % ranks(), block = slot / ranks() / layout_.sets;
  const char* which = set_name(slot / ranks() % layout_.sets);
  name.text =
      fmt::format("{}flag of rank {}, block {}, from rank {}", which, region.rank, block, from);
  name.writer = fmt::format("r{}.b{}.t{}", from, block, region.rank);
  return name;
}

std::string Pull::slot_writer(machine::Address at, const machine::Wanted&) const {
  return info(at.region).slots ? slot_of(info(at.region), at.offset).writer : std::string();
}

std::string Pull::own_site_name(std::uint16_t site) const {
  const char* last = two_shot() ? "mid" : "end";
  const std::string signal = signal_instruction();
  const auto text = [](const char* which, const char* what, const std::string& order) {
    return fmt::format("pull.cpp: {} barrier {} ({})", which, what, order);
  };
  const machine::Scope scope = orders_.scope, sys = machine::Scope::sys;
  switch (site) {
    case kStartPut:
      return text("start", "put", how(orders_.start.put, scope) + " " + signal);
    case kStartWait:
      return text("start", "wait", how(orders_.start.wait, scope) + " load");
    case kStartClear:
      return text("start", "clear", how(Order::relaxed, scope) + " store");
    case kEndPut:
      return text(last, "put", how(orders_.second.put, scope) + " " + signal);
    case kEndWait:
      return text(last, "wait", how(orders_.second.wait, scope) + " load");
    case kEndClear:
      return text(last, "clear", how(Order::relaxed, scope) + " store");
    case kStartSync:
      return "pull.cpp: block barrier after the start barrier";
    case kEndSync:
      return fmt::format("pull.cpp: block barrier before the {} barrier", last);
    case kGatherSync:
      return "pull.cpp: block barrier after the mid barrier";
    case kLoadInput:
      return fmt::format("pull.cpp: load of a peer's input ({})", how(orders_.load, sys));
    case kStoreStaging:
      return fmt::format("pull.cpp: store to the staging buffer ({})", how(orders_.st, sys));
    case kLoadStaging:
      return fmt::format("pull.cpp: load of a peer's staging buffer ({})", how(orders_.load, sys));
    default:
      return fmt::format("site {}", site);
  }
}

}  // namespace ringfence::programs
