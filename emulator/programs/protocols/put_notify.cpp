// Two-phase put and notify: data is put into the peer's memory and a signal behind it, twice.
//
// Rank r owns rows as in tokenweave. In call c, for the same block on all ranks:
//   1. puts its partials of the rows of rank q into q's inbox; block barrier; notify: thread t
//      stores c + 1 into the peer's first slot; wait: own slots GE c + 1; block barrier
//   2. sums its own rows out of its inbox and puts them into every rank's `out`; block barrier;
//      second notify and wait, of the second slots
// The second notify also tells that the inbox was read, and the first one of the next call that
// the results were: so nothing else guards what is written again.

#include <fmt/format.h>

#include "emulator/programs/exchange.hpp"
#include "emulator/programs/protocol.hpp"

namespace ringfence::programs {

using machine::Access;
using machine::Compare;
using machine::Order;
using machine::RegionKind;

namespace {

struct PutNotifySwitches : Switches {
  machine::Order load = machine::Order::weak, put = machine::Order::weak;
  machine::Order signal = machine::Order::release, wait = machine::Order::acquire;
  bool block_barrier = true;  // before either notify
  bool second_notify = true;

  void list(SwitchList& list) {
    list.order("ld.order", Orders::read, load);
    list.none("notify.block_barrier", block_barrier);
    list.order("put.order", Orders::write, put);
    list.order("signal.order", Orders::red, signal);
    list.order("wait.order", Orders::poll, wait);
    list.none("second_notify", second_notify);
    list_scope(list);
  }
  void check(const Config&, const verify::Problem&) const {}
};

class PutNotify final : public Exchange {
 public:
  PutNotify(const Config& config, const PutNotifySwitches& switches);

 protected:
  void kernel(Lane& lane) override;
  std::string own_site_name(std::uint16_t site) const override;
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override;
  std::uint32_t slot_at_end(const RegionInfo&, std::uint64_t) const override {
    return payload().calls();
  }

 private:
  enum OwnSite : std::uint16_t {
    kLoadInput = kFirstOwn,
    kPutPartial,
    kPutSync,
    kNotify,
    kWait,
    kWaitSync,
    kLoadInbox,
    kPutResult,
    kResultSync,
    kSecondNotify,
    kSecondWait,
  };
  void notify(Lane& lane, bool second);

  const PutNotifySwitches switches_;
  std::uint64_t part_bytes_;                // of one sender's rows in an inbox
  std::vector<std::uint32_t> inbox_, pad_;  // regions, by rank
};

PutNotify::PutNotify(const Config& config, const PutNotifySwitches& switches)
    : Exchange(config, switches),
      switches_(switches),
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
  if (switches_.block_barrier) lane.agent.sync(lane.block, kPutSync);
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
  if (switches_.block_barrier) lane.agent.sync(lane.block, kResultSync);
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

}  // namespace

ProtocolDefinition put_notify() {
  using enum machine::Boundary;
  return define_protocol<PutNotify, PutNotifySwitches>(
      "put-notify", "puts of partials and then of results, each with a signal behind it",
      {strict, stream, coherent});
}

}  // namespace ringfence::programs
