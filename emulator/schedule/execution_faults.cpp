// What faults do to a run (faults.hpp).
#include <algorithm>
#include <cstring>

#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/label.hpp"

namespace ringfence::schedule {

namespace {

constexpr std::uint32_t kWordBytes = 4;

bool overlap(machine::Address a, std::uint64_t a_bytes, machine::Address b, std::uint64_t b_bytes) {
  return a.region == b.region && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

}  // namespace

void Execution::note_fault(const AppliedFault& fault) {
  faults_.push_back(fault);
  faults_.back().step = machine_->steps();
}

// The question and its place among those of the point. An answer of 0 leaves no mark, so that a run
// in which no fault took effect is the run that a search without faults makes.
std::uint32_t Execution::ask_fault(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                                   std::uint32_t options, std::uint32_t& nth) {
  if (asked_total_++ == 0) asked_.fill(0);
  nth = asked_[static_cast<std::size_t>(kind)]++;
  return strategy_->choose(kind, label, point, options);
}

void Execution::took_fault(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                           std::uint32_t answer, std::uint32_t nth) {
  note(std::uint64_t{1 + static_cast<std::uint32_t>(kind)} << 32 | answer);
  record_decision(label, point, kind, answer, nth);
}

void Execution::faults_at(AgentId id) {
  const std::uint32_t now = points();
  for (std::size_t i = 0; i < holds_.size();) {
    if (holds_[i].until <= now) {
      release(i);
    } else {
      ++i;
    }
  }
  const AgentRecord& r = record(id);
  const std::uint32_t point = r.point;
  std::uint32_t nth = 0;
  const std::uint32_t answer =
      ask_fault(r.label, point, DecisionKind::fault, kStepFaultOptions, nth);
  auto fault = decode_step_fault(answer);
  if (!fault) return;
  // As a trace has it: what lasts for good has no span.
  if (fault->kind == FaultKind::kill || fault->kind == FaultKind::restart) fault->span = 0;
  if (befall(id, *fault)) {
    took_fault(r.label, point, DecisionKind::fault, encode(*fault), nth);
  }
}

// False where there is nothing that the fault could befall.
bool Execution::befall(AgentId id, const StepFault& fault) {
  AgentRecord& r = record(id);
  RankState& rank = ranks_state_[r.rank];
  const auto is_over = [&] { return record(rank.host).status == AgentStatus::done; };
  switch (fault.kind) {
    case FaultKind::kill: {
      const auto alive = std::count_if(ranks_state_.begin(), ranks_state_.end(),
                                       [](const RankState& s) { return !s.lost; });
      if (alive < 2 || is_over()) return false;
      rank.lost = true;
      end_rank(r.rank);
      fall_ = {r.rank, kNoAgent};
      fell_ = true;
      break;
    }
    case FaultKind::restart:
      if (is_over()) return false;
      restart_rank(r.rank);
      break;
    case FaultKind::pause:
      if (fault.span == 0 || is_over()) return false;
      hold({FaultKind::pause, points() + fault.span, r.rank, kNoAgent, {}, 0});
      break;
    case FaultKind::delay:
      if (fault.span == 0 || r.status != AgentStatus::ready) return false;
      hold({FaultKind::delay, points() + fault.span, r.rank, id, {}, 0});
      break;
    case FaultKind::late_signal:
    case FaultKind::dirty_pad:
      return false;  // questions of their own
  }
  AppliedFault applied;
  applied.kind = fault.kind;
  applied.label = r.label;
  applied.rank = r.rank;
  const bool lasts = fault.kind == FaultKind::pause || fault.kind == FaultKind::delay;
  applied.span = lasts ? fault.span : 0;
  note_fault(applied);
  return true;
}

void Execution::end_rank(std::uint16_t rank) {
  for (AgentId id = 0; id < agent_count_; ++id) {
    if (record(id).rank != rank || record(id).status == AgentStatus::done) continue;
    set_blocked(id, AgentStatus::done);
    --unfinished_;
  }
}

void Execution::restart_rank(std::uint16_t rank) {
  std::uint16_t call = 0;
  for (AgentId id = 0; id < agent_count_; ++id) {
    if (record(id).rank == rank) call = std::max(call, unpack(record(id).label).call);
  }
  end_rank(rank);
  ++ranks_state_[rank].incarnation;
  AgentLabel host;
  host.rank = rank;
  const AgentId id = spawn(pack(host), rank, machine::kNoThread, kNoAgent, AgentStatus::ready);
  record(id).first_call = call;
  ranks_state_[rank].host = id;
  fall_ = {rank, id};
  fell_ = true;
}

void Execution::hold(const Hold& hold) {
  if (hold.kind == FaultKind::delay) {
    set_blocked(hold.agent, AgentStatus::held);
  } else if (hold.kind == FaultKind::pause) {
    for (AgentId id = 0; id < agent_count_; ++id) {
      if (record(id).rank == hold.rank && record(id).status == AgentStatus::ready) {
        set_blocked(id, AgentStatus::held);
      }
    }
    ranks_state_[hold.rank].paused = true;
  } else {
    ++late_count_;
  }
  holds_.push_back(hold);
}

void Execution::release(std::size_t i) {
  const Hold hold = holds_[i];
  holds_.erase(holds_.begin() + static_cast<std::ptrdiff_t>(i));
  if (hold.kind == FaultKind::late_signal) {
    --late_count_;
    // Those whose wait was passed over when the message came.
    for (AgentId id = 0; id < agent_count_; ++id) {
      const AgentRecord& r = record(id);
      if (r.status == AgentStatus::awaiting && can_go_on(r, true)) set_ready(id);
    }
    return;
  }
  if (hold.kind == FaultKind::pause) ranks_state_[hold.rank].paused = false;
  for (AgentId id = 0; id < agent_count_; ++id) {
    const bool its =
        hold.kind == FaultKind::pause ? record(id).rank == hold.rank : id == hold.agent;
    if (its && record(id).status == AgentStatus::held) set_ready(id);
  }
}

bool Execution::release_next() {
  if (holds_.empty()) return false;
  const auto first = std::min_element(
      holds_.begin(), holds_.end(), [](const Hold& a, const Hold& b) { return a.until < b.until; });
  release(static_cast<std::size_t>(first - holds_.begin()));
  return true;
}

void Execution::draw_late(AgentId id, machine::Address at, std::uint64_t bytes) {
  const AgentRecord& r = record(id);
  std::uint32_t nth = 0;
  const std::uint32_t span = ask_fault(r.label, r.point, DecisionKind::late, kMostSpan + 1, nth);
  if (span == 0) return;
  took_fault(r.label, r.point, DecisionKind::late, span, nth);
  hold({FaultKind::late_signal, points() + span, r.rank, id, at, bytes});
  AppliedFault applied;
  applied.kind = FaultKind::late_signal;
  applied.label = r.label;
  applied.rank = r.rank;
  applied.span = span;
  applied.at = at;
  note_fault(applied);
}

bool Execution::is_late(machine::Address at) const {
  return std::any_of(holds_.begin(), holds_.end(), [&](const Hold& h) {
    return h.kind == FaultKind::late_signal && overlap(h.at, h.bytes, at, 1);
  });
}

void Execution::draw_dirty(std::uint16_t rank) {
  const auto words_of = [&](machine::RegionId id) -> std::uint32_t {
    const machine::RegionSpec& spec = machine_->region(id);
    const bool pad =
        spec.rank == rank && spec.kind == machine::RegionKind::signal && spec.initialised;
    return pad ? static_cast<std::uint32_t>(spec.bytes / kWordBytes) : 0;
  };
  std::uint32_t words = 0;
  for (machine::RegionId id = 0; id < machine_->region_count(); ++id) words += words_of(id);
  if (words == 0) return;
  AgentLabel host;
  host.rank = rank;
  std::uint32_t nth = 0;
  asked_total_ = 0;
  const std::uint32_t answer =
      ask_fault(pack(host), 0, DecisionKind::dirty, dirty_options(words), nth);
  const auto dirty = decode_dirty(answer);
  if (!dirty) return;
  std::uint32_t word = dirty->word;
  machine::RegionId region = 0;
  for (; word >= words_of(region); ++region) word -= words_of(region);
  WasClean was{{region, std::uint64_t{word} * kWordBytes}, 0, dirty->holds};
  machine_->peek(was.at, {reinterpret_cast<std::byte*>(&was.before), kWordBytes});
  if (was.before == was.dirty) return;
  machine_->set_initial(was.at, {reinterpret_cast<const std::byte*>(&was.dirty), kWordBytes});
  dirty_.push_back(was);
  took_fault(pack(host), 0, DecisionKind::dirty, answer, nth);
  AppliedFault applied;
  applied.kind = FaultKind::dirty_pad;
  applied.label = pack(host);
  applied.rank = rank;
  applied.at = was.at;
  applied.holds = was.dirty;
  note_fault(applied);
}

void Execution::clean_pads() {
  for (const WasClean& d : dirty_) {
    machine_->set_initial(d.at, {reinterpret_cast<const std::byte*>(&d.before), kWordBytes});
  }
  dirty_.clear();
}

bool Execution::dirty_word_is_left() const {
  return std::any_of(dirty_.begin(), dirty_.end(), [&](const WasClean& d) {
    std::uint32_t now = 0;
    machine_->peek(d.at, {reinterpret_cast<std::byte*>(&now), kWordBytes});
    return now == d.dirty;
  });
}

}  // namespace ringfence::schedule
