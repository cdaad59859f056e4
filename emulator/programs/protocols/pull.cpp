#include "emulator/programs/protocols/pull.hpp"

#include <fmt/format.h>

namespace ringfence::programs {

using machine::Access;
using machine::Compare;
using machine::Order;
using machine::Proxy;
using machine::RegionKind;
using schedule::Agent;

namespace {

std::uint64_t add(std::uint64_t old, std::uint64_t operand) {
  return (old + operand) & 0xffffffffu;
}

}  // namespace

bool Pull::is_one(const std::string& protocol) {
  return protocol == "epoch-inbox" || protocol == "multimem-counter" || protocol == "mod3-flag" ||
         protocol == "counter-two-shot" || protocol == "flag-two-shot";
}

Pull::Kind Pull::kind_of(const std::string& protocol) {
  return protocol == "epoch-inbox"        ? Kind::epoch
         : protocol == "multimem-counter" ? Kind::counter
         : protocol == "mod3-flag"        ? Kind::mod3
         : protocol == "counter-two-shot" ? Kind::two_counters
                                          : Kind::two_flags;
}

Pull::Pull(const Config& config) : Exchange(config), kind_(kind_of(config.protocol)) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(payload().problem().tokens) * row_bytes();
  const std::uint64_t slots = slot(blocks(), 0, 0);
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    if (two_shot()) staging_.push_back(add_region("staging", r, 0, RegionKind::data, bytes));
    // An inbox and a flag mod 3 may go on before everybody saw a value; so they mean to.
    const bool counts = kind_ == Kind::epoch || kind_ == Kind::mod3;
    pad_.push_back(counts ? add_counters("pad", r, slots)
                          : add_region("pad", r, 0, RegionKind::signal, slots));
  }
}

std::uint32_t Pull::sets() const { return two_shot() ? 2 : 1; }

std::uint64_t Pull::slot(std::uint32_t block, std::uint32_t set, std::uint32_t from) const {
  const std::uint64_t senders = kind_ == Kind::counter ? 1 : ranks();
  return ((std::uint64_t{block} * sets() + set) * senders + from) * kSlotBytes;
}

void Pull::kernel(Lane& lane) {
  const verify::RowRange all{0, lane.call.problem.tokens};
  const verify::RowRange own = two_shot() ? lane.call.problem.rows_of(lane.place.rank) : all;
  if (switches_.start) barrier(lane, true);
  lane.agent.sync(lane.block, kStartSync);
  std::vector<std::uint16_t> parts(ranks() * hidden());
  for_rows(lane, own, [&](std::int64_t row) {
    for (std::uint16_t peer = 0; peer < ranks(); ++peer) {
      load_row(lane, row_of(input_, peer, row), words(switches_.load, kLoadInput),
               std::span(parts).subspan(peer * hidden(), hidden()));
    }
    const auto out = compute(lane, row, parts);
    if (two_shot()) {
      store_row(lane, row_of(staging_, lane.place.rank, row), words(switches_.st, kStoreStaging),
                out);
    } else {
      store_row(lane, out_row(lane.place, row), words(Order::weak, kStoreOut), out);
    }
  });
  if (switches_.end_block_barrier) lane.agent.sync(lane.block, kEndSync);
  if (two_shot() ? switches_.mid : switches_.end) barrier(lane, false);
  if (!two_shot()) return;
  lane.agent.sync(lane.block, kGatherSync);
  std::vector<std::uint16_t> row_of_peer(hidden());
  for (std::uint16_t peer = 0; peer < ranks(); ++peer) {
    for_rows(lane, lane.call.problem.rows_of(peer), [&](std::int64_t row) {
      load_row(lane, row_of(staging_, peer, row), words(switches_.load, kLoadStaging), row_of_peer);
      store_row(lane, out_row(lane.place, row), words(Order::weak, kStoreOut), row_of_peer);
    });
  }
}

void Pull::put(Lane& lane, machine::Address to, const Access& access, std::uint32_t value) {
  lane.agent.write(to, access, std::as_bytes(std::span(&value, 1)));
}

void Pull::barrier(Lane& lane, bool start) {
  const std::uint32_t me = lane.place.rank, peer = lane.thread, block = lane.block_index;
  if (peer >= ranks()) return;
  const std::uint32_t n = lane.place.call * 2 + (start ? 0 : 1);
  Access signal{start ? switches_.start_put : switches_.end_put,
                switches_.scope,
                kSlotBytes,
                Proxy::generic,
                false,
                start ? kStartPut : kEndPut};
  Access poll = signal;
  poll.order = start ? switches_.start_wait : switches_.end_wait;
  poll.site = start ? kStartWait : kEndWait;
  const auto theirs = [&](std::uint32_t set) { return at(pad_[peer], slot(block, set, me)); };
  const auto ours = [&](std::uint32_t set) { return at(pad_[me], slot(block, set, peer)); };

  switch (kind_) {
    case Kind::epoch: {
      const std::uint32_t epoch = (switches_.epoch_restarts ? n % 2 : n) + 1;
      put(lane, theirs(0), signal, epoch);
      lane.agent.await(ours(0), poll, {Compare::ge, epoch});
      return;
    }
    case Kind::counter: {
      if (peer != 0) return;  // one thread signals and waits for all
      signal.proxy = Proxy::multicast;
      {
        const Agent::OneInstruction multimem_red(lane.agent, signal);
        const std::uint32_t one = 1;
        for (std::uint16_t r = 0; r < ranks(); ++r) {
          lane.agent.reduce(at(pad_[r], slot(block, 0, 0)), signal,
                            std::as_bytes(std::span(&one, 1)), add);
        }
      }
      lane.agent.await(at(pad_[me], slot(block, 0, 0)), poll,
                       {switches_.total_exactly ? Compare::eq : Compare::ge, (n + 1) * ranks()});
      return;
    }
    case Kind::mod3: {
      const std::uint32_t m = switches_.modulus;
      put(lane, theirs(0), signal, (n + 1) % m);
      lane.agent.await(ours(0), poll, {Compare::ne, n % m});
      return;
    }
    case Kind::two_counters: {
      const std::uint32_t set = switches_.one_flag_set ? 0 : n % 2;
      put(lane, theirs(set), signal, n + 1);
      lane.agent.await(ours(set), poll, {Compare::eq, n + 1});
      return;
    }
    case Kind::two_flags: {
      const std::uint32_t set = switches_.flags_shared || start ? 0 : 1;
      Access clear = signal;
      clear.order = Order::relaxed;
      clear.site = start ? kStartClear : kEndClear;
      if (!switches_.flags_shared) put(lane, ours(1 - set), clear, 0);
      put(lane, theirs(set), signal, 1);
      lane.agent.await(ours(set), poll, {Compare::eq, 1});
      if (switches_.flags_shared) put(lane, ours(set), clear, 0);
      return;
    }
  }
}

// -- names ----------------------------------------------------------------------------------------

std::uint32_t Pull::slot_at_end(const RegionInfo&, std::uint64_t offset) const {
  const std::uint32_t barriers = payload().calls() * 2;
  const auto set = static_cast<std::uint32_t>(offset / kSlotBytes / ranks() % sets());
  switch (kind_) {
    case Kind::epoch:
      return switches_.epoch_restarts ? 2 : barriers;
    case Kind::counter:
      return barriers * ranks();
    case Kind::mod3:
      return barriers % switches_.modulus;
    case Kind::two_counters:
      return switches_.one_flag_set ? (set == 0 ? barriers : 0) : barriers - 1 + set;
    case Kind::two_flags:
      return switches_.flags_shared ? 0 : set;
  }
  return 0;
}

schedule::SlotName Pull::slot_of(const RegionInfo& region, std::uint64_t offset) const {
  const auto slot = static_cast<std::uint32_t>(offset / kSlotBytes);
  schedule::SlotName name;
  if (kind_ == Kind::counter) {
    name.text = fmt::format("counter of rank {}, block {}", region.rank, slot);
    name.writer = fmt::format("every rank's b{}.t0", slot);
    return name;
  }
  const std::uint32_t from = slot % ranks(), block = slot / ranks() / sets();
  const std::uint32_t set = slot / ranks() % sets();
  const char* which = sets() == 1                ? ""
                      : kind_ == Kind::two_flags ? (set == 0 ? "start " : "mid ")
                                                 : (set == 0 ? "even " : "odd ");
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
  const char* signal = kind_ == Kind::counter ? "multimem.red.add" : "store";
  const auto text = [](const char* which, const char* what, const std::string& order) {
    return fmt::format("pull.cpp: {} barrier {} ({})", which, what, order);
  };
  const machine::Scope scope = switches_.scope, sys = machine::Scope::sys;
  switch (site) {
    case kStartPut:
      return text("start", "put", how(switches_.start_put, scope) + " " + signal);
    case kStartWait:
      return text("start", "wait", how(switches_.start_wait, scope) + " load");
    case kStartClear:
      return text("start", "clear", how(Order::relaxed, scope) + " store");
    case kEndPut:
      return text(last, "put", how(switches_.end_put, scope) + " " + signal);
    case kEndWait:
      return text(last, "wait", how(switches_.end_wait, scope) + " load");
    case kEndClear:
      return text(last, "clear", how(Order::relaxed, scope) + " store");
    case kStartSync:
      return "pull.cpp: block barrier after the start barrier";
    case kEndSync:
      return fmt::format("pull.cpp: block barrier before the {} barrier", last);
    case kGatherSync:
      return "pull.cpp: block barrier after the mid barrier";
    case kLoadInput:
      return fmt::format("pull.cpp: load of a peer's input ({})", how(switches_.load, sys));
    case kStoreStaging:
      return fmt::format("pull.cpp: store to the staging buffer ({})", how(switches_.st, sys));
    case kLoadStaging:
      return fmt::format("pull.cpp: load of a peer's staging buffer ({})",
                         how(switches_.load, sys));
    default:
      return fmt::format("site {}", site);
  }
}

}  // namespace ringfence::programs
