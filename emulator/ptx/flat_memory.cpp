#include "emulator/ptx/flat_memory.hpp"

#include <cstdio>
#include <cstring>

#include "emulator/ptx/atomic.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::uint64_t kBase = 0x1000000000ULL;
constexpr unsigned kPageBits = 21;
constexpr std::uint64_t kPage = 1ULL << kPageBits;

std::string hex(std::uint64_t value) {
  char text[20];
  static_cast<void>(
      std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value)));
  return text;
}

// Memory to register lanes; kSize and kLane are bytes.
template <unsigned kSize, unsigned kLane>
void gather(const Request& request, const std::byte* base, std::uint64_t origin,
            unsigned elements) {
  using Value = std::conditional_t<kLane == 8, std::uint64_t, std::uint32_t>;
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const std::byte* from = base + (request.address[lane] - origin);
    for (unsigned e = 0; e < elements; ++e) {
      Value value = 0;
      std::memcpy(&value, from + e * kSize, kSize);
      std::memcpy(request.elements[e] + lane * kLane, &value, kLane);
    }
  });
}
template <unsigned kSize, unsigned kLane>
void scatter(const Request& request, std::byte* base, std::uint64_t origin, unsigned elements) {
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    std::byte* to = base + (request.address[lane] - origin);
    for (unsigned e = 0; e < elements; ++e) {
      std::memcpy(to + e * kSize, request.elements[e] + lane * kLane, kSize);
    }
  });
}

template <template <unsigned, unsigned> class Move, class... Arguments>
void by_size(unsigned size, unsigned lane, Arguments&&... arguments) {
  const unsigned key = size * 16 + lane;
  switch (key) {
    case 1 * 16 + 4:
      return Move<1, 4>::run(arguments...);
    case 2 * 16 + 4:
      return Move<2, 4>::run(arguments...);
    case 4 * 16 + 4:
      return Move<4, 4>::run(arguments...);
    case 1 * 16 + 8:
      return Move<1, 8>::run(arguments...);
    case 2 * 16 + 8:
      return Move<2, 8>::run(arguments...);
    case 4 * 16 + 8:
      return Move<4, 8>::run(arguments...);
    default:
      return Move<8, 8>::run(arguments...);
  }
}
template <unsigned kSize, unsigned kLane>
struct Gather {
  static void run(const Request& r, const std::byte* b, std::uint64_t o, unsigned e) {
    gather<kSize, kLane>(r, b, o, e);
  }
};
template <unsigned kSize, unsigned kLane>
struct Scatter {
  static void run(const Request& r, std::byte* b, std::uint64_t o, unsigned e) {
    scatter<kSize, kLane>(r, b, o, e);
  }
};

}  // namespace

FlatMemory::FlatMemory(std::uint32_t ranks, SumPolicy policy, std::uint64_t seed)
    : ranks_(ranks), policy_(policy), seed_(seed) {}

std::uint64_t FlatMemory::map(Region region) {
  region.address = kBase + pages_.size() * kPage;
  const auto index = static_cast<std::int32_t>(regions_.size());
  // One page stays empty behind each region, so that a run past its end is caught.
  const std::uint64_t pages = (region.bytes + kPage - 1) / kPage;
  pages_.insert(pages_.end(), pages, index);
  pages_.push_back(-1);
  regions_.push_back(std::move(region));
  return regions_.back().address;
}

FlatMemory::Symmetric FlatMemory::symmetric(std::string name, std::uint64_t bytes) {
  Symmetric out;
  Region multicast{name + " (multicast)", 0, bytes, true, {}};
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    storage_.push_back(std::make_unique<std::byte[]>(bytes));
    multicast.replicas.push_back(storage_.back().get());
    out.unicast.push_back(
        map({name + " of rank " + std::to_string(rank), 0, bytes, false, {storage_.back().get()}}));
  }
  out.multicast = map(std::move(multicast));
  return out;
}

std::uint64_t FlatMemory::allocate(std::string name, std::uint32_t rank, std::uint64_t bytes) {
  storage_.push_back(std::make_unique<std::byte[]>(bytes));
  return map({std::move(name) + " of rank " + std::to_string(rank),
              0,
              bytes,
              false,
              {storage_.back().get()}});
}

const FlatMemory::Region* FlatMemory::find(std::uint64_t address) const {
  const std::uint64_t page = (address - kBase) >> kPageBits;
  if (page >= pages_.size() || pages_[page] < 0) return nullptr;
  return &regions_[static_cast<std::size_t>(pages_[page])];
}

std::byte* FlatMemory::at(std::uint64_t address, std::uint64_t bytes) {
  const Region* region = find(address);
  if (region == nullptr || region->multicast || address - region->address + bytes > region->bytes) {
    throw Fault(FaultKind::out_of_bounds, "no memory at " + hex(address));
  }
  return region->replicas[0] + (address - region->address);
}

const FlatMemory::Region* FlatMemory::check(const Request& request, bool multicast) const {
  const std::uint32_t bytes = request.access->bytes();
  const std::uint32_t mask = request.agents.mask;
  if (const Region* region = find(request.address[first_lane(mask)]);
      region != nullptr && region->multicast == multicast && region->bytes >= bytes) {
    // One pass: each offset at most bytes - size, and aligned. An address before the region wraps.
    const std::uint64_t most = region->bytes - bytes;
    const std::uint64_t low = bytes - 1;
    std::uint64_t bad = 0;
    each_lane(mask, [&](std::uint32_t lane) {
      const std::uint64_t offset = request.address[lane] - region->address;
      bad |= (offset & low) | static_cast<std::uint64_t>(offset > most);
    });
    if (bad == 0) return region;
  }
  // Find the lane at fault.
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const std::uint32_t lane = first_lane(left);
    const std::uint64_t address = request.address[lane];
    const Region* own = find(address);
    if (own == nullptr || address - own->address + bytes > own->bytes) {
      throw Fault(FaultKind::out_of_bounds,
                  "access of " + std::to_string(bytes) + " bytes at " + hex(address) +
                      (own == nullptr ? ", where no memory is"
                                      : ", beyond '" + own->name + "' of " +
                                            std::to_string(own->bytes) + " bytes"),
                  lane);
    }
    if (own->multicast != multicast) {
      throw Fault(FaultKind::multicast_misuse,
                  multicast ? "multimem access to '" + own->name + "', which is no multicast memory"
                            : "non-multimem access to '" + own->name + "'",
                  lane);
    }
    if (address % bytes != 0) {
      throw Fault(FaultKind::misaligned,
                  "address " + hex(address) + " in '" + own->name + "' is not aligned to " +
                      std::to_string(bytes) + " bytes",
                  lane);
    }
  }
  return nullptr;  // every lane is right by itself, but they lie in several regions
}

void FlatMemory::load(Request& request, const Region& region) const {
  by_size<Gather>(size_of(request.access->type), request.lane_bytes, request, region.replicas[0],
                  region.address, request.access->elements);
}

void FlatMemory::store(Request& request, const Region& region, std::byte* base) const {
  by_size<Scatter>(size_of(request.access->type), request.lane_bytes, request, base, region.address,
                   request.access->elements);
}

void FlatMemory::atomic(Request& request, const Region& region, std::byte* base) const {
  const Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    std::byte* at = base + (request.address[lane] - region.address);
    if (access.whole) {
      request.yield = !exchange_whole(request, lane, at) || request.yield;
      return;
    }
    std::uint64_t operands[kMostElements] = {};
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::memcpy(&operands[e], request.elements[e] + lane * request.lane_bytes, size);
    }
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::uint64_t old = 0;
      std::uint64_t compare = 0;
      std::memcpy(&old, at + e * size, size);
      if (request.compare != nullptr) {
        std::memcpy(&compare, request.compare + lane * request.lane_bytes, size);
        request.yield = request.yield || old != compare;
      }
      const std::uint64_t fresh =
          apply_atomic(access.combine, access.type, access.flush, old, operands[e], compare);
      std::memcpy(at + e * size, &fresh, size);
      if (request.results[e] != nullptr) {
        std::memcpy(request.results[e] + lane * request.lane_bytes, &old, request.lane_bytes);
      }
    }
  });
}

void FlatMemory::load_reduce(Request& request, const Region& region) {
  const Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const std::uint64_t seed = seed_ + requests_ * kLanes;
  const std::uint32_t mask = request.agents.mask;
  if (size == 4 && request.lane_bytes == 4) {
    alignas(64) std::uint32_t gathered[64][kLanes];
    const std::uint32_t* lanes[64];
    alignas(64) std::uint32_t sums[kLanes];
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      for (std::size_t r = 0; r < region.replicas.size(); ++r) {
        if (mask != 0xFFFFFFFFU) std::memset(gathered[r], 0, sizeof gathered[r]);
        const std::byte* base = region.replicas[r] + e * size;
        each_lane(mask, [&](std::uint32_t lane) {
          std::memcpy(&gathered[r][lane], base + (request.address[lane] - region.address), 4);
        });
        lanes[r] = gathered[r];
      }
      reduce_replica_lanes(access, policy_, seed + e, std::span(lanes, region.replicas.size()),
                           sums);
      each_lane(mask, [&](std::uint32_t lane) {
        std::memcpy(request.elements[e] + lane * 4, &sums[lane], 4);
      });
    }
    return;
  }
  each_lane(mask, [&](std::uint32_t lane) {
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::uint64_t values[64] = {};
      for (std::size_t r = 0; r < region.replicas.size(); ++r) {
        std::memcpy(&values[r],
                    region.replicas[r] + (request.address[lane] - region.address) + e * size, size);
      }
      const std::uint64_t out = reduce_replicas(access, policy_, seed + lane + e,
                                                std::span(values, region.replicas.size()));
      std::memcpy(request.elements[e] + lane * request.lane_bytes, &out, request.lane_bytes);
    }
  });
}

void FlatMemory::access(Request& request) {
  ++requests_;
  const Access& access = *request.access;
  const bool multicast = access.operation >= Operation::multimem_load_reduce;
  const Region* found = check(request, multicast);
  const std::uint32_t all = request.agents.mask;
  if (found == nullptr) {
    // Tables of peers: go one by one.
    for (std::uint32_t left = all; left != 0; left &= left - 1) {
      request.agents.mask = left & (0U - left);
      this->access(request);
    }
    request.agents.mask = all;
    request.completed = all;
    return;
  }
  const Region& region = *found;
  switch (access.operation) {
    case Operation::load:
      load(request, region);
      request.yield = access.order != Order::weak;
      break;
    case Operation::store:
      store(request, region, region.replicas[0]);
      break;
    case Operation::atomic:
    case Operation::reduce:
      atomic(request, region, region.replicas[0]);
      break;
    case Operation::multimem_load_reduce:
      load_reduce(request, region);
      break;
    case Operation::multimem_store:
      for (std::byte* replica : region.replicas) store(request, region, replica);
      break;
    case Operation::multimem_reduce:
      for (std::byte* replica : region.replicas) atomic(request, region, replica);
      break;
  }
  request.completed = all;
}

}  // namespace ringfence::ptx
