#include "emulator/schedule/agent.hpp"

#include <cstring>
#include <stdexcept>

#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/runtime.hpp"

namespace ringfence::schedule {

// One step of the agent on the machine. What leaves it by an exception may have changed half of it.
template <class Change>
void Agent::step(Change&& change) {
  runtime_.change([&] {
    runtime_.beat();
    change();
  });
}

namespace {

void note_bytes(Execution& execution, std::span<const std::byte> bytes) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    execution.note(word);
  }
  if (i < bytes.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    execution.note(word);
  }
}

}  // namespace

AgentLabel Agent::label() const { return unpack(record_->label); }
machine::ThreadId Agent::thread() const { return record_->thread; }
std::uint16_t Agent::first_call() const { return record_->first_call; }

machine::ThreadId Agent::own_thread() const {
  if (record_->thread == machine::kNoThread) {
    throw std::logic_error("a host makes no accesses: give them to an agent of a launch");
  }
  return record_->thread;
}

void Agent::point(Pending before) {
  if (execution_.free_running()) return;
  record_->pending = before;
  runtime_.give_way(*this);
  record_->pending = Pending::none;
}

void Agent::point(const PendingAccess& next) {
  record_->access = next;
  point(Pending::access);
}
void Agent::yield() { point(Pending::yield); }
void Agent::point_at_fence(machine::Machine::Fence kind) {
  point(kind == machine::Machine::Fence::sc ? Pending::fence_sc : Pending::fence);
}

void Agent::before(machine::Address at, const machine::Access& access, machine::AccessKind kind,
                   std::uint64_t bytes) {
  if (in_instruction_) return;
  if (machine::is_strong(access.order) || execution_.weak_points()) {
    point({at, static_cast<std::uint32_t>(bytes), kind, access.site});
  }
}

void Agent::after(std::uint16_t site) {
  record_->last_step = execution_.machine().steps();
  record_->last_site = site;
}

// A write that others may wait for: it can come late.
void Agent::wrote(machine::Address at, const machine::Access& access, std::uint64_t bytes) {
  if (machine::is_strong(access.order)) signalled(at, bytes);
}

void Agent::signalled(machine::Address at, std::uint64_t bytes) {
  constexpr std::uint64_t kMostSignalBytes = 8;
  if (bytes <= kMostSignalBytes) execution_.signalled(id_, at, bytes);
}

bool Agent::late(machine::Address at) const { return execution_.late(at); }
void Agent::read_old(bool on) { execution_.read_old(on); }

void Agent::check_stopped() {
  if (!execution_.free_running() && execution_.machine().failed()) {
    execution_.finish(RunEnd::finding);
  }
  if (!execution_.running()) runtime_.suspend(*this);
}

void Agent::read(machine::Address from, const machine::Access& access, std::span<std::byte> out) {
  before(from, access, machine::AccessKind::read, out.size());
  step([&] {
    const bool old = machine::is_strong(access.order) && late(from);
    if (old) read_old(true);
    execution_.machine().read(own_thread(), from, access, out);
    if (old) read_old(false);
    after(access.site);
    if (!execution_.free_running()) note_bytes(execution_, out);
  });
  check_stopped();
}

void Agent::write(machine::Address to, const machine::Access& access,
                  std::span<const std::byte> in) {
  before(to, access, machine::AccessKind::write, in.size());
  step([&] {
    execution_.machine().write(own_thread(), to, access, in);
    wrote(to, access, in.size());
    after(access.site);
  });
  check_stopped();
}

void Agent::reduce(machine::Address to, const machine::Access& access,
                   std::span<const std::byte> operand, machine::CombineFunction combine) {
  point({to, static_cast<std::uint32_t>(operand.size()), machine::AccessKind::rmw, access.site});
  step([&] {
    execution_.machine().reduce(own_thread(), to, access, operand, combine);
    wrote(to, access, operand.size());
    after(access.site);
  });
  check_stopped();
}

std::uint64_t Agent::rmw(machine::Address at, const machine::Access& access, std::uint64_t operand,
                         machine::CombineFunction combine) {
  point({at, access.element, machine::AccessKind::rmw, access.site});
  std::uint64_t old = 0;
  step([&] {
    old = execution_.machine().rmw(own_thread(), at, access, operand, combine);
    wrote(at, access, access.element);
    after(access.site);
    execution_.note(old);
  });
  check_stopped();
  return old;
}

std::uint64_t Agent::cas(machine::Address at, const machine::Access& access, std::uint64_t compare,
                         std::uint64_t value) {
  point({at, access.element, machine::AccessKind::rmw, access.site});
  std::uint64_t old = 0;
  step([&] {
    old = execution_.machine().cas(own_thread(), at, access, compare, value);
    if (old == compare) wrote(at, access, access.element);
    after(access.site);
    execution_.note(old);
  });
  check_stopped();
  return old;
}

void Agent::fence(machine::Machine::Fence kind, machine::Scope scope, std::uint16_t site) {
  point_at_fence(kind);
  step([&] {
    execution_.machine().fence(own_thread(), kind, scope, site);
    after(site);
  });
  check_stopped();
}

void Agent::proxy_fence(machine::Machine::ProxyFence kind, std::uint16_t site) {
  point(Pending::fence);
  step([&] {
    execution_.machine().proxy_fence(own_thread(), kind, site);
    after(site);
  });
  check_stopped();
}

void Agent::await(machine::Address at, const machine::Access& access, machine::Wanted wanted) {
  wanted.told = false;
  wait_for(at, access, wanted, false, 0);
}

std::uint64_t Agent::await_value(machine::Address at, const machine::Access& access,
                                 const machine::Wanted& wanted) {
  return wait_for(at, access, wanted, false, 0);
}

void Agent::await_cas(machine::Address at, const machine::Access& access, std::uint64_t compare,
                      std::uint64_t value) {
  wait_for(at, access, {machine::Compare::eq, compare}, true, value);
}

std::uint64_t Agent::wait_for(machine::Address at, const machine::Access& access,
                              const machine::Wanted& wanted, bool by_rmw, std::uint64_t value) {
  const machine::ThreadId thread = own_thread();
  machine::Machine& machine = execution_.machine();
  point({at, access.element, by_rmw ? machine::AccessKind::rmw : machine::AccessKind::read,
         access.site});
  for (bool watched = false;;) {
    std::optional<std::uint64_t> seen;
    step([&] {
      record_->last_site = access.site;
      if (!late(at)) seen = machine.try_end(thread, at, access, wanted, by_rmw, value);
      if (seen) {
        after(access.site);
        execution_.note(*seen);
        if (watched) machine.unwatch(at, access, id_);
        if (by_rmw) wrote(at, access, access.element);
      } else if (!machine.failed()) {
        if (!watched) {
          record_->await = {at, access, wanted, by_rmw};
          machine.watch(at, access, id_);
          watched = true;
        }
        execution_.set_blocked(id_, AgentStatus::awaiting);
      }
    });
    check_stopped();
    if (seen) return *seen;
    record_->pending = Pending::access;
    runtime_.give_way(*this);
    record_->pending = Pending::none;
  }
}

void Agent::sync(BlockBarrier& barrier, std::uint16_t site) {
  own_thread();
  runtime_.sync(*this, barrier, site, true);
}

void Agent::arrive(BlockBarrier& barrier, std::uint16_t site) {
  own_thread();
  runtime_.sync(*this, barrier, site, false);
}

void Agent::leave(BlockBarrier& barrier) { runtime_.leave(*this, barrier); }

void Agent::still_at_it() {
  runtime_.beat();
  check_stopped();
}

bool Agent::weak_points() const { return execution_.weak_points(); }
bool Agent::order_shows(const machine::Access& access) const {
  return execution_.machine().policy().boundary == machine::Boundary::coherent &&
         (machine::is_strong(access.order) || execution_.weak_points());
}
bool Agent::drops_looks() const { return execution_.drops_looks(id_); }

void Agent::begin_step() {
  runtime_.enter();
  runtime_.beat();
}

void Agent::end_step(std::uint16_t site) {
  after(site);
  runtime_.leave();
}

void Agent::break_step() noexcept {
  runtime_.broken();
  runtime_.leave();
}

machine::Machine& Agent::machine_of_run() { return execution_.machine(); }

void Agent::note(std::uint64_t value) {
  if (!execution_.free_running()) execution_.note(value);
}

bool Agent::await_any(std::span<const LaneWait> waits, bool may_time_out) {
  machine::Machine& machine = execution_.machine();
  step([&] {
    for (const LaneWait& w : waits) machine.watch(w.await.at, w.await.access, id_);
    record_->last_site = waits.front().await.access.site;
    execution_.set_waiting(id_, waits, may_time_out);
    // Something may have changed since the caller looked (in a free run).
    if (execution_.free_running() && execution_.can_go_on(id_)) execution_.set_ready(id_);
  });
  runtime_.give_way(*this);
  step([&] {
    for (const LaneWait& w : waits) machine.unwatch(w.await.at, w.await.access, id_);
  });
  check_stopped();
  return !record_->timed_out;
}

void Agent::park(std::uint16_t site, Parked at) {
  step([&] {
    record_->last_site = site;
    record_->parked = at;
    execution_.set_blocked(id_, AgentStatus::at_barrier);
  });
  runtime_.give_way(*this);
  check_stopped();
}

void Agent::wait_turn(std::uint16_t site, bool for_room) {
  step([&] {
    record_->last_site = site;
    record_->lacks_room = for_room;
    execution_.set_blocked(id_, record_->thread == machine::kNoThread
                                    ? AgentStatus::joining
                                    : AgentStatus::blocked_by_graph);
  });
  runtime_.give_way(*this);
  check_stopped();
}

void Agent::let_go(Agent& other) {
  const AgentStatus status = other.record_->status;
  if (status == AgentStatus::blocked_by_graph || status == AgentStatus::awaiting ||
      (status == AgentStatus::joining && other.record_->children == 0)) {
    execution_.set_ready(other.id_);
  }
}

void Agent::unpark(Agent& other) {
  const AgentStatus status = other.record_->status;
  if (status == AgentStatus::at_barrier || status == AgentStatus::awaiting) {
    execution_.set_ready(other.id_);
  }
}

std::vector<machine::ThreadId> Agent::threads_of(std::uint32_t lanes) const {
  std::vector<machine::ThreadId> threads;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if ((lanes >> i & 1U) != 0) threads.push_back(lanes_[i]);
  }
  return threads;
}

void Agent::arrived(const void* barrier, std::uint32_t lanes) {
  if (execution_.free_running()) return;
  execution_.arrived(id_, barrier);
  Strategy& strategy = execution_.strategy();
  if (strategy.follows_lanes()) strategy.on_lanes_arrive(id_, threads_of(lanes), barrier);
}
void Agent::left(const void* barrier, std::uint32_t lanes) {
  if (execution_.free_running()) return;
  execution_.left(id_, barrier);
  Strategy& strategy = execution_.strategy();
  if (strategy.follows_lanes()) strategy.on_lanes_leave(id_, threads_of(lanes), barrier);
}
bool Agent::orders_first(machine::Address at) const {
  return !execution_.free_running() && execution_.strategy().orders_first(at);
}
void Agent::late(const void* barrier, const Late& late) {
  if (!execution_.free_running()) execution_.strategy().on_late(id_, barrier, late);
}
void Agent::exchanged(std::uint32_t lanes) {
  if (execution_.free_running()) return;
  Strategy& strategy = execution_.strategy();
  if (strategy.follows_lanes()) strategy.on_exchange(id_, threads_of(lanes));
}
void Agent::closed(const void* barrier) {
  if (!execution_.free_running()) execution_.closed(barrier);
}

bool Agent::free_running() const { return execution_.free_running(); }

std::uint32_t Agent::choose_part(DecisionKind kind, std::span<const std::uint32_t> lanes,
                                 bool fences) {
  if (lanes.size() < 2 || execution_.free_running()) return 0;
  Strategy& strategy = execution_.strategy();
  if (strategy.follows_lanes()) strategy.on_parts(lanes, fences);
  return execution_.choose_for(id_, kind, static_cast<std::uint32_t>(lanes.size()));
}

std::uint32_t Agent::choose(DecisionKind kind, std::uint32_t options) {
  return execution_.choose_for(id_, kind, options);
}

void Agent::report(const machine::Finding& finding) {
  step([&] { execution_.machine().report(finding); });
  check_stopped();
}

void Agent::fail(const machine::Finding& finding) {
  step([&] {
    execution_.machine().report(finding, true);
    after(finding.second.site);
    if (!execution_.machine().failed()) execution_.set_blocked(id_, AgentStatus::stopped);
  });
  check_stopped();
  runtime_.give_way(*this);
  check_stopped();
}

void Agent::launch(machine::StreamId stream, std::uint16_t call, std::vector<ChildSpec> children,
                   std::uint16_t group) {
  runtime_.launch(*this, stream, call, children, group, nullptr);
}

void Agent::launch_graph(machine::StreamId stream, std::uint16_t call,
                         std::vector<ChildSpec> children,
                         std::vector<std::vector<std::uint32_t>> predecessors,
                         std::uint16_t group) {
  runtime_.launch(*this, stream, call, children, group, &predecessors);
}

void Agent::fork_hosts(std::uint16_t call, std::vector<Body> bodies) {
  runtime_.fork_hosts(*this, call, bodies);
}

void Agent::order_streams(machine::StreamId later, machine::StreamId earlier) {
  step([&] { execution_.machine().order_streams(later, earlier); });
}

}  // namespace ringfence::schedule
