#include "tests/axiomatic/shrink.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"

namespace ringfence::axiomatic {
namespace {

namespace lit = ringfence::litmus;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Calls f(variable) for every variable of the formula.
template <class F>
void each_variable(lit::Formula& formula, F f) {
  for (lit::Term* term : {&formula.left, &formula.right}) {
    if (auto* v = std::get_if<lit::Variable>(term)) f(*v);
  }
  for (lit::Formula& child : formula.children) each_variable(child, f);
}

template <class F>
void each_variable(lit::Test& test, F f) {
  for (lit::Variable& v : test.observed) f(v);
  each_variable(test.condition, f);
  if (test.filter) each_variable(*test.filter, f);
}

// The test read back from its text, or nothing where it is not well formed.
std::optional<lit::Test> normalised(const lit::Test& test) {
  try {
    return lit::parse(lit::print(test), test.name);
  } catch (const lit::ParseError&) {
    return std::nullopt;
  }
}

std::optional<lit::Test> without_thread(lit::Test test, std::size_t t) {
  if (test.threads.size() < 2) return std::nullopt;
  const int removed = static_cast<int>(t);
  bool mentioned = false;
  const auto mentions = [&](lit::Variable& v) { mentioned = mentioned || v.thread == removed; };
  each_variable(test.condition, mentions);
  if (test.filter) each_variable(*test.filter, mentions);
  if (mentioned) return std::nullopt;
  std::erase_if(test.observed, [&](const lit::Variable& v) { return v.thread == removed; });
  each_variable(test, [&](lit::Variable& v) { v.thread -= v.thread > removed ? 1 : 0; });
  test.threads.erase(test.threads.begin() + removed);
  return test;
}

lit::Test without_instruction(lit::Test test, std::size_t t, std::size_t i) {
  auto& code = test.threads[t].instructions;
  code.erase(code.begin() + static_cast<std::ptrdiff_t>(i));
  // A branch to what went away leads to nothing: it goes as well.
  constexpr int kNowhere = -1;
  std::optional<std::size_t> dangling;
  for (std::size_t k = 0; k < code.size(); ++k) {
    auto* branch = std::get_if<lit::Branch>(&code[k].what);
    if (branch == nullptr) continue;
    if (branch->target == static_cast<int>(i)) branch->target = kNowhere;
    if (branch->target > static_cast<int>(i)) --branch->target;
    if (branch->target == kNowhere) dangling = k;
  }
  if (dangling) return without_instruction(std::move(test), t, *dangling);
  // What only it wrote is now a register that nothing writes: declared, and not observed.
  std::vector<bool> written(test.threads[t].registers.size(), false);
  for (const lit::Instruction& instruction : code) {
    if (const auto* load = std::get_if<lit::Load>(&instruction.what)) {
      for (int r : load->destinations) written[index(r)] = true;
    } else if (const auto* atomic = std::get_if<lit::Atomic>(&instruction.what)) {
      if (atomic->destination) written[index(*atomic->destination)] = true;
    } else if (const auto* local = std::get_if<lit::Local>(&instruction.what)) {
      written[index(local->destination)] = true;
    }
  }
  for (std::size_t r = 0; r < written.size(); ++r) {
    if (!written[r]) test.threads[t].registers[r].declared = true;
  }
  std::erase_if(test.observed, [&](const lit::Variable& v) {
    return v.thread == static_cast<int>(t) && !written[index(v.id)];
  });
  return test;
}

// Takes out location l where nothing but `locations […]` mentions it.
std::optional<lit::Test> without_location(lit::Test test, std::size_t l) {
  const int removed = static_cast<int>(l);
  bool used = false;
  const auto move = [&](int& id) {
    used = used || id == removed;
    id -= id > removed ? 1 : 0;
  };
  std::erase_if(test.observed,
                [&](const lit::Variable& v) { return v.thread < 0 && v.id == removed; });
  each_variable(test, [&](lit::Variable& v) {
    if (v.thread < 0) move(v.id);
  });
  for (lit::Location& location : test.locations) {
    if (location.initial_address) move(*location.initial_address);
    if (location.alias_of) move(*location.alias_of);
    for (int& replica : location.replicas) move(replica);
  }
  for (lit::Thread& thread : test.threads) {
    for (lit::RegisterInfo& info : thread.registers) {
      if (info.initial_address) move(*info.initial_address);
    }
    for (lit::Instruction& i : thread.instructions) {
      const auto address = [&](lit::Address& a) {
        if (auto* id = std::get_if<lit::LocationId>(&a.base)) move(*id);
      };
      if (auto* load = std::get_if<lit::Load>(&i.what)) address(load->address);
      if (auto* store = std::get_if<lit::Store>(&i.what)) address(store->address);
      if (auto* atomic = std::get_if<lit::Atomic>(&i.what)) address(atomic->address);
    }
  }
  if (used) return std::nullopt;
  test.locations.erase(test.locations.begin() + removed);
  return test;
}

// Drops the declaration of register r of thread t where no instruction mentions it. The printer
// leaves undeclared, unused registers out, so reading back removes it.
std::optional<lit::Test> without_register(lit::Test test, std::size_t t, std::size_t r) {
  lit::RegisterInfo& info = test.threads[t].registers[r];
  if (!info.declared) return std::nullopt;
  info.declared = false;
  info.initial_address.reset();
  return test;
}

// The same instruction in simpler forms, simplest first.
std::vector<lit::Instruction> simpler(const lit::Instruction& instruction) {
  std::vector<lit::Instruction> out;
  const auto offer = [&](auto changed) { out.push_back({std::move(changed), instruction.at}); };
  const auto wider = [](lit::Scope scope) { return scope != lit::Scope::sys; };
  if (const auto* load = std::get_if<lit::Load>(&instruction.what)) {
    if (load->order != lit::Order::weak) {
      auto weak = *load;
      weak.order = lit::Order::weak;
      weak.scope = lit::Scope::sys;
      offer(weak);
    }
    if (load->order == lit::Order::acquire) {
      auto relaxed = *load;
      relaxed.order = lit::Order::relaxed;
      offer(relaxed);
    }
    if (wider(load->scope)) {
      auto sys = *load;
      sys.scope = lit::Scope::sys;
      offer(sys);
    }
  } else if (const auto* store = std::get_if<lit::Store>(&instruction.what)) {
    if (store->order != lit::Order::weak) {
      auto weak = *store;
      weak.order = lit::Order::weak;
      weak.scope = lit::Scope::sys;
      offer(weak);
    }
    if (store->order == lit::Order::release) {
      auto relaxed = *store;
      relaxed.order = lit::Order::relaxed;
      offer(relaxed);
    }
    if (wider(store->scope)) {
      auto sys = *store;
      sys.scope = lit::Scope::sys;
      offer(sys);
    }
  } else if (const auto* atomic = std::get_if<lit::Atomic>(&instruction.what)) {
    if (!atomic->multimem) {
      if (atomic->destination) {
        lit::Load read;
        read.order = atomic->order == lit::Order::acquire || atomic->order == lit::Order::acq_rel
                         ? lit::Order::acquire
                         : lit::Order::relaxed;
        read.scope = atomic->scope;
        read.proxy = atomic->proxy;
        read.type = atomic->type;
        read.destinations = {*atomic->destination};
        read.address = atomic->address;
        offer(read);
      } else {
        lit::Store write;
        write.order =
            atomic->order == lit::Order::release ? lit::Order::release : lit::Order::relaxed;
        write.scope = atomic->scope;
        write.proxy = atomic->proxy;
        write.type = atomic->type;
        write.address = atomic->address;
        write.values = {atomic->value};
        offer(write);
      }
    }
    if (atomic->order != lit::Order::relaxed) {
      auto relaxed = *atomic;
      relaxed.order = lit::Order::relaxed;
      offer(relaxed);
    }
    if (wider(atomic->scope)) {
      auto sys = *atomic;
      sys.scope = lit::Scope::sys;
      offer(sys);
    }
  } else if (const auto* fence = std::get_if<lit::Fence>(&instruction.what)) {
    if (fence->order == lit::Order::sc) {
      auto weaker = *fence;
      weaker.order = lit::Order::acq_rel;
      offer(weaker);
    }
    if (wider(fence->scope)) {
      auto sys = *fence;
      sys.scope = lit::Scope::sys;
      offer(sys);
    }
  }
  return out;
}

class Shrinker {
 public:
  Shrinker(const lit::Test& test, const Predicate& fails) : test_(test), fails_(fails) {}

  lit::Test run() {
    // Each pass goes over all steps; what one step removed may make room for another.
    while (pass()) {
    }
    return std::move(test_);
  }

 private:
  bool pass() {
    bool progress = false;
    for (std::size_t t = test_.threads.size(); t-- > 0;) {
      progress |= take(without_thread(test_, t));
    }
    for (std::size_t t = test_.threads.size(); t-- > 0;) {
      for (std::size_t i = test_.threads[t].instructions.size(); i-- > 0;) {
        if (i < test_.threads[t].instructions.size()) {
          progress |= take(without_instruction(test_, t, i));
        }
      }
    }
    for (std::size_t l = test_.locations.size(); l-- > 0;) {
      progress |= take(without_location(test_, l));
    }
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      for (std::size_t r = test_.threads[t].registers.size(); r-- > 0;) {
        if (r < test_.threads[t].registers.size()) progress |= take(without_register(test_, t, r));
      }
    }
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      for (std::size_t i = 0; i < test_.threads[t].instructions.size(); ++i) {
        for (const lit::Instruction& form : simpler(test_.threads[t].instructions[i])) {
          lit::Test changed = test_;
          changed.threads[t].instructions[i] = form;
          if (take(std::move(changed))) {
            progress = true;
            break;
          }
        }
      }
      progress |= simplify_place(t);
    }
    return progress;
  }

  // Gpu 0, cta 0 and no cluster are simplest.
  bool simplify_place(std::size_t t) {
    bool progress = false;
    if (test_.threads[t].cluster) {
      lit::Test changed = test_;
      for (lit::Thread& thread : changed.threads) thread.cluster.reset();
      progress |= take(std::move(changed));
    }
    if (test_.threads[t].gpu != 0) {
      lit::Test changed = test_;
      changed.threads[t].gpu = 0;
      progress |= take(std::move(changed));
    }
    if (test_.threads[t].cta != 0) {
      lit::Test changed = test_;
      changed.threads[t].cta = 0;
      progress |= take(std::move(changed));
    }
    return progress;
  }

  bool take(std::optional<lit::Test> candidate) {
    if (!candidate) return false;
    std::optional<lit::Test> test = normalised(*candidate);
    if (!test || lit::print(*test) == lit::print(test_) || !fails_(*test)) return false;
    test_ = std::move(*test);
    return true;
  }

  lit::Test test_;
  const Predicate& fails_;
};

}  // namespace

litmus::Test shrink(const litmus::Test& test, const Predicate& still_fails) {
  return Shrinker(test, still_fails).run();
}

}  // namespace ringfence::axiomatic
