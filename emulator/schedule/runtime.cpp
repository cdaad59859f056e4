#include "emulator/schedule/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "emulator/machine/not_modelled.hpp"

namespace ringfence::schedule {

Runtime::Runtime(Execution& execution, Program& program, std::uint16_t first_rank,
                 std::uint16_t rank_count)
    : execution_(execution), program_(program), first_rank_(first_rank), rank_count_(rank_count) {}

void Runtime::begin_run(Progress* progress, Gate* gate) {
  progress_ = progress != nullptr ? progress : &own_progress_;
  gate_ = gate;
  // No two runs of this process share a number, also not of two executors: a program's barriers
  // outlive both, and know by it what an earlier run left.
  static std::atomic<std::uint64_t> runs{0};
  run_ = runs.fetch_add(1, std::memory_order_relaxed) + 1;
  error_.clear();
  thrown_ = Thrown::nothing;
  std::fill(local_of_.begin(), local_of_.end(), nullptr);
  locals_used_ = 0;
  blocks_used_ = 0;
  graphs_.clear();
  leaving_.clear();
  for (std::uint16_t r = first_rank_; r < first_rank_ + rank_count_; ++r) {
    Local& host = add_local(r);
    host.body = [this, r](Agent& agent) { program_.host(agent, r); };
  }
}

Runtime::Local& Runtime::add_local(AgentId id) {
  if (local_of_.size() <= id) local_of_.resize(std::max<std::size_t>(2 * id, 256), nullptr);
  if (locals_used_ == locals_.size()) locals_.emplace_back(execution_, *this);
  Local& l = locals_[locals_used_++];
  local_of_[id] = &l;
  l.agent.id_ = id;
  l.agent.record_ = &execution_.record(id);
  l.block = l.graph = kNone;
  l.launching = false;
  l.stream = kNoStream;
  return l;
}

void Runtime::run_turn() {
  while (execution_.running() && local(execution_.current()) != nullptr) {
    resume(execution_.current());
    if (execution_.fell()) bury();
  }
}

void Runtime::bury() {
  const Fall fall = execution_.take_fall();
  std::vector<Local*> unfinished;
  for (std::uint32_t i = 0; i < locals_used_; ++i) {
    Local& l = locals_[i];
    if (l.agent.record_->rank == fall.rank && l.body) unfinished.push_back(&l);
  }
  stopping_ = true;
  // Children have higher ids than their parents, whose frames they may refer to.
  for (std::size_t i = unfinished.size(); i-- > 0;) unwind_local(*unfinished[i]);
  stopping_ = false;
  if (fall.host == kNoAgent) return;
  // The old incarnation's launches end, so that the new one's follow them on their streams.
  machine::Machine& machine = execution_.machine();
  for (const Local* l : unfinished) {
    if (l->agent.record_->thread == machine::kNoThread) continue;
    for (const machine::ThreadId lane : l->agent.lanes_) machine.end_thread(lane);
  }
  std::vector<machine::StreamId> streams;
  for (std::uint32_t i = 0; i < locals_used_; ++i) {
    Local& l = locals_[i];
    if (l.agent.record_->rank != fall.rank || l.stream == kNoStream) continue;
    if (l.launching) machine.end_launch(l.stream);
    l.launching = false;
    if (std::find(streams.begin(), streams.end(), l.stream) == streams.end()) {
      streams.push_back(l.stream);
    }
  }
  for (const machine::StreamId later : streams) {
    for (const machine::StreamId earlier : streams) {
      if (later != earlier) machine.order_streams(later, earlier);
    }
  }
  const std::uint16_t rank = fall.rank;
  add_local(fall.host).body = [this, rank](Agent& agent) { program_.host(agent, rank); };
}

void Runtime::resume(AgentId id) {
  if (Fiber* const fiber = fiber_of(*local(id))) fibers_.switch_to(fibers_.root(), *fiber);
}

// The agent's fiber; a new agent gets one. Null, and the run is over, if there is no memory for it:
// whoever switches here, on whichever stack, is not to be unwound for that.
Fiber* Runtime::fiber_of(Local& l) noexcept {
  progress_->last_agent.store(l.agent.id_, std::memory_order_relaxed);
  if (l.fiber != nullptr) return l.fiber;
  try {
    l.fiber = fibers_.take();
  } catch (const std::exception& e) {
    fail(l, e.what(), Thrown::out_of_memory);
    return nullptr;
  }
  starting_ = &l;
  return l.fiber;
}

// Where to go on: straight to the next agent if it is one of this process.
Fiber& Runtime::next_fiber() {
  if (!stopping_ && gate_ == nullptr && execution_.running() && !execution_.fell()) {
    if (Local* const next = local(execution_.current()); next != nullptr) {
      if (Fiber* const fiber = fiber_of(*next)) return *fiber;
    }
  }
  return fibers_.root();
}

void Runtime::work(Fiber& on) noexcept {
  Local& l = *starting_;
  run_body(l);
  l.fiber = nullptr;
  l.body = nullptr;
  // If the next agent has not begun yet, it gets this very stack.
  fibers_.give(&on);
  Fiber& next = next_fiber();
  if (&next != &on) fibers_.switch_to(on, next);
}

void Runtime::run_body(Local& l) noexcept {
  try {
    l.body(l.agent);
    finished(l);
  } catch (const Stopped&) {
  } catch (const std::bad_alloc& e) {
    fail(l, e.what(), Thrown::out_of_memory);
  } catch (const machine::NotModelled& e) {
    fail(l, e.what(), Thrown::not_modelled);
  } catch (const std::exception& e) {
    fail(l, e.what(), Thrown::by_program);
  } catch (...) {
    fail(l, "an exception of unknown type", Thrown::by_program);
  }
}

void Runtime::fail(const Local& l, const char* what, Thrown kind) noexcept {
  if (stopping_) return;
  thrown_ = kind;
  execution_.finish(RunEnd::stopped);
  try {
    error_ = kind == Thrown::out_of_memory ? what : text(l.agent.label()) + ": " + what;
  } catch (const std::bad_alloc&) {
    error_ = "out of memory";  // fits into the string itself
  }
}

void Runtime::broken() noexcept {
  thrown_ = Thrown::out_of_memory;
  execution_.finish(RunEnd::stopped);
}

void Runtime::enter_gate() {
  gate_->enter();
  if (execution_.running()) return;
  // The run ended while this rank waited, perhaps in the middle of a change.
  gate_->leave();
  throw Stopped{};
}

void Runtime::finished(Local& l) {
  const AgentId id = l.agent.id_;
  change([&] {
    AgentRecord& r = execution_.record(id);
    machine::Machine& machine = execution_.machine();
    if (l.graph != kNone) {
      Graph& g = graphs_[l.graph];
      following_.clear();
      for (const std::uint32_t s : g.successors[id - g.first]) {
        following_.push_back(execution_.record(g.first + s).thread);
      }
      machine.order_after(following_, r.thread);
      for (const std::uint32_t s : g.successors[id - g.first]) execution_.ordered(id, g.first + s);
    }
    if (r.thread != machine::kNoThread) {
      for (const machine::ThreadId lane : l.agent.lanes_) machine.end_thread(lane);
    }
    if (l.graph != kNone) {
      Graph& g = graphs_[l.graph];
      for (const std::uint32_t s : g.successors[id - g.first]) {
        if (--g.pending[s] == 0) execution_.set_ready(g.first + s);
      }
    }
    if (l.block != kNone) {
      Block& b = blocks_[l.block];
      --b.unfinished;
      check_divergence(b, l.agent);
    }
    execution_.end_agent(id);
    if (gate_ == nullptr) execution_.decide(id);
  });
}

void Runtime::check_divergence(const Block& block, const Agent& ended) {
  for (const BlockBarrier* barrier : block.waited) {
    if (block.unfinished >= barrier->expected_ - barrier->left_) continue;
    machine::Finding f;
    f.kind = machine::FindingKind::barrier_divergence;
    f.has_first = f.has_second = true;
    const AgentRecord& waiting = execution_.record(barrier->waiting_.front());
    f.first.label = waiting.label;
    f.first.step = waiting.last_step;
    f.first.site = waiting.last_site;
    f.second.label = ended.record_->label;
    f.second.step = ended.record_->last_step;
    f.second.site = ended.record_->last_site;
    execution_.machine().report(f);
    return;
  }
}

void Runtime::unwind() {
  stopping_ = true;
  // Children have higher ids than their parents, whose frames they may refer to.
  for (std::uint32_t i = locals_used_; i-- > 0;) unwind_local(locals_[i]);
  stopping_ = false;
}

void Runtime::unwind_local(Local& l) {
  if (l.fiber != nullptr) fibers_.switch_to(fibers_.root(), *l.fiber);
  l.body = nullptr;
}

void Runtime::leave_gate() {
  execution_.count_free_point();
  if (execution_.machine().failed()) execution_.finish(RunEnd::finding);
  try {
    if (!execution_.machine().woken().empty()) execution_.drain_woken();
  } catch (const std::exception& e) {  // called from destructors: nothing may leave here
    error_ = e.what();
    const bool refused = dynamic_cast<const machine::NotModelled*>(&e) != nullptr;
    thrown_ = refused ? Thrown::not_modelled : Thrown::out_of_memory;
    execution_.finish(RunEnd::stopped);
  }
  gate_->leave();
}

void Runtime::suspend(Agent& agent) {
  Fiber& mine = *local(agent.id_)->fiber;
  fibers_.switch_to(mine, next_fiber());
  if (stopping_) throw Stopped{};
}

void Runtime::give_way(Agent& agent) {
  if (gate_ == nullptr) {
    execution_.decide(agent.id_);
    if (execution_.running() && execution_.current() == agent.id_) return;
  }
  suspend(agent);
}

void Runtime::launch(Agent& host, machine::StreamId stream, std::uint16_t call,
                     std::vector<Agent::ChildSpec>& children, std::uint16_t group,
                     const std::vector<std::vector<std::uint32_t>>* predecessors) {
  const auto n = static_cast<std::uint32_t>(children.size());
  std::uint32_t graph = kNone;
  if (predecessors != nullptr) {
    if (predecessors->size() != n) {
      throw std::invalid_argument("launch_graph: as many lists of predecessors as children needed");
    }
    graph = static_cast<std::uint32_t>(graphs_.size());
    Graph& g = graphs_.emplace_back();
    g.successors.resize(n);
    g.pending.resize(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      for (const std::uint32_t p : (*predecessors)[i]) {
        if (p >= n || p == i) {
          throw std::invalid_argument("launch_graph: operation " + std::to_string(i) +
                                      " has no predecessor " + std::to_string(p));
        }
        g.successors[p].push_back(i);
      }
      g.pending[i] = static_cast<std::uint32_t>((*predecessors)[i].size());
    }
  }
  const std::uint16_t rank = host.record_->rank;
  ++launches_;
  change([&] {
    machine::Machine& machine = execution_.machine();
    machine.begin_launch(stream);
    local(host.id_)->launching = true;
    local(host.id_)->stream = stream;
    for (std::uint32_t i = 0; i < n; ++i) {
      Agent::ChildSpec& c = children[i];
      const std::uint64_t label = pack({c.role, rank, call, group, c.block, c.index});
      const bool waits = graph != kNone && graphs_[graph].pending[i] > 0;
      const machine::ThreadId thread =
          graph != kNone ? machine.launch_thread(stream, i, 0, label, c.cluster)
                         : machine.launch_thread(stream, c.block, c.index, label, c.cluster);
      const AgentId id =
          execution_.spawn(label, rank, thread, host.id_,
                           waits ? AgentStatus::blocked_by_graph : AgentStatus::ready);
      Local& l = add_local(id);
      l.agent.lanes_.assign(1, thread);
      for (std::uint32_t lane = 1; lane < c.lanes; ++lane) {
        l.agent.lanes_.push_back(
            machine.launch_thread(stream, c.block, c.index + lane, label + lane, c.cluster));
      }
      l.body = std::move(c.body);
      l.graph = graph;
      if (graph != kNone) {
        if (i == 0) graphs_[graph].first = id;
        continue;
      }
      l.block = block_of(c.block);
      ++blocks_[l.block].total;
      ++blocks_[l.block].unfinished;
    }
    if (n > 0) execution_.set_blocked(host.id_, AgentStatus::joining);
  });
  children.clear();
  if (n > 0) give_way(host);
  host.check_stopped();
  change([&] {
    execution_.machine().end_launch(stream);
    local(host.id_)->launching = false;
  });
}

void Runtime::fork_hosts(Agent& host, std::uint16_t call, std::vector<Agent::Body>& bodies) {
  change([&] {
    AgentLabel label = host.label();
    label.call = call;
    for (Agent::Body& body : bodies) {
      ++label.group;
      const AgentId id = execution_.spawn(pack(label), label.rank, machine::kNoThread, host.id_,
                                          AgentStatus::ready);
      add_local(id).body = std::move(body);
    }
    if (!bodies.empty()) execution_.set_blocked(host.id_, AgentStatus::joining);
  });
  if (!bodies.empty()) give_way(host);
  host.check_stopped();
}

bool Runtime::alone(const Agent& agent) {
  const Execution& run = agent.execution_;
  if (run.free_running() || run.count() > 1) return false;
  return std::none_of(run.decisions().begin(), run.decisions().end(), [](const Decision& d) {
    return d.kind == DecisionKind::read || d.kind == DecisionKind::miss;
  });
}

void Runtime::give_up(Agent& agent) {
  agent.execution_.finish(RunEnd::step_limit);
  agent.check_stopped();
}

std::uint32_t Runtime::block_of(std::uint32_t number) {
  if (block_at_.size() <= number) block_at_.resize(number + 1);
  BlockAt& at = block_at_[number];
  if (at.launch != launches_) {
    at = {launches_, blocks_used_++};
    if (at.index == blocks_.size()) blocks_.emplace_back();
    blocks_[at.index].total = blocks_[at.index].unfinished = 0;
    blocks_[at.index].waited.clear();
  }
  return at.index;
}

void Runtime::of_this_run(const Agent& agent, BlockBarrier& barrier) const {
  // Those of a rank that was restarted are left over too.
  const std::uint64_t run = run_ << 16 | execution_.incarnation(agent.record_->rank);
  if (barrier.run_ == run) return;
  barrier.run_ = run;
  barrier.left_ = 0;
  barrier.waiting_.clear();
  barrier.threads_.clear();
  barrier.syncing_.clear();
  barrier.arrivals_.clear();
}

void Runtime::sync(Agent& agent, BlockBarrier& barrier, std::uint16_t site, bool wait) {
  of_this_run(agent, barrier);
  agent.record_->last_site = site;
  barrier.threads_.push_back(agent.record_->thread);
  if (wait) {
    barrier.waiting_.push_back(agent.id_);
    barrier.syncing_.push_back(agent.record_->thread);
  }
  const bool last = barrier.threads_.size() + barrier.left_ >= barrier.expected_;
  Local& l = *local(agent.id_);
  Block* const block = l.block != kNone ? &blocks_[l.block] : nullptr;
  change([&] {
    if (last) {
      complete(agent, barrier, site, !wait);
    } else if (!wait) {
      barrier.arrivals_.push_back(execution_.machine().arrive(agent.record_->thread));
      if (!execution_.free_running()) execution_.arrived(agent.id_, &barrier);
    } else {
      execution_.set_blocked(agent.id_, AgentStatus::at_barrier);
      if (block != nullptr && barrier.waiting_.size() == 1) {
        block->waited.push_back(&barrier);
        check_divergence(*block, agent);
      }
    }
    beat();
  });
  if ((wait && !last) || gate_ == nullptr) give_way(agent);
  agent.check_stopped();
}

// All have arrived of whom the generation waits. `went_on`: the agent is the last of them, and
// does not wait.
void Runtime::complete(Agent& agent, BlockBarrier& barrier, std::uint16_t site, bool went_on) {
  Local& l = *local(agent.id_);
  Block* const block = l.block != kNone ? &blocks_[l.block] : nullptr;
  const bool whole = block != nullptr && block->total == barrier.expected_ &&
                     block->unfinished == block->total && barrier.left_ == 0 &&
                     barrier.syncing_.size() == barrier.threads_.size();
  execution_.machine().barrier(barrier.threads_, barrier.syncing_, whole, site, barrier.arrivals_);
  if (!execution_.free_running()) {
    if (went_on) execution_.arrived(agent.id_, &barrier);
    execution_.met_at_barrier(barrier.waiting_, &barrier);
  }
  for (const AgentId id : barrier.waiting_) {
    if (id != agent.id_) execution_.set_ready(id);
  }
  barrier.waiting_.clear();
  barrier.threads_.clear();
  barrier.syncing_.clear();
  barrier.arrivals_.clear();
  barrier.left_ += static_cast<std::uint32_t>(std::erase(leaving_, &barrier));
  if (block != nullptr) std::erase(block->waited, &barrier);
}

void Runtime::leave(Agent& agent, BlockBarrier& barrier) {
  of_this_run(agent, barrier);
  const auto& came = barrier.threads_;
  if (std::find(came.begin(), came.end(), agent.record_->thread) != came.end()) {
    leaving_.push_back(&barrier);
    return;
  }
  change([&] {
    ++barrier.left_;
    if (!execution_.free_running()) execution_.gone(agent.id_, &barrier);
    if (barrier.threads_.empty() || barrier.threads_.size() + barrier.left_ < barrier.expected_) {
      return;
    }
    complete(agent, barrier, agent.record_->last_site, false);
  });
}

}  // namespace ringfence::schedule
