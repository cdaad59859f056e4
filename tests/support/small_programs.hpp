#pragma once
// Programs of a few steps for the tests of schedules and rank processes.

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/schedule/program.hpp"

namespace ringfence::testing {

using machine::Access;
using machine::Address;
using machine::Machine;
using machine::Order;
using machine::Scope;
using schedule::Agent;

inline std::uint64_t load32(Agent& a, Address at, Order order, Scope scope = Scope::sys) {
  std::uint32_t v = 0;
  a.read(at, {.order = order, .scope = scope}, std::as_writable_bytes(std::span(&v, 1)));
  return v;
}
inline void store32(Agent& a, Address at, std::uint32_t v, Order order, Scope scope = Scope::sys) {
  a.write(at, {.order = order, .scope = scope}, std::as_bytes(std::span(&v, 1)));
}
inline machine::Finding finding_of(machine::FindingKind kind) {
  machine::Finding f;
  f.kind = kind;
  return f;
}
inline std::uint64_t add(std::uint64_t old, std::uint64_t operand) { return old + operand; }

// What all programs here share: one 4 KiB region and one stream a rank, and a body a rank.
class SmallProgram : public schedule::Program {
 public:
  explicit SmallProgram(std::uint16_t ranks) : ranks_(ranks) {}

  std::uint16_t ranks() const override { return ranks_; }
  std::uint64_t shared_bytes() const override { return std::uint64_t{4096} * ranks_; }
  void set_up(Machine& machine, std::pmr::memory_resource*) override {
    regions_.clear();
    for (std::uint16_t r = 0; r < ranks_; ++r) {
      regions_.push_back(machine.add_region({.rank = r, .bytes = 4096}));
    }
  }
  void before_run(Machine& machine) override {
    streams_.clear();
    for (std::uint16_t r = 0; r < ranks_; ++r) streams_.push_back(machine.add_stream(r));
  }
  void after_run(Machine&) override {}
  std::string site_name(std::uint16_t site) const override { return std::to_string(site); }
  std::string region_name(machine::RegionId r) const override { return std::to_string(r); }
  schedule::SlotName slot_name(Address) const override { return {}; }

  // Slot `i` of the region on `rank`, on a line of its own.
  Address slot(std::uint16_t rank, std::uint32_t i) const { return {regions_[rank], i * 16}; }

 protected:
  // The given bodies as one launch, one thread each, all in block `block`.
  void launch(Agent& host, std::uint16_t rank, std::vector<Agent::Body> bodies,
              std::uint16_t call = 0) {
    std::vector<Agent::ChildSpec> children;
    for (std::uint32_t i = 0; i < bodies.size(); ++i) {
      children.push_back({.block = 0, .index = i, .body = std::move(bodies[i])});
    }
    host.launch(streams_[rank], call, std::move(children));
  }

  std::uint16_t ranks_;
  std::vector<machine::RegionId> regions_;
  std::vector<machine::StreamId> streams_;
};

// A program given by one function: the host's.
class HostProgram final : public SmallProgram {
 public:
  using Host = std::function<void(HostProgram&, Agent&, std::uint16_t)>;
  HostProgram(std::uint16_t ranks, Host host) : SmallProgram(ranks), host_(std::move(host)) {}
  void host(Agent& agent, std::uint16_t rank) override { host_(*this, agent, rank); }
  using SmallProgram::launch;
  machine::StreamId stream(std::uint16_t rank) const { return streams_[rank]; }

 private:
  Host host_;
};

// The skeleton of a fused all-reduce: a product writes a rank's values with weak stores; after a
// compare-and-swap barrier of the same blocks of all ranks each thread sums its slot over the
// ranks and stores the sum everywhere; after a second barrier a consumer reads its own copy.
class MiniReduce final : public SmallProgram {
 public:
  struct Shape {
    std::uint16_t ranks = 4;
    std::uint32_t blocks = 2;
    std::uint32_t threads = 8;
    Order start_put = Order::release, start_wait = Order::acquire;
    Order end_put = Order::release, end_wait = Order::acquire;
    std::uint32_t calls = 1;
  };
  explicit MiniReduce(const Shape& shape)
      : SmallProgram(shape.ranks), shape_(shape), slots_(shape.blocks * shape.threads) {}

  std::uint64_t shared_bytes() const override { return std::uint64_t{ranks_} * bytes(); }
  void set_up(Machine& machine, std::pmr::memory_resource*) override {
    regions_.clear();
    pads_.clear();
    for (std::uint16_t r = 0; r < ranks_; ++r) {
      regions_.push_back(machine.add_region({.rank = r, .bytes = bytes()}));
      pads_.push_back(machine.add_region({.rank = r,
                                          .kind = machine::RegionKind::signal,
                                          .bytes = std::uint64_t{shape_.blocks} * ranks_ * 4}));
    }
  }
  void host(Agent& host, std::uint16_t rank) override {
    for (std::uint16_t call = 0; call < shape_.calls; ++call) {
      one(host, rank, call, schedule::Role::product, [this, rank](Agent& a) { product(a, rank); });
      protocol(host, rank, call);
      one(host, rank, call, schedule::Role::consumer, [this, rank](Agent& a) { consume(a, rank); });
    }
  }
  static std::uint32_t part(std::uint32_t rank, std::uint32_t slot) {
    return 100 * rank + slot + 1;
  }
  std::uint32_t expected(std::uint32_t slot) const {
    std::uint32_t sum = 0;
    for (std::uint32_t r = 0; r < ranks_; ++r) sum += part(r, slot);
    return sum;
  }
  machine::RegionId pad(std::uint16_t rank) const { return pads_[rank]; }

 private:
  std::uint64_t bytes() const { return std::uint64_t{slots_} * 32; }
  Address in(std::uint32_t rank, std::uint32_t slot) const { return {regions_[rank], slot * 32u}; }
  Address out(std::uint32_t rank, std::uint32_t s) const { return {regions_[rank], s * 32u + 16}; }

  void one(Agent& host, std::uint16_t rank, std::uint16_t call, schedule::Role role,
           Agent::Body body) {
    std::vector<Agent::ChildSpec> child;
    child.push_back({.role = role, .body = std::move(body)});
    host.launch(streams_[rank], call, std::move(child));
  }
  void product(Agent& a, std::uint32_t rank) {
    for (std::uint32_t s = 0; s < slots_; ++s) store32(a, in(rank, s), part(rank, s), Order::weak);
  }
  void consume(Agent& a, std::uint32_t rank) {
    for (std::uint32_t s = 0; s < slots_; ++s) {
      if (load32(a, out(rank, s), Order::weak) == expected(s)) continue;
      machine::Finding f;
      f.kind = machine::FindingKind::numeric_mismatch;
      f.second.label = schedule::pack(a.label());
      f.second.region = regions_[rank];
      f.second.offset = out(rank, s).offset;
      f.has_second = true;
      a.report(f);
    }
  }
  void barrier(Agent& a, std::uint32_t rank, std::uint32_t block, std::uint32_t thread, Order put,
               Order wait) {
    if (thread >= ranks_) return;
    a.await_cas({pads_[thread], (block * ranks_ + rank) * 4u}, {.order = put}, 0, 1);
    a.await_cas({pads_[rank], (block * ranks_ + thread) * 4u}, {.order = wait}, 1, 0);
  }
  void protocol(Agent& host, std::uint16_t rank, std::uint16_t call) {
    auto barriers = std::make_shared<std::vector<schedule::BlockBarrier>>();
    for (std::uint32_t b = 0; b < shape_.blocks; ++b) barriers->emplace_back(shape_.threads);
    std::vector<Agent::ChildSpec> children;
    for (std::uint32_t b = 0; b < shape_.blocks; ++b) {
      for (std::uint32_t t = 0; t < shape_.threads; ++t) {
        children.push_back({.block = b, .index = t, .body = [=, this](Agent& a) {
                              barrier(a, rank, b, t, shape_.start_put, shape_.start_wait);
                              a.sync((*barriers)[b]);
                              // A rank reduces the slots whose number modulo the ranks is its own.
                              const std::uint32_t s = b * shape_.threads + t;
                              if (s % ranks_ == rank) {
                                std::uint32_t sum = 0;
                                for (std::uint32_t r = 0; r < ranks_; ++r) {
                                  sum += static_cast<std::uint32_t>(
                                      load32(a, in(r, s), Order::relaxed));
                                }
                                for (std::uint32_t r = 0; r < ranks_; ++r) {
                                  store32(a, out(r, s), sum, Order::relaxed);
                                }
                              }
                              a.sync((*barriers)[b]);
                              barrier(a, rank, b, t, shape_.end_put, shape_.end_wait);
                            }});
      }
    }
    host.launch(streams_[rank], call, std::move(children));
  }

  Shape shape_;
  std::uint32_t slots_;
  std::vector<machine::RegionId> pads_;
};

}  // namespace ringfence::testing
