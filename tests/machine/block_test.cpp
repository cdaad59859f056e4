// Blocks of lines: accesses that are taken together say what they say one by one.
//
// A machine with a listener takes every access line by line, so the same run on a machine with one
// and on a machine without is the comparison: bytes read, findings, steps, and the questions put to
// the chooser, on runs drawn at random from what kernels do: products, broadcasts, warps, flags
// with and without the orders that they need.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/names.hpp"

using namespace ringfence::machine;

namespace {

constexpr std::uint32_t kRanks = 2;
constexpr std::uint32_t kWarps = 2;  // a rank, of one block
constexpr std::uint32_t kLanes = 32;
constexpr std::uint64_t kBytes = 3 * kBlockBytes + 48;

struct Silent : Listener {
  void on_event(const Event&) override {}
};

// Answers from a seed, and keeps what was asked.
struct Asked : Chooser {
  explicit Asked(std::uint64_t seed) : random(seed) {}
  std::uint32_t choose(Choice kind, ThreadId who, std::uint32_t options) override {
    const auto answer = static_cast<std::uint32_t>(random() % options);
    log += std::to_string(static_cast<int>(kind)) + "/" + std::to_string(who) + "/" +
           std::to_string(options) + " ";
    return answer;
  }
  std::mt19937_64 random;
  std::string log;
};

std::string text(const Finding& f) {
  std::string s = std::string(name(f.kind));
  for (const AccessInfo* a : {&f.first, &f.second}) {
    s += " " + std::to_string(a->label) + "@" + std::to_string(a->step) + ":" +
         std::to_string(a->site) + "[" + std::to_string(a->region) + "+" +
         std::to_string(a->offset) + "," + std::to_string(a->bytes) + "]";
  }
  return s + " missing " + std::to_string(static_cast<int>(f.missing));
}

struct Result {
  std::string log;  // values read, findings, steps, questions, final bytes
  std::uint32_t together = 0;
  std::uint32_t alone = 0;
  std::uint32_t reduced = 0;  // reductions with less than a message a line
};

struct World {
  World(std::uint64_t seed, const Policy& policy, bool listened, bool ignore_races)
      : random(seed), asked(seed + 1), machine(std::pmr::new_delete_resource(), policy) {
    machine.set_chooser(&asked);
    if (listened) machine.set_listener(&silent);
    if (ignore_races) machine.ignore(FindingKind::data_race);
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      RegionSpec data;
      data.rank = static_cast<std::uint16_t>(r);
      data.bytes = kBytes;
      data.initialised = random() % 8 != 0;
      regions.push_back(machine.add_region(data));
    }
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      RegionSpec pad;
      pad.rank = static_cast<std::uint16_t>(r);
      pad.bytes = 64;
      pad.kind = RegionKind::signal;
      pads.push_back(machine.add_region(pad));
      streams.push_back(machine.add_stream(static_cast<std::uint16_t>(r)));
    }
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }

  std::mt19937_64 random;
  Asked asked;
  Silent silent;
  Machine machine;
  std::vector<RegionId> regions, pads;
  std::vector<StreamId> streams;
  Result result;

  Access access(bool read) {
    Access a;
    const std::uint32_t k = below(8);
    a.order = k < 3 ? Order::weak : k < 6 ? Order::relaxed : read ? Order::acquire : Order::release;
    a.scope = below(6) == 0 ? Scope::gpu : Scope::sys;
    a.element = below(2) == 0 ? 4 : 2;
    a.reaches_output = below(4) == 0;
    a.site = static_cast<std::uint16_t>(1 + below(9));
    return a;
  }
  void fill(std::span<std::byte> bytes) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  }
  void saw(std::span<const std::byte> bytes) {
    std::uint64_t hash = 1469598103934665603ULL;
    for (const std::byte b : bytes) hash = (hash ^ static_cast<unsigned>(b)) * 1099511628211ULL;
    result.log += std::to_string(hash) + " ";
  }

  void one_by_one(std::span<const ThreadId> lanes, std::span<const Address> places, const Access& a,
                  std::vector<std::byte>& bytes, bool read) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      for (std::size_t k = 0; k < places.size(); ++k) {
        const Address at{places[k].region, places[k].offset + i * kLineBytes};
        if (read) {
          machine.read(lanes[i], at, a,
                       std::span(bytes).subspan(k * kBlockBytes + i * kLineBytes, kLineBytes));
        } else {
          machine.write(lanes[i], at, a,
                        std::span(std::as_const(bytes)).subspan(i * kLineBytes, kLineBytes));
        }
      }
    }
  }

  // One step of a warp of `rank`.
  void warp(std::span<const ThreadId> lanes, std::uint32_t rank) {
    switch (below(10)) {
      case 0: {  // a flag
        Access a = access(false);
        a.element = 4;
        const ThreadId t = lanes[below(kLanes)];
        const Address at{pads[below(kRanks)], 4 * below(4)};
        result.log += std::to_string(machine.cas(t, at, a, below(2), below(2))) + " ";
        return;
      }
      case 1:
        machine.fence(lanes[below(kLanes)], Machine::Fence::acq_rel, Scope::sys);
        return;
      case 2: {  // one lane, one line or less
        const std::uint32_t bytes = 4U << below(3);
        std::vector<std::byte> buffer(bytes);
        Access a = access(true);
        const Address at{regions[below(kRanks)],
                         bytes * below(static_cast<std::uint32_t>(kBytes / bytes))};
        if (below(2) == 0) {
          machine.read(lanes[below(kLanes)], at, a, buffer);
          saw(buffer);
        } else {
          fill(buffer);
          if (a.order == Order::acquire) a.order = Order::release;
          machine.write(lanes[below(kLanes)], at, a, buffer);
        }
        return;
      }
      default:
        break;
    }
    const bool read = below(2) == 0;
    const Access a = access(read);
    std::vector<Address> places;
    const std::uint64_t offset = kBlockBytes * below(3) + (below(6) == 0 ? 16 : 0);
    if (below(2) == 0) {
      for (std::uint32_t r = 0; r < kRanks; ++r) places.push_back({regions[r], offset});
    } else {
      places.push_back({regions[below(4) == 0 ? 1 - rank : rank], offset});
    }
    std::vector<std::byte> bytes((read ? places.size() : 1) * kBlockBytes);
    if (!read) fill(bytes);
    const bool done = read ? machine.read_together(lanes, places, a, bytes)
                           : machine.write_together(lanes, places, a, bytes);
    ++(done ? result.together : result.alone);
    if (!done) one_by_one(lanes, places, a, bytes, read);
    if (read) saw(bytes);
  }

  void together(std::span<const ThreadId> lanes, const Address& at, const Access& a, bool read) {
    std::vector<std::byte> bytes(kBlockBytes);
    if (!read) fill(bytes);
    const bool done = read ? machine.read_together(lanes, std::span(&at, 1), a, bytes)
                           : machine.write_together(lanes, std::span(&at, 1), a, bytes);
    ++(done ? result.together : result.alone);
    if (!done) one_by_one(lanes, std::span(&at, 1), a, bytes, read);
    if (read) saw(bytes);
  }

  // A warp writes or reads a block, one of its lanes signals without a barrier before, and after
  // one the other rank's warp accesses the block: it knows of one line's access, or of all.
  void hand_over(std::span<const std::vector<ThreadId>> lanes, std::uint32_t from) {
    const std::uint32_t to = 1 - from, w = below(kWarps), lane = below(kLanes);
    const std::span<const ThreadId> giving = std::span(lanes[from]).subspan(w * kLanes, kLanes);
    const std::span<const ThreadId> taking =
        std::span(lanes[to]).subspan(below(kWarps) * kLanes, kLanes);
    const Address at{regions[below(kRanks)], kBlockBytes * below(3)};
    together(giving, at, access(false), below(3) == 0);
    if (below(3) == 0) machine.barrier(lanes[from], lanes[from], true);
    Access flag;
    flag.order = Order::acq_rel;
    const Address pad{pads[to], 4 * below(4)};
    machine.rmw(giving[lane], pad, flag, 1, [](std::uint64_t a, std::uint64_t b) { return a + b; });
    machine.rmw(taking[below(kLanes)], pad, flag, 0,
                [](std::uint64_t a, std::uint64_t b) { return a + b; });
    machine.barrier(lanes[to], lanes[to], true);
    together(taking, at, access(true), below(2) == 0);
  }

  // Reductions of one thread over a span, as a put with add makes them.
  void reduction(ThreadId t) {
    std::vector<std::byte> bytes(kBytes);
    fill(bytes);
    const std::uint64_t from = below(2) == 0 ? 0 : 16 * below(3);
    const std::uint64_t size = kBytes - from - 16 * below(3);
    Access a = access(false);
    if (a.order == Order::weak) a.order = Order::relaxed;
    if (below(3) != 0) {  // as a protocol has them: all alike
      a.element = 2;
      a.scope = Scope::sys;
    }
    const std::uint64_t before = machine.messages();
    machine.reduce(t, {regions[below(kRanks)], from}, a,
                   std::span(std::as_const(bytes)).first(size),
                   [](std::uint64_t x, std::uint64_t y) { return x + y; });
    if (machine.messages() - before < size / kLineBytes) ++result.reduced;
  }

  // Whole spans by one thread of a launch of its own.
  void plain_kernel(std::uint32_t rank, bool writes, std::uint64_t label) {
    machine.begin_launch(streams[rank]);
    const ThreadId t = machine.launch_thread(streams[rank], 0, 0, label);
    std::vector<std::byte> bytes(kBytes);
    for (std::uint32_t n = below(4) == 0 ? below(3) : 0; n > 0; --n) reduction(t);
    const std::uint64_t from = 16 * below(3), size = kBytes - from - 16 * below(3);
    Access a = access(!writes);
    a.order = Order::weak;
    if (writes) {
      fill(bytes);
      machine.write(t, {regions[rank], from}, a, std::span(std::as_const(bytes)).first(size));
    } else {
      machine.read(t, {regions[rank], from}, a, std::span(bytes).first(size));
      saw(std::span(bytes).first(size));
    }
    machine.end_thread(t);
    machine.end_launch(streams[rank]);
  }

  void call(std::uint32_t number) {
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      if (below(4) != 0) plain_kernel(r, true, 100 + 10 * number + r);
    }
    std::vector<std::vector<ThreadId>> lanes(kRanks);
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      machine.begin_launch(streams[r]);
      for (std::uint32_t i = 0; i < kWarps * kLanes; ++i) {
        lanes[r].push_back(
            machine.launch_thread(streams[r], 0, i, 1000 + 100 * number + 50 * r + i));
      }
    }
    for (std::uint32_t n = 0; n < 14; ++n) {
      const std::uint32_t r = below(kRanks);
      if (below(4) == 0) {
        machine.barrier(lanes[r], lanes[r], true);
        continue;
      }
      if (below(4) == 0) {
        hand_over(lanes, r);
        continue;
      }
      if (below(8) == 0) {
        reduction(lanes[r][below(kWarps * kLanes)]);
        continue;
      }
      const std::uint32_t w = below(kWarps);
      warp(std::span(lanes[r]).subspan(w * kLanes, kLanes), r);
    }
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      for (const ThreadId t : lanes[r]) machine.end_thread(t);
      machine.end_launch(streams[r]);
    }
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      if (below(4) != 0) plain_kernel(r, false, 500 + 10 * number + r);
    }
  }

  Result run() {
    for (std::uint32_t c = 0; c < 3; ++c) call(c);
    for (const Finding& f : machine.findings()) result.log += "\n" + text(f);
    std::vector<std::byte> bytes(kBytes);
    for (const RegionId r : regions) {
      machine.peek({r, 0}, bytes);
      saw(bytes);
    }
    result.log += "\n" + std::to_string(machine.steps()) + " steps, " +
                  std::to_string(machine.ignored_races()) + " ignored races\n" + asked.log;
    return result;
  }
};

}  // namespace

TEST_CASE("accesses taken together say what they say line by line") {
  std::uint32_t together = 0, alone = 0, reduced = 0, found = 0, asked = 0;
  for (const Boundary boundary : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
      CAPTURE(seed);
      const Policy policy{boundary};
      const bool ignore = seed % 2 == 1;
      const Result lines = World(seed, policy, true, ignore).run();
      World blocks(seed, policy, false, ignore);
      const Result result = blocks.run();
      REQUIRE(result.log == lines.log);
      REQUIRE(lines.together == 0);
      reduced += result.reduced;
      together += result.together;
      alone += result.alone;
      found += blocks.machine.findings().empty() ? 0 : 1;
      asked += blocks.asked.log.empty() ? 0 : 1;
    }
  }
  // All ways were taken often: by blocks, by lines after blocks, with findings and with choices.
  CHECK(together > 300);
  CHECK(alone > 500);
  CHECK(reduced > 50);
  CHECK(found > 50);
  CHECK(asked > 50);
}

TEST_CASE("a region of blocks takes little more memory than its bytes, and gives it back") {
  struct Newest : Chooser {
    std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
  } newest;
  Machine m(std::pmr::new_delete_resource(), Policy{Boundary::coherent});
  m.set_chooser(&newest);
  RegionSpec spec;
  spec.bytes = std::uint64_t{1} << 22;
  const RegionId region = m.add_region(spec);
  const StreamId stream = m.add_stream(0);
  std::vector<std::byte> bytes(spec.bytes, std::byte{7});
  for (std::uint32_t call = 0; call < 12; ++call) {
    m.begin_launch(stream);
    const ThreadId t = m.launch_thread(stream, 0, 0, call);
    m.write(t, {region, 0}, Access{}, bytes);
    m.read(t, {region, 0}, Access{}, bytes);
    m.end_thread(t);
    m.end_launch(stream);
    // A message a block and call; what everybody knows is forgotten.
    CHECK(m.messages() <= 20 * (spec.bytes / kBlockBytes));
  }
}
