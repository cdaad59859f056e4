#pragma once
// A location's messages.
//
// Memory is kept in 16-byte lines. A line is one *cell* while all of it is accessed alike, and is
// split where accesses are narrower; a cell holds the messages (writes) of its bytes, newest
// first, in an order that extends coherence. Coherence itself is partial (PTX ISA 8.8: only
// morally strong or causality-related writes are ordered), so each message also names the ones
// that coherence puts before it.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/scope.hpp"
#include "emulator/machine/view.hpp"

namespace ringfence::machine {

inline constexpr std::uint32_t kLineBytes = 16;
// Lines that share one history as long as they are accessed alike: what a warp moves at once.
inline constexpr std::uint32_t kBlockLines = 32;
inline constexpr std::uint32_t kBlockBytes = kBlockLines * kLineBytes;

// A set of messages of one cell, by Message::id. A cell keeps at most kMaxMessages: beyond that
// its oldest are forgotten, so a read lags at most that many writes behind.
using MessageSet = std::uint64_t;
inline constexpr int kMaxMessages = 64;

// What a release pattern publishes, carried by a message until an acquire pattern takes it in.
// `scope` is that of the pattern's first operation (the release, or the fence); the pattern
// synchronises only with threads inside it (PTX ISA, "Release and Acquire Patterns").
struct Entry {
  Entry* next = nullptr;
  Epoch at;  // the first operation of the pattern
  Scope scope = Scope::cta;
  View view;  // of the pattern's thread up to `at`; `at` itself is published as well
  Proxy proxy = Proxy::generic;  // of the first operation, where it is a write
  bool fence = false;            // it is none
};

// A thread that saw a message by a morally strong read: observation (PTX ISA 8.9.3), which is part
// of causality order though not of base causality.
struct Observer {
  Observer* next = nullptr;
  Epoch at;
  Order order = Order::relaxed;
  Scope scope = Scope::cta;
  Proxy proxy = Proxy::generic;
};

// How a message or reader of a block stands for its 32 lines: line i was accessed by thread
// `index + i` of the slot, or by thread `index` alone, in step `step + i * steps`.
struct Run {
  std::uint32_t index = 0;
  std::uint16_t steps = 0;
  bool each = false;
};

struct Message {
  Message* older = nullptr;  // the next in the cell's list
  Epoch at;
  std::uint32_t step = 0;
  std::uint16_t site = 0;
  Order order = Order::weak;
  Scope scope = Scope::cta;
  Proxy proxy = Proxy::generic;
  std::uint8_t element = 0;  // bytes of the operation that wrote it
  std::uint8_t id = 0;       // bit in a MessageSet
  // The bytes of the cell that it wrote, where those are not all: the others of `value` are what
  // there was (unite.cpp). 0: all.
  std::uint16_t wrote = 0;
  bool initial = false;  // there before every launch: known to everybody
  bool uninitialised = false;
  bool rmw = false;
  bool source_strong = false;  // the read-modify-write is morally strong with what it read
  bool of_set = false;         // it stands for all orders of several (Arbiter::as_set)
  bool shared = false;         // of an instruction that writes at several replicas (Share)
  bool consumed = false;       // a wait ended on it, or a read-modify-write took it over
  MessageSet before = 0;       // what coherence puts before it
  // What some reader of it knew: coherence can no longer come to put it before those.
  MessageSet outlives = 0;
  std::uint32_t group = 0;    // AsOne::group; 0: it stands by itself
  Message* source = nullptr;  // what a read-modify-write read, while that is kept
  Entry* entries = nullptr;
  Clock observed{};  // the writer's observed time, if the write is strong
  Observer* observers = nullptr;
  std::array<std::byte, kLineBytes> value{};  // its first bytes, as many as the cell has
  // In a block: `at` and `step` are its first line's, and the values are here; null for the initial
  // message, whose values are the region's bytes.
  std::byte* values = nullptr;
  Run run{};
};

// PTX ISA 8.9.1: a release pattern begins with this write, and what came before it by program order
// comes along; what its instruction does at other replicas (Share) does not.
inline Epoch released(const Message& m) {
  return {m.at.thread, m.at.slot, m.shared ? m.at.time - 1 : m.at.time};
}

// A read that a later conflicting write must be ordered after. `mask` names the bytes of the cell.
struct Reader {
  Reader* next = nullptr;
  Epoch at;
  std::uint32_t step = 0;
  std::uint16_t site = 0;
  std::uint16_t mask = 0;
  Order order = Order::weak;
  Scope scope = Scope::cta;
  Proxy proxy = Proxy::generic;
  std::uint8_t element = 0;
  Run run{};  // in a block
};

// Somebody to wake when a message is added.
struct Watcher {
  Watcher* next = nullptr;
  std::uint32_t who = 0;
};

struct Cell {
  std::uint8_t offset = 0;  // in its line
  std::uint8_t size = kLineBytes;
  std::uint8_t count = 0;
  MessageSet ids = 0;  // ids in use
  Message* newest = nullptr;
  Reader* readers = nullptr;
  Watcher* watchers = nullptr;
};

struct Parts {
  Parts() {}  // NOLINT: `cells` is not zeroed
  Cell* at(std::uint32_t byte) const { return (made >> byte & 1) != 0 ? cells[byte] : nullptr; }
  void put(std::uint32_t byte, Cell* cell) {
    cells[byte] = cell;
    made = static_cast<std::uint16_t>(made | 1u << byte);
  }
  void take(std::uint32_t byte) { made = static_cast<std::uint16_t>(made & ~(1u << byte)); }
  template <class F>
  void for_each(F&& f) const {
    for (std::uint32_t left = made; left != 0; left &= left - 1) f(*cells[std::countr_zero(left)]);
  }

  std::uint16_t made = 0;  // the first bytes of cells
  // First bytes of the cells of `fresh_size` bytes that nobody has accessed: plain bytes so far.
  std::uint16_t fresh = 0;
  std::uint8_t fresh_size = 0;
  std::array<Cell*, kLineBytes> cells;  // by first byte
};

struct Line {
  Cell whole;
  Parts* parts = nullptr;  // if split; `whole` is then empty
  std::uint32_t index = 0;
};

// 32 lines, aligned, that have been accessed alike since all of them were plain bytes: whole lines,
// by one thread or by a warp with a thread a line. `whole` holds their common history; an access
// that would part them turns the block into lines first (block.cpp).
struct Block {
  Cell whole;
  std::uint32_t index = 0;
};

struct BlockValues {
  BlockValues() {}  // NOLINT: not zeroed, as all of it is written at once
  std::array<std::byte, kBlockBytes> bytes;
};

constexpr MessageSet bit(const Message& m) { return MessageSet{1} << m.id; }

}  // namespace ringfence::machine
