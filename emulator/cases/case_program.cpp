#include "emulator/cases/case_program.hpp"
#include "emulator/cases/plain_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "emulator/cases/ptx_file.hpp"
#include "emulator/cases/residency.hpp"

namespace ringfence::cases {
namespace {

using machine::Order;
using schedule::Agent;
using schedule::Role;

ptx::SumPolicy policy_of(verify::Summation summation) {
  switch (summation) {
    case verify::Summation::fp32_rank_order:
      return ptx::SumPolicy::rank_order;
    case verify::Summation::fp32_given_order:
      return ptx::SumPolicy::seeded_order;
    case verify::Summation::exact_once:
      return ptx::SumPolicy::exact;
    case verify::Summation::each_step:
      return ptx::SumPolicy::element_steps;
    case verify::Summation::fp32_truncated:
      break;
  }
  return ptx::SumPolicy::truncated;
}

CaseFile edited(CaseFile file, const Edits& edits) {
  apply_memory_edits(file, edits);
  return file;
}

}  // namespace

CaseProgram::CaseProgram(CaseFile file, const Settings& settings)
    : file_(edited(std::move(file), settings.edits)),
      settings_(settings),
      calls_(settings.calls != 0 ? settings.calls : file_.calls),
      payload_(file_, calls_, settings.payload_seed, settings.summation),
      expectations_(file_, calls_, payload_, settings.summation),
      signals_(file_.ranks) {
  file_.ignore.insert(file_.ignore.end(), settings.ignore.begin(), settings.ignore.end());
  check_suppressions();
  map_memories();
  fill_memories();
  load_kernels();
}

CaseProgram::~CaseProgram() = default;

// -- set-up ---------------------------------------------------------------------------------------

std::uint64_t CaseProgram::shared_bytes() const {
  // A region has its bytes, a copy of its initial content, and a pointer for each 16-byte line.
  std::uint64_t bytes = sizeof(Shared) + consumed_bytes_ * file_.ranks * calls_ + 64;
  // Of shared memory, pointers only, where it comes under the model.
  for (const Region& r : regions_) {
    if (r.spec.sparse) continue;  // it has mappings of its own
    bytes += (r.spec.shared ? r.spec.bytes / 2 + 512 : r.spec.bytes * 5 / 2) + 64;
  }
  bytes += signals_.shared_bytes() + usage_.shared_bytes() + 128;
  return bytes;
}

void CaseProgram::set_up(machine::Machine& machine, std::pmr::memory_resource* shared) {
  first_region_ = static_cast<machine::RegionId>(machine.region_count());
  for (const Region& r : regions_) {
    const machine::RegionId id = machine.add_region(r.spec);
    for (const Piece& p : r.initial) machine.set_initial({id, p.offset}, p.bytes);
  }
  shared_ = ::new (shared->allocate(sizeof(Shared), alignof(Shared))) Shared;
  const std::size_t bytes = std::max<std::size_t>(consumed_bytes_ * file_.ranks * calls_, 1);
  results_ = static_cast<std::byte*>(shared->allocate(bytes, 64));
  std::memset(results_, 0, bytes);
  auto* const signals = static_cast<std::byte*>(shared->allocate(signals_.shared_bytes(), 64));
  std::memset(signals, 0, signals_.shared_bytes());
  signals_.share(signals);
  auto* const usage = static_cast<std::byte*>(shared->allocate(usage_.shared_bytes(), 64));
  std::memset(usage, 0, usage_.shared_bytes());
  usage_.share(usage);
  complete_runs_ = 0;
}

void CaseProgram::before_run(machine::Machine& machine) {
  machine_ = &machine;
  machine.use_async_proxy(async_proxy_);
  machine.set_filter(file_.ignore.empty() && file_.same_value_races ? nullptr : this);
  signals_.begin(++shared_->run);
  shared_->policy = machine.policy();
  for (std::uint16_t r = 0; r < file_.ranks; ++r) {
    for (std::size_t s = 0; s < stream_slots_.size() + overlaps_; ++s) {
      shared_->streams[r][s] = static_cast<std::uint16_t>(machine.add_stream(r));
    }
    shared_->fault[r].text[0] = '\0';
    shared_->fault[r].no_room = 0;
    for (PhaseWait& w : shared_->fault[r].phases) w.used = false;
    shared_->clock[r] = {1, 0};
  }
  mismatch_.clear();
}

// -- a run ----------------------------------------------------------------------------------------

void CaseProgram::produce(Agent& agent, std::uint32_t rank, std::uint32_t call) {
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    if (!payload_.renewed(m)) continue;
    const auto content = payload_.content(call, rank, m);
    agent.write({first_region_ + memory_region_[m][rank], 0},
                plain_access(kProduct, content.size()), content);
  }
}

std::size_t CaseProgram::consumed_offset(std::uint32_t call, std::uint32_t rank,
                                         std::size_t memory) const {
  return (std::size_t{call} * file_.ranks + rank) * consumed_bytes_ + consumed_at_[memory];
}

void CaseProgram::consume(Agent& agent, std::uint32_t rank, std::uint32_t call) {
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    if (!is_consumed(m)) continue;
    // What is not judged may never have been written.
    const auto [begin, end] = read_by_consumer(m, call, rank);
    if (begin == end) continue;
    agent.read({first_region_ + memory_region_[m][rank], begin},
               plain_access(kConsumer, begin | end),
               {results_ + consumed_offset(call, rank, m) + begin, end - begin});
  }
}

void CaseProgram::run_launch(Agent& host, std::uint32_t rank, std::uint32_t call, std::size_t l,
                             machine::StreamId stream, Succession* self, Succession* before) {
  const Prepared& prepared = launches_[l];
  ptx::LaunchConfig config = config_of(l, rank);
  const auto& by_call = prepared.parameters[rank];
  config.parameters = by_call[by_call.size() == 1 ? 0 : call];
  config.globals = prepared.globals[rank];
  config.resident_blocks = progressing_blocks(kernels_[prepared.kernel[rank]]->program, config,
                                              shared_->policy, file_.launches[l].cooperative);
  config.asks_for_room = config.resident_blocks != 0;
  config.fence_reads = shared_->policy.async_war == machine::AsyncWar::fence_required;
  KernelRun::Settings settings;
  settings.first_region = first_region_;
  settings.barrier_site = kBarrier;
  settings.policy = policy_of(settings_.summation);
  settings.seed = (settings_.payload_seed * 1000003 + call) * 31 + l;
  settings.budget = file_.budget;
  settings.signals = &signals_;
  settings.usage = &usage_;
  settings.run = shared_->run;
  settings.plain_multicast = shared_->policy.plain_multicast == machine::PlainMulticast::allow;
  settings.vector_atomic = shared_->policy.vector == machine::VectorAccess::atomic;
  settings.line_ordered = shared_->policy.line == machine::LineAccess::ordered;
  settings.fresh_lines = shared_->policy.fresh_lines == machine::FreshLines::on;
  settings.note_unfenced = shared_->policy.async_war == machine::AsyncWar::note;
  settings.print = print_;
  settings.self = self;
  settings.before = before;
  if (!prepared.first_shared[rank].empty()) {
    settings.first_shared = prepared.first_shared[rank][call];
    settings.barriers_at = prepared.barriers_at[rank];
    settings.mbarriers_at = prepared.mbarriers_at[rank];
  }
  KernelRun run(*kernels_[prepared.kernel[rank]], std::move(config), space_, settings,
                shared_->fault[rank], shared_->clock[rank]);
  host.launch(stream, static_cast<std::uint16_t>(call), run.children(),
              static_cast<std::uint16_t>(l));
  counts_.warp_instructions += run.counts().warp_instructions;
  counts_.thread_instructions += run.counts().thread_instructions;
}

void CaseProgram::launch_host_step(Agent& host, std::uint32_t rank, std::uint32_t call,
                                   std::uint32_t slot, std::size_t step) {
  std::vector<Agent::ChildSpec> children(1);
  children[0].body = [this, rank, call, step](Agent& a) { run_host_step(a, rank, call, step); };
  host.launch(stream(rank, slot), static_cast<std::uint16_t>(call), std::move(children),
              static_cast<std::uint16_t>(file_.launches.size() + step));
}

void CaseProgram::run_stream(Agent& host, std::uint32_t rank, std::uint32_t call,
                             std::uint32_t slot) {
  for (const Turn& turn : turns_) {
    if (turn.slot != slot || !on(turn, rank)) continue;
    if (turn.step) {
      launch_host_step(host, rank, call, slot, turn.index);
    } else {
      run_launch(host, rank, call, turn.index, stream(rank, slot), nullptr, nullptr);
    }
  }
}

// A host for each launch and each step, which waits for its turn. A launch that may overlap the one
// before has a stream of the machine's own; all else follows what its stream had before it.
void CaseProgram::run_overlapping(Agent& host, std::uint32_t rank, std::uint32_t call) {
  std::vector<Succession> all(turns_.size());
  std::vector<Agent::Body> hosts;
  std::uint32_t own = static_cast<std::uint32_t>(stream_slots_.size());
  for (std::size_t t = 0; t < all.size(); ++t) {
    all[t].stream = stream(rank, dependent(turns_[t]) ? own++ : turns_[t].slot);
    if (!on(turns_[t], rank)) continue;
    hosts.push_back([this, rank, call, t, &all](Agent& a) { run_in_turn(a, rank, call, t, all); });
  }
  host.fork_hosts(static_cast<std::uint16_t>(call), std::move(hosts));
  for (const Succession& s : all) {
    host.closed(&s.triggered);
    host.closed(&s.ended);
    if (s.stream != stream(rank, 0)) host.order_streams(stream(rank, 0), s.stream);
  }
}

bool CaseProgram::dependent(const Turn& turn) const {
  return !turn.step && file_.launches[turn.index].dependent;
}

bool CaseProgram::on(const Turn& turn, std::uint32_t rank) const {
  return turn.step ? file_.host[turn.index].on(rank) : file_.launches[turn.index].on(rank);
}

void CaseProgram::run_in_turn(Agent& host, std::uint32_t rank, std::uint32_t call,
                              std::size_t number, std::vector<Succession>& all) {
  const Turn& turn = turns_[number];
  Succession& self = all[number];
  std::vector<std::size_t> earlier;
  for (std::size_t t = 0; t < number; ++t) {
    if (turns_[t].slot == turn.slot && on(turns_[t], rank)) earlier.push_back(t);
  }
  const auto wait_until = [&](Succession& other, const bool& what) {
    while (!what) {
      other.waiting.push_back(&host);
      host.wait_turn();
    }
    host.left(&what, 0);
  };
  // Only a launch triggers: what stands right behind a step of the host, or behind nothing that
  // this rank launches, follows as others do.
  Succession* before = nullptr;
  if (dependent(turn) && !earlier.empty() && !turns_[earlier.back()].step) {
    before = &all[earlier.back()];
    wait_until(*before, before->triggered);
    // That launches overlap is an opportunity and no promise.
    if (host.choose(schedule::DecisionKind::overlap, 2) == 1) wait_until(*before, before->ended);
    host.act(kBarrier, [&](machine::Machine& m) { m.follow_start(self.stream, before->stream); });
  } else {
    for (const std::size_t t : earlier) {
      wait_until(all[t], all[t].ended);
      if (all[t].stream != self.stream) host.order_streams(self.stream, all[t].stream);
    }
    if (dependent(turn)) host.order_streams(self.stream, stream(rank, turn.slot));
  }
  if (turn.step) {
    launch_host_step(host, rank, call, turn.slot, turn.index);
  } else {
    run_launch(host, rank, call, turn.index, self.stream, &self, before);
  }
  host.act(kBarrier, [&](machine::Machine&) {
    // Who began when all blocks had triggered is behind that, not behind the end.
    if (!std::exchange(self.triggered, true)) host.arrived(&self.triggered, 0);
    self.ended = true;
    host.arrived(&self.ended, 0);
    self.tell(host);
  });
}

void CaseProgram::host(Agent& agent, std::uint16_t rank) {
  const auto streams = static_cast<std::uint32_t>(stream_slots_.size());
  for (std::uint32_t call = agent.first_call(); call < calls_; ++call) {
    const auto number = static_cast<std::uint16_t>(call);
    const auto alone = [&](Role role,
                           void (CaseProgram::*what)(Agent&, std::uint32_t, std::uint32_t)) {
      std::vector<Agent::ChildSpec> children;
      Agent::ChildSpec child;
      child.role = role;
      child.body = [this, what, rank, call](Agent& a) { (this->*what)(a, rank, call); };
      children.push_back(std::move(child));
      agent.launch(stream(rank, 0), number, std::move(children));
    };
    if (payload_.any_renewed()) alone(Role::product, &CaseProgram::produce);
    if (overlaps_) {
      for (std::uint32_t s = 1; s < streams; ++s) {
        agent.order_streams(stream(rank, s), stream(rank, 0));
      }
      run_overlapping(agent, rank, call);
    } else if (streams == 1) {
      run_stream(agent, rank, call, 0);
    } else {
      std::vector<Agent::Body> hosts;
      for (std::uint32_t s = 0; s < streams; ++s) {
        if (s > 0) agent.order_streams(stream(rank, s), stream(rank, 0));
        hosts.push_back([this, rank, call, s](Agent& a) { run_stream(a, rank, call, s); });
      }
      agent.fork_hosts(number, std::move(hosts));
      for (std::uint32_t s = 1; s < streams; ++s) {
        agent.order_streams(stream(rank, 0), stream(rank, s));
      }
    }
    if (consumed_bytes_ > 0) alone(Role::consumer, &CaseProgram::consume);
  }
}

}  // namespace ringfence::cases
