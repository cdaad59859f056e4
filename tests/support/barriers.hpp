#pragma once
// The two signal barriers that checkers are measured on, with a cell that each rank writes weakly
// before it and all others read weakly after it.
//
//   A: one CAS slot for each pair of ranks; put = CAS 0 -> 1 at the peer, wait = CAS 1 -> 0 at
//   home. B: an arrival counter on each rank; everybody adds 1 to all of them and polls his own
//   until R.

#include "tests/support/small_programs.hpp"

namespace ringfence::testing {

class CasBarrier final : public SmallProgram {
 public:
  enum class Form {
    loop,
    split,
    par
  };  // put, wait by peer; all puts, then all waits; a thread each
  struct Shape {
    std::uint16_t ranks = 4;
    Form form = Form::split;
    Order put = Order::release, wait = Order::acquire;
    bool missing = false;  // rank 0 does not signal rank 1
    std::uint16_t calls = 1;
  };
  explicit CasBarrier(const Shape& shape) : SmallProgram(shape.ranks), shape_(shape) {}

  void host(Agent& host, std::uint16_t rank) override {
    for (std::uint16_t call = 0; call < shape_.calls; ++call) {
      std::vector<Agent::Body> bodies;
      schedule::BlockBarrier block(ranks_);
      if (shape_.form == Form::par) {
        for (std::uint16_t peer = 0; peer < ranks_; ++peer) {
          bodies.push_back([this, rank, peer, call, &block](Agent& a) {
            if (peer == 0) store32(a, data(rank, call), 1 + call, Order::weak);
            a.sync(block);
            put(a, rank, peer);
            wait(a, rank, peer);
            read(a, rank, peer, call);
          });
        }
      } else {
        bodies.push_back([this, rank, call](Agent& a) {
          store32(a, data(rank, call), 1 + call, Order::weak);
          for (std::uint16_t peer = 0; peer < ranks_; ++peer) {
            put(a, rank, peer);
            if (shape_.form == Form::loop) wait(a, rank, peer);
          }
          for (std::uint16_t peer = 0; peer < ranks_ && shape_.form == Form::split; ++peer) {
            wait(a, rank, peer);
          }
          for (std::uint16_t peer = 0; peer < ranks_; ++peer) read(a, rank, peer, call);
        });
      }
      launch(host, rank, std::move(bodies), call);
    }
  }

 private:
  Address pad(std::uint16_t at, std::uint16_t from) const { return slot(at, 64 + from); }
  Address data(std::uint16_t rank, std::uint16_t call) const { return slot(rank, call); }
  void put(Agent& a, std::uint16_t rank, std::uint16_t peer) {
    if (shape_.missing && rank == 0 && peer == 1) return;
    a.await_cas(pad(peer, rank), {.order = shape_.put}, 0, 1);
  }
  void wait(Agent& a, std::uint16_t rank, std::uint16_t peer) {
    a.await_cas(pad(rank, peer), {.order = shape_.wait}, 1, 0);
  }
  void read(Agent& a, std::uint16_t, std::uint16_t peer, std::uint16_t call) {
    if (load32(a, data(peer, call), Order::weak) != 1u + call) {
      a.report(finding_of(machine::FindingKind::numeric_mismatch));
    }
  }

  Shape shape_;
};

class CounterBarrier final : public SmallProgram {
 public:
  struct Shape {
    std::uint16_t ranks = 4;
    Order add = Order::release, poll = Order::acquire;
    bool missing = false;  // rank 0 does not add on rank 1
  };
  explicit CounterBarrier(const Shape& shape) : SmallProgram(shape.ranks), shape_(shape) {}

  void host(Agent& host, std::uint16_t rank) override {
    launch(host, rank, {[this, rank](Agent& a) {
             store32(a, slot(rank, 0), 1, Order::weak);
             const std::uint32_t one = 1;
             for (std::uint16_t peer = 0; peer < ranks_; ++peer) {
               if (shape_.missing && rank == 0 && peer == 1) continue;
               a.reduce(slot(peer, 64), {.order = shape_.add}, std::as_bytes(std::span(&one, 1)),
                        add);
             }
             a.await(slot(rank, 64), {.order = shape_.poll}, {machine::Compare::eq, ranks_});
             for (std::uint16_t peer = 0; peer < ranks_; ++peer) {
               if (load32(a, slot(peer, 0), Order::weak) != 1) {
                 a.report(finding_of(machine::FindingKind::numeric_mismatch));
               }
             }
           }});
  }

 private:
  Shape shape_;
};

}  // namespace ringfence::testing
