#include "emulator/programs/switches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "emulator/machine/names.hpp"
#include "emulator/programs/protocol.hpp"

namespace ringfence::programs {

namespace {

using machine::Order;
using machine::Scope;

const char* order_words(Orders kind) {
  switch (kind) {
    case Orders::rmw:
      return "relaxed, acquire, release or acq_rel";
    case Orders::read:
      return "weak, relaxed or acquire";
    case Orders::write:
      return "weak, relaxed or release";
    case Orders::red:
      return "relaxed or release";
    case Orders::poll:
      return "relaxed or acquire";
  }
  return "";
}

bool can_have(Orders kind, Order order) {
  switch (kind) {
    case Orders::rmw:
      return order != Order::weak;
    case Orders::read:
      return !releases(order);
    case Orders::write:
      return !acquires(order);
    case Orders::red:
      return order == Order::relaxed || order == Order::release;
    case Orders::poll:
      return order == Order::relaxed || order == Order::acquire;
  }
  return false;
}

}  // namespace

void SwitchList::none(std::string key, bool& there) {
  add({std::move(key), "none", "none",
       [&there](std::string_view v) {
         if (v != "none") return false;
         there = false;
         return true;
       },
       true});
}

void SwitchList::word(std::string key, std::string word, bool& field) {
  add({std::move(key), word, word, [&field, word](std::string_view v) { return field = v == word; },
       true});
}

void SwitchList::order(std::string key, Orders kind, Order& field) {
  add({std::move(key),
       "ORDER",
       order_words(kind),
       [&field, kind](std::string_view v) {
         const auto order = machine::parse_order(v);
         if (!order || !can_have(kind, *order)) return false;
         field = *order;
         return true;
       },
       false,
       {},
       &field});
}

void SwitchList::scope(Scope& field) {
  add({"scope",
       "gpu",
       "cta, cluster, gpu or sys",
       [&field](std::string_view v) {
         const auto scope = machine::parse_scope(v);
         if (scope) field = *scope;
         return scope.has_value();
       },
       false,
       {},
       nullptr,
       &field});
}

void SwitchList::number(std::string key, std::string value, std::string words, std::uint64_t least,
                        std::uint64_t most, std::function<void(std::uint64_t)> set, bool fault) {
  add({std::move(key), std::move(value), std::move(words),
       [least, most, set = std::move(set)](std::string_view v) {
         std::uint64_t n = 0;
         const auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), n);
         if (error != std::errc{} || end != v.data() + v.size() || n < least || n > most)
           return false;
         set(n);
         return true;
       },
       fault});
}

std::vector<std::string> SwitchList::names() const {
  std::vector<std::string> names;
  for (const Switch& s : all_) names.push_back(fmt::format("{}={}", s.key, s.value));
  return names;
}

void SwitchList::apply(const std::string& protocol, const SwitchSettings& set) {
  for (const auto& [key, value] : set) {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const Switch& s) { return key == s.key; });
    if (found == all_.end()) {
      throw std::invalid_argument(fmt::format("--set {}={}: {} has no such switch; it has {}", key,
                                              value, protocol, fmt::join(names(), ", ")));
    }
    if (!found->set(value)) {
      throw std::invalid_argument(
          fmt::format("--set {}={}: expected {}", key, value, found->words));
    }
  }
}

void Switches::list_operators(SwitchList& list) {
  list.word("slot", "wrong", wrong_slot);
  list.add({"pads", "dirty|late", "clean, dirty or late",
            [this](std::string_view v) {
              pads = v == "dirty" ? Pads::dirty : v == "late" ? Pads::late : Pads::clean;
              return v == "clean" || pads != Pads::clean;
            },
            true, "clean"});
  list.number("groups", "N", "a number of operators from 1 to 15", 1, 15,
              [this](std::uint64_t n) { groups = static_cast<std::uint32_t>(n); });
  list.add({"waves", "yes", "yes", [this](std::string_view v) { return waves = v == "yes"; }});
}

namespace {

// How much an order synchronises; acquire and release are no steps up from each other.
bool stronger(Order a, Order b) {
  if (a == b) return false;
  const bool keeps = (!releases(b) || releases(a)) && (!acquires(b) || acquires(a));
  return keeps && static_cast<int>(a) > static_cast<int>(b);
}

// The values above the one in force. A list's switches are set to try what they take, so
// `from` is not of the same list.
std::vector<Strengthening> above(const Switch& s, const Switch& tried, const SwitchSettings& set) {
  std::vector<Strengthening> out;
  if (s.order != nullptr) {
    for (const Order to : {Order::relaxed, Order::acquire, Order::release, Order::acq_rel}) {
      if (stronger(to, *s.order) && tried.set(machine::name(to))) {
        out.push_back(
            {s.key, std::string(machine::name(*s.order)), std::string(machine::name(to))});
      }
    }
    return out;
  }
  const auto given = set.find(s.key);
  if (given == set.end()) return out;
  if (s.scope != nullptr) {
    for (const Scope to : {Scope::cluster, Scope::gpu, Scope::sys}) {
      if (to > *s.scope) out.push_back({s.key, given->second, std::string(machine::name(to))});
    }
  } else if (s.fault && (s.harmless.empty() || given->second != s.harmless)) {
    out.push_back({s.key, given->second, ""});
  }
  return out;
}

}  // namespace

std::vector<Strengthening> strengthenings(const std::string& protocol, const SwitchSettings& set) {
  SwitchList now = definition_of(protocol).switches();
  now.apply(protocol, set);
  const SwitchList tried = definition_of(protocol).switches();
  std::vector<Strengthening> out;
  for (const bool named : {true, false}) {
    for (std::size_t i = 0; i < now.all().size(); ++i) {
      const Switch& s = now.all()[i];
      if (set.contains(s.key) != named) continue;
      for (Strengthening& step : above(s, tried.all()[i], set)) out.push_back(std::move(step));
    }
  }
  return out;
}

std::vector<Weakening> weakenings(const std::string& protocol, const SwitchSettings& set) {
  SwitchList now = definition_of(protocol).switches();
  now.apply(protocol, set);
  const SwitchList tried = definition_of(protocol).switches();
  std::vector<Weakening> out;
  for (std::size_t i = 0; i < now.all().size(); ++i) {
    const Switch& s = now.all()[i];
    if (s.order != nullptr) {
      for (const Order to : {Order::weak, Order::relaxed, Order::acquire, Order::release}) {
        if (stronger(*s.order, to) && tried.all()[i].set(machine::name(to))) {
          out.push_back(
              {s.key, std::string(machine::name(*s.order)), std::string(machine::name(to))});
        }
      }
    } else if (s.scope != nullptr) {
      for (const Scope to : {Scope::cta, Scope::cluster, Scope::gpu}) {
        if (to < *s.scope) {
          out.push_back(
              {s.key, std::string(machine::name(*s.scope)), std::string(machine::name(to))});
        }
      }
    } else if (s.value == "none" && !set.contains(s.key)) {
      out.push_back({s.key, "there", "none"});
    }
  }
  return out;
}

}  // namespace ringfence::programs
