#include "emulator/cases/suppress.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "emulator/cases/case_program.hpp"
#include "emulator/cases/case_reader.hpp"
#include "emulator/machine/names.hpp"

namespace ringfence::cases {
namespace {

using machine::FindingKind;

constexpr std::size_t kMostSuppressions = 256;

// Others are no findings of accesses, or what a run cannot go on from.
constexpr std::array kKinds{FindingKind::data_race,         FindingKind::stale_read,
                            FindingKind::lost_signal,       FindingKind::unrestored_signal,
                            FindingKind::replica_mismatch,  FindingKind::numeric_mismatch,
                            FindingKind::uninitialised_read};

}  // namespace

std::vector<Suppression> read_ignores(const Reader& r, const toml::table& root,
                                      const std::string& path) {
  std::vector<Suppression> out;
  const auto* const list = root.get("ignore");
  if (list == nullptr) return out;
  for (const toml::node& n : r.array(*list, "ignore")) {
    const toml::table& t = r.table(n, "[[ignore]]");
    r.only(t, "[[ignore]]",
           {"kind", "memory", "line", "other_line", "kernel", "rank", "same_value", "reason"});
    Suppression s;
    const std::string word = r.text(r.need(t, "[[ignore]]", "kind"), "kind");
    const auto kind = machine::parse_finding_kind(word);
    if (!kind || std::find(kKinds.begin(), kKinds.end(), *kind) == kKinds.end()) {
      std::vector<std::string_view> known;
      for (const FindingKind k : kKinds) known.push_back(machine::name(k));
      r.fail(t.get("kind")->source(), "[[ignore]]: kind '{}'; known: {}", word,
             fmt::join(known, ", "));
    }
    s.kind = *kind;
    s.reason = r.text(r.need(t, "[[ignore]]", "reason"), "reason");
    if (const auto* m = t.get("memory")) s.memory = r.text(*m, "memory");
    if (const auto* k = t.get("kernel")) s.kernel = r.text(*k, "kernel");
    const auto read_line = [&](const char* key, std::string& out) {
      const auto* l = t.get(key);
      if (l == nullptr) return;
      out = r.text(*l, key);
      const auto colon = out.rfind(':');
      if (colon == std::string::npos || colon == 0 || colon + 1 == out.size() ||
          out.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
        r.fail(l->source(), "[[ignore]]: {} is \"FILE:LINE\" of the PTX or of the CUDA source",
               key);
      }
    };
    read_line("line", s.line);
    read_line("other_line", s.other);
    if (!s.other.empty() && s.line.empty()) {
      r.fail(t.get("other_line")->source(), "[[ignore]]: other_line needs line");
    }
    if (const auto* k = t.get("rank")) {
      s.rank = static_cast<std::uint32_t>(r.number(*k, "rank", 0, kMaxRanks - 1));
    }
    if (const auto* v = t.get("same_value")) {
      if (!v->is_boolean()) r.fail(v->source(), "same_value: expected true or false");
      s.same_value = v->as_boolean()->get();
      if (s.same_value && s.kind != FindingKind::data_race) {
        r.fail(v->source(), "[[ignore]]: same_value applies only to data-race");
      }
    }
    const auto slash = path.rfind('/');
    s.place = fmt::format("{}:{}", slash == std::string::npos ? path : path.substr(slash + 1),
                          t.source().begin.line);
    out.push_back(s);
  }
  return out;
}

std::vector<Suppression> read_suppressions(std::string_view text, const std::string& path) {
  const Reader r(path);
  const toml::table root = r.parse(text);
  r.only(root, "a file of suppressions", {"ignore"});
  return read_ignores(r, root, path);
}

std::string text(const Suppression& s) {
  std::string out = fmt::format("{}, {}", s.place, machine::name(s.kind));
  if (s.same_value) out += " of one value";
  if (!s.memory.empty()) out += " in " + s.memory;
  if (!s.line.empty()) out += " at " + s.line;
  if (!s.other.empty()) out += " and " + s.other;
  if (!s.kernel.empty()) out += " of kernel " + s.kernel;
  if (s.rank) out += fmt::format(" of rank {}", *s.rank);
  return out + ": " + s.reason;
}

bool CaseProgram::is_of(const Suppression& s, const machine::AccessInfo& a) const {
  if (s.rank && schedule::unpack(a.label).rank != *s.rank) return false;
  if (!s.line.empty()) {
    // "zoo.ptx:85 (zoo.cu:12): st.global ..."
    const std::string name = site_name(a.site);
    const auto in = [&](std::string_view before, char after_one, char after_two) {
      const std::string wanted = std::string(before) + s.line;
      const auto at =
          before.empty() ? (name.starts_with(wanted) ? 0 : std::string::npos) : name.find(wanted);
      if (at == std::string::npos || at + wanted.size() >= name.size()) return false;
      const char after = name[at + wanted.size()];
      return after == after_one || after == after_two;
    };
    if (!in("", ':', ' ') && !in(" (", ')', ',') && !in(", in ", ')', ',')) return false;
  }
  if (!s.kernel.empty()) {
    const std::size_t index = a.site - std::size_t{kFirstInstruction};
    if (a.site < kFirstInstruction || index >= sites_.size() || sites_[index].kernel == kNoKernel) {
      return false;
    }
    const auto name = kernels_[sites_[index].kernel]->program.function->name;
    if (name.find(s.kernel) == std::string_view::npos) return false;
  }
  return true;
}

bool CaseProgram::is_of(const Suppression& s, const machine::Finding& f) const {
  if (s.kind != f.kind || (s.same_value && !f.same_value)) return false;
  const machine::AccessInfo& placed = f.has_second ? f.second : f.first;
  if (!s.memory.empty()) {
    const auto& regions = memory_region_[index_of(s.memory)];
    const auto is_there = [&](std::uint32_t r) { return first_region_ + r == placed.region; };
    if (std::none_of(regions.begin(), regions.end(), is_there)) return false;
  }
  if (!s.other.empty()) {
    Suppression other = s;
    other.line = s.other;
    return f.has_first && f.has_second &&
           ((is_of(s, f.first) && is_of(other, f.second)) ||
            (is_of(s, f.second) && is_of(other, f.first)));
  }
  if (s.line.empty() && s.kernel.empty() && !s.rank) return true;
  return (f.has_second && is_of(s, f.second)) || (f.has_first && is_of(s, f.first));
}

// How often each was used, in this process and those that it forked: shared by them, since a search
// has many programs, executors and rank processes, and "unused" means by none of them.
namespace {
std::uint32_t* suppression_uses() {
  static std::uint32_t* const uses = [] {
    void* const at = mmap(nullptr, kMostSuppressions * sizeof(std::uint32_t),
                          PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::uint32_t*>(at);
  }();
  return uses;
}
}  // namespace

void CaseProgram::check_suppressions() const {
  if (file_.ignore.size() > kMostSuppressions) {
    throw CaseError(fmt::format("{}: {} findings to ignore; at most {} are supported", file_.path,
                                file_.ignore.size(), kMostSuppressions));
  }
  for (const Suppression& s : file_.ignore) {
    if (!s.memory.empty() && file_.find(s.memory) == nullptr) {
      throw CaseError(
          fmt::format("{}: memory '{}': the case has no such memory", s.place, s.memory));
    }
    if (s.rank && *s.rank >= file_.ranks) {
      throw CaseError(fmt::format("{}: rank {}: the case has {} ranks, from 0 on", s.place, *s.rank,
                                  file_.ranks));
    }
  }
  if (!file_.ignore.empty()) suppression_uses();
}

// Two plain stores of one value by threads of a block to its shared memory (CaseFile).
bool CaseProgram::notes_same_value(const machine::Finding& f) {
  if (file_.same_value_races || !f.same_value || f.kind != FindingKind::data_race) return false;
  // Of one instruction: what threads that agree all store. Two instructions may be two critical
  // sections that happen to store alike this time.
  if (f.first.site != f.second.site) return false;
  const auto plain = [](const machine::AccessInfo& a) {
    return a.kind == machine::AccessKind::write && a.order == machine::Order::weak &&
           a.proxy == machine::Proxy::generic;
  };
  const std::size_t region = std::size_t{f.second.region} - first_region_;
  if (!plain(f.first) || !plain(f.second) || f.second.region < first_region_ ||
      region >= regions_.size() || !regions_[region].spec.shared) {
    return false;
  }
  const auto block = [](std::uint64_t label) {
    schedule::AgentLabel l = schedule::unpack(label);
    l.index = 0;
    return schedule::pack(l);
  };
  if (block(f.first.label) != block(f.second.label)) return false;
  FaultText::keep(shared_->fault[schedule::unpack(f.second.label).rank].remarks,
                  {Remark::Kind::same_value, f.first.site, f.second.site});
  return true;
}

bool CaseProgram::passes_over(const machine::Finding& finding) {
  if (notes_same_value(finding)) return true;
  for (std::size_t i = 0; i < file_.ignore.size(); ++i) {
    if (!is_of(file_.ignore[i], finding)) continue;
    if (std::uint32_t* const uses = suppression_uses(); uses != nullptr) {
      std::atomic_ref<std::uint32_t>(uses[i]).store(1, std::memory_order_relaxed);
    }
    return true;
  }
  return false;
}

bool CaseProgram::passes_over_races() const {
  return std::any_of(file_.ignore.begin(), file_.ignore.end(),
                     [](const Suppression& s) { return s.kind == FindingKind::data_race; });
}

std::vector<std::string> CaseProgram::unused_suppressions() const {
  std::vector<std::string> out;
  const std::uint32_t* const uses = suppression_uses();
  for (std::size_t i = 0; uses != nullptr && i < file_.ignore.size(); ++i) {
    if (uses[i] == 0) out.push_back(text(file_.ignore[i]));
  }
  return out;
}

}  // namespace ringfence::cases
