#include "emulator/programs/protocols/lamport.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ringfence::programs {

using machine::Access;
using machine::Compare;
using machine::Order;
using machine::RegionKind;

Lamport::Lamport(const Config& config)
    : Exchange(config),
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
        const auto word = static_cast<std::uint32_t>(
            lane.agent.await({here.region, here.offset + i * 2}, poll, {Compare::ne, kSentinel}));
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

}  // namespace ringfence::programs
