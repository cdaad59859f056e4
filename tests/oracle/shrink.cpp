#include "tests/oracle/shrink.hpp"

#include <vector>

namespace ringfence::oracle {
namespace {

using Kind = Step::Kind;

// The kernels that are one step smaller, largest steps first.
std::vector<Kernel> smaller(const Kernel& k) {
  std::vector<Kernel> all;
  for (std::size_t t = 0; t < k.threads.size(); ++t) {
    if (k.threads[t].size() < 2) continue;
    all.push_back(k);
    all.back().threads[t].clear();
    if (!k.cut.empty()) all.back().cut[t] = 0;
  }
  for (std::size_t t = 0; t < k.threads.size(); ++t) {
    for (std::size_t i = k.threads[t].size(); i-- > 0;) {
      all.push_back(k);
      all.back().threads[t].erase(all.back().threads[t].begin() + static_cast<std::ptrdiff_t>(i));
      if (!k.cut.empty() && static_cast<int>(i) < k.cut[t]) --all.back().cut[t];
    }
  }
  // A barrier that fewer warps meet.
  for (std::size_t t = 0; t < k.threads.size(); ++t) {
    for (std::size_t i = 0; i < k.threads[t].size(); ++i) {
      const Step& s = k.threads[t][i];
      const bool counted = s.kind == Kind::bar_sync || s.kind == Kind::bar_arrive;
      if (!counted) continue;
      all.push_back(k);
      auto& code = all.back().threads[t];
      code.erase(code.begin() + static_cast<std::ptrdiff_t>(i));
      if (!k.cut.empty() && static_cast<int>(i) < k.cut[t]) --all.back().cut[t];
      for (auto& other : all.back().threads) {
        for (Step& x : other) {
          if (x.barrier == s.barrier && x.count == s.count && x.count > 2) --x.count;
        }
      }
    }
  }
  if (!k.mbarriers.empty()) {
    bool used = false;
    for (const auto& code : k.threads) {
      for (const Step& s : code) {
        used = used || s.kind == Kind::mbar_arrive || s.kind == Kind::mbar_wait ||
               s.kind == Kind::mbar_test || s.kind == Kind::bulk_load;
      }
    }
    if (!used) {
      all.push_back(k);
      all.back().mbarriers.clear();
    }
  }
  for (std::size_t t = 0; t < k.threads.size(); ++t) {
    for (std::size_t i = 0; i < k.threads[t].size(); ++i) {
      const auto with = [&](auto change) {
        all.push_back(k);
        change(all.back().threads[t][i]);
      };
      const Step& s = k.threads[t][i];
      if (s.kind == Kind::poll_add || s.kind == Kind::poll_cas) {
        with([](Step& x) { x.kind = Kind::poll; });
      }
      if (s.kind == Kind::poll_ahead || s.kind == Kind::poll_told || s.kind == Kind::poll_twice) {
        with([](Step& x) { x.kind = Kind::poll; });
        if (s.compare != 0) with([](Step& x) { x.compare = 0; });
      }
      if (s.kind == Kind::add || s.kind == Kind::exch || s.kind == Kind::cas) {
        const bool acquires = s.order == Order::acquire || s.order == Order::acq_rel;
        if (acquires) {
          with([](Step& x) {
            x.kind = Kind::load;
            x.order = Order::acquire;
          });
        }
        if (s.order == Order::acq_rel) {
          with([](Step& x) { x.order = Order::acquire; });
          with([](Step& x) { x.order = Order::release; });
        }
      }
      const bool access = s.kind == Kind::load || s.kind == Kind::store || s.kind == Kind::add ||
                          s.kind == Kind::exch || s.kind == Kind::cas || s.kind == Kind::red ||
                          s.kind == Kind::poll || s.kind == Kind::poll_ne ||
                          s.kind == Kind::poll_ge;
      if (access && s.order != Order::relaxed && s.order != Order::weak) {
        with([](Step& x) { x.order = Order::relaxed; });
      }
    }
  }
  return all;
}

}  // namespace

Kernel shrink(const Kernel& kernel, const std::function<bool(const Kernel&)>& shows, int most) {
  Kernel best = kernel;
  for (bool again = true; again;) {
    again = false;
    for (const Kernel& k : smaller(best)) {
      if (most-- == 0) return best;
      if (!shows(k)) continue;
      best = k;
      again = true;
      break;
    }
  }
  return best;
}

}  // namespace ringfence::oracle
