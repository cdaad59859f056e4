// Virtual time: whose clock is earliest steps, and what orders agents orders their clocks.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/time_ordered.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

// An access costs ten picoseconds times its site, on the account of loads.
class Costly final : public TimeOrderedStrategy, public machine::Listener {
 public:
  void on_event(const machine::Event& e) override {
    if (machine::is_access(e.kind)) due_ += 10 * e.site;
  }

 private:
  void settle(AgentId id) override {
    charge(id, Spent::loads, due_);
    due_ = 0;
  }
  Time due_ = 0;
};

struct Run {
  Costly clocks;
  Outcome outcome;
  explicit Run(Program& program) {
    InlineExecutor executor(program);
    executor.set_listener(&clocks);
    outcome = executor.run(RunSpec{}, clocks);
    REQUIRE(outcome.end == RunEnd::complete);
  }
};

void access(Agent& a, Address at, std::uint16_t site) {
  std::uint32_t v = 0;
  a.read(at, {.order = Order::relaxed, .scope = Scope::sys, .site = site},
         std::as_writable_bytes(std::span(&v, 1)));
}

}  // namespace

TEST_CASE("virtual time: accesses come in the order of their clocks, agents made first on a tie") {
  std::string order;
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t) {
    const auto body = [&](char name, std::uint16_t cost, int times) {
      return [&, name, cost, times](Agent& a) {
        for (int i = 0; i < times; ++i) {
          access(a, p.slot(0, 0), cost);
          order += name;
        }
      };
    };
    // a at 0, 10, 20, 30, 40; b at 0, 25, 50; c at 0.
    p.launch(host, 0, {body('a', 1, 5), body('b', 2, 1), body('c', 7, 1)});
    order += '|';
    // a at 0, 30, 60; b at 0, 20, 40, 60.
    p.launch(host, 0, {body('a', 3, 3), body('b', 2, 4)});
  });
  const Run run(program);
  CHECK(order == "abcaaaa|abbabab");
  // The longest of the first launch, then of the second: 70 and 90.
  CHECK(run.clocks.account(0).at == 160);
  CHECK(run.clocks.account(0).spent[static_cast<std::size_t>(Spent::loads)] == 160);
}

TEST_CASE("virtual time: who waits at a block barrier goes on with the last to arrive") {
  BlockBarrier barrier(2);
  std::string order;
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t) {
    p.launch(host, 0,
             {[&](Agent& a) {
                access(a, p.slot(0, 0), 10);
                a.sync(barrier);
                access(a, p.slot(0, 0), 1);  // at 100
                order += 'a';
                access(a, p.slot(0, 0), 1);  // at 110
                order += 'A';
              },
              [&](Agent& a) {
                access(a, p.slot(0, 0), 2);
                a.sync(barrier);
                access(a, p.slot(0, 0), 3);  // at 100
                order += 'b';
                access(a, p.slot(0, 0), 3);  // at 130
                order += 'B';
              }});
  });
  const Run run(program);
  CHECK(order == "abAB");
  CHECK(run.clocks.account(0).at == 160);
}

TEST_CASE("virtual time: an operation of a graph starts with the last of its predecessors") {
  std::string order;
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t) {
    std::vector<Agent::ChildSpec> children;
    const auto add = [&](char name, std::uint16_t cost) {
      children.push_back({.role = Role::task,
                          .index = static_cast<std::uint32_t>(children.size()),
                          .body = [&, name, cost](Agent& a) {
                            access(a, p.slot(0, 0), cost);
                            order += name;
                          }});
    };
    add('a', 5);
    add('b', 2);
    add('c', 1);  // after b: at 20
    add('d', 1);  // after a and c: at 50
    add('e', 4);  // after c: at 30
    host.launch_graph(p.stream(0), 0, std::move(children), {{}, {}, {1}, {0, 2}, {2}});
  });
  const Run run(program);
  CHECK(order == "abced");
  CHECK(run.clocks.account(0).at == 70);
}
