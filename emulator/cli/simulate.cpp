// simulate: the operator in virtual time, by a profile of what operations cost.
#include "emulator/cli/simulate.hpp"

#include "emulator/timing/simulate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "emulator/cli/report.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/timing/plot.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::cli {

namespace {

using timing::Sizes;
using timing::Transport;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0;;) {
    const std::size_t comma = text.find(',', at);
    out.push_back(text.substr(at, comma - at));
    if (comma == std::string::npos) return out;
    at = comma + 1;
  }
}

std::uint32_t number(const char* option, const std::string& text, const std::string& part) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), n);
  if (error != std::errc{} || end != part.data() + part.size() || n == 0) {
    throw UsageError(fmt::format(
        "{} {}: expected numbers from 1 on, such as 8, 2,4,8 or 2..64 (doubling)", option, text));
  }
  return n;
}

// "2,4" or "2..72": 2, 4, ..., 64 and 72.
std::vector<std::uint32_t> numbers(const char* option, const std::string& text) {
  std::vector<std::uint32_t> out;
  for (const std::string& part : split(text)) {
    const std::size_t dots = part.find("..");
    if (dots == std::string::npos) {
      out.push_back(number(option, text, part));
      continue;
    }
    const std::uint32_t first = number(option, text, part.substr(0, dots));
    const std::uint32_t last = number(option, text, part.substr(dots + 2));
    if (first > last) {
      throw UsageError(fmt::format("{} {}: {} is more than {}", option, text, first, last));
    }
    for (std::uint64_t n = first; n < last; n *= 2) out.push_back(static_cast<std::uint32_t>(n));
    out.push_back(last);
  }
  return out;
}

std::vector<Transport> transports(const std::string& text) {
  std::vector<Transport> out;
  for (const std::string& part : split(text)) {
    if (part == "multimem") {
      out.push_back(Transport::multimem);
    } else if (part == "peer") {
      out.push_back(Transport::peer);
    } else if (part == "put") {
      out.push_back(Transport::put);
    } else {
      throw UsageError(
          fmt::format("--transport {}: expected some of multimem, peer and put", text));
    }
  }
  return out;
}

timing::Kernel kernel(const std::string& name) {
  // The published one has no loads ahead, and two loads of the residual in its PTX.
  return name == "published" ? timing::Kernel{false, true} : timing::Kernel{};
}

std::map<std::string, std::string> settings(const std::vector<std::string>& given) {
  std::map<std::string, std::string> set;
  for (const std::string& s : given) {
    const std::size_t equals = s.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("--set {}: expected NAME=VALUE", s));
    }
    if (!set.emplace(s.substr(0, equals), s.substr(equals + 1)).second) {
      throw UsageError(fmt::format("--set {}: given twice", s));
    }
  }
  return set;
}

std::vector<timing::Case> cases_of(const SimulateOptions& o) {
  std::vector<timing::Case> out;
  Sizes s;
  s.kernel = kernel(o.kernel);
  s.hidden = o.hidden;
  s.inner = o.inner;
  s.set = settings(o.set);
  for (const Transport t : transports(o.transports)) {
    for (const std::uint32_t ranks : numbers("--ranks", o.ranks)) {
      for (const std::uint32_t tokens : numbers("--tokens", o.tokens)) {
        for (const std::uint32_t blocks : numbers("--blocks", o.blocks)) {
          for (const std::uint32_t waves : numbers("--waves", o.waves)) {
            s.transport = t;
            s.ranks = ranks;
            s.gpus = o.gpus;
            s.tokens = tokens;
            s.blocks = blocks;
            s.waves = waves;
            out.push_back({s, {}});
          }
        }
      }
    }
  }
  return out;
}

void print_head(const SimulateOptions& o, const timing::Profile& p) {
  fmt::print("simulate: virtual time by profile {}, hidden {}, bf16, {}, kernel {}{}\n", p.name,
             o.hidden, o.inner > 0 ? fmt::format("inner {} a rank", o.inner) : "no product",
             o.kernel, o.set.empty() ? "" : fmt::format(", {}", fmt::join(o.set, " ")));
  fmt::print(
      "times in us, on the rank that ends last; busy: the busiest link, memory and block\n\n");
  fmt::print("{:<9} {:>5} {:>6} {:>6} {:>5} {:>9}", "transport", "ranks", "tokens", "blocks",
             "waves", "us");
  for (std::size_t i = 0; i < schedule::kSpent; ++i) {
    fmt::print(" {:>8}", name(static_cast<schedule::Spent>(i)));
  }
  fmt::print("  {:>5} {:>6} {:>5}\n", "link", "memory", "block");
  std::fflush(stdout);
}

void print_row(const timing::Case& c) {
  const Sizes& s = c.sizes;
  const timing::Timing& t = c.timing;
  fmt::print("{:<9} {:>5} {:>6} {:>6} {:>5}", timing::name(s.transport), s.ranks, t.tokens,
             s.blocks, s.waves);
  if (!t.clean) {
    fmt::print("  no time: {}\n", t.message);
    return;
  }
  fmt::print(" {:>9.2f}", t.microseconds());
  for (const timing::Time part : t.account.spent)
    fmt::print(" {:>8.2f}", static_cast<double>(part) / 1e6);
  fmt::print("  {:>4.0f}% {:>5.0f}% {:>4.0f}%\n", 100 * std::max(t.busy.link_in, t.busy.link_out),
             100 * t.busy.memory, 100 * t.busy.block);
  std::fflush(stdout);
}

Json case_json(const timing::Case& c) {
  const Sizes& s = c.sizes;
  const timing::Timing& t = c.timing;
  Json j{{"transport", timing::name(s.transport)},
         {"ranks", s.ranks},
         {"gpus", s.gpus == 0 ? s.ranks : s.gpus},
         {"tokens", s.tokens},
         {"tokens_padded", t.tokens},
         {"blocks", s.blocks},
         {"waves", s.waves},
         {"clean", t.clean},
         {"steps", t.steps}};
  if (!t.clean) {
    j["finding"] = machine::name(t.finding);
    j["message"] = t.message;
    return j;
  }
  j["microseconds"] = t.microseconds();
  Json spent = Json::object();
  for (std::size_t i = 0; i < schedule::kSpent; ++i) {
    spent[name(static_cast<schedule::Spent>(i))] = static_cast<double>(t.account.spent[i]) / 1e6;
  }
  j["spent"] = spent;
  j["busy"] = Json{{"link_in", t.busy.link_in},
                   {"link_out", t.busy.link_out},
                   {"memory", t.busy.memory},
                   {"block", t.busy.block}};
  return j;
}

verify::JunitCase junit_case(const timing::Case& c) {
  const Sizes& s = c.sizes;
  verify::JunitCase one;
  one.classname = fmt::format("simulate.{}", timing::name(s.transport));
  one.name =
      fmt::format("{} ranks, {} tokens, {} blocks, {} waves", s.ranks, s.tokens, s.blocks, s.waves);
  if (!c.timing.clean) {
    one.status = verify::JunitCase::Status::failed;
    one.message = c.timing.message;
  }
  return one;
}

}  // namespace

Exit run(const SimulateOptions& o) {
  const timing::Profile profile = timing::read_profile(o.profile);
  std::vector<timing::Case> cases = cases_of(o);
  for (const timing::Case& c : cases) timing::check(profile, c.sizes);
  check_writable(o.reports);
  check_writable("--svg", o.svg);
  print_head(o, profile);
  bool clean = true;
  Json rows = Json::array();
  verify::JunitSuite suite;
  suite.name = "simulate";
  for (timing::Case& c : cases) {
    c.timing = timing::simulate(profile, c.sizes);
    if (c.timing.interrupted) throw Interrupted();
    clean &= c.timing.clean;
    print_row(c);
    rows.push_back(case_json(c));
    suite.cases.push_back(junit_case(c));
  }
  const std::string title =
      fmt::format("ringfence simulate: profile {}, hidden {}, bf16", profile.name, o.hidden);
  if (!o.svg.empty()) trace::write_text_file(o.svg, timing::plot(cases, title));
  fmt::print("\n{}\n",
             clean ? "no race, no deadlock, correct numbers in mode coherent (rows of 8 elements)"
                   : "FINDING: no time is given; ringfence fuzz explains the finding");
  Json j = result_head("simulate", clean ? Verdict::pass : Verdict::finding, 0);
  j["profile"] = profile.name;
  j["hidden"] = o.hidden;
  j["inner"] = o.inner;
  j["kernel"] = o.kernel;
  j["set"] = o.set;
  j["cases"] = rows;
  write_reports(o.reports, j, {suite});
  return clean ? Exit::clean : Exit::finding;
}

}  // namespace ringfence::cli
