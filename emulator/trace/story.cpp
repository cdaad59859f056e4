#include "emulator/trace/story.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/machine/barrier_step.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/cause.hpp"
#include "emulator/trace/story_steps.hpp"
#include "emulator/trace/stuck.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;

std::string agent_text(std::uint64_t label) { return schedule::text(schedule::unpack(label)); }

std::string number(std::uint64_t v) {
  return v < 100000 ? fmt::format("{}", v) : fmt::format("0x{:x}", v);
}

std::string plural(std::uint64_t n, const char* one, const char* many = nullptr) {
  return fmt::format("{} {}{}", n, n == 1 || many == nullptr ? one : many,
                     n == 1 || many != nullptr ? "" : "s");
}

std::string value_text(const Event& e) {
  switch (e.kind) {
    case Event::Kind::read:
      return number(e.value);
    case Event::Kind::write:
      return "= " + number(e.value);
    case Event::Kind::rmw:
      return fmt::format("{} -> {}", number(e.old_value), number(e.value));
    case Event::Kind::failed_cas:
      return fmt::format("{}, not swapped", number(e.value));
    default:
      return "";
  }
}

// Rows of text with aligned columns; the last column is free.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()), 0);
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += "  ";
        line += i + 1 < row.size() ? fmt::format("{:<{}}", row[i], widths[i]) : row[i];
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "file: what it does (order)" without its end: tables have the order in a column of its own. Of an
// instruction the line of the source, of a protocol no file, which is one for all.
std::string short_line(std::string line) {
  const std::string caller = caller_of(line);
  const std::string place = line_of(line) + (caller.empty() ? "" : " from " + caller);
  const bool numbered = place.find(':') != std::string::npos;
  if (const std::size_t colon = line.find(": "); colon != std::string::npos) {
    line.erase(0, colon + 2);
  }
  if (const std::size_t open = line.rfind(" ("); open != std::string::npos && line.back() == ')') {
    line.erase(open);
  }
  return numbered ? place + ": " + line : line;
}

// "zoo.cu:50, in sync.cuh:9: atom...;  (PTX line 513)" of "zoo.ptx:513 (zoo.cu:50, in sync.cuh:9):
// atom...;": the source first, as its file may have the name of the PTX made of it.
std::string long_line(const std::string& name) {
  const std::size_t colon = name.find(": ");
  const std::string head = name.substr(0, colon);
  const std::size_t open = head.find(" (");
  const std::size_t number = head.find(':');
  if (colon == std::string::npos || open == std::string::npos || head.back() != ')' ||
      number == std::string::npos || number > open) {
    return name;
  }
  return fmt::format("{}: {}  (PTX line {})", head.substr(open + 2, head.size() - open - 3),
                     name.substr(colon + 2), head.substr(number + 1, open - number - 1));
}

std::vector<std::string> event_row(const Event& e, const schedule::Program& program,
                                   std::string mark) {
  std::vector<std::string> row{std::move(mark), fmt::format("{:>6}", e.step), agent_text(e.label),
                               short_line(program.site_name(e.site))};
  if (e.kind == Event::Kind::fence) {
    row.push_back(fmt::format("fence.{}.{}", e.value == 1 ? "sc" : machine::name(e.order),
                              machine::name(e.scope)));
    return row;
  }
  if (e.kind == Event::Kind::barrier) {
    // What a thread comes out of: a block's barrier, a phase of an mbarrier, a barrier of a
    // cluster.
    const bool meets = e.order == machine::Order::acq_rel;
    if (!meets) row.back() = "end of the wait at an mbarrier or a cluster's barrier";
    row.push_back(meets ? "bar.sync" : order_text(e.order, e.scope));
    return row;
  }
  // Of an mbarrier: the order is its steps', and not that of the instruction, which stands beside.
  const bool phases = program.slot_name(e.address).text.starts_with("mbarrier ");
  row.push_back(phases ? "" : order_text(e.order, e.scope));
  row.push_back(place(e.address, program));
  std::string value = value_text(e);
  if (phases) {
    const std::uint32_t complete = machine::unpack(e.value).completed;
    value = fmt::format("{} phase{} complete", complete, complete == 1 ? "" : "s");
  }
  if (e.kind != Event::Kind::write) {
    value += e.from_step == 0 ? "  (initial)" : fmt::format("  (of step {})", e.from_step);
    if (e.stale) value += "  OLD: a newer one was there";
  }
  row.push_back(value);
  return row;
}

const std::vector<std::string> kStepHeader{"",      "  step", "agent", "line",
                                           "order", "place",  "value"};

std::string steps_text(const Trace& trace, const schedule::Outcome& outcome,
                       const schedule::Program& program, const std::vector<std::size_t>& chosen) {
  const machine::Finding& f = *trace.verdict.finding;
  if (chosen.empty()) return "";
  Table table(kStepHeader);
  for (std::size_t i : chosen) {
    const Event& e = outcome.history[i];
    const bool at_fault = (f.has_first && e.step == f.first.step && e.label == f.first.label) ||
                          (f.has_second && e.step == f.second.step && e.label == f.second.label);
    table.add(event_row(e, program, at_fault ? ">" : ""));
  }
  return fmt::format("The steps that matter, {} of {}:\n{}", chosen.size(), outcome.steps,
                     table.text());
}

std::string side_text(const char* which, const machine::AccessInfo& a, const SideNames& names) {
  // Shared memory and the ends of threads take no steps of the run.
  const std::string step = a.step == 0 ? "-" : std::to_string(a.step);
  const std::string line = long_line(names.line);
  if (a.kind == machine::AccessKind::none) {
    return fmt::format("  {:<6} step {:>5}  {:<20}  {}\n", which, step, agent_text(a.label), line);
  }
  return fmt::format("  {:<6} step {:>5}  {:<20}  {:<5} {:<11}  {}: {}{}\n", which, step,
                     agent_text(a.label), name(a.kind), order_text(a.order, a.scope), names.place,
                     line, a.proxy == machine::Proxy::multicast ? ", by multicast" : "");
}

// What would have ordered the two, as far as the chain between them tells.
std::string missing_lines(const Verdict& v, const schedule::Outcome& outcome,
                          const schedule::Program& program) {
  const std::string missing = missing_text(*v.finding);
  if (missing.empty()) return "";
  std::string text = fmt::format("  missing between them: {}\n", missing);
  if (v.finding->missing != machine::Missing::strength) return text;
  for (const BareLink& link : bare_links(outcome, *v.finding)) {
    const auto tell = [&](const Event& e, const char* what) {
      text +=
          fmt::format("    step {} ({}) is {}: no {}\n", e.step,
                      short_line(program.site_name(e.site)), order_text(e.order, e.scope), what);
    };
    if (link.no_release) tell(outcome.history[link.writer], "release");
    if (link.no_acquire) tell(outcome.history[link.reader], "acquire");
  }
  return text;
}

// "rank 1, call 0, kernel reduce, launch 1, block 0, warp 0, thread 3"
std::string full_name(std::uint64_t label, const schedule::Program& program) {
  constexpr std::uint32_t kLanes = 32;
  const schedule::AgentLabel l = schedule::unpack(label);
  const std::string name = program.launch_name(label);
  if (l.role != schedule::Role::thread) {
    return name.empty() ? "" : fmt::format("rank {}, call {}, {}", l.rank, l.call, name);
  }
  std::string text = fmt::format("rank {}, call {}", l.rank, l.call);
  if (!name.empty()) text += ", kernel " + name;
  if (l.group > 0) text += fmt::format(", {} {}", name.empty() ? "group" : "launch", l.group);
  text += fmt::format(", block {}", l.block);
  if (!name.empty()) text += fmt::format(", warp {}", l.index / kLanes);
  return text + fmt::format(", thread {}", l.index);
}

// What the short names of agents stand for: of the finding's, of those in its steps, and of the
// first that are stuck.
std::string agents_text(const Verdict& v, const schedule::Outcome& outcome,
                        const schedule::Program& program, const std::vector<std::size_t>& chosen) {
  std::vector<std::uint64_t> labels;
  const auto add = [&](std::uint64_t label) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
  };
  if (v.finding->has_first) add(v.finding->first.label);
  if (v.finding->has_second) add(v.finding->second.label);
  for (const std::size_t i : chosen) add(outcome.history[i].label);
  constexpr std::size_t kMost = 8;
  if (labels.size() > kMost) labels.resize(kMost);
  Table table({});
  bool any = false;
  for (const std::uint64_t label : labels) {
    const std::string name = full_name(label, program);
    if (name.empty()) continue;
    table.add({"  " + agent_text(label), name});
    any = true;
  }
  return any ? "\nAgents (r: rank, c: call, g: launch, b: block, t: thread):" + table.text() : "";
}

std::string choices_text(const std::vector<schedule::Decision>& decisions) {
  std::size_t switches = 0, faults = 0;
  for (const auto& d : decisions) {
    switches += d.kind == schedule::DecisionKind::pick;
    faults += schedule::is_fault(d.kind);
  }
  if (decisions.empty()) return "no choice but the defaults";
  return fmt::format("{} ({}, {}{})", plural(decisions.size(), "choice"),
                     plural(switches, "context switch", "context switches"),
                     faults > 0 ? plural(faults, "fault") + ", " : "",
                     plural(decisions.size() - switches - faults, "other"));
}

}  // namespace

std::string stuck_text(const std::vector<StuckNames>& stuck, std::size_t limit) {
  const std::vector<StuckRow> rows = stuck_rows(stuck);
  Table table({"", "agent", "waits for", "needs", "there", "to be written by", "which"});
  bool cycle = false;
  for (const StuckRow& r : rows) {
    cycle |= r.on_cycle;
    if (&r - rows.data() >= static_cast<std::ptrdiff_t>(limit)) continue;
    table.add({r.on_cycle ? "o" : "", agent_text(r.names.label), r.names.slot, r.names.needs,
               r.waits_for_slot ? number(r.names.there) : "", r.names.writer, r.which});
  }
  std::string text =
      fmt::format("{} cannot go on:\n{}", plural(stuck.size(), "agent"), table.text());
  if (rows.size() > limit) text += fmt::format("  and {} more\n", rows.size() - limit);
  if (cycle) text += "(o: on a cycle of waits)\n";
  return text;
}

std::vector<std::pair<std::string, std::string>> kernel_policies(const machine::Policy& policy) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const machine::NamedPolicy& p : machine::named_policies()) {
    if (p.of_kernels && p.get(policy) != 0) out.emplace_back(p.name, p.word(policy));
  }
  if (policy.registers != 0) out.emplace_back("registers", std::to_string(policy.registers));
  return out;
}

std::string policy_text(const machine::Policy& policy, const Configuration& config) {
  std::string text = fmt::format("multicast-flag={} alias-data={} load-buffering=off summation={}",
                                 machine::policy_word(policy, "multicast-flag"),
                                 machine::policy_word(policy, "alias-data"), config.summation());
  for (const auto& [name, value] : kernel_policies(policy)) {
    text += fmt::format(" {}={}", name, value);
  }
  return text;
}

std::string story(const Trace& trace, const schedule::Outcome& outcome,
                  const schedule::Program& program, const StoryOptions& options) {
  const Verdict& v = trace.verdict;
  const char* bold = options.color ? "\x1b[1;31m" : "";
  const char* plain = options.color ? "\x1b[0m" : "";
  std::string text =
      fmt::format("{}{}{} in boundary mode {}: {}\n", bold,
                  v.finding ? machine::name(v.finding->kind) : std::string_view("no finding"),
                  plain, machine::name(trace.header.policy.boundary), v.message);
  if (!v.cause.empty()) text += fmt::format("  cause     {}\n", v.cause);
  if (!v.fix.empty()) text += fmt::format("  fix       {}\n", v.fix);
  text += fmt::format("  case      {}\n", case_text(trace.header.config));
  text += fmt::format("  policies  {}\n", policy_text(trace.header.policy, trace.header.config));
  text +=
      fmt::format("  schedule  {}, {} steps\n",
                  options.free_running ? "free-running" : choices_text(trace.decisions), v.steps);
  for (const schedule::AppliedFault& f : outcome.faults) {
    text += fmt::format("  fault     {}: {}\n", schedule::name(f.kind), fault_text(f, program));
  }
  std::vector<std::size_t> chosen;
  if (v.finding) {
    chosen = steps_that_matter(outcome, *v.finding, options.max_steps, v.cause_steps);
    const std::string steps = steps_text(trace, outcome, program, chosen);
    if (!steps.empty()) text += '\n' + steps;
    if (v.finding->has_first && v.finding->has_second) {
      text += "\nThe two accesses:\n" + side_text("first", v.finding->first, v.first) +
              side_text("second", v.finding->second, v.second) + missing_lines(v, outcome, program);
    }
  }
  if (!v.stuck.empty() && outcome.end == schedule::RunEnd::deadlock) {
    text += '\n' + stuck_text(v.stuck, options.max_stuck);
  }
  if (v.finding) text += agents_text(v, outcome, program, chosen);
  if (!options.remedy.empty()) text += '\n' + options.remedy;
  if (!options.replay.empty()) text += fmt::format("\nreplay: {}\n", options.replay);
  if (!options.token.empty()) text += fmt::format("or:     ringfence replay {}\n", options.token);
  return text;
}

std::string step_by_step(const schedule::Outcome& outcome, const schedule::Program& program) {
  Table table(kStepHeader);
  for (const Event& e : outcome.history) {
    if (machine::is_step(e.kind)) table.add(event_row(e, program, ""));
  }
  return table.text();
}

}  // namespace ringfence::trace
