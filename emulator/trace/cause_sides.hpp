#pragma once
// The two accesses of a race, their events, and what is noted on the way to its cause. Private to
// emulator/trace.

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emulator/trace/cause_parts.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {

class Sides {
 protected:
  explicit Sides(const Telling& t)
      : t_(t), h_(t.history), first_(t.finding.first), second_(t.finding.second) {
    a_ = h_.find(first_);
    b_ = h_.find(second_);
  }
  void hint(Hint::What what, std::uint16_t site, bool behind) const {
    const Hint h{what, site, behind, 0};
    if (std::find(hints_.begin(), hints_.end(), h) == hints_.end()) hints_.push_back(h);
  }
  void note(EventIndex i) const {
    if (i != kNoEvent) steps_.push_back(i);
  }

  std::string line(const machine::AccessInfo& a) const { return t_.line(a.site); }
  std::string text_of(std::uint16_t site) const { return t_.program.site_name(site); }
  static std::string rank(std::uint64_t label) { return fmt::format("rank {}", rank_of(label)); }
  static const char* doing(machine::AccessKind kind) {
    return kind == machine::AccessKind::read ? "read" : "write";
  }

  const Telling& t_;
  const History& h_;
  const machine::AccessInfo& first_;
  const machine::AccessInfo& second_;
  EventIndex a_ = kNoEvent, b_ = kNoEvent;
  mutable std::vector<std::size_t> steps_;
  mutable std::vector<Hint> hints_;
};

}  // namespace ringfence::trace
