#include "emulator/check/record.hpp"

#include <algorithm>

namespace ringfence::check {

using machine::ThreadId;

void Record::start(const machine::Machine& machine, const machine::Policy& policy) {
  *this = Record{};
  machine_ = &machine;
  policy_ = policy;
}

std::uint32_t Record::count(std::uint64_t label) const {
  const auto at = counts_.find(label);
  return at == counts_.end() ? 0 : at->second;
}

std::uint32_t Record::find_write(std::uint32_t step, std::uint32_t location) const {
  const auto at = writes_.find({step, location});
  return at == writes_.end() ? Node::kNone : at->second;
}

std::uint32_t Record::add(Node node, ThreadId thread) {
  if (threads_.size() <= thread) {
    threads_.resize(thread + std::size_t{1});
    reads_.resize(threads_.size());
  }
  node.thread = thread;
  node.at = machine_->placement(thread);
  const auto at = static_cast<std::uint32_t>(nodes_.size());
  threads_[thread].push_back(at);
  nodes_.push_back(node);
  return at;
}

std::uint32_t Record::location(const machine::Event& e) {
  const CellKey key{e.address.region, e.address.offset, static_cast<std::uint8_t>(e.bytes)};
  const auto [at, fresh] = location_.emplace(key, static_cast<std::uint32_t>(locations_.size()));
  if (!fresh) return at->second;
  locations_.push_back(key);
  for (const CellKey& other : locations_) {
    if (other != key && other.region == key.region && other.offset < key.offset + key.size &&
        key.offset < other.offset + other.size) {
      plain_ = false;
    }
  }
  Node initial;
  initial.location = at->second;
  const auto node = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(initial);
  writes_[{0, at->second}] = node;  // no event has step 0
  return at->second;
}

void Record::fence(const machine::Event& e, machine::Order order, machine::Scope scope, bool sc) {
  Node n;
  n.place.label = e.label;
  n.kind = Node::Kind::fence;
  n.order = order;
  n.scope = scope;
  n.sc = sc;
  add(n, e.thread);
}

void Record::add_bridge(const machine::Event& e) {
  Node n;
  n.place.label = e.label;
  n.kind = Node::Kind::bridge;
  n.bridge = static_cast<machine::Machine::ProxyFence>(e.value - 2);
  add(n, e.thread);
}

std::uint32_t Record::meet(ThreadId thread) {
  Node n;
  n.kind = Node::Kind::meeting;
  return add(n, thread);
}

void Record::on_event(const machine::Event& e) {
  const bool fenced = policy_.boundary != machine::Boundary::strict;
  switch (e.kind) {
    case machine::Event::Kind::launch: {
      // Launches of a stream are ordered; the threads of one begin before any of them ends.
      Stream& s = streams_[machine_->stream_of(e.thread)];
      if (s.live++ == 0) {
        s.earlier.insert(s.earlier.end(), s.ended.begin(), s.ended.end());
        s.ended.clear();
      }
      thread_of_[e.label] = e.thread;
      const std::uint32_t begin = meet(e.thread);
      nodes_[begin].boundary = true;
      for (const std::uint32_t end : s.earlier) edges_.emplace_back(end, begin);
      if (fenced) fence(e, machine::Order::acq_rel, machine::Scope::sys, false);
      return;
    }
    case machine::Event::Kind::end_launch: {
      if (fenced) fence(e, machine::Order::acq_rel, machine::Scope::sys, false);
      Stream& s = streams_[machine_->stream_of(e.thread)];
      --s.live;
      s.ended.push_back(threads_[e.thread].back());
      return;
    }
    case machine::Event::Kind::dependency: {
      const auto from = thread_of_.find(e.from_label);
      if (from == thread_of_.end() || threads_[from->second].empty()) return;
      const std::uint32_t last = threads_[from->second].back();
      edges_.emplace_back(last, meet(e.thread));
      return;
    }
    case machine::Event::Kind::fence:
      if (e.value < 2) return fence(e, e.order, e.scope, e.value == 1);
      add_bridge(e);
      return;
    case machine::Event::Kind::barrier:
      return;  // on_block_barrier
    default:
      access(e);
  }
}

void Record::access(const machine::Event& e) {
  const bool fresh = e.label != last_label_ || e.step != last_step_;
  if (fresh) ++counts_[e.label];
  last_label_ = e.label;
  last_step_ = e.step;
  Node n;
  n.location = location(e);
  n.step = e.step;
  n.place = {e.label, counts_[e.label] - 1};
  n.order = e.access->order;
  n.scope = e.access->scope;
  n.proxy = e.access->proxy;
  n.element = machine::operation_bytes(*e.access);
  std::uint32_t read = Node::kNone;
  if (e.kind != machine::Event::Kind::write) {
    n.kind = Node::Kind::read;
    n.depends = e.access->read_depends;
    n.reduction = e.reduction;
    n.foreseen = e.foreseen;
    n.value = e.kind == machine::Event::Kind::rmw ? e.old_value : e.value;
    n.source = e.foreseen ? Node::kNone : find_write(e.from_step, n.location);
    plain_ = plain_ && (e.foreseen || n.source != Node::kNone);
    read = add(n, e.thread);
    std::uint32_t& reads = reads_[e.thread];
    if (fresh) ++reads;
    nodes_[read].nth_read = reads - 1;
  }
  if (e.kind != machine::Event::Kind::write && e.kind != machine::Event::Kind::rmw) return;
  n.kind = Node::Kind::write;
  n.depends = e.access->write_depends;
  n.foreseen = n.reduction = false;
  n.source = Node::kNone;
  n.value = e.value;
  n.other = read;
  const std::uint32_t write = add(n, e.thread);
  if (read != Node::kNone) nodes_[read].other = write;
  writes_[{e.step, n.location}] = write;
}

void Record::on_arrive(ThreadId thread) {
  if (auto at = completed_.find(thread); at != completed_.end() && at->second > 0) {
    --at->second;
    return;
  }
  arrived_[thread].push_back(meet(thread));
}

void Record::on_block_barrier(std::span<const ThreadId> arriving,
                              std::span<const ThreadId> syncing) {
  std::vector<std::pair<ThreadId, std::uint32_t>> met;
  for (const ThreadId t : arriving) {
    auto& earlier = arrived_[t];
    if (std::find(syncing.begin(), syncing.end(), t) != syncing.end()) {
      met.emplace_back(t, meet(t));
    } else if (!earlier.empty()) {
      met.emplace_back(t, earlier.front());
      earlier.erase(earlier.begin());
    } else {
      met.emplace_back(t, meet(t));  // it completes the barrier, and is told of after it
      ++completed_[t];
    }
  }
  for (const auto& [waiting, node] : met) {
    if (std::find(syncing.begin(), syncing.end(), waiting) == syncing.end()) continue;
    for (const auto& [other, from] : met) {
      if (other != waiting) edges_.emplace_back(from, node);
    }
  }
}

Record::Resolved Record::resolve(const Foresight& foresight) {
  std::size_t found = 0;
  bool same = true;
  for (Node& n : nodes_) {
    if (n.kind != Node::Kind::read || !n.foreseen) continue;
    const Foreseen* f = find(foresight, n.place, locations_[n.location]);
    if (f == nullptr) return Resolved::no;
    ++found;
    n.source = Node::kNone;
    for (std::uint32_t w = 0; w < nodes_.size(); ++w) {
      const Node& write = nodes_[w];
      if (write.kind == Node::Kind::write && write.location == n.location &&
          write.place == f->write) {
        n.source = w;
      }
    }
    if (n.source == Node::kNone) return Resolved::no;
    same = same && nodes_[n.source].value == f->value;
  }
  if (found != foresight.size()) return Resolved::no;
  return same ? Resolved::yes : Resolved::otherwise;
}

}  // namespace ringfence::check
