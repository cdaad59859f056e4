#include "emulator/check/resume.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace ringfence::check {
namespace {

constexpr std::size_t kMaxEvents = 1u << 20;

class Reader {
 public:
  Reader(const std::string& text, int first_line) : in_(text), line_(first_line - 1) {}

  Left read() {
    next("search 1");
    if (word() != "search" || number() != 1) bad("expected 'search 1', as this version writes it");
    next("counts");
    if (word() != "counts") bad("expected 'counts'");
    left_.complete = number();
    left_.blocked = number();
    left_.bounded = number();
    left_.abandoned = number();
    left_.events = number();
    left_.seconds = real();
    left_.explored = real();
    for (;;) {
      next("end");
      const std::string kind = word();
      if (kind == "end") return std::move(left_);
      if (kind == "ordered") {
        ordered();
      } else if (const auto at =
                     std::find(std::begin(LeftOut::kWords), std::end(LeftOut::kWords), kind);
                 at != std::end(LeftOut::kWords)) {
        left_out(static_cast<LeftOut::What>(at - std::begin(LeftOut::kWords)));
      } else if (kind == "agent") {
        agent();
      } else if (kind == "item") {
        left_.items.push_back({real(), {}});
      } else if (kind == "event" && !left_.items.empty()) {
        event();
      } else {
        std::string expected = "expected 'ordered'";
        for (const std::string_view w : LeftOut::kWords) expected += ", '" + std::string(w) + "'";
        bad(expected + ", 'agent', 'item', its 'event', or 'end'");
      }
    }
  }

 private:
  [[noreturn]] void bad(const std::string& what) {
    throw std::invalid_argument("line " + std::to_string(line_) + ": " + what);
  }
  void next(const char* due) {
    std::string text;
    ++line_;
    if (!std::getline(in_, text)) bad(std::string("the file ends; expected '") + due + "'");
    words_ = std::istringstream(text);
  }
  std::string word() {
    std::string w;
    words_ >> w;
    return w;
  }
  std::uint64_t number() {
    std::uint64_t n = 0;
    if (!(words_ >> n)) bad("expected a number");
    return n;
  }
  double real() {
    double x = 0;
    if (!(words_ >> x)) bad("expected a number");
    return x;
  }
  CellKey cell() {
    CellKey c;
    c.region = static_cast<machine::RegionId>(number());
    c.offset = number();
    c.size = static_cast<std::uint8_t>(number());
    return c;
  }
  void ordered() {
    const auto at = words_.tellg();
    if (word() == "all") {
      left_.all_ordered = true;
      return;
    }
    words_.seekg(at);
    left_.ordered.push_back(cell());
  }
  std::uint16_t site() {
    const std::uint64_t n = number();
    if (n > 0xffff) bad("expected a site below 65536");
    return static_cast<std::uint16_t>(n);
  }
  void left_out(LeftOut::What what) {
    LeftOut order;
    order.what = what;
    if (!(words_ >> std::hex >> order.label >> std::dec)) bad("expected a label in hexadecimal");
    order.first = site();
    order.second = site();
    left_.left_out.push_back(order);
  }
  void agent() {
    std::uint64_t label = 0;
    if (!(words_ >> std::hex >> label)) bad("expected a label in hexadecimal");
    left_.agents.push_back(label);
  }
  Name name(bool of_agent) {
    Name n;
    n.agent = static_cast<std::uint32_t>(number());
    n.nth = static_cast<std::uint32_t>(number());
    if (n.agent >= left_.agents.size() && (of_agent || n.agent != kInitial.agent)) {
      bad("no agent " + std::to_string(n.agent));
    }
    return n;
  }
  void event() {
    Graph& graph = left_.items.back().graph;
    if (graph.size() == kMaxEvents) bad("expected at most a million events of one graph");
    Event e;
    e.self = name(true);
    e.piece = static_cast<std::uint16_t>(number());
    const std::uint64_t flags = number();
    e.write = (flags & 1) != 0;
    e.stuck = (flags & 2) != 0;
    e.late = (flags & 64) != 0;
    e.open = (flags & 4) != 0;
    e.pointed = (flags & 8) != 0;
    e.scope = static_cast<machine::Scope>(flags >> 4 & 3);
    if ((flags >> 8 & 0xFF) != 0) e.thread = static_cast<std::uint8_t>((flags >> 8 & 0xFF) - 1);
    e.cell = cell();
    e.from = name(false);
    while (words_ >> std::ws && !words_.eof()) e.after.push_back(name(false));
    graph.push_back(std::move(e));
  }

  std::istringstream in_;
  std::istringstream words_;
  int line_;
  Left left_;
};

}  // namespace

std::string to_text(const Left& left) {
  std::ostringstream out;
  out.precision(17);
  out << "search 1\ncounts " << left.complete << ' ' << left.blocked << ' ' << left.bounded << ' '
      << left.abandoned << ' ' << left.events << ' ' << left.seconds << ' ' << left.explored
      << '\n';
  if (left.all_ordered) out << "ordered all\n";
  for (const CellKey& c : left.ordered) {
    out << "ordered " << c.region << ' ' << c.offset << ' ' << int{c.size} << '\n';
  }
  for (const LeftOut& o : left.left_out) {
    out << o.word() << ' ' << std::hex << o.label << std::dec << ' ' << o.first << ' ' << o.second
        << '\n';
  }
  for (const std::uint64_t label : left.agents) {
    out << "agent " << std::hex << label << std::dec << '\n';
  }
  for (const Left::Item& item : left.items) {
    out << "item " << item.share << '\n';
    for (const Event& e : item.graph) {
      const int flags = (e.write ? 1 : 0) | (e.stuck ? 2 : 0) | (e.open ? 4 : 0) |
                        (e.late ? 64 : 0) | (e.pointed ? 8 : 0) | static_cast<int>(e.scope) << 4 |
                        (e.thread != Event::kNoThread ? (e.thread + 1) << 8 : 0);
      out << "event " << e.self.agent << ' ' << e.self.nth << ' ' << e.piece << ' ' << flags << ' '
          << e.cell.region << ' ' << e.cell.offset << ' ' << int{e.cell.size} << ' ' << e.from.agent
          << ' ' << e.from.nth;
      for (const Name& n : e.after) out << ' ' << n.agent << ' ' << n.nth;
      out << '\n';
    }
  }
  out << "end\n";
  return out.str();
}

Left parse_left(const std::string& text, int first_line) { return Reader(text, first_line).read(); }

}  // namespace ringfence::check
