#include "emulator/litmus/run.hpp"

#include <algorithm>

#include "emulator/litmus/names.hpp"
#include "emulator/litmus/polls.hpp"
#include "emulator/litmus/values.hpp"

namespace ringfence::litmus {
namespace {

std::string text(Position at) {
  return "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": ";
}

// The instructions whose several accesses release or acquire.
std::vector<std::pair<std::size_t, std::size_t>> find_unordered(const Test& test) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    const auto& code = test.threads[t].instructions;
    for (std::size_t i = 0; i < code.size() && found.size() < LitmusProgram::kMaxUnordered; ++i) {
      const auto* load = std::get_if<Load>(&code[i].what);
      const auto* store = std::get_if<Store>(&code[i].what);
      const auto* atomic = std::get_if<Atomic>(&code[i].what);
      const bool several = (load != nullptr && (load->multimem || load->destinations.size() > 1)) ||
                           (store != nullptr && (store->multimem || store->values.size() > 1)) ||
                           (atomic != nullptr && atomic->multimem);
      const Order order = load != nullptr     ? load->order
                          : store != nullptr  ? store->order
                          : atomic != nullptr ? atomic->order
                                              : Order::weak;
      if (several && order != Order::weak && order != Order::relaxed) found.emplace_back(t, i);
    }
  }
  return found;
}

}  // namespace

namespace {

// Whether each scope of the test reaches all of its threads, and each location has one name and one
// width: then every two strong accesses of a location are morally strong with one another.
bool all_reach_all(const Test& test) {
  const auto plain = [](const Location& l) { return l.is_memory(); };
  if (!std::all_of(test.locations.begin(), test.locations.end(), plain)) return false;
  if (is_asynchronous(test)) return false;
  for (const Thread& from : test.threads) {
    for (const Instruction& i : from.instructions) {
      const auto fine = [&](const auto& x) {
        const auto* named = std::get_if<LocationId>(&x.address.base);
        if (named == nullptr || x.proxy != Proxy::Generic) return false;
        const int bits = test.locations[index(*named)].type.bits;
        if (x.type.bits != 0 && x.type.bits != bits) return false;
        return x.order == Order::weak ||
               std::all_of(test.threads.begin(), test.threads.end(), [&](const Thread& to) {
                 return machine::reaches(x.scope, placement(from), placement(to));
               });
      };
      const auto* load = std::get_if<Load>(&i.what);
      const auto* store = std::get_if<Store>(&i.what);
      const auto* atomic = std::get_if<Atomic>(&i.what);
      const auto* fence = std::get_if<Fence>(&i.what);
      if ((load != nullptr && !fine(*load)) || (store != nullptr && !fine(*store)) ||
          (atomic != nullptr && !fine(*atomic))) {
        return false;
      }
      for (const Thread& to : test.threads) {
        if (fence != nullptr && !machine::reaches(fence->scope, placement(from), placement(to))) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

std::uint32_t LitmusProgram::unordered(const Test& test) {
  return static_cast<std::uint32_t>(find_unordered(test).size());
}

LitmusProgram::LitmusProgram(const Test& test, std::uint32_t reversed, int bound, bool all_run)
    : test_(test),
      reversed_(reversed),
      bound_(bound),
      unordered_(find_unordered(test)),
      observed_(observed_variables(test)) {
  name_locations();
  int gpus = 1;
  for (const Thread& t : test.threads) gpus = std::max(gpus, t.gpu + 1);
  ranks_ = static_cast<std::uint16_t>(gpus);
  threads_of_.resize(ranks_);
  launches_of_.assign(ranks_, 0);
  std::map<std::pair<int, int>, std::uint32_t> block, in_block;
  std::vector<std::uint32_t> blocks(ranks_, 0);
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    const Thread& thread = test.threads[t];
    const auto [at, fresh] = block.emplace(std::pair(thread.gpu, thread.cta), 0);
    if (fresh) at->second = blocks[index(thread.gpu)]++;
    block_of_.push_back(at->second);
    blocks_ = std::max<std::uint64_t>(blocks_, at->second + 1);
    index_of_.push_back(in_block[{thread.gpu, thread.cta}]++);
    threads_of_[index(thread.gpu)].push_back(t);
    std::size_t launches = 1;
    for (const Instruction& i : thread.instructions) {
      if (std::holds_alternative<Launch>(i.what)) ++launches;
      const auto through = [&](Proxy p) { other_proxies_ = other_proxies_ || p != Proxy::Generic; };
      if (const auto* load = std::get_if<Load>(&i.what)) through(load->proxy);
      if (const auto* store = std::get_if<Store>(&i.what)) through(store->proxy);
      if (const auto* atomic = std::get_if<Atomic>(&i.what)) through(atomic->proxy);
    }
    launches_of_[index(thread.gpu)] = std::max(launches_of_[index(thread.gpu)], launches);
    std::vector<bool> observed(thread.registers.size());
    for (const Variable& v : observed_) {
      if (v.thread == static_cast<int>(t)) observed[index(v.id)] = true;
    }
    live_.push_back(live_registers(thread, observed));
    written_.push_back(written_registers(thread));
    last_.push_back(is_last(thread));
  }
  // The last thing of a launch is followed by the next launch, of whatever thread.
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    if (launches_of_[index(test.threads[t].gpu)] > 1) last_[t].assign(last_[t].size(), false);
  }
  find_phases();
  all_reach_all_ = all_reach_all(test);
  apart_.resize(test.threads.size());
  if (!all_run) find_places();
}

void LitmusProgram::find_places() {
  std::vector<LocationId> memory_of;
  for (const Name& name : names_) memory_of.push_back(name.memory);
  places_ = OnePlace::find(test_, memory_of);
  ends_.resize(places_.size());
  for (const OnePlace& place : places_) {
    for (const std::size_t t : place.threads()) apart_[t] = true;
    std::vector<Variable>& mine = observed_of_.emplace_back();
    for (const Variable& v : observed_) {
      const bool here = v.thread < 0 ? names_[index(v.id)].memory == place.location()
                                     : std::find(place.threads().begin(), place.threads().end(),
                                                 index(v.thread)) != place.threads().end();
      if (here) mine.push_back(v);
    }
  }
}

const std::vector<std::vector<std::int64_t>>& LitmusProgram::ends_of(std::size_t p) const {
  if (!ends_[p]) {
    OnePlace::Start start;
    const Location& l = test_.locations[index(places_[p].location())];
    start.value = l.initial_address   ? address_value(*l.initial_address)
                  : l.initial.empty() ? 0
                                      : l.initial.front();
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      start.registers.push_back(initial_registers(t));
    }
    ends_[p] = places_[p].ends(test_, start, live_, observed_of_[p]);
  }
  return *ends_[p];
}

std::vector<std::int64_t> LitmusProgram::initial_registers(std::size_t thread) const {
  std::vector<std::int64_t> values;
  for (const RegisterInfo& r : test_.threads[thread].registers) {
    values.push_back(r.initial_address ? address_value(*r.initial_address) : r.initial);
  }
  return values;
}

// Which memory each location is, and through which of its virtual addresses: a second name of the
// generic proxy is an address of its own, one of another proxy has the address of what it names.
void LitmusProgram::name_locations() {
  std::vector<int> addresses(test_.locations.size(), 1);
  for (std::size_t i = 0; i < test_.locations.size(); ++i) {
    LocationId memory = static_cast<LocationId>(i), address = memory;
    while (test_.locations[index(address)].alias_of &&
           test_.locations[index(address)].proxy != Proxy::Generic) {
      address = *test_.locations[index(address)].alias_of;
    }
    for (memory = address; test_.locations[index(memory)].alias_of;) {
      memory = *test_.locations[index(memory)].alias_of;
    }
    names_.push_back({memory, 0});
    if (address == memory) continue;
    // The number of that address; its own location may come later in the list.
    const auto [at, fresh] = address_of_.emplace(address, 0);
    if (fresh) at->second = addresses[index(memory)]++;
    if (at->second >= machine::kVirtualAddresses) {
      throw NotModelled(text(test_.locations[i].at) + "a location has at most " +
                        std::to_string(machine::kVirtualAddresses) + " virtual addresses");
    }
    names_.back().address = at->second;
  }
}

std::uint64_t LitmusProgram::shared_bytes() const {
  std::uint64_t bytes =
      4096 + 64 * (clusters_.size() + 1) + 2 * ranks_ * blocks_ * kBarriers * kBarriers * 4;
  for (const Location& l : test_.locations) {
    bytes +=
        64 + static_cast<std::uint64_t>(l.length) * static_cast<std::uint64_t>(l.element_bytes());
  }
  return bytes;
}

void LitmusProgram::set_up(machine::Machine& machine, std::pmr::memory_resource*) {
  regions_.clear();
  for (const Location& l : test_.locations) {
    const auto bytes = static_cast<std::uint64_t>(l.length) *
                       static_cast<std::uint64_t>(l.is_memory() ? l.element_bytes() : 8);
    const machine::RegionId region = machine.add_region({.rank = 0, .bytes = bytes});
    regions_.push_back(region);
    if (!l.is_memory()) continue;
    for (std::size_t e = 0; e < index(l.length); ++e) {
      const std::int64_t v = l.initial_address      ? address_value(*l.initial_address)
                             : e < l.initial.size() ? l.initial[e]
                                                    : 0;
      machine.set_initial({region, e * index(l.element_bytes())},
                          std::as_bytes(std::span(&v, 1)).first(index(l.element_bytes())));
    }
  }
  add_cluster_barriers(machine);
  arrivals_ = machine.add_region(
      {.rank = 0, .bytes = std::uint64_t{ranks_} * blocks_ * kBarriers * kBarriers * 4});
}

void LitmusProgram::before_run(machine::Machine& machine) {
  machine.use_other_proxies(other_proxies_);
  begin_phases(machine);
  streams_.clear();
  for (std::uint16_t r = 0; r < ranks_; ++r) streams_.push_back(machine.add_stream(r));
  states_.clear();
  given_up_.clear();
  for (auto& [key, meeting] : barriers_) meeting.used = false;
  straight_ = true;
  for (std::size_t t = 0; t < test_.threads.size(); ++t) {
    ThreadState s;
    s.registers = initial_registers(t);
    s.from.resize(s.registers.size());
    s.visits.resize(test_.threads[t].instructions.size());
    states_.push_back(std::move(s));
  }
}

void LitmusProgram::host(schedule::Agent& agent, std::uint16_t rank) {
  for (std::size_t launch = 0; launch < launches_of_[rank]; ++launch) {
    std::vector<schedule::Agent::ChildSpec> children;
    for (const std::size_t t : threads_of_[rank]) {
      const Thread& thread = test_.threads[t];
      schedule::Agent::ChildSpec child;
      child.block = block_of_[t];
      child.index = index_of_[t];
      child.cluster = static_cast<std::uint16_t>(thread.cluster ? *thread.cluster + 1 : 0);
      child.body = [this, t](schedule::Agent& a) { run_launch(a, t); };
      children.push_back(std::move(child));
    }
    agent.launch(streams_[rank], static_cast<std::uint16_t>(launch), std::move(children));
  }
}

void LitmusProgram::run_launch(schedule::Agent& agent, std::size_t thread) {
  const auto& code = test_.threads[thread].instructions;
  if (apart_[thread]) return;
  ThreadState& s = states_[thread];
  while (s.next < code.size()) {
    if (std::holds_alternative<Launch>(code[s.next].what)) {
      ++s.next;
      ++s.changes;
      break;
    }
    s.inside = true;
    s.next = step(agent, thread, s.next);
    s.inside = false;
  }
  exit(agent, thread);
}

std::vector<State> LitmusProgram::final_states(const FinalValues& final_values) const {
  std::vector<State> out{{}};
  for (const Variable& v : observed_) {
    std::vector<std::int64_t> values;
    if (v.thread >= 0) {
      values.push_back(states_[index(v.thread)].registers[index(v.id)]);
    } else {
      const LocationId id = names_[index(v.id)].memory;
      const Location& l = test_.locations[index(id)];
      const auto bytes = static_cast<std::uint32_t>(l.element_bytes());
      for (const std::uint64_t x :
           final_values({regions_[index(id)], std::uint64_t{bytes} * index(v.element)}, bytes)) {
        values.push_back(extended(x, l.type));
      }
    }
    std::vector<State> longer;
    for (const State& s : out) {
      for (const std::int64_t x : values) {
        longer.push_back(s);
        longer.back().push_back(x);
      }
    }
    out = std::move(longer);
  }
  for (std::size_t p = 0; p < places_.size(); ++p) {
    std::vector<std::size_t> at;
    for (const Variable& v : observed_of_[p]) {
      at.push_back(static_cast<std::size_t>(
          std::lower_bound(observed_.begin(), observed_.end(), v) - observed_.begin()));
    }
    std::vector<State> each;
    for (const State& s : out) {
      for (const std::vector<std::int64_t>& values : ends_of(p)) {
        each.push_back(s);
        for (std::size_t i = 0; i < at.size(); ++i) each.back()[at[i]] = values[i];
      }
    }
    out = std::move(each);
  }
  return out;
}

std::vector<Waiting> LitmusProgram::hanging(const FinalValues& final_values) const {
  std::vector<Waiting> out;
  if (bounded()) return out;
  for (std::size_t t = 0; t < states_.size(); ++t) {
    const ThreadState& s = states_[t];
    if (!s.inside) continue;
    // Polls that are strong see the last value in the end.
    for (std::size_t i = s.turn; s.spinning && i < s.looks.size(); ++i) {
      const Look& look = s.looks[i];
      if (!look.strong) continue;
      const std::vector<std::uint64_t> last = final_values(look.at, look.bytes);
      if (std::find(last.begin(), last.end(), look.value) == last.end()) return {};
    }
    const bool looks = s.spinning && s.turn < s.looks.size();
    out.push_back({t, looks ? s.looks[s.turn].instruction : s.next});
  }
  return out;
}

std::string LitmusProgram::site_name(std::uint16_t site) const {
  return "line " + std::to_string(site);
}

std::string LitmusProgram::region_name(machine::RegionId region) const {
  return region < test_.locations.size() ? test_.locations[region].name : "?";
}

schedule::SlotName LitmusProgram::slot_name(machine::Address at) const {
  return {region_name(at.region), ""};
}

}  // namespace ringfence::litmus
