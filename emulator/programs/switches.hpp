#pragma once
// The --set switches of a protocol. Each protocol has a struct of values with its fields as they
// are to the letter, and a member `list` that binds a switch to each: `SwitchList` does the rest,
// text, errors, and the steps that synchronise more or less.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/vocabulary.hpp"
#include "verify/problem.hpp"

namespace ringfence::programs {

// --set KEY=VALUE
using SwitchSettings = std::map<std::string, std::string>;

// What the signal slots hold when the ranks start.
enum class Pads : std::uint8_t {
  clean,  // zero everywhere
  dirty,  // one slot of rank 0 holds 1, as an aborted run leaves it
  late,   // the last rank zeroes its slots in its first launch, when peers may have signalled
          // already
};

// Which orders an instruction can have: an atom has no weak form, a read releases nothing.
enum class Orders : std::uint8_t { rmw, read, write, red, poll };

// One switch, bound to a field.
struct Switch {
  std::string key;
  std::string value;  // as the list of switches shows it
  std::string words;  // what the value may be
  // False, and nothing set, for a value that is none of `words`.
  std::function<bool(std::string_view)> set;
  // Given at all, it takes something away (unless as `harmless`): to leave it out is a step up.
  bool fault = false;
  std::string harmless = {};
  // The field of an order switch, of a scope switch.
  const machine::Order* order = nullptr;
  const machine::Scope* scope = nullptr;
};

class SwitchList {
 public:
  // KEY=none takes `there` away.
  void none(std::string key, bool& there);
  // KEY=WORD, a fault.
  void word(std::string key, std::string word, bool& field);
  void order(std::string key, Orders kind, machine::Order& field);
  void scope(machine::Scope& field);
  // `words`: "a number of ... from LEAST to MOST"
  void number(std::string key, std::string value, std::string words, std::uint64_t least,
              std::uint64_t most, std::function<void(std::uint64_t)> set, bool fault = false);
  void add(Switch s) { all_.push_back(std::move(s)); }

  const std::vector<Switch>& all() const { return all_; }
  // "start.put=ORDER", ...
  std::vector<std::string> names() const;
  // Throws std::invalid_argument naming the switch, and what would be right: the values it takes,
  // or for an unknown one the switches of `protocol`.
  void apply(const std::string& protocol, const SwitchSettings& set);
  // The switches bound to values of its own.
  template <class Values>
  static SwitchList of() {
    SwitchList list;
    const auto values = std::make_shared<Values>();
    values->list(list);
    list.owner_ = values;
    return list;
  }

 private:
  std::vector<Switch> all_;
  std::shared_ptr<void> owner_;
};

// What the program of any protocol asks for; a protocol's values derive from it.
struct Switches {
  machine::Scope scope = machine::Scope::sys;  // of barriers, signals and their waits
  bool wrong_slot = false;                     // signals go to a slot that nobody waits on rightly
  Pads pads = Pads::clean;
  std::uint32_t groups = 1;  // operators that run at once on the same ranks
  bool waves = false;        // the groups are waves of one operator, one after the other
  // What decides the order of sums: verify::Problem has the same names.
  int threads = 0;
  int width = 0;  // 0: those of 16 bytes
  std::int64_t tile_inner = 0;

 protected:
  // scope; and then, of protocols that run several operators: slot, pads, groups, waves.
  void list_scope(SwitchList& list) { list.scope(scope); }
  void list_operators(SwitchList& list);
};

// Throws as SwitchList::apply does.
template <class Values>
Values parse_switches(const std::string& protocol, const SwitchSettings& set) {
  // Not on the stack: GCC 13 takes pointers to it in another local for dangling ones.
  const auto values = std::make_unique<Values>();
  SwitchList list;
  values->list(list);
  list.apply(protocol, set);
  return *values;
}

// One change to a set of switches that makes the protocol synchronise more.
struct Strengthening {
  std::string key;
  std::string from;  // the value in force
  std::string to;    // empty: leave the switch out, which is the protocol to the letter
};

// Every single step up from `set`: an order to each stronger one that its instruction can have (the
// weakest first), a scope to each wider one, and a barrier, clearing or edge that `set` takes away
// put back. Switches that `set` names come first. Legal settings only.
std::vector<Strengthening> strengthenings(const std::string& protocol, const SwitchSettings& set);

// One change that makes it synchronise less: an order to a weaker one that its instruction can
// have, a narrower scope, a barrier, clearing or edge left out. Grouped by switch, the weakest
// first.
struct Weakening {
  std::string key;
  std::string from;  // the value in force; "there" where nothing is left out
  std::string to;
};
std::vector<Weakening> weakenings(const std::string& protocol, const SwitchSettings& set);

}  // namespace ringfence::programs
