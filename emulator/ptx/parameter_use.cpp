#include "emulator/ptx/parameter_use.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace ringfence::ptx {
namespace {

// Where a register's value comes from: a part of a parameter, or what lies in memory there.
struct Origin {
  std::uint32_t parameter = 0;
  std::uint64_t offset = 0;
  bool loaded = false;   // from the address that the part holds
  bool indexed = false;  // by way of local memory
  friend auto operator<=>(const Origin&, const Origin&) = default;
};
using Origins = std::set<Origin>;

bool has(const Instruction& i, std::string_view word) {
  return std::find(i.modifiers.begin(), i.modifiers.end(), word) != i.modifiers.end();
}

Type type_in(const Instruction& i) {
  for (auto m = i.modifiers.rbegin(); m != i.modifiers.rend(); ++m) {
    if (const auto type = type_of(*m)) return *type;
  }
  return Type::b32;
}

class DataFlow {
 public:
  explicit DataFlow(const Function& kernel) : kernel_(kernel), of_(kernel.registers.size()) {}

  std::vector<std::vector<ParameterUse>> run() {
    // Loops carry addresses on, so until nothing is added.
    for (bool more = true; more;) {
      more = false;
      for (const Instruction& i : kernel_.instructions) more = step(i) || more;
    }
    std::vector<std::vector<ParameterUse>> out(kernel_.parameters.size());
    for (auto& [place, use] : uses_) {
      auto& list = out[place.first];
      if (!list.empty() && list.back().offset + size_of(list.back().type) > use.offset) continue;
      list.push_back(use);
    }
    return out;
  }

 private:
  bool give(const Operand& to, const Origins& origins) {
    if (to.kind != Operand::Kind::reg || origins.empty()) return false;
    Origins& all = of_[to.index];
    const std::size_t before = all.size();
    all.insert(origins.begin(), origins.end());
    return all.size() != before;
  }
  const Origins& origins(const Operand& from) const {
    static const Origins none;
    return from.kind == Operand::Kind::reg ? of_[from.index] : none;
  }

  bool load_parameter(const Instruction& i, const Operand& at) {
    const Type type = type_in(i);
    const std::uint32_t parameter = at.elements[0].index;
    bool more = false;
    const Operand& to = i.operands[0];
    const std::size_t count = to.kind == Operand::Kind::vector ? to.elements.size() : 1;
    for (std::size_t e = 0; e < count; ++e) {
      const std::uint64_t offset =
          static_cast<std::uint64_t>(at.offset + at.elements[0].offset) + e * size_of(type);
      ParameterUse use;
      use.offset = offset;
      use.type = type;
      uses_.emplace(std::pair{parameter, offset}, use);
      const Operand& one = count == 1 && to.kind != Operand::Kind::vector ? to : to.elements[e];
      if (size_of(type) == 8) more = give(one, {{parameter, offset, false, false}}) || more;
    }
    return more;
  }

  // A memory instruction's address.
  void access(const Instruction& i, const Operand& at) {
    const bool multimem = i.opcode == "multimem";
    for (const Origin& o : origins(at.elements[0])) {
      const auto use = uses_.find({o.parameter, o.offset});
      if (use == uses_.end()) continue;
      (o.loaded ? use->second.of_addresses : use->second.address) = true;
      use->second.indexed = use->second.indexed || o.indexed;
      if (o.loaded) use->second.address = true;
      if (multimem && !o.loaded) use->second.multicast = true;
    }
  }

  bool step(const Instruction& i) {
    bool more = false;
    for (const Operand& at : i.operands) {
      if (at.kind != Operand::Kind::address || at.elements.empty()) continue;
      const Operand& base = at.elements[0];
      if (base.kind == Operand::Kind::variable) {
        if (i.opcode == "ld" && base.owner == Operand::Owner::parameter) {
          more = load_parameter(i, at) || more;
        }
        continue;
      }
      // A table that is indexed by a rank lies in local memory: any of it may come back.
      if (has(i, "local") && size_of(type_in(i)) == 8) {
        more = through_local(i) || more;
        continue;
      }
      // Shared memory's addresses are no arguments.
      if (has(i, "shared") || has(i, "shared::cta") || has(i, "local")) continue;
      access(i, at);
      if (i.opcode != "ld" || size_of(type_in(i)) != 8) continue;
      Origins loaded;
      for (Origin o : origins(base)) {
        o.loaded = true;
        loaded.insert(o);
      }
      const Operand& to = i.operands[0];
      more = give(to, loaded) || more;
      for (const Operand& one : to.elements) more = give(one, loaded) || more;
    }
    return carry(i) || more;
  }

  bool through_local(const Instruction& i) {
    const bool loads = i.opcode == "ld";
    if (i.operands.size() != 2) return false;
    const Operand& data = i.operands[loads ? 0 : 1];
    bool more = false;
    const auto one = [&](const Operand& o) {
      if (loads) {
        more = give(o, in_local_) || more;
        return;
      }
      for (Origin origin : origins(o)) {
        origin.indexed = true;
        more = in_local_.insert(origin).second || more;
      }
    };
    if (data.kind == Operand::Kind::vector) {
      for (const Operand& o : data.elements) one(o);
    } else {
      one(data);
    }
    return more;
  }

  // What hands an address on. Products and shifts make an index of it.
  bool carry(const Instruction& i) {
    if (i.operands.size() < 2) return false;
    const bool sum = i.opcode == "add" || i.opcode == "sub" || i.opcode == "mov" ||
                     i.opcode == "cvta" || i.opcode == "selp" || i.opcode == "or" ||
                     i.opcode == "max" || i.opcode == "min";
    const bool product = i.opcode == "mad" || i.opcode == "fma";
    if (!sum && !product) return false;
    bool more = false;
    for (std::size_t o = product ? 3 : 1; o < i.operands.size(); ++o) {
      more = give(i.operands[0], origins(i.operands[o])) || more;
    }
    return more;
  }

  const Function& kernel_;
  std::vector<Origins> of_;  // by register
  Origins in_local_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, ParameterUse> uses_;
};

}  // namespace

std::vector<std::vector<ParameterUse>> parameter_uses(const Function& kernel) {
  return DataFlow(kernel).run();
}

}  // namespace ringfence::ptx
