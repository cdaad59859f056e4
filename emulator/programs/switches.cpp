#include "emulator/programs/switches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "emulator/machine/names.hpp"

namespace ringfence::programs {

namespace {

using machine::Order;
using machine::Scope;

// Which orders an instruction can have: an atom has no weak form, a read releases nothing.
enum Orders : std::uint8_t { rmw_orders, read_orders, write_orders, red_orders, poll_orders };

std::string_view order_words(Orders kind) {
  switch (kind) {
    case rmw_orders:
      return "relaxed, acquire, release or acq_rel";
    case read_orders:
      return "weak, relaxed or acquire";
    case write_orders:
      return "weak, relaxed or release";
    case red_orders:
      return "relaxed or release";
    case poll_orders:
      return "relaxed or acquire";
  }
  return "";
}

bool set_order(Order& to, Orders kind, std::string_view value) {
  const auto order = machine::parse_order(value);
  if (!order) return false;
  const bool ok = kind == rmw_orders     ? *order != Order::weak
                  : kind == read_orders  ? !releases(*order)
                  : kind == write_orders ? !acquires(*order)
                  : kind == red_orders   ? *order == Order::relaxed || *order == Order::release
                                         : *order == Order::relaxed || *order == Order::acquire;
  if (ok) to = *order;
  return ok;
}

template <class T>
bool set_number(T& to, std::string_view value, T least, T most) {
  T n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc{} || end != value.data() + value.size() || n < least || n > most)
    return false;
  to = n;
  return true;
}

constexpr std::uint32_t kMaxBlocks = 32768;

bool set_grid(Switches& s, std::string_view value) {
  std::vector<std::uint32_t> grid;
  for (;;) {
    const std::size_t comma = value.find(',');
    std::uint32_t n = 0;
    if (!set_number(n, value.substr(0, comma), 1u, kMaxBlocks)) return false;
    grid.push_back(n);
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  s.grid = std::move(grid);
  return true;
}

// Protocols as sets, one bit each.
enum Protocols : std::uint16_t {
  kTokenweave = 1 << 0,
  kPypto = 1 << 1,
  kCasSlots = 1 << 2,
  kEpochInbox = 1 << 3,
  kMultimemCounter = 1 << 4,
  kFlagTwoShot = 1 << 5,
  kCounterTwoShot = 1 << 6,
  kMod3Flag = 1 << 7,
  kLamport = 1 << 8,
  kPutNotify = 1 << 9,
  kCas = kTokenweave | kCasSlots,
  kOneShot = kEpochInbox | kMultimemCounter | kMod3Flag,  // pull, with a barrier at either end
  kTwoShot = kFlagTwoShot | kCounterTwoShot,              // pull, with one before and one between
  kPull = kOneShot | kTwoShot,
  kAll = 0xffff,
};

std::uint16_t bit_of(const std::string& protocol) {
  static const std::map<std::string, std::uint16_t> bits = {
      {"tokenweave", kTokenweave},
      {"pypto", kPypto},
      {"cas-slots", kCasSlots},
      {"epoch-inbox", kEpochInbox},
      {"multimem-counter", kMultimemCounter},
      {"flag-two-shot", kFlagTwoShot},
      {"counter-two-shot", kCounterTwoShot},
      {"mod3-flag", kMod3Flag},
      {"lamport", kLamport},
      {"put-notify", kPutNotify},
  };
  const auto found = bits.find(protocol);
  return found == bits.end() ? 0 : found->second;
}

// A protocol to the letter.
Switches defaults(const std::string& protocol) {
  Switches s;
  switch (bit_of(protocol)) {
    case kCasSlots:
      s.start_wait = Order::acquire;
      s.end_wait = Order::relaxed;
      break;
    case kEpochInbox:
    case kMultimemCounter:
    case kMod3Flag:
      s.start_put = Order::release;
      s.start_wait = Order::acquire;
      break;
    case kPutNotify:
      s.put = Order::weak;
      s.load = Order::weak;
      break;
    default:
      break;
  }
  return s;
}

struct Switch {
  const char* key;
  const char* value;       // as the list of switches shows it
  std::string_view words;  // what the value may be
  std::uint16_t protocols;
  bool (*set)(Switches&, std::string_view);
  Order Switches::*order = nullptr;  // the field of an order switch
  // Given at all, it takes something away: to leave it out is a step up.
  bool fault = false;
};

template <Order Switches::*Field, Orders Kind>
bool order(Switches& s, std::string_view value) {
  return set_order(s.*Field, Kind, value);
}

template <bool Switches::*Field>
bool none(Switches& s, std::string_view value) {
  if (value != "none") return false;
  s.*Field = false;
  return true;
}

template <Order Switches::*Field, Orders Kind>
Switch order_switch(const char* key, std::uint16_t protocols) {
  return {key, "ORDER", order_words(Kind), protocols, order<Field, Kind>, Field};
}

template <bool Switches::*Field>
Switch none_switch(const char* key, std::uint16_t protocols) {
  return {key, "none", "none", protocols, none<Field>, nullptr, true};
}

const std::vector<Switch>& table() {
  static const std::vector<Switch> all = {
      none_switch<&Switches::start>("start", kCas | kPull),
      none_switch<&Switches::mid>("mid", kTwoShot),
      none_switch<&Switches::end>("end", kCas | kOneShot),
      order_switch<&Switches::start_put, rmw_orders>("start.put", kCas),
      order_switch<&Switches::start_wait, rmw_orders>("start.wait", kCas),
      order_switch<&Switches::start_put, red_orders>("start.put", kPull),
      order_switch<&Switches::start_wait, poll_orders>("start.wait", kPull),
      order_switch<&Switches::end_put, red_orders>("mid.put", kTwoShot),
      order_switch<&Switches::end_wait, poll_orders>("mid.wait", kTwoShot),
      order_switch<&Switches::end_put, rmw_orders>("end.put", kCas),
      order_switch<&Switches::end_wait, rmw_orders>("end.wait", kCas),
      order_switch<&Switches::end_put, red_orders>("end.put", kOneShot),
      order_switch<&Switches::end_wait, poll_orders>("end.wait", kOneShot),
      order_switch<&Switches::ld_reduce, read_orders>("ld_reduce.order", kCas),
      order_switch<&Switches::load, read_orders>("ld.order", kPull | kPutNotify),
      order_switch<&Switches::load, poll_orders>("ld.order", kLamport),
      order_switch<&Switches::st, write_orders>("st.order", kCas | kTwoShot),
      order_switch<&Switches::st, red_orders>("st.order", kLamport),
      none_switch<&Switches::end_block_barrier>("end.block_barrier", kCas | kOneShot),
      none_switch<&Switches::end_block_barrier>("mid.block_barrier", kTwoShot),
      none_switch<&Switches::end_block_barrier>("notify.block_barrier", kPutNotify),
      {"grid", "N,N", "block counts of 1 to 32768, for the ranks in turn, such as 2,3", kCas,
       set_grid, nullptr, true},
      {"epoch", "restarts", "restarts", kEpochInbox,
       [](Switches& s, std::string_view v) { return s.epoch_restarts = v == "restarts"; }, nullptr,
       true},
      {"flags", "shared", "shared", kFlagTwoShot,
       [](Switches& s, std::string_view v) { return s.flags_shared = v == "shared"; }, nullptr,
       true},
      {"flags", "one-set", "one-set", kCounterTwoShot,
       [](Switches& s, std::string_view v) { return s.one_flag_set = v == "one-set"; }, nullptr,
       true},
      {"modulus", "2", "2 or 3", kMod3Flag,
       [](Switches& s, std::string_view v) { return set_number(s.modulus, v, 2u, 3u); }, nullptr,
       true},
      {"buffers", "2", "2 or 3", kLamport,
       [](Switches& s, std::string_view v) { return set_number(s.buffers, v, 2u, 3u); }, nullptr,
       true},
      order_switch<&Switches::clear, red_orders>("clear.order", kLamport),
      {"clear.size", "this-call", "this-call", kLamport,
       [](Switches& s, std::string_view v) { return s.clear_own_size = v == "this-call"; }, nullptr,
       true},
      none_switch<&Switches::clear_data>("clear.data", kPypto | kLamport),
      none_switch<&Switches::clear_signal>("clear.signal", kPypto),
      none_switch<&Switches::barrier_all>("barrier_all", kPypto),
      order_switch<&Switches::put, red_orders>("put.order", kPypto),
      order_switch<&Switches::put, write_orders>("put.order", kPutNotify),
      order_switch<&Switches::signal, red_orders>("signal.order", kPypto | kPutNotify),
      order_switch<&Switches::wait, poll_orders>("wait.order", kPypto | kPutNotify),
      none_switch<&Switches::second_notify>("second_notify", kPutNotify),
      order_switch<&Switches::barrier_signal, red_orders>("barrier.signal", kPypto),
      order_switch<&Switches::barrier_wait, poll_orders>("barrier.wait", kPypto),
      {"wait.cmp", "GE", "EQ or GE", kPypto,
       [](Switches& s, std::string_view v) {
         if (v != "EQ" && v != "GE") return false;
         s.wait_compare = v == "EQ" ? machine::Compare::eq : machine::Compare::ge;
         return true;
       },
       nullptr, true},
      {"wait.cmp", "EQ", "EQ or GE", kMultimemCounter,
       [](Switches& s, std::string_view v) {
         if (v != "EQ" && v != "GE") return false;
         s.total_exactly = v == "EQ";
         return true;
       },
       nullptr, true},
      none_switch<&Switches::shmem_edges>("shmem_edges", kPypto),
      none_switch<&Switches::pred_edges>("pred_edges", kPypto),
      {"tile_rows", "N", "a number of token rows from 1 to 65536", kPypto,
       [](Switches& s, std::string_view v) { return set_number(s.tile_rows, v, 1u, 65536u); }},
      {"data_limit", "BYTES", "a number of bytes from 1 to 2^40", kPypto,
       [](Switches& s, std::string_view v) {
         return set_number(s.data_limit, v, std::uint64_t{1}, std::uint64_t{1} << 40);
       }},
      {"signal_limit", "BYTES", "a number of bytes from 1 to 2^40", kPypto,
       [](Switches& s, std::string_view v) {
         return set_number(s.signal_limit, v, std::uint64_t{1}, std::uint64_t{1} << 40);
       }},
      {"scope", "gpu", "cta, cluster, gpu or sys", kAll,
       [](Switches& s, std::string_view v) {
         const auto scope = machine::parse_scope(v);
         if (scope) s.scope = *scope;
         return scope.has_value();
       }},
      {"slot", "wrong", "wrong", kCas | kPypto,
       [](Switches& s, std::string_view v) { return s.wrong_slot = v == "wrong"; }, nullptr, true},
      {"pads", "dirty|late", "clean, dirty or late", kCas | kPypto,
       [](Switches& s, std::string_view v) {
         s.pads = v == "dirty" ? Pads::dirty : v == "late" ? Pads::late : Pads::clean;
         return v == "clean" || s.pads != Pads::clean;
       },
       nullptr, true},
      {"groups", "N", "a number of operators from 1 to 15", kCas | kPypto,
       [](Switches& s, std::string_view v) { return set_number(s.groups, v, 1u, 15u); }},
      {"waves", "yes", "yes", kCas | kPypto,
       [](Switches& s, std::string_view v) { return s.waves = v == "yes"; }},
  };
  return all;
}

bool takes(const Switch& s, const std::string& protocol) {
  return (s.protocols & bit_of(protocol)) != 0;
}

}  // namespace

std::vector<std::string> switch_names(const std::string& protocol) {
  std::vector<std::string> names;
  for (const Switch& s : table()) {
    if (takes(s, protocol)) names.push_back(fmt::format("{}={}", s.key, s.value));
  }
  return names;
}

namespace {

// How much an order synchronises; acquire and release are no steps up from each other.
bool stronger(Order a, Order b) {
  if (a == b) return false;
  const bool keeps = (!releases(b) || releases(a)) && (!acquires(b) || acquires(a));
  return keeps && static_cast<int>(a) > static_cast<int>(b);
}

// The values above the one in force, and the words for them.
std::vector<Strengthening> above(const Switch& s, const Switches& now,
                                 const std::map<std::string, std::string>& set) {
  std::vector<Strengthening> out;
  if (s.order != nullptr) {
    const Order from = now.*s.order;
    for (const Order to : {Order::relaxed, Order::acquire, Order::release, Order::acq_rel}) {
      Switches changed = now;
      if (stronger(to, from) && s.set(changed, machine::name(to))) {
        out.push_back({s.key, std::string(machine::name(from)), std::string(machine::name(to))});
      }
    }
    return out;
  }
  const auto given = set.find(s.key);
  if (given == set.end()) return out;
  const std::string_view key = s.key;
  if (key == "scope") {
    for (const Scope to : {Scope::cluster, Scope::gpu, Scope::sys}) {
      if (to > now.scope) {
        out.push_back({s.key, given->second, std::string(machine::name(to))});
      }
    }
  } else if (s.fault && (key != "pads" || given->second != "clean")) {
    out.push_back({s.key, given->second, ""});
  }
  return out;
}

}  // namespace

std::vector<Strengthening> strengthenings(const std::string& protocol,
                                          const std::map<std::string, std::string>& set) {
  const Switches now = parse_switches(protocol, set);
  std::vector<Strengthening> out;
  for (const bool named : {true, false}) {
    for (const Switch& s : table()) {
      if (!takes(s, protocol) || set.contains(s.key) != named) continue;
      for (Strengthening& step : above(s, now, set)) out.push_back(std::move(step));
    }
  }
  return out;
}

std::vector<Weakening> weakenings(const std::string& protocol,
                                  const std::map<std::string, std::string>& set) {
  const Switches now = parse_switches(protocol, set);
  std::vector<Weakening> out;
  for (const Switch& s : table()) {
    if (!takes(s, protocol)) continue;
    const std::string_view key = s.key;
    if (s.order != nullptr) {
      const Order from = now.*s.order;
      for (const Order to : {Order::weak, Order::relaxed, Order::acquire, Order::release}) {
        Switches changed = now;
        if (stronger(from, to) && s.set(changed, machine::name(to))) {
          out.push_back({s.key, std::string(machine::name(from)), std::string(machine::name(to))});
        }
      }
    } else if (key == "scope") {
      for (const Scope to : {Scope::cta, Scope::cluster, Scope::gpu}) {
        if (to < now.scope) {
          out.push_back(
              {s.key, std::string(machine::name(now.scope)), std::string(machine::name(to))});
        }
      }
    } else if (std::string_view(s.value) == "none" && !set.contains(s.key)) {
      out.push_back({s.key, "there", "none"});
    }
  }
  return out;
}

Switches parse_switches(const std::string& protocol,
                        const std::map<std::string, std::string>& set) {
  Switches out = defaults(protocol);
  for (const auto& [key, value] : set) {
    const auto& all = table();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Switch& s) {
      return key == s.key && takes(s, protocol);
    });
    if (found == all.end()) {
      throw std::invalid_argument(fmt::format("--set {}={}: {} has no such switch; it has {}", key,
                                              value, protocol,
                                              fmt::join(switch_names(protocol), ", ")));
    }
    if (!found->set(out, value)) {
      throw std::invalid_argument(fmt::format("--set {}={}: {} is due", key, value, found->words));
    }
  }
  return out;
}

}  // namespace ringfence::programs
