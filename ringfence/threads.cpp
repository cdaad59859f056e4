#include "ringfence/threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "emulator/schedule/agent.hpp"
#include "emulator/schedule/program.hpp"
#include "ringfence/held.hpp"

namespace ringfence {

struct Threads::Data {
  struct WordOf {
    std::string name;
    std::uint32_t initial;
  };
  struct ThreadOf {
    Place place;
    std::uint32_t index;  // in its block
    Body body;
  };
  std::string name;
  std::vector<WordOf> words;
  std::vector<ThreadOf> threads;
  std::function<std::string(const Memory&)> check;
};

namespace {

using machine::Access;
using machine::Address;

constexpr std::uint32_t kMostRanks = 64;
constexpr std::uint32_t kMostIndex = 65535;  // of a block, and of a thread in it

machine::Order to_machine(Order o) { return static_cast<machine::Order>(o); }
machine::Scope to_machine(Scope s) { return static_cast<machine::Scope>(s); }
static_assert(static_cast<int>(Order::sc) == static_cast<int>(machine::Order::sc));
static_assert(static_cast<int>(Scope::sys) == static_cast<int>(machine::Scope::sys));

std::string_view base_name(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return file.substr(file.rfind('/') + 1);
}

// The source line stands for the access: equal in every run, whoever comes there first. Two lines
// of one file never share a number; lines of two files seldom do.
std::uint16_t site_of(const std::source_location& where) {
  const std::size_t file = std::hash<std::string_view>{}(base_name(where));
  return static_cast<std::uint16_t>((file + where.line()) % 0xfffe + 1);
}

std::string order_words(Order order, Scope scope) {
  const char* const orders[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc"};
  const char* const scopes[] = {"cta", "cluster", "gpu", "sys"};
  std::string text = orders[static_cast<int>(order)];
  if (order != Order::weak) text += std::string(".") + scopes[static_cast<int>(scope)];
  return text;
}

[[noreturn]] void refuse(const std::source_location& where, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}:{}: {}", where.file_name(), where.line(), what));
}

}  // namespace

struct Memory::State {
  const machine::Machine& machine;
  machine::RegionId first;
  std::uint32_t words;
};

std::uint32_t Memory::operator[](Word word) const {
  if (word.index >= state_.words) throw std::invalid_argument("finally: no such word");
  std::uint32_t value = 0;
  state_.machine.peek({static_cast<machine::RegionId>(state_.first + word.index), 0},
                      std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

namespace detail {

class ThreadsProgram final : public schedule::Program {
 public:
  explicit ThreadsProgram(std::shared_ptr<const Threads::Data> data) : data_(std::move(data)) {
    for (const Threads::Data::ThreadOf& t : data_->threads) {
      ranks_ = std::max<std::uint16_t>(ranks_, static_cast<std::uint16_t>(t.place.rank + 1));
      ++threads_of_[{t.place.rank, t.place.block}];
    }
  }

  std::uint16_t ranks() const override { return ranks_; }
  std::uint64_t shared_bytes() const override { return 4096 + data_->words.size() * 256; }

  void set_up(machine::Machine& machine, std::pmr::memory_resource*) override {
    first_ = static_cast<machine::RegionId>(machine.region_count());
    for (const Threads::Data::WordOf& w : data_->words) {
      const machine::RegionId id = machine.add_region({.rank = 0, .bytes = 4});
      machine.set_initial({id, 0}, std::as_bytes(std::span(&w.initial, 1)));
    }
  }

  void before_run(machine::Machine& machine) override {
    streams_.clear();
    for (std::uint16_t r = 0; r < ranks_; ++r) streams_.push_back(machine.add_stream(r));
    mismatch_.clear();
  }

  void host(schedule::Agent& agent, std::uint16_t rank) override;

  void after_run(machine::Machine& machine) override {
    if (!data_->check) return;
    const Memory::State state{machine, first_, static_cast<std::uint32_t>(data_->words.size())};
    try {
      mismatch_ = data_->check(Memory(state));
    } catch (const std::exception& e) {  // the caller's to mend
      throw schedule::ProgramError(fmt::format("{}: finally: {}", data_->name, e.what()));
    }
    if (mismatch_.empty()) return;
    machine::Finding f;
    f.kind = machine::FindingKind::numeric_mismatch;
    machine.report(f);
  }

  std::string site_name(std::uint16_t site) const override {
    const auto found = sites_.find(site);
    return found != sites_.end() ? found->second : "a line of the threads' source";
  }
  std::string region_name(machine::RegionId region) const override { return word_name(region); }
  schedule::SlotName slot_name(Address at) const override { return {word_name(at.region), {}}; }
  std::string last_mismatch() const override { return mismatch_; }

  Address address(Word word, const std::source_location& where) const {
    if (word.index >= data_->words.size())
      refuse(where, "a word of other threads: expected word()");
    return {static_cast<machine::RegionId>(first_ + word.index), 0};
  }
  const std::string& name(Word word) const { return data_->words[word.index].name; }
  std::uint16_t site(const std::source_location& where, const std::string& what) {
    const std::uint16_t site = site_of(where);
    if (!sites_.contains(site)) {
      sites_[site] = fmt::format("{}:{}: {}", base_name(where), where.line(), what);
    }
    return site;
  }
  void fails(schedule::Agent& agent, std::uint16_t site, const std::string& text) {
    mismatch_ = text;
    machine::Finding f;
    f.kind = machine::FindingKind::numeric_mismatch;
    f.has_second = true;
    f.second.kind = machine::AccessKind::none;
    f.second.label = schedule::pack(agent.label());
    f.second.site = site;
    agent.fail(f);
  }

 private:
  std::string word_name(machine::RegionId region) const {
    const std::size_t i = region - first_;
    return i < data_->words.size() ? data_->words[i].name : "?";
  }

  std::shared_ptr<const Threads::Data> data_;
  std::uint16_t ranks_ = 1;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> threads_of_;  // rank and block
  machine::RegionId first_ = 0;
  std::vector<machine::StreamId> streams_;
  std::map<std::uint16_t, std::string> sites_;
  std::string mismatch_;
};

}  // namespace detail

using detail::ThreadsProgram;

struct Thread::State {
  ThreadsProgram& program;
  schedule::Agent& agent;
  schedule::BlockBarrier& barrier;
  Place place;
  std::uint32_t index;

  Access access(const char* what, Word word, Order order, Scope scope, const Where& where) {
    static_cast<void>(program.address(word, where));
    Access a;
    a.order = to_machine(order);
    a.scope = to_machine(scope);
    a.site = program.site(
        where, fmt::format("{} {} ({})", what, program.name(word), order_words(order, scope)));
    return a;
  }
  static void expect(bool legal, const Where& where, const char* what) {
    if (!legal) refuse(where, what);
  }
  static void expect_read(Order o, const Where& where) {
    expect(o == Order::weak || o == Order::relaxed || o == Order::acquire, where,
           "a load is weak, relaxed or acquire");
  }
  static void expect_atomic(Order o, const Where& where) {
    expect(o != Order::weak && o != Order::sc, where,
           "an atomic is relaxed, acquire, release or acq_rel");
  }
  void wait(Word at, machine::Compare compare, std::uint32_t value, Order order, Scope scope,
            const Where& where) {
    expect(order == Order::relaxed || order == Order::acquire, where,
           "a wait is relaxed or acquire");
    machine::Wanted wanted;
    wanted.compare = compare;
    wanted.value = value;
    agent.await(program.address(at, where), access("wait for", at, order, scope, where), wanted);
  }
};

void ThreadsProgram::host(schedule::Agent& agent, std::uint16_t rank) {
  std::map<std::uint32_t, schedule::BlockBarrier> barriers;
  std::vector<schedule::Agent::ChildSpec> children;
  for (const Threads::Data::ThreadOf& t : data_->threads) {
    if (t.place.rank != rank) continue;
    auto& barrier =
        barriers.try_emplace(t.place.block, threads_of_.at({t.place.rank, t.place.block}))
            .first->second;
    schedule::Agent::ChildSpec child;
    child.block = t.place.block;
    child.index = t.index;
    child.body = [this, &t, &barrier](schedule::Agent& a) {
      Thread::State state{*this, a, barrier, t.place, t.index};
      Thread thread(state);
      t.body(thread);
      a.leave(barrier);
    };
    children.push_back(std::move(child));
  }
  agent.launch(streams_[rank], 0, std::move(children));
}

namespace {

class ThreadsSubject final : public analysis::RecordedAs<trace::OwnConfig> {
 public:
  ThreadsSubject(std::shared_ptr<const Threads::Data> data, trace::OwnConfig config)
      : RecordedAs(std::move(config)), data_(std::move(data)) {}

  bool forks() const override { return false; }  // bodies are the caller's
  std::vector<machine::Boundary> claims() const override { return {machine::Boundary::strict}; }
  std::unique_ptr<schedule::Program> make_program() const override {
    return std::make_unique<ThreadsProgram>(data_);
  }
  analysis::SubjectPtr with(const analysis::Settings& set) const override {
    if (!set.empty()) {
      throw analysis::InputError(
          fmt::format("{}: it has no switch '{}'", record().name, set.begin()->first));
    }
    return std::make_shared<ThreadsSubject>(data_, record());
  }
  analysis::SubjectPtr like(const trace::Configuration&) const override { return with({}); }

 private:
  std::shared_ptr<const Threads::Data> data_;
};

std::uint64_t sum(std::uint64_t old, std::uint64_t operand) {
  return static_cast<std::uint32_t>(old + operand);
}
std::uint64_t take(std::uint64_t, std::uint64_t operand) { return operand; }

}  // namespace

analysis::SubjectPtr make_threads_subject(const Threads& of) {
  const auto data = of.data();
  trace::OwnConfig config;
  config.name = data->name;
  if (data->name.empty()) throw analysis::InputError("threads: expected a name");
  if (data->threads.empty()) {
    throw analysis::InputError(data->name + ": no threads; expected Threads::add");
  }
  for (const Threads::Data::ThreadOf& t : data->threads) {
    if (t.place.rank >= kMostRanks) {
      throw analysis::InputError(
          fmt::format("{}: rank {}: expected 0 to {}", data->name, t.place.rank, kMostRanks - 1));
    }
    if (t.place.block > kMostIndex || t.index > kMostIndex) {
      throw analysis::InputError(fmt::format("{}: block {}, thread {}: expected 0 to {}",
                                             data->name, t.place.block, t.index, kMostIndex));
    }
    if (!t.body) {
      throw analysis::InputError(fmt::format("{}: thread {} of rank {}, block {}: expected a body",
                                             data->name, t.index, t.place.rank, t.place.block));
    }
    config.ranks = std::max(config.ranks, t.place.rank + 1);
  }
  return std::make_shared<ThreadsSubject>(data, config);
}

std::uint32_t Thread::load(Word from, Order order, Scope scope, Where where) {
  State::expect_read(order, where);
  std::uint32_t value = 0;
  state_.agent.read(state_.program.address(from, where),
                    state_.access("load", from, order, scope, where),
                    std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void Thread::store(Word to, std::uint32_t value, Order order, Scope scope, Where where) {
  State::expect(order == Order::weak || order == Order::relaxed || order == Order::release, where,
                "a store is weak, relaxed or release");
  state_.agent.write(state_.program.address(to, where),
                     state_.access("store", to, order, scope, where),
                     std::as_bytes(std::span(&value, 1)));
}

std::uint32_t Thread::add(Word at, std::uint32_t operand, Order order, Scope scope, Where where) {
  State::expect_atomic(order, where);
  Access a = state_.access("add to", at, order, scope, where);
  return static_cast<std::uint32_t>(
      state_.agent.rmw(state_.program.address(at, where), a, operand, sum));
}

std::uint32_t Thread::exchange(Word at, std::uint32_t value, Order order, Scope scope,
                               Where where) {
  State::expect_atomic(order, where);
  Access a = state_.access("exchange", at, order, scope, where);
  return static_cast<std::uint32_t>(
      state_.agent.rmw(state_.program.address(at, where), a, value, take));
}

std::uint32_t Thread::cas(Word at, std::uint32_t compare, std::uint32_t value, Order order,
                          Scope scope, Where where) {
  State::expect_atomic(order, where);
  Access a = state_.access("cas", at, order, scope, where);
  return static_cast<std::uint32_t>(
      state_.agent.cas(state_.program.address(at, where), a, compare, value));
}

void Thread::fence(Order order, Scope scope, Where where) {
  State::expect(order == Order::acq_rel || order == Order::sc, where, "a fence is acq_rel or sc");
  using Fence = machine::Machine::Fence;
  state_.agent.fence(order == Order::sc ? Fence::sc : Fence::acq_rel, to_machine(scope),
                     state_.program.site(where, "fence (" + order_words(order, scope) + ")"));
}

void Thread::await(Word at, std::uint32_t value, Order order, Scope scope, Where where) {
  state_.wait(at, machine::Compare::eq, value, order, scope, where);
}

void Thread::await_at_least(Word at, std::uint32_t value, Order order, Scope scope, Where where) {
  state_.wait(at, machine::Compare::ge, value, order, scope, where);
}

void Thread::await_cas(Word at, std::uint32_t compare, std::uint32_t value, Order order,
                       Scope scope, Where where) {
  State::expect_atomic(order, where);
  Access a = state_.access("wait and cas", at, order, scope, where);
  state_.agent.await_cas(state_.program.address(at, where), a, compare, value);
}

void Thread::sync(Where where) {
  state_.agent.sync(state_.barrier, state_.program.site(where, "bar.sync"));
}

void Thread::check(bool holds, const std::string& text, Where where) {
  if (!holds) state_.program.fails(state_.agent, state_.program.site(where, text), text);
}

std::uint32_t Thread::rank() const { return state_.place.rank; }
std::uint32_t Thread::block() const { return state_.place.block; }
std::uint32_t Thread::index() const { return state_.index; }

Threads::Threads(std::string name) {
  Data data;
  data.name = std::move(name);
  data_ = std::make_shared<Data>(std::move(data));
}

Threads::Data& Threads::change() {
  if (data_.use_count() != 1) data_ = std::make_shared<Data>(*data_);
  return *data_;
}

Word Threads::word(const std::string& name, std::uint32_t initial) {
  change().words.push_back({name, initial});
  return {static_cast<std::uint32_t>(data_->words.size() - 1)};
}

Threads& Threads::add(Place place, Body body) {
  std::uint32_t index = 0;
  for (const Data::ThreadOf& t : data_->threads) {
    index += t.place.rank == place.rank && t.place.block == place.block;
  }
  change().threads.push_back({place, index, std::move(body)});
  return *this;
}

Threads& Threads::finally(std::function<std::string(const Memory&)> check) {
  change().check = std::move(check);
  return *this;
}

}  // namespace ringfence
