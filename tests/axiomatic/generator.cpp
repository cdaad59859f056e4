#include "tests/axiomatic/generator.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tests/axiomatic/random.hpp"

namespace ringfence::axiomatic {
namespace {

namespace lit = ringfence::litmus;

class Generator {
 public:
  Generator(std::uint64_t seed, const GeneratorOptions& options) : random_(seed), o_(options) {
    test_.name = "generated-" + std::to_string(seed);
  }

  lit::Test run() {
    draw_configuration();
    place_threads();
    draw_shape();
    for (std::size_t t = 0; t < test_.threads.size(); ++t) fill(t);
    observe();
    return std::move(test_);
  }

 private:
  // Which features this program has, and how its orders and scopes are weighted.
  void draw_configuration() {
    const auto some = [this](bool allowed, int chance) {
      return allowed && random_.percent(chance);
    };
    atomics_ = some(o_.atomics, 50);
    cas_ = atomics_ && some(o_.compare_and_swap, 40);
    fences_ = some(o_.fences, 60);
    barriers_ = some(o_.barriers, 25);
    dependencies_ = some(o_.dependencies, 40);
    awaits_ = some(o_.awaits, 15);
    clusters_ = some(o_.clusters, 10);
    weak_percent_ = random_.between(0, 3) * 25;
    synchronising_percent_ = random_.between(1, 3) * 30;
    narrow_percent_ = random_.between(0, 2) * 25;
    const int locations = random_.between(1, o_.max_locations);
    static constexpr const char* kNames[] = {"x", "y", "z", "w", "v", "u", "t", "s"};
    for (int l = 0; l < locations; ++l) {
      lit::Location location;
      location.name = l < 8 ? kNames[l] : "l" + std::to_string(l);
      location.initial = {0};
      test_.locations.push_back(std::move(location));
    }
    for (int l = 0; o_.aliases && l < locations; ++l) {
      for (int names = random_.below(3); names > 0; --names) {
        lit::Location alias;
        alias.name = test_.locations[static_cast<std::size_t>(l)].name + std::to_string(names);
        alias.alias_of = l;
        test_.locations.push_back(std::move(alias));
      }
    }
    static constexpr lit::Proxy kProxies[] = {lit::Proxy::Surface, lit::Proxy::Texture,
                                              lit::Proxy::Constant};
    for (int i = 0; o_.proxies && i < 3; ++i) {
      if (proxies_.empty() ? i == 2 || random_.percent(60) : random_.percent(30)) {
        proxies_.push_back(kProxies[i]);
      }
    }
  }

  // The proxy of an access: surface ones write as well, and are strong as well.
  lit::Proxy proxy(bool writes) {
    if (proxies_.empty() || !random_.percent(45)) return lit::Proxy::Generic;
    const lit::Proxy p =
        proxies_[static_cast<std::size_t>(random_.below(static_cast<int>(proxies_.size())))];
    return writes && p != lit::Proxy::Surface ? lit::Proxy::Generic : p;
  }

  lit::ProxyFence::Kind proxy_fence() {
    using Kind = lit::ProxyFence::Kind;
    if (proxies_.empty() || (o_.aliases && random_.percent(40))) return Kind::Alias;
    switch (proxies_[static_cast<std::size_t>(random_.below(static_cast<int>(proxies_.size())))]) {
      case lit::Proxy::Generic:
        break;
      case lit::Proxy::Constant:
        return Kind::Constant;
      case lit::Proxy::Texture:
        return Kind::Texture;
      case lit::Proxy::Surface:
        return Kind::Surface;
    }
    return Kind::Alias;
  }

  void place_threads() {
    const int threads = random_.between(o_.min_threads, o_.max_threads);
    const int gpus = random_.between(1, 2);
    const int ctas = random_.between(1, 2);
    for (int t = 0; t < threads; ++t) {
      lit::Thread thread;
      thread.gpu = random_.below(gpus);
      thread.cta = random_.below(ctas);
      if (clusters_) thread.cluster = thread.gpu;  // all ctas of a gpu in one cluster
      test_.threads.push_back(std::move(thread));
    }
  }

  // How many events each thread has, and where its barriers stand.
  void draw_shape() {
    const auto threads = static_cast<int>(test_.threads.size());
    int left = random_.between(std::max(o_.min_events, threads), std::max(o_.max_events, threads));
    lengths_.assign(test_.threads.size(), 1);
    left -= threads;
    barriers_of_.assign(test_.threads.size(), 0);
    if (barriers_) {
      std::map<std::pair<int, int>, std::vector<std::size_t>> ctas;
      for (std::size_t t = 0; t < test_.threads.size(); ++t) {
        ctas[{test_.threads[t].gpu, test_.threads[t].cta}].push_back(t);
      }
      for (const auto& [place, members] : ctas) {
        if (members.size() < 2 || static_cast<int>(members.size()) > left) continue;
        for (std::size_t t : members) {
          barriers_of_[t] = 1;
          ++lengths_[t];
          --left;
        }
      }
    }
    for (; left > 0; --left) ++lengths_[static_cast<std::size_t>(random_.below(threads))];
  }

  void fill(std::size_t t) {
    lit::Thread& thread = test_.threads[t];
    reads_.clear();
    const int barrier_at = barriers_of_[t] != 0 ? random_.below(lengths_[t]) : -1;
    for (int i = 0; i < lengths_[t]; ++i) {
      // A barrier is never skipped: whoever jumps over it would leave the others waiting.
      if (i == barrier_at) {
        close_branches(thread);
        add(thread, lit::Barrier{});
      } else {
        add_event(thread);
      }
      if (!open_labels_.empty() && random_.percent(50)) close_branches(thread);
    }
    close_branches(thread);
  }

  void add_event(lit::Thread& thread) {
    if ((o_.aliases || o_.proxies) && random_.percent(30)) {
      add(thread, lit::ProxyFence{proxy_fence()});
      return;
    }
    if (fences_ && random_.percent(25)) {
      add(thread, lit::Fence{random_.percent(50) ? lit::Order::sc : lit::Order::acq_rel, scope()});
      return;
    }
    if (dependencies_ && !reads_.empty() && random_.percent(20)) branch_over(thread);
    const int kind = random_.below(100);
    if (atomics_ && kind < 35) {
      add_atomic(thread);
    } else if (kind < 68) {
      add_load(thread);
    } else {
      lit::Store store;
      store.address = address(thread);
      draw_order(store.order, store.scope, lit::Order::release);
      store.proxy = proxy(true);
      store.values = {stored_value(thread)};
      add(thread, std::move(store));
    }
  }

  void add_load(lit::Thread& thread) {
    lit::Load load;
    load.address = address(thread);
    draw_order(load.order, load.scope, lit::Order::acquire);
    load.proxy = proxy(false);
    if (load.proxy == lit::Proxy::Texture || load.proxy == lit::Proxy::Constant) {
      load.order = lit::Order::weak;
    }
    const lit::RegisterId destination = new_register(thread);
    load.destinations = {destination};
    const bool await = (awaits_ || o_.unread_awaits) && load.order != lit::Order::weak &&
                       open_labels_.empty() && random_.percent(o_.unread_awaits ? 80 : 40);
    const bool unread = await && o_.unread_awaits && random_.percent(80);
    if (unread) {
      unread_.emplace_back(&thread - test_.threads.data(), destination);
    } else {
      reads_.push_back(destination);
    }
    if (!await) {
      add(thread, std::move(load));
      return;
    }
    // The value is one that some store may write; where none does, no execution ends.
    const int label = static_cast<int>(thread.instructions.size());
    add(thread, lit::Label{"L" + std::to_string(labels_++)});
    add(thread, std::move(load));
    add(thread,
        lit::Branch{unread ? lit::Compare::eq : lit::Compare::ne, lit::Register{destination},
                    lit::Constant{random_.between(0, unread ? 1 : 4)}, label});
  }

  void add_atomic(lit::Thread& thread) {
    lit::Atomic atomic;
    atomic.address = address(thread);
    atomic.scope = scope();
    atomic.proxy = proxy(true);
    static constexpr lit::Order kOrders[] = {lit::Order::acquire, lit::Order::release,
                                             lit::Order::acq_rel};
    atomic.order = random_.percent(synchronising_percent_)
                       ? kOrders[static_cast<std::size_t>(random_.below(3))]
                       : lit::Order::relaxed;
    int kind = random_.below(100);
    if (o_.unread_exchanges && random_.percent(70)) kind = 50;
    if (cas_ && kind < 40) {
      atomic.op = lit::Combine::cas;
      const int compared = random_.between(0, 4);
      atomic.value = lit::Constant{compared};
      atomic.desired = lit::Constant{next_value_++};
      if (o_.atomic_awaits && open_labels_.empty() && random_.percent(70)) {
        if (random_.percent(40)) atomic.desired = lit::Constant{compared};
        atomic.destination = new_register(thread);
        reads_.push_back(*atomic.destination);
        const int label = static_cast<int>(thread.instructions.size());
        const lit::Register read{*atomic.destination};
        add(thread, lit::Label{"L" + std::to_string(labels_++)});
        add(thread, std::move(atomic));
        add(thread, lit::Branch{lit::Compare::ne, read, lit::Constant{compared}, label});
        return;
      }
    } else if (kind < 65) {
      atomic.op = lit::Combine::exchange;
      atomic.value = stored_value(thread);
    } else {
      atomic.op = lit::Combine::add;
      atomic.value = lit::Constant{next_addend_};
      next_addend_ *= 2;
    }
    const bool reduction = atomic.op == lit::Combine::add && random_.percent(30);
    if (reduction && (atomic.order == lit::Order::acquire || atomic.order == lit::Order::acq_rel)) {
      atomic.order = lit::Order::release;
    }
    if (!reduction) {
      atomic.destination = new_register(thread);
      if (o_.unread_exchanges && random_.percent(70)) {
        unread_.emplace_back(&thread - test_.threads.data(), *atomic.destination);
      } else {
        reads_.push_back(*atomic.destination);
      }
    }
    add(thread, std::move(atomic));
  }

  // weak, relaxed, or the synchronising order of its kind.
  void draw_order(lit::Order& order, lit::Scope& out_scope, lit::Order synchronising) {
    if (random_.percent(weak_percent_)) {
      order = lit::Order::weak;
      return;
    }
    order = random_.percent(synchronising_percent_) ? synchronising : lit::Order::relaxed;
    out_scope = scope();
  }

  lit::Scope scope() {
    if (!random_.percent(narrow_percent_)) return lit::Scope::sys;
    if (clusters_ && random_.percent(33)) return lit::Scope::cluster;
    return random_.percent(50) ? lit::Scope::cta : lit::Scope::gpu;
  }

  // A location, sometimes through a register whose text depends on an earlier read.
  lit::Address address(lit::Thread& thread) {
    const int location = random_.below(static_cast<int>(test_.locations.size()));
    if (!dependencies_ || reads_.empty() || !random_.percent(20)) return {location, 0};
    const lit::RegisterId zero = zero_from_read(thread);
    lit::RegisterInfo base;
    base.name = "r" + std::to_string(thread.registers.size());
    base.initial_address = location;
    base.declared = true;
    const auto id = static_cast<lit::RegisterId>(thread.registers.size());
    thread.registers.push_back(std::move(base));
    add(thread, lit::Local{lit::LocalOp::Add, id, lit::Register{id}, lit::Register{zero}});
    return {lit::Register{id}, 0};
  }

  // A fresh value, sometimes through a register that depends on an earlier read.
  lit::Operand stored_value(lit::Thread& thread) {
    const lit::Constant value{next_value_++};
    if (!dependencies_ || reads_.empty() || !random_.percent(30)) return value;
    const lit::RegisterId id = zero_from_read(thread);
    add(thread, lit::Local{lit::LocalOp::Add, id, lit::Register{id}, value});
    return lit::Register{id};
  }

  lit::RegisterId zero_from_read(lit::Thread& thread) {
    const lit::RegisterId id = new_register(thread);
    const lit::Register read{a_read()};
    add(thread, lit::Local{lit::LocalOp::Xor, id, read, read});
    return id;
  }

  // Skips what follows unless an earlier read returned a certain value.
  void branch_over(lit::Thread& thread) {
    open_labels_.push_back(thread.instructions.size());
    add(thread, lit::Branch{random_.percent(50) ? lit::Compare::ne : lit::Compare::eq,
                            lit::Register{a_read()}, lit::Constant{random_.between(0, 4)}, 0});
  }

  void close_branches(lit::Thread& thread) {
    if (open_labels_.empty()) return;
    for (std::size_t branch : open_labels_) {
      std::get<lit::Branch>(thread.instructions[branch].what).target =
          static_cast<int>(thread.instructions.size());
    }
    open_labels_.clear();
    add(thread, lit::Label{"L" + std::to_string(labels_++)});
  }

  lit::RegisterId a_read() {
    return reads_[static_cast<std::size_t>(random_.below(static_cast<int>(reads_.size())))];
  }
  lit::RegisterId new_register(lit::Thread& thread) {
    lit::RegisterInfo info;
    info.name = "r" + std::to_string(thread.registers.size());
    thread.registers.push_back(std::move(info));
    return static_cast<lit::RegisterId>(thread.registers.size()) - 1;
  }

  template <class What>
  void add(lit::Thread& thread, What what) {
    thread.instructions.emplace_back().what = std::move(what);
  }

  void observe() {
    for (std::size_t l = 0; l < test_.locations.size(); ++l) {
      if (test_.locations[l].alias_of) continue;
      test_.observed.push_back({-1, static_cast<int>(l), 0});
    }
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      for (const lit::Instruction& i : test_.threads[t].instructions) {
        if (const auto* load = std::get_if<lit::Load>(&i.what)) {
          const std::pair read(static_cast<std::ptrdiff_t>(t), load->destinations.front());
          if (std::find(unread_.begin(), unread_.end(), read) != unread_.end()) continue;
          test_.observed.push_back({static_cast<int>(t), read.second, 0});
        } else if (const auto* atomic = std::get_if<lit::Atomic>(&i.what)) {
          if (atomic->destination && std::find(unread_.begin(), unread_.end(),
                                               std::pair(static_cast<std::ptrdiff_t>(t),
                                                         *atomic->destination)) == unread_.end()) {
            test_.observed.push_back({static_cast<int>(t), *atomic->destination, 0});
          }
        }
      }
    }
  }

  Random random_;
  const GeneratorOptions& o_;
  lit::Test test_;
  bool atomics_ = false;
  bool cas_ = false;
  bool fences_ = false;
  bool barriers_ = false;
  bool dependencies_ = false;
  bool awaits_ = false;
  bool clusters_ = false;
  int weak_percent_ = 0;
  int synchronising_percent_ = 0;
  int narrow_percent_ = 0;
  std::vector<lit::Proxy> proxies_;
  std::vector<int> lengths_;
  std::vector<int> barriers_of_;
  std::int64_t next_value_ = 1;
  std::int64_t next_addend_ = 16;
  int labels_ = 0;
  // Of the thread that is being filled: registers that reads wrote, branches without a label yet.
  std::vector<lit::RegisterId> reads_;
  std::vector<std::pair<std::ptrdiff_t, lit::RegisterId>> unread_;  // by thread
  std::vector<std::size_t> open_labels_;
};

}  // namespace

litmus::Test generate(std::uint64_t seed, const GeneratorOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace ringfence::axiomatic
