#include "tests/oracle/print.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace ringfence::oracle {
namespace {

using Kind = Step::Kind;
constexpr int kMbarriers = 128;  // behind the words, in shared memory

std::string_view name(Scope scope) {
  constexpr std::string_view kNames[] = {"cta", "cluster", "gpu", "sys"};
  return kNames[static_cast<std::size_t>(scope)];
}

// ".relaxed.gpu", "" for weak ones.
std::string how(Order order, Scope scope) {
  switch (order) {
    case Order::weak:
      return ".weak";
    case Order::volatile_:
      return ".volatile";
    case Order::relaxed:
      return fmt::format(".relaxed.{}", name(scope));
    case Order::acquire:
      return fmt::format(".acquire.{}", name(scope));
    case Order::release:
      return fmt::format(".release.{}", name(scope));
    case Order::acq_rel:
      return fmt::format(".acq_rel.{}", name(scope));
    case Order::sc:
      return fmt::format(".sc.{}", name(scope));
  }
  return "";
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : k_(kernel) {}

  std::string run() {
    text_ = fmt::format("// kernel {}\n.version 8.6\n.target sm_90a\n.address_size 64\n", k_.seed);
    entry("k");
    if (k_.cut.empty()) return std::move(text_);
    second_ = true;
    entry("k2");
    return std::move(text_);
  }

 private:
  void entry(const char* name) {
    text_ += fmt::format(
        "\n.visible .entry {}(.param .u64 peers, .param .u64 out, .param .u32 rank)\n{{\n"
        "  .reg .pred %p<4>;\n  .reg .b32 %v<8>;\n  .reg .b32 %sh<2>;\n  .reg .b32 %r<{}>;\n"
        "  .reg .b64 %m<{}>, %t<2>, %o, %q;\n",
        name, kMostSteps, k_.ranks);
    line(".shared .align 16 .b8 sm[256];");
    line("ld.param.u64 %t0, [peers];");
    for (int r = 0; r < k_.ranks; ++r) line("ld.global.u64 %m{}, [%t0+{}];", r, 8 * r);
    line("ld.param.u64 %o, [out];");
    line("ld.param.u32 %v0, [rank];");
    line("mov.u32 %v1, %ctaid.x;");
    line("mov.u32 %v2, %tid.x;");
    line("shr.u32 %v3, %v2, 5;");
    line("and.b32 %v4, %v2, 31;");
    line("setp.eq.u32 %p0, %v4, 0;");
    if (k_.paired) {
      line("setp.ge.u32 %p1, %v4, 2;");
      line("@%p1 ret;");
      line("mad.lo.u32 %v3, %v3, 2, %v4;");
      line("setp.ge.u32 %p1, %v3, {};", k_.warps);
      line("@%p1 ret;");
    }
    line("mad.lo.u32 %v5, %v0, {}, %v1;", k_.blocks);
    line("mad.lo.u32 %v5, %v5, {}, %v3;", k_.warps);
    line("mov.u32 %sh0, sm;");
    prologue();
    for (int t = 0; t < static_cast<int>(k_.threads.size()); ++t) {
      line("setp.eq.u32 %p1, %v5, {};", t);
      line("@%p1 bra T{};", t);
    }
    line("ret;");
    for (int t = 0; t < static_cast<int>(k_.threads.size()); ++t) thread(t);
    text_ += "}\n";
  }

  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    text_ += "  " + fmt::format(format, std::forward<A>(args)...) + "\n";
  }
  const std::vector<Step>& code(int t) const { return k_.threads[static_cast<std::size_t>(t)]; }

  // Initialised mbarriers, for the whole block, or cluster.
  void prologue() {
    if (k_.mbarriers.empty()) return;
    line("mad.lo.u32 %v6, %v0, {}, %v1;", k_.blocks);
    for (std::size_t i = 0; i < k_.mbarriers.size(); ++i) {
      line("setp.eq.u32 %p1, %v6, {};", k_.mbarriers[i].owner);
      line("setp.eq.and.u32 %p1, %v2, 0, %p1;");
      line("@%p1 mbarrier.init.shared::cta.b64 [sm+{}], {};", kMbarriers + 8 * i,
           k_.mbarriers[i].count);
    }
    if (k_.cluster) {
      line("barrier.cluster.arrive;");
      line("barrier.cluster.wait;");
    } else {
      line("bar.sync 0;");
    }
  }

  void thread(int t) {
    text_ += fmt::format("T{}:\n", t);
    const auto cut = k_.cut.empty() ? 0 : k_.cut[static_cast<std::size_t>(t)];
    const int from = second_ ? cut : 0;
    const int to = k_.cut.empty() || second_ ? static_cast<int>(code(t).size()) : cut;
    const bool two = std::any_of(code(t).begin() + from, code(t).begin() + to, [](const Step& s) {
      return s.kind == Kind::vote || s.kind == Kind::vote_poll;
    });
    if (!k_.paired) {
      line("setp.ge.u32 %p1, %v4, {};", two ? 2 : 1);
      line("@%p1 ret;");
    }
    first_ = two ? "@%p0 " : "";
    for (int i = from; i < to; ++i) {
      if (has_result(code(t)[static_cast<std::size_t>(i)].kind)) line("mov.u32 %r{}, 0;", i);
    }
    last_.clear();
    for (int i = from; i < to; ++i) {
      step(t, i, code(t)[static_cast<std::size_t>(i)]);
    }
    for (int i = from; i < to; ++i) {
      if (!has_result(code(t)[static_cast<std::size_t>(i)].kind)) continue;
      line("{}st.weak.global.u32 [%o+{}], %r{};", first_, result_offset(k_, t, i), i);
    }
    line("ret;");
  }

  // The space's suffix and the address of a shared place: of the own block, or mapped.
  struct Place {
    std::string space, address;
  };
  Place shared(int t, int owner, int offset) {
    if (owner == k_.block_of(t)) return {".shared::cta", fmt::format("[sm+{}]", offset)};
    line("mapa.shared::cluster.u32 %sh1, %sh0, {};", owner % k_.blocks);
    return {".shared::cluster", fmt::format("[%sh1+{}]", offset)};
  }
  Place place(int t, int location) {
    const Location& l = k_.locations[static_cast<std::size_t>(location)];
    if (!l.shared) {
      return {".global", fmt::format("[%m{}+{}]", l.owner, global_offset(location))};
    }
    return shared(t, l.owner, 16 * location);
  }

  void step(int t, int i, const Step& s) {
    const std::string label = fmt::format("L{}_{}", t, i);
    switch (s.kind) {
      case Kind::load: {
        const Place p = place(t, s.location);
        line("{}ld{}{}.u32 %r{}, {};", first_, how(s.order, s.scope), p.space, i, p.address);
        break;
      }
      case Kind::store: {
        const Place p = place(t, s.location);
        line("{}st{}{}.u32 {}, {};", first_, how(s.order, s.scope), p.space, p.address, s.value);
        break;
      }
      case Kind::add:
      case Kind::exch: {
        const Place p = place(t, s.location);
        line("{}atom{}{}.{} %r{}, {}, {};", first_, how(s.order, s.scope), p.space,
             s.kind == Kind::add ? "add.u32" : "exch.b32", i, p.address, s.value);
        break;
      }
      case Kind::cas: {
        const Place p = place(t, s.location);
        line("{}atom{}{}.cas.b32 %r{}, {}, {}, {};", first_, how(s.order, s.scope), p.space, i,
             p.address, s.compare, s.value);
        break;
      }
      case Kind::red: {
        const Place p = place(t, s.location);
        line("{}red{}{}.add.u32 {}, {};", first_, how(s.order, s.scope), p.space, p.address,
             s.value);
        break;
      }
      case Kind::fence:
        line("{}fence{};", first_, how(s.order, s.scope));
        break;
      case Kind::poll:
      case Kind::poll_ne:
      case Kind::poll_ge:
      case Kind::poll_add:
      case Kind::poll_cas:
        poll(t, label, s);
        break;
      case Kind::poll_ahead:
      case Kind::poll_told:
      case Kind::poll_twice:
        poll_by_more(t, i, label, s);
        break;
      case Kind::bounded_poll: {
        const Place p = place(t, s.location);
        line("mov.u32 %v7, {};", s.value);
        text_ += label + ":\n";
        line("{}ld{}{}.u32 %r{}, {};", first_, how(s.order, s.scope), p.space, i, p.address);
        line("sub.u32 %v7, %v7, 1;");
        line("setp.ne.u32 %p1, %v7, 0;");
        line("setp.eq.and.u32 %p1, %r{}, 0, %p1;", i);
        line("@%p1 bra {};", label);
        break;
      }
      case Kind::vote:
      case Kind::vote_poll:
        vote(t, i, label, s);
        break;
      case Kind::bar_sync:
        line("barrier.sync {}, {};", s.barrier, 32 * s.count);
        break;
      case Kind::bar_arrive:
        line("barrier.arrive {}, {};", s.barrier, 32 * s.count);
        break;
      case Kind::bar_red:
        if (last_.empty()) {
          line("setp.ne.u32 %p1, %v2, %v2;");
        } else {
          line("setp.ne.u32 %p1, {}, 0;", last_);
        }
        line("barrier.red.popc.u32 %r{}, {}, {}, %p1;", i, s.barrier, 32 * s.count);
        break;
      case Kind::cluster_arrive:
        line("barrier.cluster.arrive{};", s.order == Order::relaxed ? ".relaxed" : ".release");
        break;
      case Kind::cluster_wait:
        line("barrier.cluster.wait.acquire;");
        break;
      case Kind::mbar_arrive: {
        const Place p = mbarrier(t, s.location);
        const bool remote = p.space == ".shared::cluster";
        line("{}mbarrier.arrive{}{}.b64 {}, {};", first_, how(s.order, s.scope), p.space,
             remote ? "_" : "%q", p.address);
        break;
      }
      case Kind::mbar_wait:
        text_ += label + ":\n";
        line("mbarrier.try_wait.parity{}.shared::cta.b64 %p1, {}, {};", how(s.order, s.scope),
             mbarrier(t, s.location).address, s.value);
        line("@!%p1 bra {};", label);
        break;
      case Kind::mbar_test:
        line("mbarrier.test_wait.parity{}.shared::cta.b64 %p1, {}, {};", how(s.order, s.scope),
             mbarrier(t, s.location).address, s.value);
        line("selp.u32 %r{}, 1, 0, %p1;", i);
        break;
      case Kind::bulk_load: {
        const std::string on = mbarrier(t, s.barrier).address;
        line("{}mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %q, {}, 16;", first_, on);
        line("{}cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes {}, {}, 16, {};",
             first_, place(t, s.location).address, place(t, s.other).address, on);
        break;
      }
      case Kind::bulk_store:
        line("{}cp.async.bulk.global.shared::cta.bulk_group {}, {}, 16;", first_,
             place(t, s.location).address, place(t, s.other).address);
        line("{}cp.async.bulk.commit_group;", first_);
        break;
      case Kind::bulk_add:
        line("{}cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 {}, {}, 16;", first_,
             place(t, s.location).address, place(t, s.other).address);
        line("{}cp.async.bulk.commit_group;", first_);
        break;
      case Kind::bulk_wait:
        line("{}cp.async.bulk.wait_group{} {};", first_, s.value % 2 == 1 ? ".read" : "",
             s.value / 2);
        break;
      case Kind::fence_async:
        line("{}fence.proxy.async;", first_);
        break;
      case Kind::trigger:
        line("griddepcontrol.launch_dependents;");
        break;
      case Kind::after:
        line("griddepcontrol.wait;");
        break;
    }
    if (has_result(s.kind)) last_ = fmt::format("%r{}", i);
  }

  Place mbarrier(int t, int at) {
    return shared(t, k_.mbarriers[static_cast<std::size_t>(at)].owner, kMbarriers + 8 * at);
  }

  void poll(int t, const std::string& label, const Step& s) {
    const Place p = place(t, s.location);
    text_ += label + ":\n";
    if (s.kind == Kind::poll || s.kind == Kind::poll_ne || s.kind == Kind::poll_ge) {
      line("ld{}{}.u32 %v7, {};", how(s.order, s.scope), p.space, p.address);
    } else if (s.kind == Kind::poll_add) {
      line("atom{}{}.add.u32 %v7, {}, 0;", how(s.order, s.scope), p.space, p.address);
    } else {
      line("atom{}{}.cas.b32 %v7, {}, {}, {};", how(s.order, s.scope), p.space, p.address, s.value,
           s.value);
    }
    line("setp.{}.u32 %p1, %v7, {};",
         s.kind == Kind::poll_ne   ? "eq"
         : s.kind == Kind::poll_ge ? "lt"
                                   : "ne",
         s.value);
    line("@%p1 bra {};", label);
  }

  // A wait that has more than one look in the text.
  void poll_by_more(int t, int i, const std::string& label, const Step& s) {
    const Place p = place(t, s.location);
    const std::string out = label + "_out";
    const auto look = [&](Order order) {
      if (s.compare == 0) {
        line("ld{}{}.u32 %v7, {};", how(order, s.scope), p.space, p.address);
      } else {
        line("atom{}{}.cas.b32 %v7, {}, {}, {};", how(order, s.scope), p.space, p.address, s.value,
             s.compare);
      }
    };
    const auto leave = [&] {
      line("setp.eq.u32 %p1, %v7, {};", s.value);
      line("@%p1 bra {};", out);
    };
    if (!first_.empty()) line("@!%p0 bra {};", out);
    const bool twice = s.kind == Kind::poll_twice;
    const bool told = s.kind == Kind::poll_told || (twice && s.count == 1);
    for (int n = s.kind == Kind::poll_ahead ? s.count : twice ? 0 : 1; n > 0; --n) {
      if (told) line("mov.u32 %r{}, 1;", i);
      look(s.order);
      leave();
    }
    if (told && !twice) line("mov.u32 %r{}, 2;", i);
    text_ += label + ":\n";
    if (twice) {
      if (told) line("mov.u32 %r{}, 1;", i);
      look(s.order);
      leave();
      if (told) line("mov.u32 %r{}, 2;", i);
    }
    look(twice && s.count == 2 ? Order::relaxed : s.order);
    line("setp.ne.u32 %p1, %v7, {};", s.value);
    line("@%p1 bra {};", label);
    text_ += out + ":\n";
  }

  void vote(int t, int i, const std::string& label, const Step& s) {
    const Place one = place(t, s.location);
    std::string at = one.address;
    if (one.space == ".shared::cluster") {
      line("mov.u32 %v6, %sh1;");
      at.replace(1, 4, "%v6");
    }
    const Place two = place(t, s.other);
    if (s.kind == Kind::vote_poll) text_ += label + ":\n";
    line("@%p0 ld{}{}.u32 %v7, {};", how(s.order, s.scope), one.space, at);
    line("@!%p0 ld{}{}.u32 %v7, {};", how(s.order, s.scope), two.space, two.address);
    line("setp.ne.u32 %p1, %v7, 0;");
    if (s.kind == Kind::vote) {
      line("vote.sync.ballot.b32 %r{}, %p1, 3;", i);
    } else {
      line("vote.sync.all.pred %p1, %p1, 3;");
      line("@!%p1 bra {};", label);
    }
  }

  const Kernel& k_;
  std::string text_;
  std::string first_;    // "@%p0 " where a second lane is there
  std::string last_;     // the register of the last value read
  bool second_ = false;  // of two launches, this one is printed
};

}  // namespace

int global_offset(int location) { return 64 * location; }

int result_offset(const Kernel& kernel, int thread, int step) {
  const int in_rank = thread % (kernel.blocks * kernel.warps);
  return 4 * (in_rank * kMostSteps + step);
}

std::string to_case(const Kernel& k, const std::string& ptx) {
  std::string text = fmt::format(
      "version = 1\nranks = {}\n\n[memory.m]\nkind = \"symmetric\"\nbytes = 1024\n\n"
      "[memory.out]\nkind = \"local\"\nbytes = 4096\n",
      k.ranks);
  for (int launch = 0; launch < (k.cut.empty() ? 1 : 2); ++launch) {
    text += fmt::format("\n[[launch]]\nptx = \"{}\"\nkernel = \"{}\"\ngrid = [{}]\nblock = [{}]\n",
                        ptx, launch == 0 ? "k" : "k2", k.blocks,
                        32 * (k.paired ? (k.warps + 1) / 2 : k.warps));
    if (k.cluster) text += fmt::format("cluster = [{}]\n", k.blocks);
    if (launch == 1) text += "dependent = true\n";
    text += "args = [{ peers = \"m\" }, { memory = \"out\" }, \"rank\"]\n";
  }
  return text;
}

std::string to_ptx(const Kernel& kernel) { return Printer(kernel).run(); }

}  // namespace ringfence::oracle
