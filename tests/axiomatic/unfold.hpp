// The paths of one thread through its code, before any value is known: which branches are taken,
// which compare-and-swaps succeed, which location an address held in a register names. Each guess
// becomes a constraint that the values must satisfy later.
#pragma once

#include <optional>
#include <vector>

#include "tests/axiomatic/program.hpp"
#include "tests/axiomatic/relation.hpp"

namespace ringfence::axiomatic {

// What a register may hold: a constant, the value of a read, or an operation on two others. reads
// are the thread's reads that the text of the computation mentions (a syntactic dependency: x xor x
// is 0 and still depends on x).
struct Expression {
  enum class Kind { Constant, Read, Operation };
  Kind kind = Kind::Constant;
  Value constant = 0;
  int read = 0;  // index into Path::events
  Op op = Op::Move;
  int a = 0;  // indices into Path::expressions
  int b = 0;
  Set reads = 0;
};

struct Event {
  // Issue: an asynchronous operation begins. GroupWait: the thread's have ended.
  enum class Kind { Read, Write, Fence, Barrier, Bridge, Issue, GroupWait };
  Kind kind = Kind::Read;
  Order order = Order::Weak;
  Scope scope = Scope::Sys;
  int location = 0;
  int address = 0;  // which of the location's (Name)
  Proxy proxy = Proxy::Generic;
  // Write: what is stored, an expression. Read of an atomic: the event of its write, or -1.
  int value = 0;
  int rmw_write = -1;
  // A reduction's read acquires nothing.
  bool reduction = false;
  // Barrier: which instruction it is, and of which barrier. A look at an mbarrier that finds the
  // phase incomplete is a MbarrierTest, one that finds it complete a MbarrierWait.
  Instruction::Kind sync = Instruction::Kind::BarSync;
  Value barrier_instance = 0;
  Value barrier_id = 0;
  std::optional<Value> barrier_count;
  int mbarrier = 0;
  Value parity = 0;
  Value bytes = 0;
  // The Issue of the asynchronous operation that it is part of, whose parts stand behind it; or -1:
  // the thread does it in program order.
  int issue = -1;
  bool writes_result = false;  // part of it: at the destination
  bool reads_only = false;
  Value pending = 0;
  // Reads of this thread that it depends on, by address, data or (writes only) control.
  Set dependencies = 0;
};

struct Constraint {
  Comparison comparison = Comparison::Eq;
  int a = 0;
  int b = 0;
  bool expected = true;
};

struct Path {
  std::vector<Event> events;
  std::vector<Expression> expressions;
  std::vector<Constraint> constraints;
  // One expression a register at the end.
  std::vector<int> registers;
  // The read of a look that is never followed by another result: the path ends there. Or -1.
  int blocked = -1;
};

struct Unfolding {
  std::vector<Path> paths;
  // Some path jumped backwards more often than allowed and was given up.
  bool bounded = false;
};

// `blocked`: paths too that end in a loop of one strong access alone, which looks for ever.
Unfolding unfold(const Program& program, const Thread& thread, int max_backward_jumps,
                 bool blocked = false);

Value apply(Op op, Value a, Value b);
bool compare(Value a, Comparison comparison, Value b);

}  // namespace ringfence::axiomatic
