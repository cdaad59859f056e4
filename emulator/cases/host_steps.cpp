// What the host puts on streams between launches: each a task of one thread, in a launch of its
// own.

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "emulator/cases/case_program.hpp"
#include "emulator/cases/encode.hpp"
#include "emulator/cases/plain_access.hpp"

namespace ringfence::cases {

using machine::Order;
using schedule::Agent;

void CaseProgram::prepare_host_steps() {
  for (std::size_t i = 0; i < file_.host.size(); ++i) {
    const HostStep& step = file_.host[i];
    sites_.push_back({kNoKernel, static_cast<std::uint32_t>(i)});
    if (!step.event.empty() && events_.count(step.event) == 0) {
      const std::string name = fmt::format("event '{}'", step.event);
      events_[step.event] =
          add_region({name, {0, machine::RegionKind::data, file_.ranks * 8ULL, true}, {}});
    }
    if (step.type.empty()) continue;
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      for (std::uint32_t call = 0; call < calls_; ++call) {
        std::string wrong;
        try {
          std::vector<std::uint8_t> bytes;
          const std::int64_t value = step.value.of(context(r, call));
          if (!put_integer(step.type, value, bytes)) {
            wrong = fmt::format("{} is no {}", value, step.type);
          }
        } catch (const std::invalid_argument& e) {
          wrong = e.what();
        }
        if (!wrong.empty()) {
          throw CaseError(fmt::format("{}:{}: [[host]] on rank {} in call {}: {}", file_.path,
                                      step.line, r, call, wrong));
        }
      }
    }
  }
}

FormulaContext CaseProgram::context(std::uint32_t rank, std::uint32_t call) const {
  FormulaContext c;
  c.rank = rank;
  c.world = file_.ranks;
  c.call = call;
  return c;
}

std::string CaseProgram::host_step_name(const HostStep& step) const {
  const auto place = [](const Argument& a) {
    std::string text = a.name;
    if (a.of_rank) text += fmt::format(" of rank {}", *a.of_rank);
    if (a.peer != 0) text += fmt::format(" of the peer {} on", a.peer);
    return text;
  };
  std::string what;
  switch (step.kind) {
    case HostStep::Kind::memset:
      what = "memset of " + place(step.to);
      break;
    case HostStep::Kind::copy:
      what = fmt::format("copy from {} to {}", place(step.from), place(step.to));
      break;
    case HostStep::Kind::write:
      what = fmt::format("write of a value to {} ({})", place(step.to),
                         step.fence ? "release.sys" : "relaxed.sys");
      break;
    case HostStep::Kind::wait:
      what = fmt::format("wait for a value in {} ({})", place(step.to),
                         step.flush ? "acquire.sys" : "relaxed.sys");
      break;
    case HostStep::Kind::record:
      what = fmt::format("record of the event '{}'", step.event);
      break;
    case HostStep::Kind::wait_event:
      what = fmt::format("wait for the event '{}'", step.event);
      break;
  }
  const auto slash = file_.path.rfind('/');
  return fmt::format("{}:{}: host: {}",
                     slash == std::string::npos ? file_.path : file_.path.substr(slash + 1),
                     step.line, what);
}

void CaseProgram::run_host_step(Agent& agent, std::uint32_t rank, std::uint32_t call,
                                std::size_t index) {
  const HostStep& step = file_.host[index];
  const auto site = static_cast<std::uint16_t>(kFirstInstruction + first_host_site_ + index);
  const auto place = [&](const Argument& a) {
    const std::uint32_t owner = a.of_rank ? *a.of_rank : (rank + a.peer) % file_.ranks;
    return machine::Address{first_region_ + memory_region_[index_of(a.name)][owner],
                            a.offset + a.offset_per_rank * rank};
  };
  const auto strong = [&](Order order, std::uint8_t element) {
    return machine::Access{order, machine::Scope::sys, element, machine::Proxy::generic, false,
                           site};
  };
  const auto wrote = [&](machine::Address at, bool data) {
    const std::uint32_t region = at.region - first_region_;
    usage_.wrote(region, at.offset, step.bytes, data);
    if (!data) {
      signals_.wrote(rank, region, at.offset, step.bytes, false, 0, site, shared_->run);
    }
  };
  const auto write = [&](machine::Address at, Order order, std::uint64_t value, std::uint8_t size) {
    std::byte bytes[8];
    std::memcpy(bytes, &value, sizeof bytes);
    agent.write(at, strong(order, size), {bytes, size});
  };
  const auto value = [&] { return static_cast<std::uint64_t>(step.value.of(context(rank, call))); };
  switch (step.kind) {
    case HostStep::Kind::memset: {
      const machine::Address to = place(step.to);
      const std::vector<std::byte> content(step.bytes, std::byte{step.fill});
      agent.write(to, plain_access(site, to.offset | step.bytes), content);
      return wrote(to, true);
    }
    case HostStep::Kind::copy: {
      const machine::Address from = place(step.from), to = place(step.to);
      std::vector<std::byte> content(step.bytes);
      agent.read(from, plain_access(site, from.offset | step.bytes), content);
      agent.write(to, plain_access(site, to.offset | step.bytes), content);
      return wrote(to, true);
    }
    case HostStep::Kind::write: {
      // The fence that precedes the write, and the write, are a release pattern.
      const machine::Address to = place(step.to);
      write(to, step.fence ? Order::release : Order::relaxed, value(),
            static_cast<std::uint8_t>(step.bytes));
      return wrote(to, false);
    }
    case HostStep::Kind::wait:
      agent.await(place(step.to),
                  strong(step.flush ? Order::acquire : Order::relaxed,
                         static_cast<std::uint8_t>(step.bytes)),
                  {step.compare, value()});
      return;
    // The edge from a record to a wait has no scope and takes all with it that precedes the record
    // (PTX ISA 8.9.4): a release and an acquire at sys scope.
    case HostStep::Kind::record:
      return write({first_region_ + events_.at(step.event), rank * 8ULL}, Order::release,
                   std::uint64_t{call} + 1, 8);
    case HostStep::Kind::wait_event: {
      const std::uint32_t owner = step.of_rank ? *step.of_rank : (rank + step.peer) % file_.ranks;
      agent.await({first_region_ + events_.at(step.event), owner * 8ULL}, strong(Order::acquire, 8),
                  {machine::Compare::ge, std::uint64_t{call} + 1});
      return;
    }
  }
}

}  // namespace ringfence::cases
