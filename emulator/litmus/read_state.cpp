// The state section: locations, second names, multicast addresses, registers.
#include <utility>

#include "emulator/litmus/names.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/reader.hpp"

namespace ringfence::litmus {
namespace {

constexpr int kMaxLength = 4096;
constexpr std::size_t kMaxLocations = 1024;
constexpr int kMaxThread = 63;

}  // namespace

void Reader::read_state() {
  expect("{", "at the start of the state section");
  while (!accept("}")) {
    if (accept(";")) continue;
    read_declaration();
    if (!next_is("}")) expect(";", "after a declaration");
  }
  accept(";");
  resolve_names();
}

// Numbers that 32 bits with a sign do not hold, wherever they stand: then locations without a type
// have 64, and such a number is what it says in each of its places.
bool Reader::has_wide_numbers(Lexer lexer) {
  try {
    for (Token token = lexer.take(); token.kind != TokenKind::End; token = lexer.take()) {
      if (token.kind == TokenKind::Number && token.value >> 31 != 0) return true;
    }
  } catch (const ParseError&) {
    // Told when the reader comes there.
  }
  return false;
}

void Reader::check_fits(std::int64_t value, int bits, Position at) const {
  if (bits == 64) return;
  const std::int64_t limit = std::int64_t{1} << bits;
  if (value >= -(limit >> 1) && value < limit) return;
  fail(at, std::to_string(value) + " does not fit into " + std::to_string(bits) +
               " bits; declare the location wider, as in b64 x=0;");
}

void Reader::read_declaration() {
  const Position at = lexer_.peek().at;
  if (lexer_.peek().kind == TokenKind::Number) {
    const int thread = expect_small_integer("thread number", kMaxThread);
    expect(":", "between thread and register");
    read_register_declaration(thread, at);
    return;
  }
  const Token first = expect_word("a location, a register such as P0:r0, or `}`");
  if (accept(":")) {
    const int thread = thread_number(first.text);
    if (thread < 0) fail(at, describe(first) + " is no thread; registers are declared as P0:r0=0;");
    read_register_declaration(thread, at);
  } else {
    read_location_declaration(first);
  }
}

void Reader::read_register_declaration(int thread, Position at) {
  const Token name = expect_word("a register");
  if (!is_register_name(name.text)) {
    fail(name.at, describe(name) + " is no register; registers are r0, r1, …");
  }
  for (const PendingRegister& other : pending_registers_) {
    if (other.thread == thread && other.name.text == name.text) {
      fail(at, "register P" + std::to_string(thread) + ":" + std::string(name.text) +
                   " is declared twice; keep one declaration");
    }
  }
  expect("=", "after the register");
  PendingRegister pending{thread, name, 0, std::nullopt};
  pending.name.at = at;
  const bool address = accept("&");
  if (address || lexer_.peek().kind == TokenKind::Word) {
    pending.address = expect_word("a location");
  } else {
    pending.value = expect_integer("a number, or a location whose address the register holds,");
  }
  pending_registers_.push_back(pending);
}

void Reader::read_location_declaration(const Token& first) {
  Location location;
  location.at = first.at;
  location.type = default_type_;
  location.typed = lexer_.peek().kind == TokenKind::Word;
  Token name = first;
  if (location.typed && first.text == "mbarrier") return read_mbarrier_declaration();
  if (location.typed) {
    const auto type = find_type(first.text);
    if (!type) {
      fail(first.at,
           describe(first) + " is no type; types are b, u or s with 8, 16, 32 or 64 bits");
    }
    location.type = *type;
    name = lexer_.take();
  }
  if (is_register_name(name.text)) {
    fail(name.at, describe(name) + " is a register name; declare a register as P0:" +
                      std::string(name.text) + "=0;");
  }
  location.name = name.text;
  if (accept("@")) {
    read_alias(std::move(location));
    return;
  }
  if (accept("[")) {
    location.is_array = true;
    const Position at = lexer_.peek().at;
    location.length = expect_small_integer("the array's length", kMaxLength);
    if (location.length == 0) fail(at, "an array of length 0; it has at least one element");
    expect("]", "after the array's length");
  }
  const Token equals = expect("=", "after the location");
  const bool amp = accept("&");
  if (amp || lexer_.peek().kind == TokenKind::Word) {
    if (location.is_array)
      fail(equals.at, "an array holds numbers; initialise it with {1, 2} or 0");
    const Token target = expect_word("a location");
    // An address fills 64 bits.
    location.type = kWide;
    location.typed = true;
    location.initial = {0};
    pending_locations_.push_back(
        {add_location(std::move(location)), target, PendingLocation::Address});
    return;
  }
  read_initial_values(location);
  add_location(std::move(location));
}

void Reader::read_initial_values(Location& location) {
  const Position at = lexer_.peek().at;
  if (!accept("{")) {
    location.initial.assign(static_cast<std::size_t>(location.length),
                            expect_integer("the initial value"));
    return check_fits(location.initial.front(), location.type.bits, at);
  }
  if (!location.is_array)
    fail(at, "one location takes one value; declare an array as x[2]={1, 2};");
  do {
    const Position element = lexer_.peek().at;
    location.initial.push_back(expect_integer("an element's initial value"));
    check_fits(location.initial.back(), location.type.bits, element);
  } while (accept(","));
  expect("}", "after the elements");
  if (location.initial.size() != static_cast<std::size_t>(location.length)) {
    fail(at, std::to_string(location.initial.size()) + " values for " +
                 std::to_string(location.length) + " elements; give one for each");
  }
}

void Reader::read_alias(Location location) {
  const Token kind = expect_word("generic, constant, texture, surface or multicast");
  const bool multicast = kind.text == "multicast";
  if (kind.text == "constant") {
    location.proxy = Proxy::Constant;
  } else if (kind.text == "texture") {
    location.proxy = Proxy::Texture;
  } else if (kind.text == "surface") {
    location.proxy = Proxy::Surface;
  } else if (kind.text != "generic" && !multicast) {
    fail(kind.at, "unknown proxy " + describe(kind) +
                      "; known are generic, constant, texture, surface and multicast");
  }
  const Token word = expect_word("`aliases`");
  if (word.text != "aliases") fail(word.at, "`aliases` expected, not " + describe(word));
  const LocationId id = add_location(std::move(location));
  do {
    pending_locations_.push_back({id, expect_word("a location"),
                                  multicast ? PendingLocation::Replica : PendingLocation::Alias});
  } while (multicast && accept(","));
}

LocationId Reader::add_location(Location location) {
  if (test_.locations.size() >= kMaxLocations) {
    fail(location.at, "too many locations; a test has at most " + std::to_string(kMaxLocations));
  }
  const auto id = static_cast<LocationId>(test_.locations.size());
  if (!location_ids_.emplace(location.name, id).second) {
    fail(location.at, "location `" + location.name + "` is declared twice; keep one declaration");
  }
  test_.locations.push_back(std::move(location));
  return id;
}

void Reader::resolve_names() {
  for (const PendingLocation& pending : pending_locations_) {
    const LocationId target = use_location(pending.target);
    Location& location = test_.locations[static_cast<std::size_t>(pending.location)];
    switch (pending.use) {
      case PendingLocation::Address:
        location.initial_address = target;
        break;
      case PendingLocation::Alias:
        location.alias_of = target;
        break;
      case PendingLocation::Replica:
        location.replicas.push_back(target);
        break;
    }
  }
  for (Location& location : test_.locations) {
    // A second name has the shape of what it names; the chain must end at memory.
    const Location* target = &location;
    for (std::size_t steps = 0; target->alias_of; ++steps) {
      if (steps > test_.locations.size()) {
        fail(location.at, "`" + location.name + "` names itself; an alias must lead to a location");
      }
      target = &test_.locations[static_cast<std::size_t>(*target->alias_of)];
    }
    if (location.alias_of && !target->replicas.empty()) {
      fail(location.at, "`" + location.name + "` names a multicast address; name a location");
    }
    if (!location.replicas.empty()) {
      target = &test_.locations[static_cast<std::size_t>(location.replicas.front())];
      for (LocationId replica : location.replicas) {
        const Location& other = test_.locations[static_cast<std::size_t>(replica)];
        if (!other.is_memory() || other.type != target->type || other.length != target->length) {
          fail(location.at, "replica `" + other.name + "` of `" + location.name +
                                "` differs; replicas are locations of one type and length");
        }
      }
    }
    location.type = target->type;
    location.typed = target->typed;
    location.length = target->length;
    location.is_array = target->is_array;
  }
}

}  // namespace ringfence::litmus
