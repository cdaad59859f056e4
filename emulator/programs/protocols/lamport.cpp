// All-reduce by Lamport's rule: data that says by its value that it has come. No barrier at all.
//
// Each rank has three buffers of R parts. In call f a rank
//   1. pushes its partials (a -0.0 in them made +0.0) into buffer f mod 3 of every rank;
//   2. clears its own buffer of the call before with the sentinel -0.0, as many rows as that had;
//   3. polls its own buffer f mod 3, word by word, until no word is the sentinel; sums, norms.
// A peer pushes into the buffer cleared in call f again only in call f + 2, after it saw what this
// rank pushed in call f + 1, behind the clearing. Two buffers lose what comes between.

#include <fmt/format.h>

#include <cstring>

#include "emulator/programs/exchange.hpp"
#include "emulator/programs/protocol.hpp"

namespace ringfence::programs {

using machine::Access;
using machine::Compare;
using machine::Order;
using machine::RegionKind;

namespace {

struct LamportSwitches : Switches {
  machine::Order load = machine::Order::relaxed;  // of the polls
  machine::Order st = machine::Order::relaxed, clear = machine::Order::relaxed;
  std::uint32_t buffers = 3;
  bool clear_own_size = false;  // clears the rows of this call, not of the one before
  bool clear_data = true;

  void list(SwitchList& list) {
    list.order("ld.order", Orders::poll, load);
    list.order("st.order", Orders::red, st);
    list.number(
        "buffers", "2", "2 or 3", 2, 3,
        [this](std::uint64_t n) { buffers = static_cast<std::uint32_t>(n); }, true);
    list.order("clear.order", Orders::red, clear);
    list.word("clear.size", "this-call", clear_own_size);
    list.none("clear.data", clear_data);
    list_scope(list);
  }
  void check(const Config&, const verify::Problem&) const {}
};

class Lamport final : public Exchange {
 public:
  Lamport(const Config& config, const LamportSwitches& switches);

  void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) override;

 protected:
  void kernel(Lane& lane) override;
  std::string own_site_name(std::uint16_t site) const override;
  schedule::SlotName slot_of(const RegionInfo&, std::uint64_t) const override { return {}; }

 private:
  static constexpr std::uint16_t kSentinelHalf = 0x8000;
  static constexpr std::uint32_t kSentinel = 0x80008000;
  enum OwnSite : std::uint16_t { kLoadInput = kFirstOwn, kPush, kClear, kPoll };
  machine::Address part(std::uint32_t rank, std::uint32_t buffer, std::uint32_t from,
                        std::int64_t row) const;

  const LamportSwitches switches_;
  std::uint64_t part_bytes_;
  std::vector<std::uint32_t> mailbox_;  // regions, by rank
};

Lamport::Lamport(const Config& config, const LamportSwitches& switches)
    : Exchange(config, switches),
      switches_(switches),
      part_bytes_(static_cast<std::uint64_t>(payload().problem().tokens) * row_bytes()) {
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    mailbox_.push_back(
        add_region("mailbox", r, 0, RegionKind::data, part_bytes_ * ranks() * switches_.buffers));
    polled_by_word(mailbox_.back());
  }
}

void Lamport::set_up(machine::Machine& machine, std::pmr::memory_resource* shared) {
  Exchange::set_up(machine, shared);
  const std::vector<std::uint32_t> empty(part_bytes_ * ranks() * switches_.buffers / kWordBytes,
                                         kSentinel);
  for (const std::uint32_t region : mailbox_) {
    machine.set_initial(at(region, 0), std::as_bytes(std::span(empty)));
  }
}

machine::Address Lamport::part(std::uint32_t rank, std::uint32_t buffer, std::uint32_t from,
                               std::int64_t row) const {
  return at(mailbox_[rank], (std::uint64_t{buffer} * ranks() + from) * part_bytes_ +
                                static_cast<std::uint64_t>(row) * row_bytes());
}

void Lamport::kernel(Lane& lane) {
  const std::uint32_t call = lane.place.call, me = lane.place.rank, n = switches_.buffers;
  const verify::RowRange rows{0, lane.call.problem.tokens};
  const Access push{switches_.st, switches_.scope, kWordBytes, machine::Proxy::generic, false,
                    kPush};
  std::vector<std::uint16_t> row_of_mine(hidden());
  for_rows(lane, rows, [&](std::int64_t row) {
    lane.agent.read(row_of(input_, me, row), words(Order::weak, kLoadInput),
                    std::as_writable_bytes(std::span(row_of_mine)));
    for (std::uint16_t& half : row_of_mine) {
      if (half == kSentinelHalf) half = 0;
    }
    for (std::uint16_t peer = 0; peer < ranks(); ++peer) {
      store_row(lane, part(peer, call % n, me, row), push, row_of_mine);
    }
  });

  if (switches_.clear_data && call > 0) {
    Access clear = push;
    clear.order = switches_.clear;
    clear.site = kClear;
    const std::vector<std::uint16_t> empty(hidden(), kSentinelHalf);
    const verify::RowRange before{
        0, switches_.clear_own_size ? rows.end : payload().call(0, call - 1).problem.tokens};
    for_rows(lane, before, [&](std::int64_t row) {
      for (std::uint16_t from = 0; from < ranks(); ++from) {
        store_row(lane, part(me, (call - 1) % n, from, row), clear, empty);
      }
    });
  }

  Access poll = push;
  poll.order = switches_.load;
  poll.site = kPoll;
  std::vector<std::uint16_t> parts(ranks() * hidden());
  for_rows(lane, rows, [&](std::int64_t row) {
    for (std::uint16_t from = 0; from < ranks(); ++from) {
      const machine::Address here = part(me, call % n, from, row);
      for (std::size_t i = 0; i < hidden(); i += kWordBytes / 2) {
        const auto word = static_cast<std::uint32_t>(lane.agent.await_value(
            {here.region, here.offset + i * 2}, poll, {Compare::ne, kSentinel}));
        std::memcpy(parts.data() + from * hidden() + i, &word, kWordBytes);
      }
    }
    store_row(lane, out_row(lane.place, row), words(Order::weak, kStoreOut),
              compute(lane, row, parts));
  });
}

std::string Lamport::own_site_name(std::uint16_t site) const {
  switch (site) {
    case kLoadInput:
      return "lamport.cpp: load of the own partial sums (weak)";
    case kPush:
      return fmt::format("lamport.cpp: push into a mailbox ({})",
                         how(switches_.st, switches_.scope));
    case kClear:
      return fmt::format("lamport.cpp: clearing of the call before's buffer ({})",
                         how(switches_.clear, switches_.scope));
    case kPoll:
      return fmt::format("lamport.cpp: poll of a word ({})", how(switches_.load, switches_.scope));
    default:
      return fmt::format("site {}", site);
  }
}

}  // namespace

ProtocolDefinition lamport() {
  using enum machine::Boundary;
  return define_protocol<Lamport, LamportSwitches>(
      "lamport", "one-shot push of words that are no sentinel, into three buffers in turn",
      {stream, coherent});
}

}  // namespace ringfence::programs
