#include "emulator/cases/edits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "emulator/ptx/call_graph.hpp"

namespace ringfence::cases {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::array<std::string_view, 4> kScopes = {"cta", "cluster", "gpu", "sys"};
constexpr std::array<std::string_view, 6> kOrders = {"weak",    "volatile", "relaxed",
                                                     "acquire", "release",  "acq_rel"};

enum class Sort : std::uint8_t { none, load, store, atomic, reduction, fence, barrier };

bool has(const ptx::Instruction& i, std::string_view word) {
  return std::find(i.modifiers.begin(), i.modifiers.end(), word) != i.modifiers.end();
}

Sort sort_of(const ptx::Instruction& i) {
  bool shared = false, strong = i.opcode != "ld" && i.opcode != "st";
  for (const std::string_view word : i.modifiers) {
    // Not memory that threads share, or an access that the executor does not take for one.
    if (word == "local" || word.starts_with("param") || word == "const" || word == "nc" ||
        word == "async" || word == "proxy") {
      return Sort::none;
    }
    shared = shared || word.starts_with("shared");
    strong = strong ||
             (word != "weak" && std::find(kOrders.begin(), kOrders.end(), word) != kOrders.end());
  }
  // Of shared memory, flags and counters; what is weak there are tiles.
  if (shared && !strong) return Sort::none;
  if (i.opcode == "ld" || (i.opcode == "multimem" && has(i, "ld_reduce"))) return Sort::load;
  if (i.opcode == "st" || (i.opcode == "multimem" && has(i, "st"))) return Sort::store;
  if (i.opcode == "atom") return Sort::atomic;
  if (i.opcode == "red" || (i.opcode == "multimem" && has(i, "red"))) return Sort::reduction;
  if (i.opcode == "fence" || i.opcode == "membar") return Sort::fence;
  const bool waits = has(i, "sync") || i.modifiers.empty();
  if ((i.opcode == "bar" || i.opcode == "barrier") && waits && !has(i, "cluster")) {
    return Sort::barrier;
  }
  return Sort::none;
}

// The weak form has no scope, atomics and reductions default to one.
std::string_view order_of(const ptx::Instruction& i, Sort sort) {
  for (const std::string_view order : kOrders) {
    if (has(i, order)) return order;
  }
  return sort == Sort::atomic || sort == Sort::reduction ? "relaxed" : "weak";
}

std::string_view scope_of(const ptx::Instruction& i, Sort sort) {
  if (i.opcode == "membar") return has(i, "cta") ? "cta" : has(i, "gl") ? "gpu" : "sys";
  for (const std::string_view scope : kScopes) {
    if (has(i, scope)) return scope;
  }
  if (has(i, "volatile") || (i.opcode == "multimem" && sort == Sort::reduction)) return "sys";
  return sort == Sort::atomic || sort == Sort::reduction ? "gpu" : "";
}

std::string_view fence_of(const ptx::Instruction& i) {
  return i.opcode == "membar" || has(i, "sc") ? "sc"
         : has(i, "acquire")                  ? "acquire"
         : has(i, "release")                  ? "release"
                                              : "acq_rel";
}

// What the instruction can be, the weakest first.
Words values(Sort sort, std::string_view what) {
  if (what == "barrier") return {"none", "there"};
  if (what == "scope") return {kScopes.begin(), kScopes.end()};
  if (what == "fence") {
    return {"none", "acquire", "release", "acq_rel", "sc"};
  }
  if (sort == Sort::load) return {"weak", "relaxed", "acquire"};
  if (sort == Sort::store) return {"weak", "relaxed", "release"};
  if (sort == Sort::reduction) return {"relaxed", "release"};
  return {"relaxed", "acquire", "release", "acq_rel"};
}

// What can be put in. None has an operand but numbers.
struct Insertion {
  std::string_view text, opcode;
  std::array<std::string_view, 4> modifiers;
  std::optional<std::uint64_t> operand{};
};
constexpr std::array kInsertions = {
    Insertion{"bar.sync", "bar", {"sync"}, 0},
    Insertion{"fence.acq_rel.sys", "fence", {"acq_rel", "sys"}},
    Insertion{"fence.acq_rel.gpu", "fence", {"acq_rel", "gpu"}},
    Insertion{"fence.sc.sys", "fence", {"sc", "sys"}},
    Insertion{"fence.proxy.async", "fence", {"proxy", "async"}},
    Insertion{"cp.async.bulk.wait_group", "cp", {"async", "bulk", "wait_group"}, 0},
    Insertion{"cp.async.wait_group", "cp", {"async", "wait_group"}, 0},
    Insertion{"cp.async.wait_all", "cp", {"async", "wait_all"}},
    Insertion{"griddepcontrol.wait", "griddepcontrol", {"wait"}},
};

// Acquire and release are no steps up or down from each other.
bool comparable(std::string_view a, std::string_view b) {
  return !((a == "acquire" && b == "release") || (a == "release" && b == "acquire"));
}

struct Property {
  std::string_view what, present;
};

std::vector<Property> properties(const ptx::Instruction& i, Sort sort) {
  switch (sort) {
    case Sort::none:
      return {};
    case Sort::barrier:
      return {{"barrier", "there"}};
    case Sort::fence:
      return {{"fence", fence_of(i)}, {"scope", scope_of(i, sort)}};
    default:
      break;
  }
  const std::string_view order = order_of(i, sort);
  std::vector<Property> out = {{"order", order == "volatile" ? "relaxed" : order}};
  if (order != "weak") out.push_back({"scope", scope_of(i, sort)});
  return out;
}

class Editor {
 public:
  Editor(ptx::Module& module, EditedText& text) : module_(module), text_(text) {}

  // False where the instruction cannot have that value.
  bool apply(ptx::Function& f, std::size_t index, std::string_view what, std::string_view value) {
    if (what == "before" || what == "after") {
      return insert(f, what == "before" ? index : index + 1, index, value);
    }
    ptx::Instruction& i = f.instructions[index];
    const Sort sort = sort_of(i);
    bool known = false;
    for (const Property& p : properties(i, sort)) known = known || p.what == what;
    const Words allowed = values(sort, what);
    if (!known || std::find(allowed.begin(), allowed.end(), value) == allowed.end()) return false;
    if (value == "none") {
      remove(f, index);
      return true;
    }
    if (value == "there") return true;
    if (what == "order") {
      set_order(i, sort, value);
    } else if (what == "fence") {
      to_fence(i);
      replace(i, {"sc", "acq_rel", "acquire", "release"}, value, 0);
    } else {
      to_fence(i);
      if (has(i, "volatile")) set_order(i, sort, "relaxed");
      replace(i, {kScopes.begin(), kScopes.end()}, value, scope_place(i));
    }
    respell(i);
    return true;
  }

 private:
  std::string_view keep(std::string word) {
    text_.push_back(std::make_unique<std::string>(std::move(word)));
    return *text_.back();
  }

  // Behind the order, which stands first or behind the name of a multimem operation.
  static std::size_t scope_place(const ptx::Instruction& i) {
    const std::size_t at = i.opcode == "multimem" ? 1 : 0;
    const bool ordered = at < i.modifiers.size() && (std::find(kOrders.begin(), kOrders.end(),
                                                               i.modifiers[at]) != kOrders.end() ||
                                                     i.modifiers[at] == "sc");
    return at + (ordered ? 1 : 0);
  }

  void replace(ptx::Instruction& i, const Words& words, std::string_view by, std::size_t place) {
    for (const std::string_view word : words) std::erase(i.modifiers, word);
    place = std::min(place, i.modifiers.size());
    i.modifiers.insert(i.modifiers.begin() + static_cast<std::ptrdiff_t>(place),
                       keep(std::string(by)));
  }

  void set_order(ptx::Instruction& i, Sort sort, std::string_view order) {
    const std::string scope(scope_of(i, sort));
    for (const std::string_view word : kOrders) std::erase(i.modifiers, word);
    if (order == "weak") {
      for (const std::string_view word : kScopes) std::erase(i.modifiers, word);
      return;
    }
    const std::size_t at = i.opcode == "multimem" ? 1 : 0;
    replace(i, {}, order, at);
    replace(i, {kScopes.begin(), kScopes.end()}, scope.empty() ? "sys" : scope, at + 1);
  }

  // membar.LEVEL is fence.sc of that scope.
  void to_fence(ptx::Instruction& i) {
    if (i.opcode != "membar") return;
    const std::string scope(scope_of(i, Sort::fence));
    i.opcode = "fence";
    i.modifiers = {keep("sc"), keep(scope)};
  }

  // The text's operands behind the new spelling.
  void respell(ptx::Instruction& i) {
    const std::size_t space = i.text.find_first_of(" \t", i.text.find(std::string(".")) + 1);
    std::string text = i.guard >= 0 ? "(guarded) " : "";
    text += i.spelling();
    if (i.text.starts_with('@')) {
      text += " (edited)";
    } else if (space != std::string_view::npos) {
      text += i.text.substr(space);
    }
    i.text = keep(std::move(text));
  }

  // Who jumps to what it stands before comes by it; who jumps to what follows does not.
  // "A+B": both, in that order.
  bool insert(ptx::Function& f, std::size_t at, std::size_t beside, std::string_view value) {
    if (const std::size_t plus = value.find('+'); plus != std::string_view::npos) {
      return insert(f, at, beside, value.substr(plus + 1)) &&
             insert(f, at, beside, value.substr(0, plus));
    }
    const auto found = std::find_if(kInsertions.begin(), kInsertions.end(),
                                    [&](const Insertion& i) { return i.text == value; });
    if (found == kInsertions.end()) return false;
    ptx::Instruction made;
    made.opcode = found->opcode;
    for (const std::string_view word : found->modifiers) {
      if (!word.empty()) made.modifiers.push_back(word);
    }
    if (found->operand) {
      ptx::Operand& number = made.operands.emplace_back();
      number.kind = ptx::Operand::Kind::integer;
      number.value = *found->operand;
    }
    made.line = f.instructions[beside].line;
    made.location = f.instructions[beside].location;
    made.unit = f.instructions[beside].unit;
    made.text = keep(std::string(found->text) +
                     (found->operand ? fmt::format(" {};", *found->operand) : ";"));
    f.instructions.insert(f.instructions.begin() + static_cast<std::ptrdiff_t>(at), made);
    for (ptx::Label& label : f.labels) {
      if (label.target > at || (at != beside && label.target == at)) ++label.target;
    }
    return true;
  }

  static void remove(ptx::Function& f, std::size_t index) {
    f.instructions.erase(f.instructions.begin() + static_cast<std::ptrdiff_t>(index));
    for (ptx::Label& label : f.labels) {
      if (label.target > index) --label.target;
    }
  }

  ptx::Module& module_;
  EditedText& text_;
};

std::string base_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string place_of(const ptx::Module& module, const ptx::Function& f, std::size_t index) {
  std::size_t nth = 1;
  while (nth <= index && f.instructions[index - nth].line == f.instructions[index].line) ++nth;
  return fmt::format("{}:{}{}", base_name(module.file_of(f.unit)), f.instructions[index].line,
                     nth > 1 ? fmt::format(".{}", nth) : "");
}

namespace {

void add_sites(const ptx::Module& module, const ptx::Function& f, std::vector<EditSite>& out) {
  for (std::size_t n = 0; n < f.instructions.size(); ++n) {
    const ptx::Instruction& i = f.instructions[n];
    const Sort sort = sort_of(i);
    for (const Property& p : properties(i, sort)) {
      EditSite site;
      site.key = fmt::format("{}/{}", place_of(module, f, n), p.what);
      site.present = p.present;
      site.text = i.spelling();
      site.strong = !(p.what == "order" && p.present == "weak");
      const Words all = values(sort, p.what);
      const auto here = std::find(all.begin(), all.end(), p.present);
      for (auto it = all.begin(); it != all.end(); ++it) {
        if (it == here || !comparable(*it, p.present)) continue;
        (it < here ? site.weaker : site.stronger).emplace_back(*it);
      }
      if (i.location && i.location->line != 0 && i.location->file < module.files.size()) {
        site.place =
            fmt::format("{}:{}", base_name(module.files[i.location->file]), i.location->line);
      }
      out.push_back(std::move(site));
    }
  }
}

struct Key {
  std::string file;
  std::uint32_t line = 0;
  std::size_t nth = 1;
  std::string what;
};

std::optional<Key> parse_key(const std::string& text) {
  const auto slash = text.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto colon = text.rfind(':', slash);
  if (colon == std::string::npos) return std::nullopt;
  Key key;
  key.file = text.substr(0, colon);
  key.what = text.substr(slash + 1);
  std::string number = text.substr(colon + 1, slash - colon - 1);
  if (const auto dot = number.find('.'); dot != std::string::npos) {
    const std::string nth = number.substr(dot + 1);
    if (nth.empty() || nth.size() > 4 || nth.find_first_not_of("0123456789") != std::string::npos) {
      return std::nullopt;
    }
    key.nth = std::stoul(nth);
    number.resize(dot);
  }
  if (number.empty() || number.size() > 8 ||
      number.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  key.line = static_cast<std::uint32_t>(std::stoul(number));
  return key;
}

}  // namespace

void apply_edits(ptx::Module& module, const Edits& edits, Edits& left, EditedText& text) {
  // From the end of the text on, so that what is taken out moves no other site; of one instruction
  // first its order, as a weak one has no scope, and what takes it out last.
  struct Change {
    ptx::Function* function;
    std::size_t index;
    std::string what, value, key;
  };
  std::vector<Change> changes;
  for (const auto& [name, value] : edits) {
    const auto key = parse_key(name);
    if (!key) continue;
    for (ptx::Function& f : module.functions) {
      if (key->file != base_name(module.file_of(f.unit))) continue;
      for (std::size_t n = 0; n < f.instructions.size(); ++n) {
        if (f.instructions[n].line != key->line) continue;
        std::size_t nth = 1;
        while (nth <= n && f.instructions[n - nth].line == key->line) ++nth;
        if (nth == key->nth) changes.push_back({&f, n, key->what, value, name});
      }
    }
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    if (a.function != b.function) return a.function > b.function;
    if (a.index != b.index) return a.index > b.index;
    // What is put in behind it first, and before it last, so that both are beside it.
    const auto rank = [](const Change& c) {
      return c.what == "after" ? 0 : c.what == "before" ? 3 : c.value == "none" ? 2 : 1;
    };
    return rank(a) < rank(b);
  });
  Editor editor(module, text);
  for (std::size_t n = 0; n < changes.size(); ++n) {
    const Change& c = changes[n];
    // The scope of what became weak says nothing.
    const bool moot = c.what == "scope" && n > 0 && changes[n - 1].index == c.index &&
                      changes[n - 1].function == c.function && changes[n - 1].value == "weak";
    if (moot || editor.apply(*c.function, c.index, c.what, c.value)) left.erase(c.key);
  }
}

namespace {
constexpr std::string_view kMemory = "memory.";

// Its host's memset puts back what was there at first.
void add_clear(CaseFile& file, const Memory& memory, bool each_launch) {
  HostStep step;
  step.kind = HostStep::Kind::memset;
  step.to.kind = Argument::Kind::memory;
  step.to.name = memory.name;
  step.bytes = memory.bytes;
  step.fill = memory.initial.kind == Initial::Kind::fill ? memory.initial.fill : 0;
  step.line = memory.line;
  for (std::size_t l = each_launch ? 0 : file.launches.size() - 1; l < file.launches.size(); ++l) {
    step.stream = file.launches[l].stream;
    step.before = l + 1;
    file.host.push_back(step);
  }
}
}  // namespace

bool is_memory_edit(std::string_view key) { return key.starts_with(kMemory); }

void apply_memory_edits(CaseFile& file, const Edits& edits) {
  for (const auto& [key, value] : edits) {
    if (!is_memory_edit(key)) continue;
    const auto slash = key.rfind('/');
    const std::string what = slash == std::string::npos ? "" : key.substr(slash + 1);
    const auto refuse = [&, &key = key, &value = value](const std::string& why) {
      throw CaseError(fmt::format("--set {}={}: {}", key, value, why));
    };
    if ((what != "init" || value != "zero") &&
        (what != "clear" || (value != "call" && value != "launch"))) {
      refuse("expected memory.NAME/init=zero, memory.NAME/clear=call or memory.NAME/clear=launch");
    }
    const std::string name = key.substr(kMemory.size(), slash - kMemory.size());
    const auto memory = std::find_if(file.memories.begin(), file.memories.end(),
                                     [&](const Memory& m) { return m.name == name; });
    if (memory == file.memories.end()) refuse(fmt::format("the case has no memory '{}'", name));
    using Kind = Initial::Kind;
    if (what == "init") {
      if (memory->initial.kind != Kind::poison && memory->initial.unset.empty()) {
        refuse(fmt::format("'{}' is initialised", name));
      }
      if (memory->initial.kind == Kind::poison) memory->initial.kind = Kind::zero;
      memory->initial.unset.clear();
    } else if (memory->initial.kind != Kind::zero && memory->initial.kind != Kind::fill) {
      refuse(
          fmt::format("expected a memory whose init is \"zero\" or a fill, and that of '{}' "
                      "is neither",
                      name));
    } else if (file.launches.empty()) {
      refuse("the case launches nothing");
    } else {
      add_clear(file, *memory, value == "launch");
    }
  }
}

void refuse_edits(const CaseFile& file, const Edits& left) {
  if (left.empty()) return;
  const auto& [key, value] = *left.begin();
  if (key.ends_with("/before") || key.ends_with("/after")) {
    std::string words;
    for (const std::string_view word : insertions()) {
      if (!words.empty()) words += ", ";
      words += word;
    }
    throw CaseError(fmt::format(
        "--set {}={}: expected FILE:LINE of an instruction of the case's kernels, and one of {}, "
        "or several joined by +",
        key, value, words));
  }
  for (const EditSite& site : edit_sites(file)) {
    if (site.key != key) continue;
    std::string words;
    for (const auto* list : {&site.weaker, &site.stronger}) {
      for (const std::string& word : *list) words += (words.empty() ? "" : ", ") + word;
    }
    throw CaseError(fmt::format("--set {}={}: {} is {}; it can be {}", key, value, site.text,
                                site.present, words));
  }
  throw CaseError(fmt::format(
      "--set {}={}: the case's kernels have no such site; expected FILE:LINE/WHAT of the PTX, with "
      "order, scope, fence, barrier, before or after for WHAT (relax --case lists the sites), or "
      "memory.NAME/init, memory.NAME/clear",
      key, value));
}

std::vector<std::string_view> insertions() {
  std::vector<std::string_view> out;
  for (const Insertion& i : kInsertions) out.push_back(i.text);
  return out;
}

std::vector<EditSite> edit_sites(const CaseFile& file, const Edits& edits) {
  std::vector<EditSite> out;
  std::vector<std::pair<std::vector<std::string>, std::unique_ptr<ptx::Module>>> modules;
  EditedText text;
  std::set<const ptx::Function*> seen;
  Edits left = edits;
  const auto add = [&](const std::vector<std::string>& paths, const std::string& kernel) {
    auto found = std::find_if(modules.begin(), modules.end(),
                              [&](const auto& m) { return m.first == paths; });
    if (found == modules.end()) {
      modules.emplace_back(paths, std::make_unique<ptx::Module>(file.module(paths)));
      found = modules.end() - 1;
      apply_edits(*found->second, edits, left, text);
    }
    const ptx::Module& module = *found->second;
    const ptx::Function& f = module.kernel(kernel);
    if (seen.insert(&f).second) add_sites(module, f, out);
    for (const std::uint32_t called : ptx::CallGraph(module, f).functions()) {
      const ptx::Function& g = module.functions[called];
      if (seen.insert(&g).second) add_sites(module, g, out);
    }
  };
  for (const Launch& launch : file.launches) {
    for (std::uint32_t r = 0; r < file.ranks; ++r) {
      if (launch.on(r)) add(file.modules_of(launch, r), launch.kernel_of(r));
    }
  }
  return out;
}

}  // namespace ringfence::cases
