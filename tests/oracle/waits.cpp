// Threads that wait again and again at one or two places that others count up and overwrite, with
// a weak access or two that may race: what a search has to order with each look.

#include "tests/oracle/waits.hpp"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "tests/axiomatic/random.hpp"

namespace ringfence::oracle {
namespace {

using Kind = Step::Kind;

// Steps are drawn in the order of one execution; a wait is drawn where the value ends it.
class Waits {
 public:
  explicit Waits(std::uint64_t seed) : random_(seed * 2 + 1) { kernel_.seed = seed; }

  Kernel run() {
    kernel_.warps = random_.between(2, 4);
    kernel_.threads.resize(static_cast<std::size_t>(kernel_.warps));
    kernel_.locations.resize(static_cast<std::size_t>(random_.between(1, 2)));
    values_.assign(kernel_.locations.size(), 0);
    weak_ = random_.below(3);
    fences_ = random_.percent(25);
    others_ = random_.percent(60);
    const int events = random_.between(3, 8);
    for (int i = 0; i < events; ++i) step();
    return std::move(kernel_);
  }

 private:
  void step() {
    Step s;
    s.scope = Scope::gpu;
    s.location = random_.below(static_cast<int>(values_.size()));
    std::uint32_t& value = values_[static_cast<std::size_t>(s.location)];
    const int what = random_.below(100);
    if (what < 12 && weak_ > 0) {
      --weak_;
      s.order = Order::weak;
      random_.percent(50) ? load(s) : store(s, value);
    } else if (what < 42 || (what < 60 && !others_)) {
      s.kind = random_.percent(60) ? Kind::red : Kind::add;
      s.order = random_.percent(50) ? Order::release : Order::relaxed;
      s.value = 1;
      ++value;
    } else if (what < 60) {
      other(s, value);
    } else {
      wait(s, value);
    }
    kernel_.threads[static_cast<std::size_t>(random_.below(kernel_.warps))].push_back(s);
  }

  static void load(Step& s) { s.kind = Kind::load; }
  void store(Step& s, std::uint32_t& value) {
    s.kind = Kind::store;
    s.value = value = static_cast<std::uint32_t>(random_.between(1, 3));
  }

  void other(Step& s, std::uint32_t& value) {
    const int what = random_.below(fences_ ? 5 : 4);
    s.order = random_.percent(50) ? Order::release : Order::relaxed;
    if (what == 0) {
      s.order = s.order == Order::release ? Order::acquire : s.order;
      load(s);
    } else if (what < 3) {
      store(s, value);
      if (what == 2) s.kind = Kind::exch;
    } else if (what == 3) {
      s.kind = Kind::cas;
      s.compare = value;
      s.value = value = static_cast<std::uint32_t>(random_.between(1, 3));
    } else {
      s.kind = Kind::fence;
      s.order = random_.percent(50) ? Order::acq_rel : Order::sc;
    }
  }

  void wait(Step& s, std::uint32_t value) {
    constexpr std::array<Kind, 6> kKinds = {Kind::poll_ge,  Kind::poll_ge,  Kind::poll_ne,
                                            Kind::poll_add, Kind::poll_cas, Kind::poll};
    s.kind = kKinds[static_cast<std::size_t>(random_.below(static_cast<int>(kKinds.size())))];
    s.order = random_.percent(60) ? Order::acquire : Order::relaxed;
    s.value = value;
    if (s.kind == Kind::poll_ne) {
      s.value = 0;
      if (value == 0) s.kind = Kind::poll;
    } else if (s.kind == Kind::poll_ge && value > 1) {
      s.value = static_cast<std::uint32_t>(random_.between(1, static_cast<int>(value)));
    }
  }

  axiomatic::Random random_;
  Kernel kernel_;
  std::vector<std::uint32_t> values_;  // of the locations, as the steps were drawn
  int weak_ = 0;                       // accesses that may still be drawn
  bool fences_ = false;
  bool others_ = false;  // accesses that neither add nor wait; else sums alone
};

}  // namespace

Kernel generate_waits(std::uint64_t seed) { return Waits(seed).run(); }

}  // namespace ringfence::oracle
