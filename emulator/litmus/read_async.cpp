// What has phases and what no thread waits for: mbarriers, the cluster's barrier, bulk copies.
#include "emulator/litmus/names.hpp"
#include "emulator/litmus/reader.hpp"

namespace ringfence::litmus {
namespace {

constexpr int kMaxArrivals = 63;  // threads are fewer
constexpr std::int64_t kMaxBytes = (1 << 20) - 1;

}  // namespace

// `mbarrier m=2;`, behind its first word.
void Reader::read_mbarrier_declaration() {
  const Token name = lexer_.take();
  Location location;
  location.at = name.at;
  location.name = name.text;
  location.type = kWide;
  location.typed = true;
  location.initial = {0};
  if (is_register_name(name.text)) fail(name.at, describe(name) + " is a register name");
  expect("=", "after the mbarrier");
  const Position at = lexer_.peek().at;
  location.arrivals = expect_small_integer("the arrivals of a phase", kMaxArrivals);
  if (location.arrivals == 0) fail(at, "a phase of an mbarrier takes at least one arrival");
  add_location(std::move(location));
}

LocationId Reader::read_object() {
  const bool brackets = accept("[");
  const Token name = expect_word("an mbarrier");
  const auto id = find_location(name.text);
  if (!id || test_.locations[index(*id)].arrivals == 0) {
    fail(name.at, describe(name) + " is no mbarrier; declare one as mbarrier " +
                      std::string(name.text) + "=1; with the arrivals of a phase");
  }
  if (brackets) expect("]", "after the mbarrier");
  return *id;
}

Instruction Reader::read_mbarrier(int thread, const Token& mnemonic) {
  using Form = Mbarrier::Form;
  expect(".", "after `mbarrier`");
  const Token form = expect_word("arrive, try_wait or test_wait");
  Mbarrier m;
  if (form.text == "try_wait") {
    m.form = Form::Wait;
  } else if (form.text == "test_wait") {
    m.form = Form::Test;
  } else if (form.text != "arrive") {
    fail(form.at, "unknown instruction `mbarrier." + std::string(form.text) +
                      "`; known are mbarrier.arrive, mbarrier.try_wait and mbarrier.test_wait; "
                      "an mbarrier is declared as mbarrier m=1;");
  }
  const bool arrives = m.form == Form::Arrive;
  const Order strong = m.order = arrives ? Order::release : Order::acquire;
  bool expects = false, parity = false, ordered = false, scoped = false;
  while (accept(".")) {
    const Token word = expect_word("a modifier of " + describe(mnemonic));
    const auto order = find_name(kOrderNames, word.text);
    const auto scope = find_name(kScopeNames, word.text);
    if (arrives && word.text == "expect_tx") {
      expects = true;
    } else if (!arrives && word.text == "parity") {
      parity = true;
    } else if (order && (*order == strong || *order == Order::relaxed) && !ordered) {
      m.order = *order;
      ordered = true;
    } else if (scope && (*scope == Scope::cta || *scope == Scope::cluster) && !scoped) {
      m.scope = *scope;
      scoped = true;
    } else if (word.text != "b64") {
      fail(word.at, "unknown modifier `." + std::string(word.text) + "` of mbarrier." +
                        std::string(form.text) + "; known are " +
                        (arrives ? ".expect_tx, .release" : ".parity, .acquire") +
                        " or .relaxed, .cta or .cluster");
    }
  }
  // PTX ISA 9.7.15.16: the two are written together.
  if (ordered != scoped) {
    fail(form.at, "order and scope stand together, as in ." +
                      std::string(name_of(kOrderNames, m.order)) + ".cta");
  }
  if (!arrives && !parity) fail(form.at, "a wait names a parity: mbarrier.try_wait.parity m, 0");
  if (m.form == Form::Test) {
    m.destination = write_register(thread, expect_word("a register"));
    expect(",", "after the destination");
  }
  m.object = read_object();
  if (arrives && !expects) return {m, {}};
  expect(",", arrives ? "before the bytes" : "before the parity");
  const Position at = lexer_.peek().at;
  const std::int64_t value = expect_integer(arrives ? "a number of bytes" : "a parity");
  if (arrives) {
    if (value <= 0 || value > kMaxBytes || value % kCopyBytes != 0) {
      fail(at, std::to_string(value) + " bytes; a copy has 16, and several a multiple of that");
    }
    m.bytes = value;
  } else {
    if (value != 0 && value != 1) fail(at, "the parity of a phase is 0 or 1");
    m.parity = static_cast<int>(value);
  }
  return {m, {}};
}

// Behind `barrier.cluster`.
Instruction Reader::read_cluster_barrier() {
  expect(".", "after `barrier.cluster`");
  const Token mode = expect_word("arrive or wait");
  if (mode.text != "arrive" && mode.text != "wait") {
    fail(mode.at, "unknown barrier `cluster." + std::string(mode.text) +
                      "`; known are barrier.cluster.arrive and barrier.cluster.wait");
  }
  ClusterBarrier b;
  b.wait = mode.text == "wait";
  b.order = b.wait ? Order::acquire : Order::release;
  if (!accept(".")) return {b, {}};
  const Token word = expect_word("an order");
  const auto order = find_name(kOrderNames, word.text);
  if (!order || (*order != b.order && (b.wait || *order != Order::relaxed))) {
    fail(word.at, b.wait ? "barrier.cluster.wait is .acquire"
                         : "barrier.cluster.arrive is .release or .relaxed");
  }
  b.order = *order;
  return {b, {}};
}

Instruction Reader::read_copy(const Token& mnemonic) {
  const char* const known =
      "; known are cp.async.bulk, cp.reduce.async.bulk.add and cp.async.bulk.wait_group";
  std::string words(mnemonic.text);
  while (accept(".")) words += "." + std::string(expect_word("a word").text);
  if (words == "cp.async.bulk.wait_group" || words == "cp.async.bulk.wait_group.read") {
    const Position at = lexer_.peek().at;
    const std::int64_t pending = expect_integer("the number of groups that may be open");
    if (pending < 0) fail(at, "the number of groups that may be open is 0 or more");
    return {GroupWait{words.ends_with(".read"), pending}, {}};
  }
  Copy copy;
  copy.adds = words == "cp.reduce.async.bulk.add";
  if (!copy.adds && words != "cp.async.bulk") {
    fail(mnemonic.at, "unknown instruction `" + words + "`" + known);
  }
  copy.to = read_copied();
  expect(",", "between where the copy goes and where it comes from");
  const Position at = lexer_.peek().at;
  copy.from = read_copied();
  const auto type = [&](const Address& a) {
    return test_.locations[index(std::get<LocationId>(a.base))].type;
  };
  if (type(copy.to) != type(copy.from)) fail(at, "a copy is between locations of one type");
  if (!accept(",")) return {copy, {}};
  if (copy.adds) fail(mnemonic.at, "a copy that adds is a bulk group here; it signals no mbarrier");
  copy.signals = read_object();
  return {copy, {}};
}

// A location by its one name: a copy's access is an element of it.
Address Reader::read_copied() {
  const Position at = lexer_.peek().at;
  const Address address = read_address(0);
  const auto* id = std::get_if<LocationId>(&address.base);
  if (id == nullptr) fail(at, "a copy names its locations; a register holds none here");
  check_access(address, {}, 1, at);
  const Location& location = test_.locations[index(*id)];
  if (!location.is_memory()) {
    fail(at, "`" + location.name + "` is a second name; a copy takes the location's own");
  }
  return address;
}

// PTX ISA 9.7.15.16.11: only the own block's mbarrier is waited for; others of its cluster arrive,
// or copy to it (9.7.10.28.4.1).
// Of what a cluster's barrier needs the order of instructions has to decide.
void Reader::check_phases() const {
  struct Home {
    const Thread* thread = nullptr;
    Position at;
  };
  std::map<LocationId, Home> homes;
  const auto one_block = [](const Thread& a, const Thread& b) {
    return a.gpu == b.gpu && a.cta == b.cta;
  };
  for (const Thread& t : test_.threads) {
    bool open = false, barrier = false, branch = false;
    Position where;
    for (const Instruction& i : t.instructions) {
      const auto* m = std::get_if<Mbarrier>(&i.what);
      branch = branch || std::holds_alternative<Branch>(i.what);
      if (m != nullptr && m->form != Mbarrier::Form::Arrive) {
        Home& home = homes[m->object];
        if (home.thread == nullptr) home = {&t, i.at};
        if (!one_block(*home.thread, t)) {
          fail(i.at, "`" + test_.locations[index(m->object)].name +
                         "` is an mbarrier of another cta, whose threads wait for it (line " +
                         std::to_string(home.at.line) + "); only arrivals and copies cross");
        }
      }
      const auto* c = std::get_if<ClusterBarrier>(&i.what);
      if (c == nullptr) continue;
      barrier = true;
      where = i.at;
      if (c->wait != open) {
        fail(i.at, c->wait ? "a wait for the cluster's barrier without an arrival before it"
                           : "a second arrival at the cluster's barrier before the wait");
      }
      open = !c->wait;
    }
    if (barrier && branch) {
      fail(where,
           "the cluster's barrier in a thread with branches; which phase it is in has to "
           "be plain");
    }
  }
  for (const Thread& t : test_.threads) {
    for (const Instruction& i : t.instructions) {
      const auto* m = std::get_if<Mbarrier>(&i.what);
      const auto* copy = std::get_if<Copy>(&i.what);
      const bool arrives = m != nullptr && m->form == Mbarrier::Form::Arrive;
      if (!arrives && (copy == nullptr || !copy->signals)) continue;
      const auto home = homes.find(arrives ? m->object : *copy->signals);
      if (home == homes.end() || one_block(*home->second.thread, t)) continue;
      const Thread& other = *home->second.thread;
      if (!t.cluster || !other.cluster || *t.cluster != *other.cluster || t.gpu != other.gpu) {
        fail(i.at, std::string(arrives ? "an arrival" : "a copy") +
                       " at the mbarrier of a cta of another cluster");
      }
    }
  }
}

}  // namespace ringfence::litmus
