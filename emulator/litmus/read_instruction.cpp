// One cell of the table.
#include <array>
#include <utility>

#include "emulator/litmus/names.hpp"
#include "emulator/litmus/reader.hpp"

namespace ringfence::litmus {

// What follows a mnemonic, in any order: `.acquire.sys.v2.u32`, and the operation of an atomic.
struct Reader::Modifiers {
  std::optional<Order> order;
  std::optional<Scope> scope;
  std::optional<Combine> op;
  Type type;
  int vector = 1;
  bool is_volatile = false;
};

namespace {

template <class T>
void set_once(std::optional<T>& slot, T value, bool& twice) {
  twice = slot.has_value();
  slot = value;
}

}  // namespace

Reader::Modifiers Reader::read_modifiers(const Token& mnemonic) {
  Modifiers m;
  while (accept(".")) {
    const Token word = expect_word("a modifier of " + describe(mnemonic));
    bool twice = false;
    if (const auto order = find_name(kOrderNames, word.text)) {
      set_once(m.order, *order, twice);
    } else if (const auto scope = find_name(kScopeNames, word.text)) {
      set_once(m.scope, *scope, twice);
    } else if (const auto op = find_name(kCombineNames, word.text)) {
      set_once(m.op, *op, twice);
    } else if (word.text == "plus" || word.text == "minus") {
      // Older files of the public collection name them so.
      set_once(m.op, word.text == "plus" ? Combine::add : Combine::sub, twice);
    } else if (word.text == "volatile") {
      twice = m.order.has_value() || m.scope.has_value();
      m.order = Order::relaxed;
      m.scope = Scope::sys;
      m.is_volatile = true;
    } else if (word.text == "v2" || word.text == "v4") {
      twice = m.vector != 1;
      m.vector = word.text == "v2" ? 2 : 4;
    } else if (const auto type = find_type(word.text)) {
      twice = m.type.bits != 0;
      m.type = *type;
    } else {
      fail(word.at, "unknown modifier `." + std::string(word.text) + "` of " + describe(mnemonic) +
                        "; known are orders, scopes, operations, types such as .u32, .v2 and .v4");
    }
    if (twice) {
      fail(word.at, "`." + std::string(word.text) +
                        "` repeats or contradicts an earlier modifier; keep one");
    }
  }
  return m;
}

void Reader::read_instruction(int thread) {
  const Token mnemonic = expect_word("an instruction");
  auto& instructions = test_.threads[index(thread)].instructions;
  const auto add = [&](Instruction instruction) {
    instruction.at = mnemonic.at;
    instructions.push_back(std::move(instruction));
  };
  const std::string_view name = mnemonic.text;
  if (next_is(":")) {
    lexer_.take();
    if (!labels_[index(thread)].emplace(name, static_cast<int>(instructions.size())).second) {
      fail(mnemonic.at, "label " + describe(mnemonic) + " stands twice in P" +
                            std::to_string(thread) + "; labels of a thread differ");
    }
    add({Label{std::string(name)}, {}});
  } else if (name == "ld") {
    add(read_load(thread, mnemonic, Proxy::Generic));
  } else if (name == "tld") {
    add(read_load(thread, mnemonic, Proxy::Texture));
  } else if (name == "suld") {
    add(read_load(thread, mnemonic, Proxy::Surface));
  } else if (name == "cold" || name == "ldc") {
    add(read_load(thread, mnemonic, Proxy::Constant));
  } else if (name == "st") {
    add(read_store(thread, mnemonic, Proxy::Generic));
  } else if (name == "sust") {
    add(read_store(thread, mnemonic, Proxy::Surface));
  } else if (name == "atom" || name == "suatom") {
    add(read_atomic(thread, mnemonic, name == "atom" ? Proxy::Generic : Proxy::Surface, true));
  } else if (name == "red" || name == "sured") {
    add(read_atomic(thread, mnemonic, name == "red" ? Proxy::Generic : Proxy::Surface, false));
  } else if (name == "multimem") {
    add(read_multimem(thread));
  } else if (name == "fence") {
    add(read_fence(mnemonic));
  } else if (name == "bar" || name == "barrier") {
    add(read_barrier(thread, mnemonic));
  } else if (name == "mbarrier") {
    add(read_mbarrier(thread, mnemonic));
  } else if (name == "cp") {
    add(read_copy(mnemonic));
  } else if (name == "launch") {
    add({Launch{}, {}});
  } else if (name == "goto") {
    add(read_branch(thread, std::nullopt));
  } else if (const auto comparison = find_name(kBranchNames, name)) {
    add(read_branch(thread, *comparison));
  } else if (const auto op = find_name(kLocalOpNames, name)) {
    add(read_local(thread, *op));
  } else {
    fail(mnemonic.at, "unknown instruction " + describe(mnemonic) +
                          "; known are ld, st, tld, suld, sust, cold, atom, red, multimem, fence, "
                          "bar, barrier.cluster, "
                          "mbarrier, cp.async.bulk, launch, add, sub, mul, div, and, or, xor, beq, "
                          "bne, blt, ble, bgt, bge, goto and `label:`");
  }
}

Instruction Reader::read_load(int thread, const Token& mnemonic, Proxy proxy) {
  const bool plain = !next_is(".");
  const Modifiers m = read_modifiers(mnemonic);
  if (m.op) fail(mnemonic.at, "a load has no operation; use atom or multimem.ld_reduce");
  if (!plain && !m.order) {
    fail(mnemonic.at, "a load has an order: .weak, .relaxed, .acquire or .volatile");
  }
  Load load;
  load.order = m.order.value_or(Order::weak);
  load.proxy = proxy;
  load.type = m.type;
  if (load.order != Order::weak && load.order != Order::relaxed && load.order != Order::acquire) {
    fail(mnemonic.at, "a load is .weak, .relaxed, .acquire or .volatile");
  }
  if (load.order != Order::weak && !m.scope) {
    fail(mnemonic.at, "a strong load has a scope: .cta, .cluster, .gpu or .sys");
  }
  // The public grammar admits a scope on a weak access; it means nothing there.
  if (load.order != Order::weak) load.scope = *m.scope;
  load.destinations = read_destinations(thread, m.vector);
  expect(",", "after the destination");
  const Token& next = lexer_.peek();
  const bool value = next.kind == TokenKind::Number || next_is("-") ||
                     (next.kind == TokenKind::Word && is_register_name(next.text));
  if (value) {
    if (m.vector != 1) fail(next.at, "a vector load takes an address");
    check_move(thread, load, mnemonic);
    return {Local{LocalOp::Move, load.destinations.front(), read_operand(thread), Constant{}}, {}};
  }
  if (plain) {
    fail(mnemonic.at, "a load from memory has an order: .weak, .relaxed, .acquire or .volatile");
  }
  const Position at = next.at;
  load.address = read_address(thread);
  check_access(load.address, load.type, load.destinations.size(), at);
  return {std::move(load), {}};
}

// `ld` of a number or a register is a move in the public syntax. What looks like a load from memory
// whose brackets were forgotten is not taken for one: that would lose the load.
void Reader::check_move(int thread, const Load& load, const Token& mnemonic) const {
  const Token& next = lexer_.peek();
  const bool is_register = next.kind == TokenKind::Word;
  const std::string text(next.text);
  const std::string right =
      is_register ? "; what " + text + " holds is read by [" + text + "], a move is `mov`"
                  : "; a move of a number is `mov`";
  if (load.order != Order::weak || load.proxy != Proxy::Generic) {
    fail(next.at,
         "this " + std::string(mnemonic.text) + " reads memory, so it takes an address" + right);
  }
  if (!is_register) return;
  for (const RegisterInfo& info : test_.threads[index(thread)].registers) {
    if (info.name == text && info.initial_address) {
      fail(next.at, describe(next) + " holds an address" + right);
    }
  }
}

Instruction Reader::read_store(int thread, const Token& mnemonic, Proxy proxy) {
  const Modifiers m = read_modifiers(mnemonic);
  if (m.op) fail(mnemonic.at, "a store has no operation; use red or atom");
  if (!m.order ||
      (*m.order != Order::weak && *m.order != Order::relaxed && *m.order != Order::release)) {
    fail(mnemonic.at, "a store is .weak, .relaxed, .release or .volatile");
  }
  if (*m.order != Order::weak && !m.scope) {
    fail(mnemonic.at, "a strong store has a scope: .cta, .cluster, .gpu or .sys");
  }
  Store store;
  store.order = *m.order;
  if (store.order != Order::weak) store.scope = *m.scope;
  store.proxy = proxy;
  store.type = m.type;
  const Position at = lexer_.peek().at;
  store.address = read_address(thread);
  expect(",", "after the address");
  const Position values_at = lexer_.peek().at;
  store.values = read_values(thread, m.vector);
  check_access(store.address, store.type, store.values.size(), at);
  for (const Operand& v : store.values) check_fits(v, store.address, store.type, values_at);
  return {std::move(store), {}};
}

Instruction Reader::read_atomic(int thread, const Token& mnemonic, Proxy proxy, bool returns) {
  const Modifiers m = read_modifiers(mnemonic);
  if (!m.order || *m.order == Order::weak || *m.order == Order::sc || m.is_volatile) {
    fail(mnemonic.at, "an atomic is .relaxed, .acquire, .release or .acq_rel");
  }
  if (!m.scope) fail(mnemonic.at, "an atomic has a scope: .cta, .cluster, .gpu or .sys");
  if (!m.op) {
    fail(mnemonic.at,
         "an atomic has an operation: .add, .sub, .mul, .div, .and, .or, .xor, .min, .max, .exch "
         "or .cas");
  }
  if (m.vector != 1) fail(mnemonic.at, "vector atomics are not known; write one atomic an element");
  if (!returns && (*m.op == Combine::cas || *m.op == Combine::exchange)) {
    fail(mnemonic.at, "red has no ." + std::string(name_of(kCombineNames, *m.op)) + "; use atom");
  }
  if (m.type.bits == 8) fail(mnemonic.at, "atomics have 16, 32 or 64 bits");
  Atomic atomic;
  atomic.order = *m.order;
  atomic.scope = *m.scope;
  atomic.proxy = proxy;
  atomic.op = *m.op;
  atomic.type = m.type;
  if (returns) {
    atomic.destination = write_register(thread, expect_word("a register"));
    expect(",", "after the destination");
  }
  const Position at = lexer_.peek().at;
  atomic.address = read_address(thread);
  expect(",", "after the address");
  const Position values_at = lexer_.peek().at;
  atomic.value = read_operand(thread);
  if (*m.op == Combine::cas) {
    expect(",", "between the value that cas compares with and the one it stores");
    atomic.desired = read_operand(thread);
  }
  check_access(atomic.address, atomic.type, 1, at);
  check_fits(atomic.value, atomic.address, atomic.type, values_at);
  if (atomic.desired) check_fits(*atomic.desired, atomic.address, atomic.type, values_at);
  return {std::move(atomic), {}};
}

Instruction Reader::read_multimem(int thread) {
  expect(".", "after `multimem`");
  const Token kind = expect_word("ld_reduce, st or red");
  const Modifiers m = read_modifiers(kind);
  if (m.is_volatile) fail(kind.at, "multimem operations are not volatile; use .relaxed.sys");
  if (m.order && *m.order != Order::weak && !m.scope) {
    fail(kind.at, "a strong multimem operation has a scope: .cta, .cluster, .gpu or .sys");
  }
  const auto check_order = [&](Order order, Order strongest, bool weak) {
    if (order == Order::relaxed || order == strongest || (weak && order == Order::weak)) return;
    fail(kind.at, "multimem." + std::string(kind.text) + " is " + (weak ? ".weak, " : "") +
                      ".relaxed or ." + std::string(name_of(kOrderNames, strongest)));
  };
  const auto scope = [&](Order order) {
    return order == Order::weak ? Scope::sys : m.scope.value_or(Scope::sys);
  };
  if (kind.text == "ld_reduce") {
    Load load;
    load.order = m.order.value_or(Order::weak);
    check_order(load.order, Order::acquire, true);
    load.scope = scope(load.order);
    load.type = m.type;
    load.multimem = m.op.value_or(Combine::add);
    load.destinations = read_destinations(thread, m.vector);
    expect(",", "after the destination");
    const Position at = lexer_.peek().at;
    load.address = read_address(thread);
    check_access(load.address, load.type, load.destinations.size(), at);
    check_multicast(load.address, at);
    return {std::move(load), {}};
  }
  if (kind.text == "st") {
    if (m.op) fail(kind.at, "multimem.st has no operation; use multimem.red");
    Store store;
    store.order = m.order.value_or(Order::weak);
    check_order(store.order, Order::release, true);
    store.scope = scope(store.order);
    store.type = m.type;
    store.multimem = true;
    const Position at = lexer_.peek().at;
    store.address = read_address(thread);
    expect(",", "after the address");
    const Position values_at = lexer_.peek().at;
    store.values = read_values(thread, m.vector);
    check_access(store.address, store.type, store.values.size(), at);
    for (const Operand& v : store.values) check_fits(v, store.address, store.type, values_at);
    check_multicast(store.address, at);
    return {std::move(store), {}};
  }
  if (kind.text != "red") {
    fail(kind.at, "unknown instruction `multimem." + std::string(kind.text) +
                      "`; known are multimem.ld_reduce, multimem.st and multimem.red");
  }
  if (m.vector != 1) fail(kind.at, "vector multimem.red is not known; write one an element");
  Atomic atomic;
  atomic.order = m.order.value_or(Order::relaxed);
  check_order(atomic.order, Order::release, false);
  atomic.scope = scope(atomic.order);
  atomic.op = m.op.value_or(Combine::add);
  if (atomic.op == Combine::cas || atomic.op == Combine::exchange) {
    fail(kind.at, "multimem.red is .add, .and, .or, .xor, .min or .max");
  }
  atomic.type = m.type;
  atomic.multimem = true;
  const Position at = lexer_.peek().at;
  atomic.address = read_address(thread);
  expect(",", "after the address");
  const Position values_at = lexer_.peek().at;
  atomic.value = read_operand(thread);
  check_access(atomic.address, atomic.type, 1, at);
  check_fits(atomic.value, atomic.address, atomic.type, values_at);
  check_multicast(atomic.address, at);
  return {std::move(atomic), {}};
}

Instruction Reader::read_fence(const Token& mnemonic) {
  expect(".", "after `fence`");
  const Token kind = expect_word("acq_rel, sc, acquire, release or proxy");
  if (kind.text == "proxy") {
    expect(".", "after `fence.proxy`");
    const Token proxy = expect_word("alias, constant, texture, surface or async");
    const auto found = find_name(kProxyFenceNames, proxy.text);
    if (!found) {
      fail(proxy.at, "unknown proxy fence " + describe(proxy) +
                         "; known are alias, constant, texture, surface and async");
    }
    return {ProxyFence{*found}, {}};
  }
  const auto order = find_name(kOrderNames, kind.text);
  if (!order || *order == Order::weak || *order == Order::relaxed) {
    fail(kind.at, "a fence is .acq_rel, .sc, .acquire, .release or .proxy");
  }
  if (!accept(".")) fail(mnemonic.at, "a fence has a scope: .cta, .cluster, .gpu or .sys");
  const Token word = expect_word("a scope");
  const auto scope = find_name(kScopeNames, word.text);
  if (!scope)
    fail(word.at, "unknown scope " + describe(word) + "; known are cta, cluster, gpu and sys");
  return {Fence{*order, *scope}, {}};
}

Instruction Reader::read_barrier(int thread, const Token& mnemonic) {
  expect(".", "after " + describe(mnemonic));
  Token mode = expect_word("cta, sync or arrive");
  if (mode.text == "cluster") return read_cluster_barrier();
  const bool instances = mode.text == "cta";
  if (instances) {
    expect(".", "after `bar.cta`");
    mode = expect_word("sync or arrive");
  }
  if (mode.text != "sync" && mode.text != "arrive") {
    fail(mode.at,
         "unknown barrier " + describe(mode) + "; known are bar.cta.sync and bar.cta.arrive");
  }
  Barrier barrier;
  barrier.arrive = mode.text == "arrive";
  barrier.instance = read_operand(thread);
  if (!accept(",")) return {barrier, {}};
  const Position second = lexer_.peek().at;
  barrier.id = read_operand(thread);
  if (accept(",")) {
    barrier.count = read_operand(thread);
  } else if (!instances) {
    // PTX, bar: `a` names the barrier, `b` is the number of threads.
    barrier.count = std::exchange(barrier.id, std::exchange(barrier.instance, Constant{}));
    const auto* count = std::get_if<Constant>(&*barrier.count);
    if (count == nullptr || count->value <= 0 || count->value % 32 != 0) {
      fail(second, "the second operand of PTX's bar." + std::string(mode.text) +
                       " is a number of threads, a multiple of 32; with instance, id and count "
                       "of the test's own threads it is bar.cta." +
                       std::string(mode.text) + " 0, 1, 2");
    }
  }
  return {barrier, {}};
}

Instruction Reader::read_local(int thread, LocalOp op) {
  Local local;
  local.op = op;
  local.destination = write_register(thread, expect_word("a register"));
  expect(",", "after the destination");
  local.a = read_operand(thread);
  if (op != LocalOp::Move) {
    expect(",", "between the operands");
    local.b = read_operand(thread);
  }
  return {local, {}};
}

Instruction Reader::read_branch(int thread, std::optional<Compare> comparison) {
  Branch branch;
  branch.comparison = comparison;
  if (comparison) {
    branch.a = read_operand(thread);
    expect(",", "between the operands");
    branch.b = read_operand(thread);
    expect(",", "before the label");
  }
  const Token label = expect_word("a label");
  branches_[index(thread)].push_back({test_.threads[index(thread)].instructions.size(), label});
  return {branch, {}};
}

Operand Reader::read_operand(int thread) {
  const Token& token = lexer_.peek();
  if (token.kind == TokenKind::Word) {
    const Token name = lexer_.take();
    if (!is_register_name(name.text)) {
      fail(name.at, "a number or a register such as r0 expected, not " + describe(name));
    }
    return Register{read_register(thread, name)};
  }
  return Constant{expect_integer("a number or a register")};
}

Address Reader::read_address(int thread) {
  Address address;
  const bool brackets = accept("[");
  const Token base = expect_word(brackets ? "a location or a register" : "a location");
  if (is_register_name(base.text)) {
    if (!brackets) {
      fail(base.at, "an address expected, not a register; what r holds is written [" +
                        std::string(base.text) + "]");
    }
    address.base = Register{read_register(thread, base)};
  } else {
    const LocationId id = use_location(base);
    address.base = id;
    const Location& location = test_.locations[index(id)];
    if (accept("[")) address.offset = read_index(location) * location.element_bytes();
  }
  if (accept("+")) address.offset += expect_small_integer("an offset in bytes", 1 << 20);
  if (brackets) expect("]", "after the address");
  return address;
}

std::int64_t Reader::read_index(const Location& location) {
  const Position at = lexer_.peek().at;
  const int i = expect_small_integer("an element's index", 1 << 20);
  expect("]", "after the index");
  if (!location.is_array) {
    fail(at, "`" + location.name + "` is no array; declare it as " + location.name + "[2]=0;");
  }
  if (i >= location.length) {
    fail(at, "`" + location.name + "` has no element " + std::to_string(i) + "; the last one is " +
                 std::to_string(location.length - 1));
  }
  return i;
}

std::vector<RegisterId> Reader::read_destinations(int thread, int vector) {
  std::vector<RegisterId> destinations;
  if (vector == 1) {
    destinations.push_back(write_register(thread, expect_word("a register")));
    return destinations;
  }
  const std::string form = std::to_string(vector) + " registers in braces";
  expect("{", "before the " + form);
  for (int i = 0; i < vector; ++i) {
    if (i > 0) expect(",", "between the " + form);
    destinations.push_back(write_register(thread, expect_word("a register")));
  }
  expect("}", "after the " + form);
  return destinations;
}

std::vector<Operand> Reader::read_values(int thread, int vector) {
  std::vector<Operand> values;
  if (vector == 1) {
    values.push_back(read_operand(thread));
    return values;
  }
  const std::string form = std::to_string(vector) + " values in braces";
  expect("{", "before the " + form);
  for (int i = 0; i < vector; ++i) {
    if (i > 0) expect(",", "between the " + form);
    values.push_back(read_operand(thread));
  }
  expect("}", "after the " + form);
  return values;
}

void Reader::check_access(const Address& address, Type type, std::size_t elements,
                          Position at) const {
  const auto* id = std::get_if<LocationId>(&address.base);
  if (id == nullptr) return;
  const Location& location = test_.locations[index(*id)];
  if (location.arrivals > 0) {
    fail(at, "`" + location.name +
                 "` is an mbarrier; mbarrier.arrive, mbarrier.try_wait and "
                 "mbarrier.test_wait access it");
  }
  const std::int64_t size = std::int64_t{location.element_bytes()} * location.length;
  const std::int64_t width = type.bits != 0 ? type.bits / 8 : location.element_bytes();
  if (!location.typed && location.type == kWide && type.bits != 0 && type.bits != 64) {
    fail(at, "`" + location.name +
                 "` has 64 bits, as the file has a number of more than 31; declare its width: b" +
                 std::to_string(type.bits) + " " + location.name + "=0;");
  }
  const std::int64_t end = address.offset + width * static_cast<std::int64_t>(elements);
  if (end > size) {
    fail(at, "access to bytes " + std::to_string(address.offset) + " to " +
                 std::to_string(end - 1) + " of `" + location.name + "`, which has " +
                 std::to_string(size) + "; declare it wider, or as an array");
  }
}

void Reader::check_fits(const Operand& value, const Address& address, Type type,
                        Position at) const {
  const auto* constant = std::get_if<Constant>(&value);
  if (constant == nullptr) return;
  const auto* id = std::get_if<LocationId>(&address.base);
  const int declared = id != nullptr ? test_.locations[index(*id)].type.bits : 64;
  check_fits(constant->value, type.bits != 0 ? type.bits : declared, at);
}

void Reader::check_multicast(const Address& address, Position at) const {
  const auto* id = std::get_if<LocationId>(&address.base);
  if (id == nullptr || !test_.locations[index(*id)].replicas.empty()) return;
  fail(at, "`" + test_.locations[index(*id)].name +
               "` is no multicast address; declare one as m @ multicast aliases x0, x1;");
}

}  // namespace ringfence::litmus
