#include "emulator/litmus/polls.hpp"

#include <algorithm>

#include "emulator/litmus/values.hpp"

namespace ringfence::litmus {
namespace {

bool is_label(const Instruction& i) { return std::holds_alternative<Label>(i.what); }

bool is_register(const Operand& o, RegisterId id) {
  const auto* r = std::get_if<Register>(&o);
  return r != nullptr && r->id == id;
}

std::size_t after_labels(const std::vector<Instruction>& code, std::size_t at) {
  while (at < code.size() && is_label(code[at])) ++at;
  return at;
}

// Whether a jump to `target` leads to `at` with nothing executed before.
bool leads_to(const std::vector<Instruction>& code, std::size_t target, std::size_t at) {
  return target <= at && after_labels(code, target) == at;
}

// What an instruction reads and writes.
struct Uses {
  std::vector<bool>& read;
  std::vector<bool>& written;

  void use(const Operand& o) const {
    if (const auto* r = std::get_if<Register>(&o)) read[index(r->id)] = true;
  }
  void use(const std::optional<Operand>& o) const {
    if (o) use(*o);
  }
  void use(const Address& a) const {
    if (const auto* r = std::get_if<Register>(&a.base)) read[index(r->id)] = true;
  }
  void set(RegisterId id) const { written[index(id)] = true; }

  void operator()(const Load& x) const {
    use(x.address);
    for (const RegisterId d : x.destinations) set(d);
  }
  void operator()(const Store& x) const {
    use(x.address);
    for (const Operand& v : x.values) use(v);
  }
  void operator()(const Atomic& x) const {
    use(x.address);
    use(x.value);
    use(x.desired);
    if (x.destination) set(*x.destination);
  }
  void operator()(const Barrier& x) const {
    use(x.instance);
    use(x.id);
    use(x.count);
  }
  void operator()(const Local& x) const {
    use(x.a);
    use(x.b);
    set(x.destination);
  }
  void operator()(const Branch& x) const {
    if (!x.comparison) return;
    use(x.a);
    use(x.b);
  }
  void operator()(const Mbarrier& x) const {
    if (x.form == Mbarrier::Form::Test) set(x.destination);
  }
  void operator()(const Copy& x) const {
    use(x.to);
    use(x.from);
  }
  void operator()(const ClusterBarrier&) const {}
  void operator()(const GroupWait&) const {}
  void operator()(const Fence&) const {}
  void operator()(const ProxyFence&) const {}
  void operator()(const Label&) const {}
  void operator()(const Launch&) const {}
};

}  // namespace

std::optional<Poll> poll_at(const std::vector<Instruction>& code, std::size_t at) {
  const auto* load = std::get_if<Load>(&code[at].what);
  const auto* atomic = std::get_if<Atomic>(&code[at].what);
  RegisterId result = 0;
  if (load != nullptr && !load->multimem && load->destinations.size() == 1 &&
      load->order != Order::weak) {
    result = load->destinations.front();
  } else if (atomic != nullptr && atomic->op == Combine::cas && atomic->destination) {
    result = *atomic->destination;
  } else {
    return std::nullopt;
  }
  const std::size_t test = after_labels(code, at + 1);
  const auto* branch = test < code.size() ? std::get_if<Branch>(&code[test].what) : nullptr;
  if (branch == nullptr || !branch->comparison) return std::nullopt;
  Poll poll;
  poll.wanted = *branch->comparison;
  poll.against = branch->b;
  if (is_register(branch->b, result)) {
    poll.wanted = mirrored(poll.wanted);
    poll.against = branch->a;
  } else if (!is_register(branch->a, result)) {
    return std::nullopt;
  }
  if (is_register(poll.against, result)) return std::nullopt;
  if (leads_to(code, index(branch->target), at)) {
    poll.wanted = negated(poll.wanted);
    poll.exit = test + 1;
    return poll;
  }
  const std::size_t back = after_labels(code, test + 1);
  const auto* jump = back < code.size() ? std::get_if<Branch>(&code[back].what) : nullptr;
  if (jump == nullptr || jump->comparison || !leads_to(code, index(jump->target), at) ||
      index(branch->target) <= back) {
    return std::nullopt;
  }
  poll.exit = index(branch->target);
  return poll;
}

std::vector<bool> is_last(const Thread& thread) {
  const auto& code = thread.instructions;
  const auto orders = [](const Instruction& i) {
    const auto* fence = std::get_if<Fence>(&i.what);
    return std::holds_alternative<Load>(i.what) || std::holds_alternative<Store>(i.what) ||
           std::holds_alternative<Atomic>(i.what) || std::holds_alternative<Barrier>(i.what) ||
           std::holds_alternative<Launch>(i.what) ||
           (is_asynchronous(i) && !std::holds_alternative<ProxyFence>(i.what)) ||
           (fence != nullptr && fence->order == Order::sc);
  };
  // From each instruction on, it included.
  std::vector<bool> from(code.size() + 1);
  const auto behind = [&](std::size_t i) {
    const auto* branch = std::get_if<Branch>(&code[i].what);
    return ((branch == nullptr || branch->comparison) && from[i + 1]) ||
           (branch != nullptr && from[index(branch->target)]);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = code.size(); i-- > 0;) {
      const bool now = orders(code[i]) || behind(i);
      changed = changed || now != from[i];
      from[i] = now;
    }
  }
  std::vector<bool> last(code.size());
  for (std::size_t i = 0; i < code.size(); ++i) last[i] = !behind(i);
  return last;
}

bool is_asynchronous(const Instruction& i) {
  const auto* fence = std::get_if<ProxyFence>(&i.what);
  return std::holds_alternative<Mbarrier>(i.what) ||
         std::holds_alternative<ClusterBarrier>(i.what) || std::holds_alternative<Copy>(i.what) ||
         std::holds_alternative<GroupWait>(i.what) ||
         (fence != nullptr && fence->kind == ProxyFence::Kind::Async);
}

bool is_asynchronous(const Test& test) {
  return std::any_of(test.threads.begin(), test.threads.end(), [](const Thread& t) {
    return std::any_of(t.instructions.begin(), t.instructions.end(), [](const Instruction& i) {
      return is_asynchronous(i) && !std::holds_alternative<ProxyFence>(i.what);
    });
  });
}

std::vector<bool> written_registers(const Thread& thread) {
  std::vector<bool> read(thread.registers.size()), written(thread.registers.size());
  for (const Instruction& i : thread.instructions) std::visit(Uses{read, written}, i.what);
  return written;
}

std::vector<std::vector<bool>> live_registers(const Thread& thread,
                                              const std::vector<bool>& at_end) {
  const auto& code = thread.instructions;
  const std::size_t registers = thread.registers.size();
  std::vector<std::vector<bool>> live(code.size() + 1, std::vector<bool>(registers));
  live.back() = at_end;
  // Backwards until nothing changes: a register is live where what is needed reads it before it is
  // written.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = code.size(); i-- > 0;) {
      std::vector<bool> read(registers), written(registers);
      std::visit(Uses{read, written}, code[i].what);
      const auto* branch = std::get_if<Branch>(&code[i].what);
      const bool falls = branch == nullptr || branch->comparison.has_value();
      // What is computed for nobody needs nothing.
      const auto* local = std::get_if<Local>(&code[i].what);
      const bool needed = local == nullptr || live[i + 1][index(local->destination)];
      for (std::size_t r = 0; r < registers; ++r) {
        const bool after =
            (falls && live[i + 1][r]) || (branch != nullptr && live[index(branch->target)][r]);
        const bool now = (read[r] && needed) || (after && !written[r]);
        if (now != live[i][r]) {
          live[i][r] = now;
          changed = true;
        }
      }
    }
  }
  return live;
}

}  // namespace ringfence::litmus
