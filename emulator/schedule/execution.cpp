#include "emulator/schedule/execution.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <stdexcept>

#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/label.hpp"

namespace ringfence::schedule {
namespace {

// Accesses of a run that are kept for its profile: what comes behind them is much like them.
constexpr std::size_t kMostSeen = 1u << 16;

// How many points may pass before a stop request is noticed.
constexpr std::uint32_t kPollEvery = 1024;

DecisionKind kind_of(machine::Choice c) {
  switch (c) {
    case machine::Choice::read:
      return DecisionKind::read;
    case machine::Choice::coherence:
      return DecisionKind::coherence;
    case machine::Choice::miss:
      return DecisionKind::miss;
  }
  return DecisionKind::read;
}

}  // namespace

Execution::Execution(machine::Machine* machine, std::uint16_t ranks,
                     std::pmr::memory_resource* memory)
    : machine_(machine),
      ranks_(ranks),
      memory_(memory),
      chunks_(memory),
      ready_(memory),
      ready_bits_(memory),
      decisions_(memory),
      ranks_state_(ranks, memory),
      holds_(memory),
      faults_(memory),
      dirty_(memory),
      seen_(memory),
      inboxes_(memory),
      rung_(memory) {
  chunks_.reserve(kMaxChunks);
  decisions_.reserve(1024);
  inboxes_.resize(ranks);
}

Execution::~Execution() {
  for (AgentRecord* c : chunks_) {
    for (std::uint32_t i = 0; i < kChunk; ++i) {
      if (c[i].waits == nullptr) continue;
      memory_->deallocate(c[i].waits, c[i].wait_capacity * sizeof(LaneWait), alignof(LaneWait));
    }
    std::destroy_n(c, kChunk);
    memory_->deallocate(c, kChunk * sizeof(AgentRecord), alignof(AgentRecord));
  }
}

void Execution::start(Strategy* strategy, const RunLimits& limits) {
  strategy_ = strategy;
  agent_count_ = unfinished_ = 0;
  ready_.clear();
  std::fill(ready_bits_.begin(), ready_bits_.end(), 0u);
  lowest_word_ = 0;
  decisions_.clear();
  current_ = kNoAgent;
  digest_ = 0;
  points_.store(0, std::memory_order_relaxed);
  point_limit_ = limits.point_limit;
  rare_at_ = 0;
  hook_ = nullptr;
  weak_points_ = limits.weak_points;
  free_ = limits.free_running;
  asked_total_ = 0;
  looks_told_ = false;
  faults_on_ = limits.faults && !free_;
  profile_ = limits.profile && !free_;
  seen_.clear();
  fell_ = read_old_ = false;
  late_count_ = 0;
  std::fill(ranks_state_.begin(), ranks_state_.end(), RankState{});
  holds_.clear();
  faults_.clear();
  for (auto& inbox : inboxes_) inbox.clear();
  rung_.clear();
  stop_.store(false, std::memory_order_relaxed);
  end_.store(static_cast<std::uint8_t>(RunEnd::running), std::memory_order_release);

  strategy_->begin(limits.expected_points);
  for (std::uint16_t r = 0; r < ranks_; ++r) {
    AgentLabel host;
    host.rank = r;
    ranks_state_[r].host = spawn(pack(host), r, machine::kNoThread, kNoAgent, AgentStatus::ready);
  }
  for (std::uint16_t r = 0; r < ranks_ && faults_on_; ++r) draw_dirty(r);
  if (!free_) hand_over(strategy_->pick(*this, kNoAgent, false, 0, 0), false, 0, 0);
}

void Execution::finish(RunEnd end) {
  auto running = static_cast<std::uint8_t>(RunEnd::running);
  end_.compare_exchange_strong(running, static_cast<std::uint8_t>(end), std::memory_order_acq_rel);
}

bool Execution::poll_stop() {
  if (!stop_.load(std::memory_order_relaxed) && !must_stop()) return false;
  finish(RunEnd::stopped);
  return true;
}

AgentId Execution::spawn(std::uint64_t label, std::uint16_t rank, machine::ThreadId thread,
                         AgentId parent, AgentStatus status) {
  const AgentId id = agent_count_;
  if (id / kChunk == chunks_.size()) {
    if (chunks_.size() == kMaxChunks) {
      throw std::length_error("a run may have " + std::to_string(kMaxChunks * kChunk) + " agents");
    }
    auto* chunk = static_cast<AgentRecord*>(
        memory_->allocate(kChunk * sizeof(AgentRecord), alignof(AgentRecord)));
    std::uninitialized_value_construct_n(chunk, kChunk);
    chunks_.push_back(chunk);
  }
  if (id / 64 == ready_bits_.size()) ready_bits_.push_back(0);
  ++agent_count_;
  ++unfinished_;
  AgentRecord& r = record(id);
  r.label = label;
  r.thread = thread;
  r.parent = parent;
  r.children = 0;
  r.lacks_room = false;
  r.point = 0;
  r.first_call = 0;
  if (ranks_state_[rank].incarnation > 0) {
    // An agent's count of points goes on over restarts, so that a choice still names one point.
    for (AgentId old = id; old-- > 0;) {
      if (record(old).label != label) continue;
      r.point = record(old).point;
      break;
    }
  }
  r.last_step = 0;
  r.rank = rank;
  r.last_site = 0;
  r.wait_count = 0;
  r.may_time_out = false;
  r.status = status;
  r.pending = Pending::none;
  r.access = {};
  if (parent != kNoAgent) ++record(parent).children;
  strategy_->on_spawn(id, label);
  if (status == AgentStatus::ready) set_ready(id);
  return id;
}

void Execution::set_ready(AgentId id) {
  AgentRecord& r = record(id);
  if (ranks_state_[r.rank].paused) {
    r.status = AgentStatus::held;
    return;
  }
  r.status = AgentStatus::ready;
  if (free_) {
    inboxes_[r.rank].push_back(id);
    if (std::find(rung_.begin(), rung_.end(), r.rank) == rung_.end()) rung_.push_back(r.rank);
    return;
  }
  r.ready_at = static_cast<std::uint32_t>(ready_.size());
  ready_.push_back(id);
  ready_bits_[id / 64] |= std::uint64_t{1} << id % 64;
  lowest_word_ = std::min(lowest_word_, id / 64);
  strategy_->on_ready(id);
}

void Execution::set_blocked(AgentId id, AgentStatus status) {
  AgentRecord& r = record(id);
  if (!free_ && r.status == AgentStatus::ready) {
    const AgentId last = ready_.back();
    ready_[r.ready_at] = last;
    record(last).ready_at = r.ready_at;
    ready_.pop_back();
    ready_bits_[id / 64] &= ~(std::uint64_t{1} << id % 64);
  }
  r.status = status;
}

void Execution::set_waiting(AgentId id, std::span<const LaneWait> waits, bool may_time_out) {
  AgentRecord& r = record(id);
  r.may_time_out = may_time_out;
  r.timed_out = false;
  if (waits.size() > r.wait_capacity) {
    if (r.waits != nullptr) {
      memory_->deallocate(r.waits, r.wait_capacity * sizeof(LaneWait), alignof(LaneWait));
    }
    r.wait_capacity = static_cast<std::uint32_t>(std::max<std::size_t>(waits.size(), 8));
    r.waits = static_cast<LaneWait*>(
        memory_->allocate(r.wait_capacity * sizeof(LaneWait), alignof(LaneWait)));
  }
  std::uninitialized_copy(waits.begin(), waits.end(), r.waits);
  r.wait_count = static_cast<std::uint32_t>(waits.size());
  set_blocked(id, AgentStatus::awaiting);
}

void Execution::end_agent(AgentId id) {
  set_blocked(id, AgentStatus::done);
  --unfinished_;
  const AgentId parent = record(id).parent;
  strategy_->on_end(id, parent);
  if (parent != kNoAgent && --record(parent).children == 0) set_ready(parent);
  if (free_ && unfinished_ == 0) finish(RunEnd::complete);
}

AgentId Execution::lowest() const {
  while (ready_bits_[lowest_word_] == 0) ++lowest_word_;
  return lowest_word_ * 64 + static_cast<AgentId>(std::countr_zero(ready_bits_[lowest_word_]));
}

AgentId Execution::find(std::uint64_t label) const {
  for (const AgentId id : ready_) {
    if (record(id).label == label) return id;
  }
  for (AgentId id = 0; id < agent_count_; ++id) {
    if (record(id).label == label) return id;
  }
  return kNoAgent;
}

void Execution::decide(AgentId id) {
  AgentRecord& r = record(id);
  ++r.point;
  asked_total_ = 0;
  const std::uint32_t points = points_.load(std::memory_order_relaxed) + 1;
  points_.store(points, std::memory_order_relaxed);
  if (machine_->failed()) return finish(RunEnd::finding);
  if (points >= rare_at_ && !rare_work(id)) return;
  if (faults_on_) faults_at(id);
  if (!machine_->woken().empty()) drain_woken();
  bool ready = r.status == AgentStatus::ready;
  if (profile_ && ready && r.pending == Pending::access && seen_.size() < kMostSeen) {
    seen_.push_back({r.label, r.access.at, r.access.kind != machine::AccessKind::read});
  }
  while (!ready && ready_.empty() && release_next()) ready = r.status == AgentStatus::ready;
  while (!ready && ready_.empty() && wake_next()) ready = r.status == AgentStatus::ready;
  while (!ready && ready_.empty() && time_out_next()) ready = r.status == AgentStatus::ready;
  if (!ready && ready_.empty()) {
    if (unfinished_ == 0) return finish(RunEnd::complete);
    return strategy_->admits_deadlock() ? deadlock() : finish(RunEnd::stopped);
  }
  const AgentId next = strategy_->pick(*this, id, ready, r.label, r.point);
  if (next != id) hand_over(next, ready, r.label, r.point);
}

void Execution::hand_over(AgentId next, bool was_ready, std::uint64_t label, std::uint32_t point) {
  const std::uint64_t next_label = this->label(next);
  note(next_label);
  if (was_ready || next != lowest()) {
    record_decision(label, point, DecisionKind::pick, next_label, 0);
  }
  current_ = next;
}

bool Execution::rare_work(AgentId id) {
  const std::uint32_t now = points();
  if (poll_stop()) return false;
  if (now > point_limit_) {
    finish(RunEnd::step_limit);
    return false;
  }
  rare_at_ = now < point_limit_ ? std::min(now + kPollEvery, point_limit_) : now + 1;
  if (hook_ != nullptr) {
    if (now >= hook_point_ && record(id).rank == hook_rank_) {
      void (*const hook)() = hook_;
      hook_ = nullptr;
      hook();
    } else {
      rare_at_ = std::min(rare_at_, std::max(now + 1, hook_point_));
    }
  }
  return true;
}

void Execution::set_hook(void (*hook)(), std::uint16_t rank, std::uint32_t point) {
  hook_ = hook;
  hook_rank_ = rank;
  hook_point_ = point;
  rare_at_ = 0;
}

void Execution::count_free_point() {
  const std::uint32_t points = points_.load(std::memory_order_relaxed) + 1;
  points_.store(points, std::memory_order_relaxed);
  if (stop_.load(std::memory_order_relaxed)) finish(RunEnd::stopped);
  if (points > point_limit_) finish(RunEnd::step_limit);
}

void Execution::drain_woken() {
  auto& woken = machine_->woken();
  for (const AgentId id : woken) {
    const AgentRecord& r = record(id);
    if (r.status == AgentStatus::awaiting && can_go_on(r, true)) set_ready(id);
  }
  woken.clear();
}

bool Execution::drops_looks(AgentId id) {
  if (free_ || !strategy_->drops_looks()) return false;
  if (!looks_told_) {
    looks_told_ = true;
    record_decision(record(id).label, record(id).point, DecisionKind::looks, 1, 0);
  }
  return true;
}

// An agent whose looks returned old values, or that fell asleep behind what came since: what is
// newest is seen in the end, when nothing else happens. Where it ends no wait, missing it for ever
// is fair. An exhaustive search has runs of its own for that.
bool Execution::wake_next() {
  if (strategy_->drops_looks()) return false;
  for (AgentId id = 0; id < agent_count_; ++id) {
    const AgentRecord& r = record(id);
    if (r.status != AgentStatus::awaiting) continue;
    for (std::uint32_t i = 0; i < r.wait_count; ++i) {
      const LaneWait& w = r.waits[i];
      const AwaitInfo& a = w.await;
      std::uint64_t newest = 0;
      machine_->peek(a.at, std::as_writable_bytes(std::span(&newest, 1)).first(a.access.element));
      if (!a.wanted.holds(newest) || !can_end(w.thread, a)) continue;
      set_ready(id);
      return true;
    }
  }
  return false;
}

bool Execution::time_out_next() {
  for (AgentId id = 0; id < agent_count_; ++id) {
    AgentRecord& r = record(id);
    if (r.status != AgentStatus::awaiting || !r.may_time_out) continue;
    r.timed_out = true;
    set_ready(id);
    return true;
  }
  return false;
}

bool Execution::can_end(machine::ThreadId thread, const AwaitInfo& a) const {
  return !late(a.at) && machine_->can_end(thread, a.at, a.access, a.wanted, a.by_rmw);
}

bool Execution::can_go_on(const AgentRecord& r, bool after_miss) const {
  if (r.wait_count == 0) return can_end(r.thread, r.await);
  for (std::uint32_t i = 0; i < r.wait_count; ++i) {
    const LaneWait& w = r.waits[i];
    if (w.of_iteration && strategy_->drops_looks()) continue;
    if (w.any_news) {
      if (after_miss && !late(w.await.at)) return true;
      continue;
    }
    if ((after_miss || !w.missed) && can_end(w.thread, w.await)) return true;
  }
  return false;
}

// Who waits at a barrier for others that sit at barriers too, or have ended; nullptr: nobody.
const AgentRecord* Execution::diverged() const {
  const auto of_one_block = [](const AgentRecord& a, const AgentRecord& b) {
    return a.parent == b.parent && a.label >> 16 == b.label >> 16;
  };
  const auto is_still = [](const AgentRecord& r) {
    return r.status == AgentStatus::done || r.status == AgentStatus::at_barrier;
  };
  // Nobody who can go on by himself would come to where it waits, either: to its cluster's barrier
  // those of other blocks of its launch.
  const auto is_stuck = [&](const AgentRecord& r) {
    if (r.status != AgentStatus::at_barrier || r.parked != Parked::cluster) return is_still(r);
    for (AgentId id = 0; id < agent_count_; ++id) {
      if (record(id).parent == r.parent && !is_still(record(id))) return false;
    }
    return true;
  };
  // A block all of whose unfinished agents are can go on by nobody's help.
  const AgentRecord* diverged = nullptr;
  for (AgentId id = 0; id < agent_count_ && diverged == nullptr; ++id) {
    const AgentRecord& r = record(id);
    bool all = r.status == AgentStatus::at_barrier;
    for (AgentId other = 0; other < agent_count_ && all; ++other) {
      all = !of_one_block(record(other), r) || is_stuck(record(other));
    }
    if (all) diverged = &r;
  }
  // One of the block waits for what no other thread has to come to, and the others for it.
  for (AgentId id = 0; diverged != nullptr && id < agent_count_; ++id) {
    const AgentRecord& r = record(id);
    if (r.status == AgentStatus::at_barrier && r.parked == Parked::open &&
        of_one_block(r, *diverged)) {
      return &r;
    }
  }
  return diverged;
}

void Execution::deadlock() {
  // Others may wait for what an agent that stopped would have done.
  for (AgentId id = 0; id < agent_count_; ++id) {
    if (record(id).status == AgentStatus::stopped) return finish(RunEnd::deadlock);
  }
  const AgentRecord* const diverged = this->diverged();
  const AgentRecord* stuck = nullptr;
  for (AgentId id = 0; id < agent_count_ && stuck == nullptr; ++id) {
    if (record(id).status == AgentStatus::awaiting) stuck = &record(id);
  }
  bool lacks_room = false;
  for (AgentId id = 0; id < agent_count_ && !lacks_room; ++id) {
    const AgentRecord& r = record(id);
    lacks_room = r.lacks_room && r.status == AgentStatus::blocked_by_graph;
  }
  machine::Finding f;
  f.kind = lacks_room ? machine::FindingKind::residency : machine::FindingKind::deadlock;
  f.has_second = true;
  const AgentRecord* who = diverged != nullptr ? diverged : stuck;
  if (who != nullptr) {
    f.second.label = who->label;
    f.second.step = who->last_step;
    f.second.site = who->last_site;
  }
  if (diverged != nullptr) {
    f.kind = diverged->parked == Parked::open ? machine::FindingKind::deadlock
                                              : machine::FindingKind::barrier_divergence;
  } else if (stuck != nullptr) {
    const AwaitInfo& await = stuck->wait_count > 0 ? stuck->waits[0].await : stuck->await;
    if (stuck->wait_count > 0) f.second.label += stuck->waits[0].lane;
    f.second.kind = await.by_rmw ? machine::AccessKind::rmw : machine::AccessKind::read;
    f.second.order = await.access.order;
    f.second.scope = await.access.scope;
    f.second.proxy = await.access.proxy;
    f.second.site = await.access.site;
    f.second.region = await.at.region;
    f.second.offset = await.at.offset;
    f.second.bytes = await.access.element;
  }
  machine_->report(f, true);
  finish(RunEnd::deadlock);
}

std::uint32_t Execution::choose_for(AgentId id, DecisionKind kind, std::uint32_t options) {
  if (options < 2 || free_) return 0;
  const AgentRecord& r = record(id);
  if (asked_total_++ == 0) asked_.fill(0);
  const std::uint32_t nth = asked_[static_cast<std::size_t>(kind)]++;
  const std::uint32_t answer = strategy_->choose(kind, r.label, r.point, options);
  // Not where nothing came of it: the runs of before that question have the same digest.
  if (answer != 0 || kind != DecisionKind::behind) note(std::uint64_t{options} << 32 | answer);
  if (answer != 0) record_decision(r.label, r.point, kind, answer, nth);
  return answer;
}

std::uint32_t Execution::choose(machine::Choice kind, machine::ThreadId, std::uint32_t options) {
  // Outside of an agent's step (end checks) and in a free run there is nobody to ask for.
  if (free_ || !running()) return 0;
  if (read_old_ && kind == machine::Choice::read && options > 1) return 1;
  return choose_for(current_, kind_of(kind), options);
}

void Execution::record_decision(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                                std::uint64_t value, std::uint32_t nth) {
  decisions_.push_back({label, point, kind, value, nth});
}

}  // namespace ringfence::schedule
