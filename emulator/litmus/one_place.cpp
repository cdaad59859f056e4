#include "emulator/litmus/one_place.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "emulator/litmus/polls.hpp"
#include "emulator/litmus/values.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::litmus {
namespace {

constexpr std::size_t kAskEvery = 4096;  // states, for must_stop()

// An access of one element by its location's name, through the generic proxy.
struct Access {
  LocationId location = 0;
  bool plain = false;  // strong, of the location's width
  Scope scope = Scope::sys;
};

class Finder {
 public:
  Finder(const Test& test, const std::vector<LocationId>& memory_of)
      : test_(test), memory_of_(memory_of) {}

  // nullopt: no access. `location` of one through a register is -1.
  std::optional<Access> access(const Instruction& i) const {
    const auto of = [&](const auto& x, std::size_t elements, bool multimem) {
      const auto* named = std::get_if<LocationId>(&x.address.base);
      if (named == nullptr) return Access{-1, false, x.scope};
      const Location& l = test_.locations[index(*named)];
      Access a{memory_of_[index(*named)], false, x.scope};
      a.plain = a.location == *named && l.is_memory() && l.length == 1 && elements == 1 &&
                !multimem && x.address.offset == 0 && x.proxy == Proxy::Generic &&
                x.order != Order::weak && (x.type.bits == 0 || x.type.bits == l.type.bits);
      return a;
    };
    if (const auto* x = std::get_if<Load>(&i.what)) {
      return of(*x, x->destinations.size(), x->multimem.has_value());
    }
    if (const auto* x = std::get_if<Store>(&i.what)) return of(*x, x->values.size(), x->multimem);
    if (const auto* x = std::get_if<Atomic>(&i.what)) return of(*x, 1, x->multimem);
    return std::nullopt;
  }

  // Whether the thread does nothing but such accesses of one location and arithmetic, and goes
  // forward only.
  bool simple(const Thread& thread, LocationId location) const {
    for (std::size_t at = 0; at < thread.instructions.size(); ++at) {
      const Instruction& i = thread.instructions[at];
      if (const auto a = access(i)) {
        if (!a->plain || a->location != location) return false;
        continue;
      }
      const auto* fence = std::get_if<Fence>(&i.what);
      const auto* branch = std::get_if<Branch>(&i.what);
      if (std::holds_alternative<Barrier>(i.what) || std::holds_alternative<Launch>(i.what) ||
          (fence != nullptr && fence->order == Order::sc) ||
          (branch != nullptr && index(branch->target) <= at)) {
        return false;
      }
    }
    return true;
  }

  // The threads that access the location; empty if one of them is not simple, or two of their
  // accesses are not morally strong.
  std::vector<std::size_t> threads(LocationId location, std::size_t& accesses) const {
    std::vector<std::size_t> found;
    std::vector<std::pair<machine::Placement, Scope>> all;
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      const Thread& thread = test_.threads[t];
      bool mine = false;
      for (const Instruction& i : thread.instructions) {
        const auto a = access(i);
        if (!a || a->location != location) continue;
        mine = true;
        all.emplace_back(placement(thread), a->scope);
      }
      if (!mine) continue;
      if (!simple(thread, location)) return {};
      found.push_back(t);
    }
    accesses = all.size();
    for (const auto& [from, scope] : all) {
      for (const auto& [to, other] : all) {
        if (!machine::reaches(scope, from, to)) return {};
      }
    }
    return found;
  }

  bool anywhere() const {
    for (const Thread& t : test_.threads) {
      for (const Instruction& i : t.instructions) {
        const auto a = access(i);
        if (a && a->location < 0) return true;
        if (a && !test_.locations[index(a->location)].replicas.empty()) return true;
      }
    }
    return false;
  }

 private:
  const Test& test_;
  const std::vector<LocationId>& memory_of_;
};

// The location's value, then for each thread the instruction that it is at, and its registers.
using Image = std::vector<std::int64_t>;

struct Hash {
  std::size_t operator()(const Image& image) const {
    std::uint64_t h = image.size();
    for (const std::int64_t v : image) {
      h = (h ^ bits_of(v)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 32;
    }
    return h;
  }
};

class Orders {
 public:
  Orders(const Test& test, const OnePlace& place, const OnePlace::Start& start,
         const OnePlace::Live& live)
      : test_(test), live_(live), type_(test.locations[index(place.location())].type) {
    Image first{signed_of(bits_of(start.value) & mask_of(type_))};
    for (const std::size_t t : place.threads()) {
      first_.push_back(first.size());
      threads_.push_back(t);
      first.push_back(0);
      first.insert(first.end(), start.registers[t].begin(), start.registers[t].end());
      settle(first, threads_.size() - 1);
    }
    add(std::move(first));
  }

  // Calls `end` with every image in which all threads have ended.
  template <class End>
  void run(End&& end) {
    for (std::size_t done = 0; !due_.empty(); ++done) {
      if (done % kAskEvery == 0 && schedule::must_stop()) return;
      const Image* const image = due_.back();
      due_.pop_back();
      bool ended = true;
      for (std::size_t k = 0; k < threads_.size(); ++k) {
        if (at(*image, k) == test_.threads[threads_[k]].instructions.size()) continue;
        ended = false;
        Image next = *image;
        step(next, k);
        settle(next, k);
        add(std::move(next));
      }
      if (ended) end(*image);
    }
  }

  std::int64_t value_in(const Image& image, const Variable& v) const {
    if (v.thread < 0) return extended(bits_of(image[0]), type_);
    const auto found =
        std::find(threads_.begin(), threads_.end(), static_cast<std::size_t>(v.thread));
    return image[first_[static_cast<std::size_t>(found - threads_.begin())] + 1 + index(v.id)];
  }

 private:
  std::size_t at(const Image& image, std::size_t k) const {
    return static_cast<std::size_t>(image[first_[k]]);
  }
  std::int64_t& reg(Image& image, std::size_t k, RegisterId r) const {
    return image[first_[k] + 1 + index(r)];
  }
  std::int64_t value(Image& image, std::size_t k, const Operand& o) const {
    if (const auto* c = std::get_if<Constant>(&o)) return c->value;
    return reg(image, k, std::get<Register>(o).id);
  }

  void add(Image image) {
    const auto [found, fresh] = seen_.insert(std::move(image));
    if (fresh) due_.push_back(&*found);
  }

  // Up to the thread's next access; registers that nothing needs from there on are 0.
  void settle(Image& image, std::size_t k) const {
    const auto& code = test_.threads[threads_[k]].instructions;
    std::size_t i = at(image, k);
    for (; i < code.size(); ++i) {
      if (const auto* local = std::get_if<Local>(&code[i].what)) {
        reg(image, k, local->destination) =
            apply(local->op, value(image, k, local->a), value(image, k, local->b));
      } else if (const auto* branch = std::get_if<Branch>(&code[i].what)) {
        const bool taken =
            !branch->comparison ||
            compare(value(image, k, branch->a), *branch->comparison, value(image, k, branch->b));
        if (taken) i = index(branch->target) - 1;
      } else if (!std::holds_alternative<Fence>(code[i].what) &&
                 !std::holds_alternative<ProxyFence>(code[i].what) &&
                 !std::holds_alternative<Label>(code[i].what)) {
        break;
      }
    }
    image[first_[k]] = static_cast<std::int64_t>(i);
    const std::vector<bool>& needed = live_[threads_[k]][i];
    for (std::size_t r = 0; r < needed.size(); ++r) {
      if (!needed[r]) image[first_[k] + 1 + r] = 0;
    }
  }

  void step(Image& image, std::size_t k) const {
    const Instruction& i = test_.threads[threads_[k]].instructions[at(image, k)];
    const std::uint64_t old = bits_of(image[0]);
    const auto typed = [&](Type t) { return t.bits != 0 ? t : type_; };
    const std::uint64_t mask = mask_of(type_);
    if (const auto* x = std::get_if<Load>(&i.what)) {
      reg(image, k, x->destinations.front()) = extended(old, typed(x->type));
    } else if (const auto* x = std::get_if<Store>(&i.what)) {
      image[0] = signed_of(bits_of(value(image, k, x->values.front())) & mask);
    } else if (const auto* x = std::get_if<Atomic>(&i.what)) {
      const std::uint64_t operand = bits_of(value(image, k, x->value)) & mask;
      if (x->op != Combine::cas) {
        image[0] = signed_of(combine(x->op, typed(x->type))(old, operand) & mask);
      } else if (old == operand) {
        image[0] = signed_of(bits_of(value(image, k, *x->desired)) & mask);
      }
      if (x->destination) reg(image, k, *x->destination) = extended(old, typed(x->type));
    }
    ++image[first_[k]];
  }

  const Test& test_;
  const OnePlace::Live& live_;
  const Type type_;
  std::vector<std::size_t> threads_, first_;
  std::unordered_set<Image, Hash> seen_;
  std::vector<const Image*> due_;
};

}  // namespace

std::vector<OnePlace> OnePlace::find(const Test& test, const std::vector<LocationId>& memory_of) {
  std::vector<OnePlace> found;
  const Finder finder(test, memory_of);
  if (finder.anywhere() || is_asynchronous(test)) return found;
  for (std::size_t l = 0; l < test.locations.size(); ++l) {
    std::size_t accesses = 0;
    std::vector<std::size_t> threads = finder.threads(static_cast<LocationId>(l), accesses);
    if (accesses >= kFewest && !threads.empty()) {
      found.push_back(OnePlace(static_cast<LocationId>(l), std::move(threads)));
    }
  }
  return found;
}

std::vector<std::vector<std::int64_t>> OnePlace::ends(const Test& test, const Start& start,
                                                      const Live& live,
                                                      const std::vector<Variable>& observed) const {
  std::vector<std::vector<std::int64_t>> out;
  Orders orders(test, *this, start, live);
  orders.run([&](const Image& image) {
    std::vector<std::int64_t>& values = out.emplace_back();
    for (const Variable& v : observed) values.push_back(orders.value_in(image, v));
  });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace ringfence::litmus
