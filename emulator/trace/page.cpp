#include "emulator/trace/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "emulator/machine/names.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/beside.hpp"
#include "emulator/trace/graph.hpp"
#include "emulator/trace/page_parts.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/story_steps.hpp"
#include "emulator/trace/stuck.hpp"
#include "verify/markup.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;
using Json = nlohmann::ordered_json;

constexpr const char* kKinds[] = {"read",    "write",  "rmw",        "failed-cas", "fence",
                                  "barrier", "launch", "end-launch", "dependency"};

// The columns are most of the page: they are written as text, not by way of objects.
template <class F>
void column(std::string& out, const char* name, std::size_t count, F&& value) {
  out += fmt::format("{}\"{}\":[", out.back() == '{' ? "" : ",", name);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    value(i, out);
  }
  out += ']';
}

template <class T>
void append_number(std::string& out, T v) {
  const fmt::format_int digits(v);
  out.append(digits.data(), digits.size());
}

void append_value(std::string& out, std::uint64_t v) {
  if (v < std::uint64_t{1} << 53) {
    append_number(out, v);
  } else {
    out += fmt::format("\"0x{:x}\"", v);
  }
}

class PageData {
 public:
  PageData(const Trace& trace, const schedule::Outcome& outcome, const schedule::Program& program,
           const PageOptions& options)
      : trace_(trace), program_(program), options_(options), outcome_(outcome) {
    const std::size_t all = outcome.history.size();
    first_ = all > options.most_events ? all - options.most_events : 0;
    events_ = std::span(outcome.history).subspan(first_);
  }

  std::string text() {
    graph_ = make_graph(events_, trace_.header.policy);
    std::string out = head().dump(-1, ' ', false, Json::error_handler_t::replace);
    out.pop_back();  // the closing brace
    out += ",\"events\":" + columns();
    const auto edges = [&](const char* name, const std::vector<Graph::Edge>& list) {
      out += fmt::format(",\"{}\":[", name);
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (i > 0) out += ',';
        append_number(out, list[i].first);
        out += ',';
        append_number(out, list[i].second);
      }
      out += ']';
    };
    edges("synchronises", graph_.synchronises);
    edges("depends", graph_.depends);
    return out + "}";
  }

 private:
  Json head() {
    const Verdict& v = trace_.verdict;
    Json j{{"format", 1},
           {"title", v.finding ? std::string(machine::name(v.finding->kind)) : "a clean run"},
           {"id", finding_id(trace_)},
           {"message", v.message},
           {"cause", v.cause},
           {"fix", v.fix},
           {"kind", v.finding ? Json(machine::name(v.finding->kind)) : Json(nullptr)},
           {"mode", machine::name(trace_.header.policy.boundary)},
           {"case", case_text(trace_.header.config)},
           {"policies", policy_text(trace_.header.policy, trace_.header.config)},
           {"replay", options_.replay},
           {"remedy", options_.remedy},
           {"made_by", trace_.header.made_by},
           {"story", options_.story},
           {"notes", options_.notes},
           {"left_out", first_}};
    j["agents"] = agents();
    j["kernels"] = kernels_;
    j["kinds"] = kKinds;
    j["orders"] = {"weak", "relaxed", "acquire", "release", "acq_rel"};
    j["scopes"] = {"cta", "cluster", "gpu", "sys"};
    Json sites = Json::object(), regions = Json::array(), slots = Json::object();
    std::set<std::uint16_t> used;
    machine::RegionId most = 0;
    bool any = false;
    for (const Event& e : events_) {
      if (machine::is_step(e.kind)) used.insert(e.site);
      if (!machine::is_access(e.kind)) continue;
      most = std::max(most, e.address.region);
      any = true;
    }
    for (const std::uint16_t s : used) sites[std::to_string(s)] = program_.site_name(s);
    std::vector<bool> has_slots;
    for (machine::RegionId r = 0; any && r <= most; ++r) {
      regions.push_back(program_.region_name(r));
      has_slots.push_back(!program_.slot_name({r, 0}).text.empty());
    }
    for (const Event& e : events_) {
      if (!machine::is_access(e.kind) || !has_slots[e.address.region]) continue;
      std::string key = fmt::format("{}:{}", e.address.region, e.address.offset);
      if (!slots.contains(key)) slots[key] = program_.slot_name(e.address).text;
    }
    j["sites"] = sites;
    j["regions"] = regions;
    j["slots"] = slots;
    j["pair"] = Json{-1, -1};
    if (v.finding && v.finding->has_first) j["pair"][0] = find(v.finding->first);
    if (v.finding && v.finding->has_second) j["pair"][1] = find(v.finding->second);
    j["matter"] = Json::array();
    if (v.finding) {
      for (const std::size_t i : steps_that_matter(outcome_, *v.finding, 14, v.cause_steps)) {
        if (i >= first_) j["matter"].push_back(i - first_);
      }
    }
    j["beside"] = beside();
    j["stuck"] = Json::array();
    if (outcome_.end == schedule::RunEnd::deadlock) {
      for (const StuckRow& r : stuck_rows(v.stuck)) {
        j["stuck"].push_back(Json{{"agent", schedule::text(schedule::unpack(r.names.label))},
                                  {"slot", r.names.slot},
                                  {"needs", r.names.needs},
                                  {"there", r.waits_for_slot ? Json(r.names.there) : Json(nullptr)},
                                  {"writer", r.names.writer},
                                  {"which", r.which},
                                  {"cycle", r.on_cycle},
                                  {"event", last_of(r.names.label)}});
      }
    }
    return j;
  }

  static std::string what(const Event& e) {
    const auto number = [](std::uint64_t v) {
      return v < 100000 ? fmt::format("{}", v) : fmt::format("0x{:x}", v);
    };
    switch (e.kind) {
      case Event::Kind::read:
        return "reads " + number(e.value);
      case Event::Kind::write:
        return "writes " + number(e.value);
      case Event::Kind::rmw:
        return number(e.old_value) + " \u2192 " + number(e.value);
      case Event::Kind::failed_cas:
        return fmt::format("finds {}, does not swap", number(e.value));
      default:
        return "";
    }
  }

  // The steps that matter, and the one at which the runs part, as they are in the run that passes.
  Json beside() const {
    if (options_.passing == nullptr || !trace_.verdict.finding) return nullptr;
    const std::span<const Event> there = options_.passing->history;
    const Beside both(outcome_.history, there);
    const EventIndex first = both.first_difference();
    std::vector<std::size_t> events =
        steps_that_matter(outcome_, *trace_.verdict.finding, 14, trace_.verdict.cause_steps);
    if (first != kNoEvent) events.push_back(first);
    std::sort(events.begin(), events.end());
    events.erase(std::unique(events.begin(), events.end()), events.end());
    Json rows = Json::array();
    for (const BesideRow& row : both.rows(events)) {
      if (row.here < first_ || !machine::is_step(outcome_.history[row.here].kind)) continue;
      const bool is_there = row.there != kNoEvent;
      rows.push_back(Json{{"event", row.here - first_},
                          {"step", is_there ? Json(there[row.there].step) : Json(nullptr)},
                          {"text", is_there ? what(there[row.there]) : ""},
                          {"differs", row.differs}});
    }
    return Json{
        {"steps", options_.passing->steps},
        {"first",
         first != kNoEvent && first >= first_ ? static_cast<std::int64_t>(first - first_) : -1},
        {"rows", rows}};
  }

  // The number of a launch's name in kernels_; 0 is none.
  std::size_t kernel(std::uint64_t label) {
    const std::string name = program_.launch_name(label);
    const auto at = std::find(kernels_.begin(), kernels_.end(), name);
    if (at != kernels_.end()) return static_cast<std::size_t>(at - kernels_.begin());
    kernels_.push_back(name);
    return kernels_.size() - 1;
  }

  Json agents() {
    std::vector<const Event*> firsts;
    for (const Event& e : events_) {
      if (number_.try_emplace(e.label, number_.size()).second) firsts.push_back(&e);
    }
    const std::vector<std::uint32_t> stream = streams(firsts);
    Json list = Json::array();
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      const schedule::AgentLabel l = schedule::unpack(firsts[i]->label);
      const LaunchKey launch = launch_of(firsts[i]->label);
      list.push_back(Json{{"name", schedule::text(l)},
                          {"rank", l.rank},
                          {"block", l.block},
                          {"row", l.index},
                          {"call", launch.call},
                          {"phase", launch.phase},
                          {"launch", l.group},
                          {"kernel", kernel(firsts[i]->label)},
                          {"stream", stream[i]}});
    }
    return list;
  }

  // The stream of each agent, from 0 on its rank. A thread of the machine stands for one place in
  // the launches of one stream: launches that share a thread are of one stream.
  static std::vector<std::uint32_t> streams(const std::vector<const Event*>& firsts) {
    using Launch = std::pair<LaunchKey, std::uint16_t>;
    std::map<Launch, std::size_t> of_launch;  // the agent that stands for its stream
    std::unordered_map<machine::ThreadId, std::size_t> of_thread;
    std::vector<std::size_t> leader(firsts.size());
    const auto find = [&](std::size_t i) {
      while (leader[i] != i) i = leader[i];
      return i;
    };
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      leader[i] = i;
      const Launch launch{launch_of(firsts[i]->label), schedule::unpack(firsts[i]->label).group};
      const std::size_t a = find(of_launch.try_emplace(launch, i).first->second);
      const std::size_t b = find(of_thread.try_emplace(firsts[i]->thread, i).first->second);
      // The first to appear leads, so that streams are numbered in that order.
      const std::size_t first = std::min({a, b, i});
      leader[a] = leader[b] = leader[i] = first;
    }
    std::map<std::uint16_t, std::uint32_t> count;  // by rank
    std::map<std::size_t, std::uint32_t> number;   // by leader
    std::vector<std::uint32_t> out;
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      const std::size_t at = find(i);
      if (!number.contains(at)) number[at] = count[schedule::unpack(firsts[i]->label).rank]++;
      out.push_back(number[at]);
    }
    return out;
  }

  std::string columns() {
    std::string out = "{";
    out.reserve(events_.size() * 48);
    const std::size_t n = events_.size();
    const auto numbers = [&](const char* name, auto field) {
      column(out, name, n, [&](std::size_t i, std::string& to) {
        append_number(to, static_cast<std::int64_t>(field(events_[i])));
      });
    };
    numbers("kind", [](const Event& e) { return static_cast<int>(e.kind); });
    numbers("agent", [&](const Event& e) { return number_.at(e.label); });
    numbers("step", [](const Event& e) { return e.step; });
    numbers("site", [](const Event& e) { return e.site; });
    numbers("order", [](const Event& e) { return static_cast<int>(e.order); });
    numbers("scope", [](const Event& e) { return static_cast<int>(e.scope); });
    numbers("region", [](const Event& e) { return e.address.region; });
    numbers("offset", [](const Event& e) { return e.address.offset; });
    numbers("bytes", [](const Event& e) { return e.bytes; });
    column(out, "value", n,
           [&](std::size_t i, std::string& to) { append_value(to, events_[i].value); });
    column(out, "old", n,
           [&](std::size_t i, std::string& to) { append_value(to, events_[i].old_value); });
    column(out, "source", n, [&](std::size_t i, std::string& to) {
      const Event& e = events_[i];
      const bool reads = machine::is_access(e.kind) && e.kind != Event::Kind::write;
      if (graph_.source[i] != kNoEvent) {
        append_number(to, graph_.source[i]);
      } else {
        to += reads && e.from_step == 0 ? "-2" : "-1";
      }
    });
    numbers("flags", [](const Event& e) { return e.stale ? 1 : 0; });
    return out + "}";
  }

  std::int64_t find(const machine::AccessInfo& a) const {
    std::int64_t at = -1;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Event& e = events_[i];
      if (!machine::is_step(e.kind) || e.step != a.step || e.label != a.label) continue;
      if (at < 0) at = static_cast<std::int64_t>(i);
      if (e.address.region == a.region && e.address.offset <= a.offset &&
          a.offset < e.address.offset + std::max(1u, e.bytes)) {
        return static_cast<std::int64_t>(i);
      }
    }
    return at;
  }

  std::int64_t last_of(std::uint64_t label) const {
    for (std::size_t i = events_.size(); i-- > 0;) {
      if (events_[i].label == label) return static_cast<std::int64_t>(i);
    }
    return -1;
  }

  const Trace& trace_;
  const schedule::Program& program_;
  const PageOptions& options_;
  const schedule::Outcome& outcome_;
  std::size_t first_ = 0;
  std::span<const Event> events_;
  Graph graph_;
  std::unordered_map<std::uint64_t, std::size_t> number_;
  std::vector<std::string> kernels_{""};
};

// Inside a script element only "</" and "<!--" mean something to the reader of HTML; in JSON a "<"
// stands in strings alone and can be escaped there.
std::string for_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

void put(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string page_data(const Trace& trace, const schedule::Outcome& outcome,
                      const schedule::Program& program, const PageOptions& options) {
  return PageData(trace, outcome, program, options).text();
}

std::string page(const Trace& trace, const schedule::Outcome& outcome,
                 const schedule::Program& program, const PageOptions& options) {
  std::string out(kPageHtml);
  // The data last: what it holds is not looked through for marks.
  put(out, "@TITLE@",
      verify::for_element(fmt::format("{}: {}",
                                      trace.verdict.finding
                                          ? machine::name(trace.verdict.finding->kind)
                                          : std::string_view("a clean run"),
                                      case_text(trace.header.config))));
  put(out, "@STYLE@", kPageCss);
  put(out, "@SCRIPT@", kPageScript);
  put(out, "@DATA@", for_script(page_data(trace, outcome, program, options)));
  return out;
}

}  // namespace ringfence::trace
