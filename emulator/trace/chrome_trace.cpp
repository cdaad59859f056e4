#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "emulator/schedule/label.hpp"
#include "emulator/trace/export_events.hpp"
#include "emulator/trace/exports.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;
using schedule::AgentLabel;
using schedule::Role;

constexpr int kSignals = 100000;  // the process of the counters; ranks are below

// Threads of one place keep their track over the calls; product and consumer have their own.
std::string track_name(const AgentLabel& l) {
  switch (l.role) {
    case Role::product:
      return fmt::format("product b{}.t{}", l.block, l.index);
    case Role::consumer:
      return fmt::format("consumer b{}.t{}", l.block, l.index);
    case Role::task:
      return fmt::format("tile {} operation {}", l.block, l.index);
    default:
      return fmt::format("block {} thread {}", l.block, l.index);
  }
}

// In the program's words, or by what it is for.
std::string launch_name(std::uint64_t label, const schedule::Program& program) {
  const std::string name = program.launch_name(label);
  if (!name.empty()) return name;
  const AgentLabel l = schedule::unpack(label);
  return l.role == Role::product ? "product" : l.role == Role::consumer ? "consumer" : "protocol";
}

class ChromeTrace {
 public:
  ChromeTrace(const Trace& trace, const schedule::Outcome& outcome,
              const schedule::Program& program)
      : trace_(trace), program_(program), events_(outcome.history) {}

  std::string text() {
    graph_ = make_graph(events_, trace_.header.policy);
    out_ = fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"finding\":{},\"case\":{},\"made_by\":{}}},"
        "\"traceEvents\":[",
        quoted(finding_id(trace_)), quoted(case_text(trace_.header.config)),
        quoted(trace_.header.made_by));
    find_signals();
    launches();
    for (EventIndex i = 0; i < events_.size(); ++i) {
      if (machine::is_step(events_[i].kind)) step(i);
    }
    return out_ + "\n]}\n";
  }

 private:
  static std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  void put(const std::string& object) {
    out_ += (first_ ? "\n" : ",\n") + object;
    first_ = false;
  }

  // Where the program names no slots, a place that a thread reads strongly as another one wrote it,
  // strongly too, is a signal or a counter.
  void find_signals() {
    for (EventIndex i = 0; i < events_.size(); ++i) {
      const Event& e = events_[i];
      const EventIndex from = graph_.source[i];
      if (from == kNoEvent || !machine::is_strong(e.order)) continue;
      const Event& w = events_[from];
      if (machine::is_strong(w.order) && w.label != e.label) {
        signals_.insert({e.address.region, e.address.offset});
      }
    }
  }
  bool is_signal(machine::Address at) const {
    return signals_.contains({at.region, at.offset}) || !program_.slot_name(at).text.empty();
  }

  // A track's number; tells its name, and its rank's, at the first use.
  int track(const AgentLabel& l) {
    const std::string name = track_name(l);
    const auto [it, fresh] =
        tracks_.try_emplace({l.rank, name}, static_cast<int>(tracks_.size()) + 1);
    if (fresh) {
      if (ranks_.insert(l.rank).second) {
        put(fmt::format(
            R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", l.rank,
            l.rank));
      }
      put(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                      l.rank, it->second, quoted(name)));
    }
    return it->second;
  }

  // From an agent's first event to its last.
  void launches() {
    std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> spans;
    for (const Event& e : events_) {
      const std::uint32_t from = machine::is_step(e.kind) ? e.step : e.step + 1;
      const auto [it, fresh] = spans.try_emplace(e.label, from, from);
      it->second.second =
          std::max(it->second.second, machine::is_step(e.kind) ? e.step + 1 : e.step);
    }
    for (const auto& [label, span] : spans) {
      const AgentLabel l = schedule::unpack(label);
      if (span.second <= span.first) continue;  // no step of its own
      const int tid = track(l);
      put(fmt::format(R"({{"ph":"X","name":{},"cat":"launch","pid":{},"tid":{},"ts":{},"dur":{}}})",
                      quoted(fmt::format("call {} {}", l.call, launch_name(label, program_))),
                      l.rank, tid, span.first, span.second - span.first));
    }
  }

  void step(EventIndex i) {
    const Event& e = events_[i];
    const AgentLabel l = schedule::unpack(e.label);
    const int tid = track(l);
    // The elements of a vector access share a step: one slice tells them all.
    auto& last = last_step_[e.label];
    const bool again = last == e.step && e.kind != Event::Kind::barrier;
    const bool waited = graph_.source[i] != kNoEvent && machine::is_strong(e.order) &&
                        events_[graph_.source[i]].label != e.label && is_signal(e.address);
    if (!again) {
      if (waited && last != 0 && e.step > last + 1) {
        put(fmt::format(R"({{"ph":"X","name":{},"cat":"wait","pid":{},"tid":{},"ts":{},"dur":{}}})",
                        quoted("wait: " + place(e.address, program_)), l.rank, tid, last + 1,
                        e.step - last - 1));
      }
      put(fmt::format(
          R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":1,"args":{{"step":{},"order":"{}","agent":"{}"}}}})",
          quoted(event_text(e, program_)), at_fault(trace_, e) ? "finding" : "step", l.rank, tid,
          e.step, e.step, machine::is_access(e.kind) ? order_text(e.order, e.scope) : "",
          schedule::text(l)));
      last = e.step;
    }
    if (graph_.source[i] != kNoEvent && machine::is_strong(e.order)) flow(graph_.source[i], i, tid);
    if (e.kind == Event::Kind::write || e.kind == Event::Kind::rmw) counter(e);
  }

  // From inside the slice of the write to inside that of the read.
  void flow(EventIndex from, EventIndex to, int tid) {
    const Event& w = events_[from];
    const Event& r = events_[to];
    if (w.label == r.label) return;
    const AgentLabel l = schedule::unpack(w.label);
    const char* name = is_signal(r.address) ? "signal" : "data";
    ++flows_;
    put(fmt::format(R"({{"ph":"s","id":{},"name":"{}","cat":"flow","pid":{},"tid":{},"ts":{}}})",
                    flows_, name, l.rank, track(l), w.step));
    put(fmt::format(
        R"({{"ph":"f","bp":"e","id":{},"name":"{}","cat":"flow","pid":{},"tid":{},"ts":{}}})",
        flows_, name, schedule::unpack(r.label).rank, tid, r.step));
  }

  void counter(const Event& e) {
    if (!is_signal(e.address)) return;
    auto& slots = slots_[e.address.region];
    auto& sum = sums_[e.address.region];
    auto& slot = slots[e.address.offset];
    sum += e.value - slot;
    slot = e.value;
    if (!counted_) {
      put(fmt::format(
          R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"outstanding signals"}}}})",
          kSignals));
      counted_ = true;
    }
    put(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"signals":{}}}}})",
                    quoted(program_.region_name(e.address.region)), kSignals, e.step, sum));
  }

  const Trace& trace_;
  const schedule::Program& program_;
  std::span<const Event> events_;
  Graph graph_;
  std::string out_;
  bool first_ = true, counted_ = false;
  std::uint64_t flows_ = 0;
  std::map<std::pair<int, std::string>, int> tracks_;
  std::set<int> ranks_;
  std::map<std::uint64_t, std::uint32_t> last_step_;
  std::set<std::pair<machine::RegionId, std::uint64_t>> signals_;
  std::map<machine::RegionId, std::map<std::uint64_t, std::uint64_t>> slots_;
  std::map<machine::RegionId, std::uint64_t> sums_;
};

}  // namespace

std::string chrome_trace(const Trace& trace, const schedule::Outcome& outcome,
                         const schedule::Program& program) {
  return ChromeTrace(trace, outcome, program).text();
}

}  // namespace ringfence::trace
