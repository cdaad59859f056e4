#include "emulator/exec/stretch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "emulator/schedule/label.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::exec {
namespace {

using Kind = Operation::Kind;

constexpr std::size_t kMostItems = schedule::kMaxGroup + 1;  // of a case: launches and steps
constexpr std::size_t kMostStreams = 16;
constexpr std::uint64_t kDense = std::uint64_t{64} << 20;  // above, a memory costs what is touched

// A launch, on several ranks where they launch alike; or a step of one rank's host.
struct Item {
  std::string step;  // empty: a launch
  std::uint32_t slot = 0;
  std::map<std::uint32_t, const Operation*> by_rank;
};

std::string place_of(const Devices& devices, std::uint64_t address) {
  const Allocation* const a = devices.at(address);
  return fmt::format("{{ memory = \"{}\", rank = {}, offset = {} }}", a->memory, a->device,
                     address - a->address);
}

class Builder {
 public:
  Builder(const Devices& devices, const std::vector<const Operation*>& batch, std::string name)
      : devices_(devices), batch_(batch), name_(std::move(name)) {}

  Stretch make(const std::vector<std::vector<std::uint32_t>>& reach, const std::string& boundary) {
    count_ranks();
    find_edges();
    for (const Operation* o : batch_) add(*o);
    if (items_.size() > kMostItems) {
      throw TooMuch(
          fmt::format("{} launches, copies and waits are pending; a stretch has at most {}",
                      items_.size(), kMostItems));
    }
    std::string head = fmt::format("version = 1\nranks = {}\n", out_.ranks);
    if (devices_.multiprocessors != ptx::kMultiprocessors) {
      head += fmt::format("multiprocessors = {}\n", devices_.multiprocessors);
    }
    std::string lists;
    for (std::uint32_t r = 0; r < out_.ranks; ++r) {
      std::vector<std::uint32_t> peers;
      for (const std::uint32_t peer : reach[r]) {
        if (peer < out_.ranks) peers.push_back(peer);
      }
      lists += fmt::format("{}[{}]", r == 0 ? "" : ", ", fmt::join(peers, ", "));
    }
    head += fmt::format("reach = [{}]\n", lists);
    std::string memories = write_memories();
    std::string steps;
    for (const Item& item : items_) steps += item.step.empty() ? write_launch(item) : item.step;
    out_.toml = head + memories + host_memories_ + steps +
                fmt::format("\n[check]\nmodes = [\"{}\"]\n", boundary);
    if (!tensors_.tensors.empty()) {
      out_.files[tensor_file()] = verify::safetensors_bytes(tensor_file(), tensors_);
    }
    const auto& slots = slots_[0];
    if (const auto at = slots.find(kHostStream); at != slots.end()) {
      out_.host_stream = at->second;
    } else if (slots.size() < kMostStreams) {
      out_.host_stream = static_cast<std::uint32_t>(slots.size());
    }
    return std::move(out_);
  }

 private:
  std::string tensor_file() const { return name_ + ".safetensors"; }

  void count_ranks() {
    for (const auto& [address, a] : devices_.memory)
      out_.ranks = std::max(out_.ranks, a.device + 1);
    for (const Operation* o : batch_) out_.ranks = std::max(out_.ranks, o->device + 1);
  }

  // What comes before an operation on another stream, as far as nothing else says it.
  void find_edges() {
    std::map<std::uint64_t, const Operation*> by_number;
    for (const Operation* o : batch_) by_number[o->number] = o;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> waited;  // by both streams
    const auto before = order(devices_);
    for (const Operation* o : batch_) {
      for (const std::uint64_t number : before.at(o->number)) {
        const auto at = by_number.find(number);
        if (at == by_number.end() || at->second->stream == o->stream) continue;
        std::uint64_t& known = waited[{o->stream, at->second->stream}];
        if (known >= number) continue;
        known = number;
        edges_[o->number].push_back(at->second);
        recorded_.insert(number);
      }
    }
  }

  std::uint32_t slot_of(const Operation& o) {
    auto& slots = slots_[o.device];
    const auto [at, made] = slots.emplace(o.stream, static_cast<std::uint32_t>(slots.size()));
    if (slots.size() > kMostStreams) {
      throw TooMuch(fmt::format("more than {} streams of device {} have something pending",
                                kMostStreams, o.device));
    }
    return at->second;
  }

  void step(const Operation& o, const std::string& what) {
    Item& item = items_.emplace_back();
    item.slot = slot_of(o);
    item.step =
        fmt::format("\n[[host]]\n{}\nstream = {}\nranks = [{}]\n", what, item.slot, o.device);
    position_[o.device] = items_.size();
  }

  std::string place(std::uint64_t address) const { return place_of(devices_, address); }

  void add(const Operation& o) {
    for (const Operation* p : edges_[o.number]) {
      step(o,
           fmt::format("wait_event = {{ event = \"after {}\", rank = {} }}", p->number, p->device));
    }
    switch (o.kind) {
      case Kind::launch:
        add_launch(o);
        break;
      case Kind::fill:
        step(o, fmt::format("memset = {{ to = {}, bytes = {}, value = {} }}", place(o.to), o.bytes,
                            o.value));
        break;
      case Kind::copy:
        add_copy(o);
        break;
      case Kind::touch: {
        Item& item = items_.emplace_back();
        item.slot = slot_of(o);
        item.step = access_step(devices_, o, item.slot);
        position_[o.device] = items_.size();
        break;
      }
      default:
        break;  // records and waits are edges; what is released is so at the end
    }
    if (recorded_.count(o.number) != 0) step(o, fmt::format("record = \"after {}\"", o.number));
  }

  void add_copy(const Operation& o) {
    std::string from, to;
    if (o.direction == Direction::to_device) {
      const std::string memory = fmt::format("from_host_{}", o.number);
      host_memories_ += fmt::format(
          "\n[memory.{0}]\nkind = \"local\"\nbytes = {1}\ninit = {{ file = \"{2}\", tensor = "
          "\"{0}\", "
          "once = true }}\n",
          memory, o.bytes, tensor_file());
      put_tensor(memory, verify::Dtype::u8, o.content.data(), o.content.size());
      from = fmt::format("{{ memory = \"{}\" }}", memory);
      to = place(o.to);
    } else if (o.direction == Direction::to_host) {
      const std::string memory = fmt::format("to_host_{}", o.number);
      host_memories_ +=
          fmt::format("\n[memory.{}]\nkind = \"local\"\nbytes = {}\n", memory, o.bytes);
      out_.to_host.push_back({memory, o.device, o.to});
      from = place(o.from);
      to = fmt::format("{{ memory = \"{}\" }}", memory);
    } else {
      from = place(o.from);
      to = place(o.to);
    }
    step(o, fmt::format("copy = {{ from = {}, to = {}, bytes = {} }}", from, to, o.bytes));
  }

  static bool alike(const Operation& a, const Operation& b) {
    return a.how.module == b.how.module && a.kernel == b.kernel &&
           std::equal(a.how.block, a.how.block + 3, b.how.block) &&
           std::equal(a.how.cluster, a.how.cluster + 3, b.how.cluster) &&
           a.how.dynamic_shared == b.how.dynamic_shared && a.how.cooperative == b.how.cooperative &&
           a.how.dependent == b.how.dependent;
  }

  void add_launch(const Operation& o) {
    const std::uint32_t slot = slot_of(o);
    for (std::size_t i = position_[o.device]; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (!item.step.empty() || item.slot != slot || item.by_rank.count(o.device) != 0 ||
          !alike(*item.by_rank.begin()->second, o)) {
        continue;
      }
      item.by_rank[o.device] = &o;
      position_[o.device] = i + 1;
      return;
    }
    Item& item = items_.emplace_back();
    item.slot = slot;
    item.by_rank[o.device] = &o;
    position_[o.device] = items_.size();
  }

  // -- launches -----------------------------------------------------------------------------------

  // A case has few launches and steps of which some overlap. That launches do is no promise.
  bool may_overlap() const { return items_.size() < kMostStreams; }

  // What went before is over where an earlier stretch had it.
  bool follows(const Item& item) const {
    for (const Item& other : items_) {
      if (&other == &item) return false;
      if (other.step.empty() && other.slot == item.slot) return true;
    }
    return false;
  }

  static std::string numbers(const std::uint32_t* three) {
    return fmt::format("[{}, {}, {}]", three[0], three[1], three[2]);
  }

  std::string write_launch(const Item& item) {
    const Operation& first = *item.by_rank.begin()->second;
    const Module& module = devices_.modules[first.how.module];
    std::vector<std::string> others;
    for (const auto& [file, text] : module.files) {
      out_.files[file] = text;
      if (file != module.files[0].first) others.push_back(fmt::format("\"{}\"", file));
    }
    std::string grids;
    for (std::uint32_t r = 0; r < out_.ranks; ++r) {
      const auto at = item.by_rank.find(r);
      grids += (r == 0 ? "" : ", ") +
               (at == item.by_rank.end() ? std::string("[0]") : numbers(at->second->how.grid));
    }
    std::string out = fmt::format(
        "\n[[launch]]\nptx = \"{}\"\nkernel = \"{}\"\ngrid = [{}]\nblock = {}\nstream = {}\n",
        module.files[0].first, first.kernel, grids, numbers(first.how.block), item.slot);
    if (!others.empty()) out += fmt::format("link = [{}]\n", fmt::join(others, ", "));
    if (first.how.cluster[0] != 0) {
      out += fmt::format("cluster = {}\n", numbers(first.how.cluster));
    }
    if (first.how.dynamic_shared != 0) {
      out += fmt::format("shared_bytes = {}\n", first.how.dynamic_shared);
    }
    if (first.how.cooperative != 0) out += "cooperative = true\n";
    if (first.how.dependent != 0 && may_overlap() && follows(item)) out += "dependent = true\n";
    const ptx::Program& program = *module.kernels.find(first.kernel)->second;
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < program.function->parameters.size(); ++i) {
      const ptx::Variable& p = program.function->parameters[i];
      const std::uint64_t bytes = p.bytes != 0 ? p.bytes : size_of(p.type);
      std::map<std::uint32_t, std::string> values;
      for (const auto& [rank, o] : item.by_rank) {
        values[rank] = o->parameters.substr(program.parameter_offset[i], bytes);
      }
      arguments.push_back(argument(values));
    }
    return out + fmt::format("args = [{}]\n", fmt::join(arguments, ", "));
  }

  static std::uint64_t number(const std::string& bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof value));
    return value;
  }

  static std::string list(const std::string& bytes) {
    std::vector<unsigned> out;
    for (const char c : bytes) out.push_back(static_cast<std::uint8_t>(c));
    return fmt::format("[{}]", fmt::join(out, ", "));
  }

  std::string argument(const std::map<std::uint32_t, std::string>& values) const {
    const std::size_t bytes = values.begin()->second.size();
    if (bytes == 8) {
      if (const std::string text = pointer(values); !text.empty()) return text;
    }
    if (const std::string text = structure(values, bytes); !text.empty()) return text;
    const bool same = std::all_of(values.begin(), values.end(), [&](const auto& v) {
      return v.second == values.begin()->second;
    });
    bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    for (const auto& [rank, v] : values) {
      whole = whole && number(v) <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    }
    const auto text = [&](const std::string& v) {
      return whole ? fmt::format("{}", number(v)) : list(v);
    };
    std::string out;
    if (same) {
      out = text(values.begin()->second);
    } else {
      for (std::uint32_t r = 0; r < out_.ranks; ++r) {
        const auto at = values.find(r);
        out += (r == 0 ? "[" : ", ") +
               text(at == values.end() ? std::string(bytes, '\0') : at->second);
      }
      out += "]";
    }
    return whole ? fmt::format("{{ u{} = {} }}", bytes * 8, out)
                 : fmt::format("{{ bytes = {} }}", out);
  }

  // A struct with addresses in it, word by word; empty: it is none.
  std::string structure(const std::map<std::uint32_t, std::string>& values,
                        std::size_t bytes) const {
    if (bytes <= 8 || bytes % 8 != 0) return {};
    std::vector<std::string> words;
    bool any = false;
    for (std::size_t at = 0; at < bytes; at += 8) {
      std::map<std::uint32_t, std::string> word;
      for (const auto& [rank, v] : values) word[rank] = v.substr(at, 8);
      any = any || !pointer(word).empty();
      words.push_back(argument(word));
    }
    return any ? fmt::format("{{ struct = [{}] }}", fmt::join(words, ", ")) : std::string();
  }

  // Empty: they are no addresses of one memory.
  std::string pointer(const std::map<std::uint32_t, std::string>& values) const {
    const Allocation* first = nullptr;
    std::uint64_t offset = 0;
    std::uint32_t peer = 0;
    bool same_rank = true, same_peer = true;
    for (const auto& [rank, v] : values) {
      const Allocation* const a = devices_.at(number(v));
      if (a == nullptr) return {};
      const std::uint64_t here = number(v) - a->address;
      const std::uint32_t ahead = (a->device + out_.ranks - rank) % out_.ranks;
      if (first == nullptr) {
        first = a;
        offset = here;
        peer = ahead;
      }
      if (a->memory != first->memory || here != offset) return {};
      same_rank = same_rank && a->device == first->device;
      same_peer = same_peer && ahead == peer;
    }
    std::string out = fmt::format("{{ memory = \"{}\"", first->memory);
    if (same_peer && (values.size() > 1 || peer == 0)) {
      if (peer != 0) out += fmt::format(", peer = {}", peer);
    } else if (same_rank) {
      out += fmt::format(", rank = {}", first->device);
    } else {
      return {};
    }
    if (offset != 0) out += fmt::format(", offset = {}", offset);
    return out + " }";
  }

  // -- memories -----------------------------------------------------------------------------------

  void put_tensor(const std::string& name, verify::Dtype dtype, const void* bytes,
                  std::size_t count) {
    verify::Tensor t;
    t.dtype = dtype;
    t.shape = {static_cast<std::int64_t>(count / (dtype == verify::Dtype::u64 ? 8 : 1))};
    const auto* const from = static_cast<const std::byte*>(bytes);
    t.bytes.assign(from, from + count);
    tensors_.add(name, std::move(t));
  }

  std::string write_memories() {
    std::map<std::string, std::vector<const Allocation*>> all;
    for (const auto& [address, a] : devices_.memory) {
      auto& replicas = all[a.memory];
      replicas.resize(out_.ranks, nullptr);
      replicas[a.device] = &a;
    }
    std::string out;
    for (const auto& [name, replicas] : all) out += write_memory(name, replicas);
    return out;
  }

  std::string write_memory(const std::string& name,
                           const std::vector<const Allocation*>& replicas) {
    std::uint64_t bytes = 0;
    bool zero = true, untouched = true, some_unset = false;
    std::vector<std::string> addresses;
    for (const Allocation* a : replicas) {
      addresses.push_back(fmt::format("{:#x}", a == nullptr ? 0 : a->address));
      some_unset = some_unset || a == nullptr || !a->unset.empty();
      if (a == nullptr) continue;
      bytes = a->bytes;
      zero = zero && a->content.empty() && a->unset.empty();
      untouched = untouched && a->content.empty() && a->unset == Pieces{{0, bytes}};
    }
    std::string init = "\"zero\"";
    if (untouched && bytes > kDense) {
      init = "\"poison\"";
    } else if (!zero) {
      init =
          fmt::format("{{ file = \"{}\", tensor = \"{}.{{rank}}\", once = true{} }}", tensor_file(),
                      name, some_unset ? fmt::format(", unset = \"{}.unset.{{rank}}\"", name) : "");
      for (std::uint32_t r = 0; r < out_.ranks; ++r) put_replica(name, r, bytes, replicas[r]);
    }
    std::string out = fmt::format(
        "\n[memory.{}]\nkind = \"symmetric\"\nbytes = {}\naddresses = [{}]\ninit = {}\n", name,
        bytes, fmt::join(addresses, ", "), init);
    if (std::any_of(replicas.begin(), replicas.end(),
                    [](const Allocation* a) { return a != nullptr && a->host != nullptr; })) {
      out += "everybody = true\n";
    }
    for (const Module& m : devices_.modules) {
      if (std::find(m.variables.begin(), m.variables.end(),
                    replicas[0] == nullptr ? 0 : replicas[0]->address) != m.variables.end()) {
        out += fmt::format("variables = \"{}\"\n", m.files[0].first);
      }
    }
    return out;
  }

  void put_replica(const std::string& name, std::uint32_t rank, std::uint64_t bytes,
                   const Allocation* a) {
    const bool there = a != nullptr && !a->content.empty();
    put_tensor(fmt::format("{}.{}", name, rank), verify::Dtype::u8,
               there ? a->content.data() : nullptr, there ? bytes : 0);
    const Pieces unset = a != nullptr ? a->unset : Pieces{{0, bytes}};
    if (unset.empty()) return;
    std::vector<std::uint64_t> numbers;
    for (const auto& [begin, end] : unset) numbers.insert(numbers.end(), {begin, end});
    put_tensor(fmt::format("{}.unset.{}", name, rank), verify::Dtype::u64, numbers.data(),
               numbers.size() * 8);
  }

  const Devices& devices_;
  const std::vector<const Operation*>& batch_;
  std::string name_;
  Stretch out_;
  std::map<std::uint64_t, std::vector<const Operation*>> edges_;
  std::set<std::uint64_t> recorded_;
  std::map<std::uint32_t, std::map<std::uint64_t, std::uint32_t>> slots_;
  std::vector<Item> items_;
  std::map<std::uint32_t, std::size_t> position_;  // by device: behind its last item
  std::string host_memories_;
  verify::Safetensors tensors_;
};

}  // namespace

// What the host's processor does is a release and an acquire, whatever its program says: x86 keeps
// stores in order, and loads. So it races with what kernels access weakly and nothing orders. A
// read that showed a kernel's store is behind that one; it waits for it here, as the store it
// showed is not told apart from a later one. Every other read may be at any time.
std::string access_step(const Devices& devices, const Operation& touch, std::uint32_t stream) {
  const HostAccess& a = touch.access;
  const std::string place = place_of(devices, a.address);
  const std::string what =
      a.write != 0 ? fmt::format("write = {{ to = {}, u32 = {} }}", place, a.value)
                   : fmt::format("wait = {{ at = {}, u32 = {}, compare = \"{}\", flush = true }}",
                                 place, a.value == touch.before ? 0 : a.value,
                                 a.value < touch.before ? "eq" : "geq");
  return fmt::format("\n[[host]]\n{}\nstream = {}\nranks = [0]\n", what, stream);
}

Stretch make_stretch(const Devices& devices, const std::vector<std::vector<std::uint32_t>>& reach,
                     const std::vector<const Operation*>& batch, const std::string& name,
                     const std::string& boundary) {
  return Builder(devices, batch, name).make(reach, boundary);
}

}  // namespace ringfence::exec
