#include "emulator/programs/protocols/put_notify.hpp"

#include <fmt/format.h>

namespace ringfence::programs {

using machine::Access;
using machine::Compare;
using machine::Order;
using machine::RegionKind;

PutNotify::PutNotify(const Config& config)
    : Exchange(config),
      part_bytes_(static_cast<std::uint64_t>(payload().problem().tokens) / ranks() * row_bytes()) {
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    inbox_.push_back(add_region("inbox", r, 0, RegionKind::data, part_bytes_ * ranks()));
    pad_.push_back(add_counters("pad", r, std::uint64_t{blocks()} * 2 * ranks() * kSlotBytes));
  }
}

void PutNotify::kernel(Lane& lane) {
  const std::uint32_t me = lane.place.rank;
  const verify::Problem& p = lane.call.problem;
  const Access put = words(switches_.put, kPutPartial);
  // The row of a rank's slice, as it lies in the inbox part of that sender.
  const auto inbox = [&](std::uint32_t owner, std::uint32_t from, std::int64_t row) {
    const std::int64_t first = p.rows_of(static_cast<int>(owner)).begin;
    return at(inbox_[owner],
              from * part_bytes_ + static_cast<std::uint64_t>(row - first) * row_bytes());
  };

  std::vector<std::uint16_t> mine(hidden());
  for (std::uint16_t owner = 0; owner < ranks(); ++owner) {
    for_rows(lane, p.rows_of(owner), [&](std::int64_t row) {
      lane.agent.read(row_of(input_, me, row), words(Order::weak, kLoadInput),
                      std::as_writable_bytes(std::span(mine)));
      store_row(lane, inbox(owner, me, row), put, mine);
    });
  }
  if (switches_.end_block_barrier) lane.agent.sync(lane.block, kPutSync);
  notify(lane, false);
  lane.agent.sync(lane.block, kWaitSync);

  Access result = put;
  result.site = kPutResult;
  std::vector<std::uint16_t> parts(ranks() * hidden());
  for_rows(lane, p.rows_of(static_cast<int>(me)), [&](std::int64_t row) {
    for (std::uint16_t from = 0; from < ranks(); ++from) {
      load_row(lane, inbox(me, from, row), words(switches_.load, kLoadInbox),
               std::span(parts).subspan(from * hidden(), hidden()));
    }
    const auto out = compute(lane, row, parts);
    for (std::uint16_t peer = 0; peer < ranks(); ++peer) {
      store_row(lane, row_of(out_, peer, row), result, out);
    }
  });
  if (switches_.end_block_barrier) lane.agent.sync(lane.block, kResultSync);
  if (switches_.second_notify) notify(lane, true);
}

void PutNotify::notify(Lane& lane, bool second) {
  const std::uint32_t me = lane.place.rank, peer = lane.thread;
  if (peer >= ranks()) return;
  const auto slot = [&](std::uint32_t from) {
    return ((std::uint64_t{lane.block_index} * 2 + (second ? 1 : 0)) * ranks() + from) * kSlotBytes;
  };
  Access signal{switches_.signal,
                switches_.scope,
                kSlotBytes,
                machine::Proxy::generic,
                false,
                static_cast<std::uint16_t>(second ? kSecondNotify : kNotify)};
  Access poll = signal;
  poll.order = switches_.wait;
  poll.site = second ? kSecondWait : kWait;
  const std::uint32_t value = lane.place.call + 1;
  lane.agent.write(at(pad_[peer], slot(me)), signal, std::as_bytes(std::span(&value, 1)));
  lane.agent.await(at(pad_[me], slot(peer)), poll, {Compare::ge, value});
}

schedule::SlotName PutNotify::slot_of(const RegionInfo& region, std::uint64_t offset) const {
  const auto slot = static_cast<std::uint32_t>(offset / kSlotBytes);
  const std::uint32_t from = slot % ranks(), block = slot / ranks() / 2;
  schedule::SlotName name;
  name.text = fmt::format("{} slot of rank {}, block {}, from rank {}",
                          slot / ranks() % 2 == 0 ? "first" : "second", region.rank, block, from);
  name.writer = fmt::format("r{}.b{}.t{}", from, block, region.rank);
  return name;
}

std::string PutNotify::own_site_name(std::uint16_t site) const {
  const auto text = [](const char* what, const std::string& order) {
    return fmt::format("put_notify.cpp: {} ({})", what, order);
  };
  const machine::Scope scope = switches_.scope, sys = machine::Scope::sys;
  switch (site) {
    case kLoadInput:
      return text("load of the own partial sums", "weak");
    case kPutPartial:
      return text("put of partial sums into an inbox", how(switches_.put, sys));
    case kPutSync:
      return "put_notify.cpp: block barrier before notify";
    case kNotify:
      return text("notify", how(switches_.signal, scope));
    case kWait:
      return text("wait", how(switches_.wait, scope));
    case kWaitSync:
      return "put_notify.cpp: block barrier after the wait";
    case kLoadInbox:
      return text("load from the inbox", how(switches_.load, sys));
    case kPutResult:
      return text("put of a row of results", how(switches_.put, sys));
    case kResultSync:
      return "put_notify.cpp: block barrier before the second notify";
    case kSecondNotify:
      return text("second notify", how(switches_.signal, scope));
    case kSecondWait:
      return text("second wait", how(switches_.wait, scope));
    default:
      return fmt::format("site {}", site);
  }
}

}  // namespace ringfence::programs
