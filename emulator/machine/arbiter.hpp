#pragma once
// The machine's choices with the whole question in sight, for an exhaustive search.
//
// A Chooser is asked "which of n"; a search that names a write by its event, and not by its place
// in a list that depends on the order of execution, needs to know what the n are. An Arbiter is
// told before each such question, also where only one answer is left, and gives its answer by way
// of the Chooser (which it stands behind). It never changes what the machine admits, with one
// exception, `as_set`.

#include <cstdint>
#include <optional>
#include <span>

#include "emulator/machine/location.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

class Arbiter {
 public:
  virtual ~Arbiter() = default;

  struct Question {
    ThreadId who = kNoThread;
    Address at;  // of the cell
    std::uint8_t size = 0;
    AccessKind kind = AccessKind::read;
    const Access* access = nullptr;
    const Cell* cell = nullptr;
    MessageSet known = 0;  // what precedes the access in causality order
    MessageSet may = 0;    // what causality lets it read
    MessageSet takes = 0;  // a read-modify-write: those of `may` that it can read and write behind
    // mode coherent, strong at sys scope: reads the newest, writes last, whatever is offered below
    bool pointed = false;
    bool result = false;             // a read-modify-write whose old value the program receives
    const Wanted* wanted = nullptr;  // an await's condition
    const std::uint64_t* compare = nullptr;  // a compare-and-swap's
    // A read-modify-write's operand; 0 for an exchange by compare-and-swap.
    std::uint64_t operand = 0;
  };

  // Whether accesses of this kind are of interest: the others are not told, and may share cells.
  virtual bool counts(const Access& access) const = 0;
  // One of the others is made, to a cell of so many bytes.
  virtual void on_uncounted(Address at, std::uint8_t size) = 0;
  // `options` in the order in which the Chooser's answers count; for an await whose condition the
  // newest message does not satisfy, answer 0 is to miss and 1 the first option.
  virtual void on_read(const Question& q, std::span<Message* const> options) = 0;
  // Where a write lands: each option is the set of messages that coherence then puts behind it.
  virtual void on_place(const Question& q, std::span<const MessageSet> options) = 0;
  // The write of this access is in place.
  virtual void on_message(const Question& q, const Message& m) = 0;
  virtual void on_fence_sc(ThreadId who, Scope scope, std::uint16_t site) = 0;
  // The cell has as many messages as it can have; this one is about to go, though somebody may not
  // know what overwrites it.
  virtual void on_forgotten(const Cell& cell, const Message& m) = 0;
  // The reductions of this cell stand for all their orders: none of them follows what it reads in
  // observed time (what each of them does in the order where it comes first), while the message
  // carries what all brought.
  virtual bool as_set(Address at) const = 0;
  // A poll cannot end now.
  virtual void on_blocked(const Question& q) = 0;

  // Load buffering: what the next access of the agent with this label reads from the cell, if it is
  // to read a write that is still to come. The access then has no other effect of a read: it orders
  // nothing, nothing is ordered before it, and no race is looked for. So the run admits more than
  // the model does, and the arbiter has to judge it once it is complete.
  virtual bool foresees() const { return false; }
  virtual std::optional<std::uint64_t> foreseen(std::uint64_t /*label*/, Address /*cell*/,
                                                std::uint8_t /*size*/) const {
    return std::nullopt;
  }
  // No: fence.sc is executed as fence.acq_rel, and the arbiter orders them afterwards.
  virtual bool orders_fence_sc() const { return true; }
  // bar.sync as the machine executes it, for who has to know the threads that only arrived.
  virtual void on_block_barrier(std::span<const ThreadId> /*arriving*/,
                                std::span<const ThreadId> /*syncing*/) {}
};

}  // namespace ringfence::machine
