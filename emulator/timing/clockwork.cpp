#include "emulator/timing/clockwork.hpp"

#include <algorithm>
#include <cmath>

namespace ringfence::timing {

using machine::Event;
using machine::RegionKind;
using programs::SiteWork;
using schedule::Role;
using schedule::Spent;

Clockwork::Clockwork(const Profile& profile, const Shape& shape,
                     const programs::OperatorProgram& program)
    : profile_(profile), shape_(shape), program_(program) {
  // A copy loads and stores as much; the store's share of its time is known.
  mixed_load_ = 1 / std::max(1e-9, 1 / profile.block.copy - 1 / profile.block.store);
}

void Clockwork::begin(std::uint32_t expected_points) {
  TimeOrderedStrategy::begin(expected_points);
  gpus_.assign(shape_.gpus, {});
  const bool put = shape_.transport == Transport::put;
  unit_blocks_ = put ? shape_.blocks : 1;
  units_.assign(std::size_t{shape_.ranks} * (put ? 1 : shape_.blocks), {});
  products_.assign(shape_.ranks, {});
  products_run_.assign(shape_.ranks, 0);
  doing_.clear();
  seen_.clear();
  parts_.clear();
  row_sum_ = false;
}

// -- agents ---------------------------------------------------------------------------------------

void Clockwork::born(AgentId id, AgentId parent, std::uint64_t label) {
  const schedule::AgentLabel l = schedule::unpack(label);
  Doing d;
  d.rank = l.rank;
  d.role = l.role;
  d.index = l.index;
  if (parent != schedule::kNoAgent) d.stored = doing_[parent].stored;
  if (l.role == Role::thread) d.unit = l.block % shape_.blocks;
  doing_.push_back(d);
  if (l.role == Role::thread || l.role == Role::task) {
    // The launches before have ended, their stores with them.
    reach(id, Spent::stores, d.stored);
    charge(id, Spent::launch, nanoseconds(profile_.launch.kernel + profile_.launch.prologue));
  }
}

void Clockwork::settle(AgentId id) { flush(id); }

void Clockwork::complete(AgentId id) { reach(id, Spent::loads, doing_[id].loaded); }

void Clockwork::met(std::span<const AgentId> all) {
  Time stored = 0;
  for (const AgentId id : all) stored = std::max(stored, doing_[id].stored);
  const double ns = row_sum_ ? profile_.block.row_sum / 2 : profile_.block.sync;
  for (const AgentId id : all) {
    doing_[id].stored = stored;
    charge(id, Spent::reduce, nanoseconds(ns));
  }
}

void Clockwork::ordered(AgentId earlier, AgentId later) {
  doing_[later].stored = std::max(doing_[later].stored, doing_[earlier].stored);
}

void Clockwork::ended(AgentId id, AgentId parent) {
  Doing& d = doing_[id];
  if (d.role == Role::product && shape_.transport != Transport::put) product(id, shape_.tokens);
  if (parent == schedule::kNoAgent) {
    reach(id, Spent::stores, d.stored);
  } else {
    doing_[parent].stored = std::max(doing_[parent].stored, d.stored);
  }
}

// -- instructions ---------------------------------------------------------------------------------

void Clockwork::on_event(const Event& e) {
  if (e.kind == Event::Kind::barrier) {
    row_sum_ = program_.site_work(e.site) == SiteWork::row_sum;
    return;
  }
  if (e.kind != Event::Kind::fence && !machine::is_access(e.kind)) return;
  const AgentId id = current();
  if (id == schedule::kNoAgent) return;
  const SiteWork work = program_.site_work(e.site);
  if (work == SiteWork::aside) return;
  if (e.kind == Event::Kind::fence) {
    flush(id);
    complete(id);
    release(id);
    return;
  }
  const machine::RegionSpec& region = machine_->region(e.address.region);
  if (!parts_.empty() && (e.site != first_.site || e.kind != first_.kind)) flush(id);
  if (parts_.empty()) first_ = e;
  first_.step = e.step;
  if (region.kind == RegionKind::signal) {
    parts_.push_back({region.rank, 0});
    first_ = e;
    flush(id);  // each signal is one of its own
    return;
  }
  if (parts_.empty() || parts_.back().rank != region.rank) parts_.push_back({region.rank, 0});
  parts_.back().bytes += e.bytes;
}

void Clockwork::flush(AgentId id) {
  if (parts_.empty()) return;
  const bool is_signal = machine_->region(first_.address.region).kind == RegionKind::signal;
  const SiteWork work = program_.site_work(first_.site);
  if (is_signal) {
    signal(id);
  } else if (work == SiteWork::product) {
    // tokenweave's product is charged where its launch ends.
    if (doing_[id].role == Role::task) {
      complete(id);
      // x has inner elements in a row; in the case that is run, one.
      product(id, parts_.front().bytes / 2);
    }
  } else {
    for (Part& p : parts_) p.bytes *= shape_.hidden / shape_.run_hidden;
    const bool multicast = first_.proxy == machine::Proxy::multicast;
    if (first_.kind == Event::Kind::read) {
      load(id, multicast);
    } else {
      complete(id);
      if (work == SiteWork::row_sum) {
        // An operation's rows are spread over the blocks: each of them has every so-many-th.
        if (doing_[id].rows++ % shape_.blocks == 0) {
          charge(id, Spent::reduce, nanoseconds(profile_.block.row_sum));
        }
      }
      if (multicast && doing_[id].again) {
        doing_[id].again = false;
        load_own(id, account(id).at, parts_.front().bytes);
        complete(id);
      }
      store(id, multicast, first_.kind == Event::Kind::rmw);
    }
  }
  parts_.clear();
}

// The block's unit: loads have a rate of their own and take from the stores'.
Time Clockwork::take_in(const Doing& d, Time from, double bytes) {
  Unit& u = unit(d);
  const Time alone = u.loads.book(from, time_of(bytes / unit_blocks_, profile_.block.load), now());
  return std::max(alone, u.both.book(from, time_of(bytes / unit_blocks_, mixed_load_), now()));
}

Time Clockwork::give_out(const Doing& d, Time from, double bytes) {
  return unit(d).both.book(from, time_of(bytes / unit_blocks_, profile_.block.store), now());
}

Time Clockwork::over_link(std::uint32_t from_gpu, std::uint32_t to_gpu, Time from, double bytes,
                          double rate) {
  const Time out = gpus_[from_gpu].out.book(from, time_of(bytes, rate), now());
  return std::max(out, gpus_[to_gpu].in.book(from, time_of(bytes, rate), now()));
}

void Clockwork::load_own(AgentId id, Time from, double bytes) {
  Doing& d = doing_[id];
  Time done = take_in(d, from, bytes);
  done = std::max(done, memory(gpu_of(d.rank), from, bytes));
  d.loaded = std::max(d.loaded, done + nanoseconds(profile_.memory.load));
}

void Clockwork::load(AgentId id, bool multicast) {
  Doing& d = doing_[id];
  Time from = account(id).at;
  if (d.role == Role::task) {
    if (d.ahead_from < 0) d.ahead_from = from;
    from = d.ahead_from;
  } else if (multicast) {
    // The first row's loads come after the barrier, a later row's where the row before left off.
    if (shape_.kernel.ahead && d.ahead_from >= 0) from = std::min(from, d.ahead_from);
    d.again = shape_.kernel.reads_again;
  }
  if (multicast && shape_.transport == Transport::multimem && shape_.ranks > 1) {
    const std::uint32_t here = gpu_of(d.rank);
    const double bytes = parts_.front().bytes;
    Time done = take_in(d, from, bytes);
    const Time link = time_of(bytes, profile_.in_switch.rate);
    for (const Part& p : parts_) {
      const std::uint32_t there = gpu_of(p.rank);
      done = std::max(done, memory(there, from, bytes));
      done = std::max(done, gpus_[there].out.book(from, link, now()));
    }
    done = std::max(done, gpus_[here].in.book(from, link, now()));
    d.loaded =
        std::max(d.loaded, done + nanoseconds(profile_.link.load + profile_.in_switch.reduce));
  } else {
    const std::uint32_t here = gpu_of(d.rank);
    for (const Part& p : parts_) {
      const std::uint32_t there = gpu_of(p.rank);
      if (there == here) {
        load_own(id, from, p.bytes);
        continue;
      }
      Time done = take_in(d, from, p.bytes);
      done = std::max(done, memory(there, from, p.bytes));
      done = std::max(done, over_link(there, here, from, p.bytes, profile_.link.read));
      d.loaded = std::max(d.loaded, done + nanoseconds(profile_.link.load));
    }
  }
  if (multicast) d.ahead_from = d.loaded;
}

void Clockwork::store(AgentId id, bool multicast, bool add) {
  Doing& d = doing_[id];
  const Time from = account(id).at;
  const std::uint32_t here = gpu_of(d.rank);
  const auto done = [&](Time t) { d.stored = std::max(d.stored, t); };
  Time issued = from;
  if (multicast && shape_.transport == Transport::multimem && shape_.ranks > 1) {
    const double bytes = parts_.front().bytes;
    issued = give_out(d, from, bytes);
    const Time link = time_of(bytes, profile_.in_switch.rate);
    Time all = std::max(issued, gpus_[here].out.book(from, link, now()));
    for (const Part& p : parts_) {
      const std::uint32_t there = gpu_of(p.rank);
      all = std::max(all, gpus_[there].in.book(from, link, now()));
      all = std::max(all, memory(there, from, bytes));
    }
    done(all + nanoseconds(profile_.link.load));
  } else {
    for (const Part& p : parts_) {
      const std::uint32_t there = gpu_of(p.rank);
      issued = std::max(issued, give_out(d, from, p.bytes));
      Time all = std::max(issued, memory(there, from, p.bytes));
      if (add) {
        all = std::max(all,
                       gpus_[there].adds.book(from, time_of(p.bytes, profile_.memory.add), now()));
      }
      if (there == here) {
        done(all + nanoseconds(profile_.memory.load));
      } else {
        all = std::max(all, over_link(here, there, from, p.bytes, profile_.link.write));
        done(all + nanoseconds(profile_.link.load));
      }
    }
  }
  reach(id, Spent::stores, issued);
}

// All earlier stores of those whom this one speaks for are done, and a fence takes its time.
void Clockwork::release(AgentId id) {
  const Time fenced = account(id).at + nanoseconds(profile_.signal.fence);
  reach(id, Spent::stores, std::max(account(id).at, doing_[id].stored));
  reach(id, Spent::barrier, fenced);
}

void Clockwork::signal(AgentId id) {
  Doing& d = doing_[id];
  const Event& e = first_;
  complete(id);
  const bool own = gpu_of(d.rank) == gpu_of(parts_.front().rank);
  const auto before = seen_.find(e.from_step);
  const Time seen = e.from_step != 0 && before != seen_.end() ? before->second : 0;
  const double swap = own ? profile_.memory.swap : profile_.link.swap;
  // Seen by a poll, whose answer comes one load later.
  const Time way = nanoseconds(own ? profile_.memory.swap / 2
                                   : std::max(0.0, profile_.link.signal - profile_.memory.load));
  if (machine::releases(e.order)) release(id);
  switch (e.kind) {
    case Event::Kind::read:
      reach(id, Spent::waiting, seen);
      charge(id, Spent::barrier, nanoseconds(profile_.memory.load));
      return;
    case Event::Kind::write:  // posted
      seen_[e.step] = account(id).at + way;
      return;
    default:
      break;
  }
  if (d.role == Role::task) {  // red: posted; what it is added to may come later than it
    charge(id, Spent::barrier, nanoseconds(profile_.memory.load));
    seen_[e.step] = std::max(seen, account(id).at + way);
    return;
  }
  reach(id, Spent::waiting, seen);
  if (e.value != 0) {  // given, not taken
    charge(id, Spent::barrier, nanoseconds(profile_.signal.entry + profile_.signal.peer * d.index));
    seen_[e.step] = account(id).at + way;
  } else {
    seen_[e.step] = account(id).at + nanoseconds(swap);
  }
  charge(id, Spent::barrier, nanoseconds(swap));
}

// -- the product ----------------------------------------------------------------------------------

// Whole tiles on the multiprocessors that are free, no faster than the weights come from memory. A
// tile of a task graph has its share of a product of all rows.
void Clockwork::product(AgentId id, double rows) {
  if (shape_.inner == 0) return;
  const Doing& d = doing_[id];
  const double all = profile_.multiprocessors / (static_cast<double>(shape_.ranks) / shape_.gpus);
  const bool alone = !shape_.beside || products_run_[d.rank]++ == 0;
  const double free = std::max(1.0, alone ? all : all - shape_.blocks);
  // Few rows take a lower tile.
  const double tile_rows = std::min(profile_.product.tile_rows, std::ceil(shape_.tokens / 8) * 8);
  const double tiles = std::ceil(shape_.tokens / tile_rows) *
                       std::ceil(shape_.hidden / profile_.product.tile_columns);
  const double flop = 2 * shape_.inner * tile_rows * profile_.product.tile_columns;
  const double each = flop / (profile_.product.tflop_s / profile_.multiprocessors * 1000);  // ns
  const double weights = shape_.hidden * shape_.inner * 2 / profile_.memory.rate;
  const double whole = profile_.product.start + std::max(std::ceil(tiles / free) * each, weights);
  const Time busy = nanoseconds(whole * std::min(1.0, rows / shape_.tokens));
  reach(id, Spent::product, products_[d.rank].book(account(id).at, busy, now()));
}

Clockwork::Busy Clockwork::busy(Time end) const {
  Busy b;
  if (end <= 0) return b;
  const auto share = [&](const Server& s) {
    return static_cast<double>(s.booked()) / static_cast<double>(end);
  };
  for (const Gpu& g : gpus_) {
    b.link_in = std::max(b.link_in, share(g.in));
    b.link_out = std::max(b.link_out, share(g.out));
    b.memory = std::max(b.memory, share(g.memory));
  }
  for (const Unit& u : units_) {
    b.block = std::max({b.block, share(u.loads), share(u.both)});
  }
  return b;
}

}  // namespace ringfence::timing
