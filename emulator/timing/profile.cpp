#include "emulator/timing/profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "emulator/timing/builtin.hpp"
#include "verify/toml.hpp"

namespace ringfence::timing {
namespace {

struct Field {
  const char* table;  // "" for the file itself
  const char* key;
  double (*get)(const Profile&);
  void (*set)(Profile&, double);
  bool may_be_zero;
  bool whole;
};

#define RINGFENCE_FIELD(table, key, member, zero, whole)        \
  Field {                                                       \
    table, key, [](const Profile& p) { return p.member; },      \
        [](Profile& p, double v) { p.member = v; }, zero, whole \
  }

const std::vector<Field>& fields() {
  static const std::vector<Field> all = {
      RINGFENCE_FIELD("", "multiprocessors", multiprocessors, false, true),
      RINGFENCE_FIELD("block", "load_gb_s", block.load, false, false),
      RINGFENCE_FIELD("block", "store_gb_s", block.store, false, false),
      RINGFENCE_FIELD("block", "copy_gb_s", block.copy, false, false),
      RINGFENCE_FIELD("block", "sync_ns", block.sync, true, false),
      RINGFENCE_FIELD("block", "row_sum_ns", block.row_sum, true, false),
      RINGFENCE_FIELD("memory", "gb_s", memory.rate, false, false),
      RINGFENCE_FIELD("memory", "load_ns", memory.load, true, false),
      RINGFENCE_FIELD("memory", "swap_ns", memory.swap, true, false),
      RINGFENCE_FIELD("memory", "add_gb_s", memory.add, false, false),
      RINGFENCE_FIELD("link", "read_gb_s", link.read, false, false),
      RINGFENCE_FIELD("link", "write_gb_s", link.write, false, false),
      RINGFENCE_FIELD("link", "load_ns", link.load, true, false),
      RINGFENCE_FIELD("link", "swap_ns", link.swap, true, false),
      RINGFENCE_FIELD("link", "signal_ns", link.signal, true, false),
      RINGFENCE_FIELD("switch", "gb_s", in_switch.rate, false, false),
      RINGFENCE_FIELD("switch", "reduce_ns", in_switch.reduce, true, false),
      RINGFENCE_FIELD("signal", "entry_ns", signal.entry, true, false),
      RINGFENCE_FIELD("signal", "peer_ns", signal.peer, true, false),
      RINGFENCE_FIELD("signal", "fence_ns", signal.fence, true, false),
      RINGFENCE_FIELD("launch", "kernel_ns", launch.kernel, true, false),
      RINGFENCE_FIELD("launch", "prologue_ns", launch.prologue, true, false),
      RINGFENCE_FIELD("product", "tflop_s", product.tflop_s, false, false),
      RINGFENCE_FIELD("product", "start_ns", product.start, true, false),
      RINGFENCE_FIELD("product", "tile_rows", product.tile_rows, false, true),
      RINGFENCE_FIELD("product", "tile_columns", product.tile_columns, false, true),
  };
  return all;
}

#undef RINGFENCE_FIELD

constexpr double kMost = 1e9;

using Reader = verify::TomlReader<ProfileError>;

// [value, "source"]
double figure(const Reader& r, const toml::node& n, const std::string& key, const Field& f) {
  const auto* pair = n.as_array();
  if (pair == nullptr || pair->size() != 2) {
    r.fail(n.source(), "{} must be [value, \"source\"]", key);
  }
  const auto value = (*pair)[0].value<double>();
  if (!value || (*pair)[0].is_boolean() || !std::isfinite(*value) || *value < 0 || *value > kMost ||
      (*value == 0 && !f.may_be_zero) || (f.whole && *value != std::floor(*value))) {
    r.fail((*pair)[0].source(), "{}: the value must be {} {} to {:.0e}", key,
           f.whole ? "a whole number" : "a number", f.may_be_zero ? "from 0" : "above 0, up",
           kMost);
  }
  const auto* source = (*pair)[1].as_string();
  if (source == nullptr || source->get().empty()) {
    r.fail((*pair)[1].source(), "{}: the source must be a text that says where {} comes from", key,
           *value);
  }
  return *value;
}

Profile read(const Reader& r, const toml::table& root) {
  Profile p;
  std::vector<std::string> top = {"version", "name"};
  for (const Field& f : fields()) {
    const std::string word = *f.table != '\0' ? f.table : f.key;
    if (std::find(top.begin(), top.end(), word) == top.end()) top.push_back(word);
  }
  r.only(root, "a profile", top);
  for (const auto& [key, node] : root) {
    const auto* table = node.as_table();
    if (table == nullptr) continue;
    std::vector<std::string> known;
    for (const Field& f : fields()) {
      if (key.str() == f.table) known.emplace_back(f.key);
    }
    r.only(*table, fmt::format("[{}]", key.str()), known);
  }
  const auto* version = root.get("version");
  if (version == nullptr) r.fail(root.source(), "the file lacks the key 'version': expected 1");
  if (version->value<std::int64_t>() != 1) r.fail(version->source(), "version: expected 1");
  const auto* name = root.get("name");
  if (name == nullptr) r.fail(root.source(), "the file lacks the key 'name'");
  if (!name->is_string() || name->as_string()->get().empty()) {
    r.fail(name->source(), "name must be a non-empty string");
  }
  p.name = name->as_string()->get();
  for (const Field& f : fields()) {
    const toml::table* table = &root;
    std::string key = f.key;
    if (*f.table != '\0') {
      const auto* n = root.get(f.table);
      if (n == nullptr) r.fail(root.source(), "the file lacks the table [{}]", f.table);
      table = n->as_table();
      if (table == nullptr) r.fail(n->source(), "{} must be a table", f.table);
      key = fmt::format("{}.{}", f.table, f.key);
    }
    const auto* n = table->get(f.key);
    if (n == nullptr) r.fail(table->source(), "the key {} is missing", key);
    f.set(p, figure(r, *n, key, f));
  }
  // Else a block would load faster while it stores.
  const double least = 1 / (1 / p.block.load + 1 / p.block.store);
  if (p.block.copy < least * 0.999 || p.block.copy > p.block.store) {
    r.fail(root["block"]["copy_gb_s"].node()->source(),
           "block.copy_gb_s: expected {:.1f} (loads and stores one after the other) to {:.1f} "
           "(block.store_gb_s)",
           least, p.block.store);
  }
  return p;
}

}  // namespace

Profile parse_profile(const std::string& text, const std::string& name) {
  const Reader r(name);
  return read(r, r.parse(text));
}

Profile read_profile(const std::string& path_or_name) {
  for (const Builtin& b : builtins()) {
    if (path_or_name == b.name) return parse_profile(b.text, b.name);
  }
  std::ifstream f(path_or_name, std::ios::binary);
  std::ostringstream text;
  if (f) text << f.rdbuf();
  if (!f || text.fail()) {
    std::vector<std::string> names;
    for (const Builtin& b : builtins()) names.emplace_back(b.name);
    throw ProfileError(fmt::format("{}: cannot be read: {}; expected a file, or one of {}",
                                   path_or_name, std::strerror(errno), fmt::join(names, ", ")));
  }
  return parse_profile(text.str(), path_or_name);
}

}  // namespace ringfence::timing
