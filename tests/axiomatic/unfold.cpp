#include "tests/axiomatic/unfold.hpp"

#include <algorithm>
#include <stdexcept>

namespace ringfence::axiomatic {
namespace {

std::uint64_t bits_of(Value v) { return static_cast<std::uint64_t>(v); }

// Depth-first over the guesses; a walker is copied where it forks.
class Walker {
 public:
  Walker(const Program& program, const Thread& thread, int jumps, bool blocked, Unfolding& out)
      : program_(program), thread_(thread), jumps_left_(jumps), blocked_(blocked), out_(out) {
    for (Value initial : thread.registers) path_.registers.push_back(constant(initial));
  }

  void run() {
    while (next_ < static_cast<int>(thread_.code.size())) {
      if (!step(thread_.code[static_cast<std::size_t>(next_)])) return;
    }
    out_.paths.push_back(std::move(path_));
  }

 private:
  using Kind = Instruction::Kind;

  // False when this walker is finished: its forks went on, or it was given up.
  bool step(const Instruction& i) {
    switch (i.kind) {
      case Kind::Load:
      case Kind::Store:
      case Kind::Rmw:
      case Kind::Cas:
        return access(i);
      case Kind::Fence: {
        Event fence;
        fence.kind = Event::Kind::Fence;
        fence.order = i.order;
        fence.scope = i.scope;
        add(fence);
        break;
      }
      case Kind::BarSync:
      case Kind::BarArrive:
      case Kind::ClusterArrive:
      case Kind::ClusterWait:
      case Kind::MbarrierArrive:
      case Kind::MbarrierWait:
        add(barrier_of(i, i.kind));
        break;
      case Kind::MbarrierTest: {
        Walker other = *this;
        other.add(barrier_of(i, Kind::MbarrierTest));
        other.set(*i.destination, other.constant(0));
        ++other.next_;
        other.run();
        add(barrier_of(i, Kind::MbarrierWait));
        set(*i.destination, constant(1));
        break;
      }
      case Kind::Copy:
        copy(i);
        break;
      case Kind::GroupWait: {
        Event wait;
        wait.kind = Event::Kind::GroupWait;
        wait.reads_only = i.reads_only;
        wait.pending = i.pending;
        add(wait);
        break;
      }
      case Kind::Bridge: {
        Event bridge;
        bridge.kind = Event::Kind::Bridge;
        bridge.proxy = i.proxy;
        add(bridge);
        break;
      }
      case Kind::Compute:
        set(*i.destination, operation(i.op, operand(i.a), operand(i.b)));
        break;
      case Kind::Jump:
        return jump(i);
      case Kind::Nothing:
        break;
    }
    ++next_;
    return true;
  }

  static Event barrier_of(const Instruction& i, Kind kind) {
    Event barrier;
    barrier.kind = Event::Kind::Barrier;
    barrier.sync = kind;
    barrier.order = i.order;
    barrier.scope = i.scope;
    barrier.barrier_instance = i.barrier_instance;
    barrier.barrier_id = i.barrier_id;
    barrier.barrier_count = i.barrier_count;
    barrier.mbarrier = i.mbarrier;
    barrier.parity = i.parity;
    barrier.bytes = i.bytes;
    return barrier;
  }

  // Its source is read, its destination written (where it adds: by an atomic that nobody sees the
  // result of), and where it signals its bytes complete, in this order (PTX, "Asynchronous
  // operations").
  void copy(const Instruction& i) {
    Event issue;
    issue.kind = Event::Kind::Issue;
    const int begin = add(issue);
    const auto part = [&](Event::Kind kind, const Address& at) {
      Event e;
      e.kind = kind;
      e.issue = begin;
      e.proxy = Proxy::Async;
      e.location = program_.name(at.location).location;
      e.address = program_.name(at.location).address;
      return e;
    };
    const auto value_of = [&](int read) {
      Expression value;
      value.kind = Expression::Kind::Read;
      value.read = read;
      value.reads = bit(read);
      return add(value);
    };
    int value = value_of(add(part(Event::Kind::Read, i.source)));
    Event write = part(Event::Kind::Write, i.address);
    write.writes_result = true;
    int old = -1;
    if (i.op == Op::Add) {
      write.order = Order::Relaxed;
      Event read = write;
      read.kind = Event::Kind::Read;
      read.reduction = true;
      old = add(read);
      value = operation(Op::Add, value_of(old), value);
    }
    const int written = add_write(write, value);
    if (old >= 0) path_.events[static_cast<std::size_t>(old)].rmw_write = written;
    if (!i.signals) return;
    // PTX ISA 9.7.10.28.4.1: the complete-tx is a release at the cluster's scope.
    Event bytes = barrier_of(i, Kind::Copy);
    bytes.order = Order::Release;
    bytes.scope = Scope::Cluster;
    bytes.issue = begin;
    add(bytes);
  }

  bool jump(const Instruction& i) {
    if (!i.comparison) return jump_to(i.target);
    const int a = operand(i.a);
    const int b = operand(i.b);
    control_ |= expression(a).reads | expression(b).reads;
    if (is_constant(a) && is_constant(b)) {
      if (compare(expression(a).constant, *i.comparison, expression(b).constant)) {
        return jump_to(i.target);
      }
      ++next_;
      return true;
    }
    Walker other = *this;
    other.path_.constraints.push_back({*i.comparison, a, b, false});
    ++other.next_;
    other.run();
    path_.constraints.push_back({*i.comparison, a, b, true});
    if (blocked_ && looks_alone(i.target)) {
      Walker for_ever = *this;
      for_ever.path_.blocked = static_cast<int>(path_.events.size()) - 1;
      out_.paths.push_back(std::move(for_ever.path_));
    }
    return jump_to(i.target);
  }

  // Whether the jump at next_ leads back over one access only, which was a strong read this time.
  bool looks_alone(int target) const {
    if (target > next_ || path_.events.empty()) return false;
    int accesses = 0;
    for (int at = target; at < next_; ++at) {
      const Kind kind = thread_.code[static_cast<std::size_t>(at)].kind;
      if (kind == Kind::Nothing) continue;
      if (kind != Kind::Load && kind != Kind::Cas) return false;
      ++accesses;
    }
    const Event& last = path_.events.back();
    return accesses == 1 && last.kind == Event::Kind::Read && last.order != Order::Weak;
  }

  bool jump_to(int target) {
    if (target <= next_ && jumps_left_-- == 0) {
      out_.bounded = true;
      return false;
    }
    next_ = target;
    return true;
  }

  bool access(const Instruction& i) {
    if (!i.address.reg) return access_at(i, i.address.location, 0);
    const int address = path_.registers[static_cast<std::size_t>(*i.address.reg)];
    const Set reads = expression(address).reads;
    if (is_constant(address)) {
      for (int l = 0; l < program_.name_count(); ++l) {
        if (address_of(l) == expression(address).constant) return access_at(i, l, reads);
      }
      throw std::runtime_error("an access through a register that holds no location's address");
    }
    for (int l = 0; l < program_.name_count(); ++l) {
      Walker other = *this;
      const int guess = other.constant(address_of(l));
      other.path_.constraints.push_back({Comparison::Eq, address, guess, true});
      if (other.access_at(i, l, reads)) other.run();
    }
    return false;
  }

  bool access_at(const Instruction& i, int name, Set address_reads) {
    Event read;
    read.kind = Event::Kind::Read;
    read.scope = i.scope;
    read.location = program_.name(name).location;
    read.address = program_.name(name).address;
    read.proxy = i.proxy;
    read.dependencies = address_reads;
    read.order = i.order == Order::Release                               ? Order::Relaxed
                 : i.order == Order::AcqRel || i.order == Order::Acquire ? Order::Acquire
                                                                         : i.order;
    Event write = read;
    write.kind = Event::Kind::Write;
    write.dependencies |= control_;
    write.order = i.order == Order::Acquire                               ? Order::Relaxed
                  : i.order == Order::AcqRel || i.order == Order::Release ? Order::Release
                                                                          : i.order;
    ++next_;
    if (i.kind == Kind::Store) {
      add_write(write, operand(i.a));
      return true;
    }
    read.reduction = i.kind == Kind::Rmw && !i.destination;
    const int event = add(read);
    Expression value;
    value.kind = Expression::Kind::Read;
    value.read = event;
    value.reads = bit(event);
    const int old = add(value);
    if (i.kind == Kind::Load) {
      set(*i.destination, old);
      return true;
    }
    if (i.kind == Kind::Rmw) {
      const int updated = operation(i.op, old, operand(i.a));
      path_.events[static_cast<std::size_t>(event)].rmw_write = add_write(write, updated);
      if (i.destination) set(*i.destination, old);
      return true;
    }
    const int expected = operand(i.a);
    const int desired = operand(i.b);
    set(*i.destination, old);
    Walker failing = *this;
    failing.path_.constraints.push_back({Comparison::Eq, old, expected, false});
    failing.run();
    path_.constraints.push_back({Comparison::Eq, old, expected, true});
    // Whether it stores depends on what it compares with.
    write.dependencies |= expression(expected).reads;
    path_.events[static_cast<std::size_t>(event)].rmw_write = add_write(write, desired);
    return true;
  }

  int add_write(Event write, int value) {
    write.value = value;
    write.dependencies |= expression(value).reads;
    return add(write);
  }

  int add(const Event& event) {
    if (path_.events.size() >= kMaxEvents) throw std::runtime_error("a thread with over 64 events");
    path_.events.push_back(event);
    return static_cast<int>(path_.events.size()) - 1;
  }
  int add(const Expression& expression) {
    path_.expressions.push_back(expression);
    return static_cast<int>(path_.expressions.size()) - 1;
  }
  int constant(Value value) {
    Expression e;
    e.constant = value;
    return add(e);
  }
  int operand(const Operand& o) {
    return o.reg ? path_.registers[static_cast<std::size_t>(*o.reg)] : constant(o.constant);
  }
  const Expression& expression(int i) const {
    return path_.expressions[static_cast<std::size_t>(i)];
  }
  bool is_constant(int i) const { return expression(i).kind == Expression::Kind::Constant; }
  void set(int reg, int expression) { path_.registers[static_cast<std::size_t>(reg)] = expression; }

  // Folds what needs no value, so that artificial dependencies cost no guesses.
  int operation(Op op, int a, int b) {
    Expression e;
    e.reads = expression(a).reads | expression(b).reads;
    const bool cancels = a == b && (op == Op::Xor || op == Op::Sub);
    if (op == Op::Move) return a;
    if (op == Op::Exch) {
      e = expression(b);
    } else if (cancels) {
      e.constant = 0;
    } else if (is_constant(a) && is_constant(b)) {
      e.constant = apply(op, expression(a).constant, expression(b).constant);
    } else {
      e.kind = Expression::Kind::Operation;
      e.op = op;
      e.a = a;
      e.b = b;
    }
    return add(e);
  }

  const Program& program_;
  const Thread& thread_;
  int jumps_left_;
  bool blocked_;
  Unfolding& out_;
  Path path_;
  int next_ = 0;
  Set control_ = 0;
};

}  // namespace

Unfolding unfold(const Program& program, const Thread& thread, int max_backward_jumps,
                 bool blocked) {
  Unfolding out;
  Walker(program, thread, max_backward_jumps, blocked, out).run();
  return out;
}

Value apply(Op op, Value a, Value b) {
  const auto wrapped = [](std::uint64_t v) { return static_cast<Value>(v); };
  switch (op) {
    case Op::Move:
      return a;
    case Op::Add:
      return wrapped(bits_of(a) + bits_of(b));
    case Op::Sub:
      return wrapped(bits_of(a) - bits_of(b));
    case Op::Mul:
      return wrapped(bits_of(a) * bits_of(b));
    case Op::Div:
      // Division by zero is unspecified in PTX; 0 keeps the checker total. -1 would overflow.
      return b == 0 ? 0 : b == -1 ? wrapped(0 - bits_of(a)) : a / b;
    case Op::And:
      return a & b;
    case Op::Or:
      return a | b;
    case Op::Xor:
      return a ^ b;
    case Op::Min:
      return std::min(a, b);
    case Op::Max:
      return std::max(a, b);
    case Op::Exch:
      return b;
  }
  return 0;
}

bool compare(Value a, Comparison comparison, Value b) {
  switch (comparison) {
    case Comparison::Eq:
      return a == b;
    case Comparison::Ne:
      return a != b;
    case Comparison::Lt:
      return a < b;
    case Comparison::Le:
      return a <= b;
    case Comparison::Gt:
      return a > b;
    case Comparison::Ge:
      return a >= b;
  }
  return false;
}

}  // namespace ringfence::axiomatic
