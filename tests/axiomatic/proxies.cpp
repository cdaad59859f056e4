#include "tests/axiomatic/proxies.hpp"

namespace ringfence::axiomatic {
namespace {

class Paths {
 public:
  Paths(const Skeleton& skeleton, const Relation& base) : s_(skeleton), base_(base) {}

  bool hold(int x, int y) const {
    const Event &a = s_.event(x), &b = s_.event(y);
    const bool one_address = a.address == b.address;
    if (one_address && (a.proxy == Proxy::Async || b.proxy == Proxy::Async)) {
      // An asynchronous access is before something only if its end was observed. A write behind
      // mere reads is let pass, as by the policy async-war=note.
      if (a.proxy == Proxy::Async || s_.is(s_.reads, x)) return true;
      bool leads = false;
      for_each(fences_after(bit(x), Proxy::Async, -1),
               [&](int e) { leads = leads || base_(e, y); });
      return leads;
    }
    if (one_address && a.proxy == b.proxy && (a.proxy == Proxy::Generic || one_block(x, y))) {
      return true;
    }
    Set reached = bit(x);
    if (a.proxy != Proxy::Generic) reached = fences_after(reached, a.proxy, x);
    if (!one_address) reached = fences_after(reached, Proxy::Generic, -1);
    if (b.proxy != Proxy::Generic) reached = fences_after(reached, b.proxy, y);
    bool leads = false;
    for_each(reached, [&](int e) { leads = leads || base_(e, y); });
    return leads;
  }

 private:
  // The fences of a proxy behind one of `from`; where `near` is an event, those of its block.
  Set fences_after(Set from, Proxy proxy, int near) const {
    Set behind = 0;
    for_each(from, [&](int e) { behind |= base_.row(e); });
    Set out = 0;
    for_each(behind & s_.bridges, [&](int f) {
      if (s_.event(f).proxy == proxy && (near < 0 || one_block(f, near))) out |= bit(f);
    });
    return out;
  }

  bool one_block(int x, int y) const {
    const Place &p = place(x), &q = place(y);
    return p.gpu == q.gpu && p.cta == q.cta;
  }
  const Place& place(int e) const {
    return s_.program->threads[static_cast<std::size_t>(s_.thread(e))].place;
  }

  const Skeleton& s_;
  const Relation& base_;
};

}  // namespace

Relation preserved(const Skeleton& s, const Relation& base) {
  Relation out(s.n);
  const Paths paths(s, base);
  for_each((s.reads | s.writes) & ~s.initial, [&](int x) {
    for_each(base.row(x) & (s.reads | s.writes), [&](int y) {
      if (s.event(x).location == s.event(y).location && paths.hold(x, y)) out.add(x, y);
    });
  });
  return out;
}

}  // namespace ringfence::axiomatic
