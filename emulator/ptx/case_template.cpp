#include <algorithm>
#include <cctype>

#include "emulator/ptx/calls.hpp"
#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/parameter_use.hpp"

namespace ringfence::ptx {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// One kernel's [[launch]], and the memories that it needs.
// What a function does with a parameter is the kernel's use of it.
std::vector<std::vector<ParameterUse>> uses_of(const Module& module, const Function& kernel) {
  try {
    if (has_calls(kernel, module)) return parameter_uses(with_functions(module, kernel));
  } catch (const Error&) {
    // The listing says so.
  }
  return parameter_uses(kernel);
}

class LaunchTemplate {
 public:
  LaunchTemplate(const Module& module, const Function& kernel, std::string prefix)
      : kernel_(kernel),
        prefix_(std::move(prefix)),
        name_(kernel.name),
        types_(parameter_types(demangle(kernel.name))),
        uses_(uses_of(module, kernel)) {
    for (const KernelListing& k : list(module).kernels) {
      if (k.name == kernel.name) listing_ = k;
    }
    if (types_.size() != kernel.parameters.size()) types_.clear();
  }

  const std::string& memories() const { return memories_; }

  std::string launch(const std::string& path) {
    std::string arguments;
    for (std::size_t i = 0; i < kernel_.parameters.size(); ++i) {
      const bool last = i + 1 == kernel_.parameters.size();
      const Text argument = of_parameter(i);
      arguments += "  " + argument.value + (last ? "   # " : ",  # ") + std::to_string(i) + ": " +
                   (types_.empty() ? listing_.parameters[i].type : types_[i]) + "; " +
                   argument.comment + "\n";
    }
    std::uint32_t threads = 128;
    if (kernel_.max_threads) threads = (*kernel_.max_threads)[0];
    if (kernel_.required_threads) threads = (*kernel_.required_threads)[0];
    return "\n[[launch]]" + (listing_.demangled != name_ ? "  # " + listing_.demangled : "") +
           "\nptx = " + quoted(path) + "\nkernel = " + quoted(name_) +
           "\ngrid = [1]           # FILL, or one for each rank: [[2], [3]]\nblock = [" +
           std::to_string(threads) + "]\nshared_bytes = 0" +
           (listing_.dynamic_shared ? "     # FILL: the kernel uses dynamic shared memory" : "") +
           "\nstream = 0\nargs = [\n" + arguments + "]\n";
  }

 private:
  struct Text {
    std::string value, comment;
  };

  // Of a kind that a reader has to see to: what is not filled in is refused.
  void add_memory(const std::string& name, const std::string& kind) {
    memories_ += "\n[memory." + name + "]\nkind = \"FILL\"        # " + kind +
                 "\nbytes = 4096         # FILL\ninit = \"zero\"        # FILL: zero | poison | "
                 "{ bf16 = \"integers\" } | { u32 = [1, 2] } | { file = \"x.safetensors\", "
                 "tensor = \"x\" }\n";
  }

  Text address(const std::string& name, const ParameterUse& use) {
    add_memory(name, use.multicast      ? "symmetric, as multimem accesses it"
                     : use.of_addresses ? "symmetric, as the kernel takes its peers' addresses"
                                        : "symmetric | local");
    if (use.multicast) return {"{multicast = \"" + name + "\"}", "multimem accesses it"};
    if (use.of_addresses) {
      return {"{peers = \"" + name + "\"}",
              "the addresses of all replicas; FILL if of other memories"};
    }
    return {"{memory = \"" + name + "\"}", "FILL: {memory}, {memory, peer = 1}, {multicast}"};
  }

  static Text number(Type type, std::uint64_t bytes) {
    if (type == Type::f32 && bytes == 4) return {"{f32 = 0.0}", "FILL"};
    if (type == Type::f64) return {"{f64 = 0.0}", "FILL"};
    const std::string key = "u" + std::to_string(8 * bytes);
    return {"{" + key + " = 0}",
            bytes == 4 ? "FILL: {u32 = N}, \"rank\" or \"world\"" : "FILL: a number"};
  }

  // What the signature says, else what the kernel does with it.
  Text of_parameter(std::size_t i) {
    const Variable& p = kernel_.parameters[i];
    const std::string name = prefix_ + "p" + std::to_string(i);
    const bool word = p.bytes <= 8 && p.bytes == size_of(p.type);
    if (!word) return structure(i, name);
    if (p.bytes != 8) return number(p.type, p.bytes);
    ParameterUse use;
    if (!uses_[i].empty()) use = uses_[i].front();
    if (!types_.empty()) {
      const std::string& type = types_[i];
      const auto stars = std::count(type.begin(), type.end(), '*');
      if (stars == 0 && !type.ends_with("&") && type.find("(*") == std::string::npos) {
        // A class of 8 bytes may hold an address.
        const bool known = type.find("long") != std::string::npos || type == "double";
        if (known || !use.address) return number(p.type, p.bytes);
      }
      use.of_addresses = use.of_addresses || stars > 1;
      return address(name, use);
    }
    if (!use.address)
      return {number(p.type, p.bytes).value, "FILL: the kernel does not access memory there"};
    return address(name, use);
  }

  // By value: the parts that are loaded, in the layout of C++.
  Text structure(std::size_t i, const std::string& name) {
    const Variable& p = kernel_.parameters[i];
    std::string fields;
    std::uint64_t at = 0;
    const auto add = [&](const std::string& field) {
      fields += fields.empty() ? field : ", " + field;
    };
    const auto skip = [&](std::uint64_t to) {
      std::string zeros;
      for (; at < to; ++at) zeros += zeros.empty() ? "0" : ", 0";
      if (!zeros.empty()) add("{bytes = [" + zeros + "]}");
    };
    std::uint64_t widest = 1;
    // Addresses that a number chooses among are a table of the replicas, as long as there are more
    // of them; two tables side by side look like one, and most have 8.
    constexpr std::uint64_t kTable = 8;
    const auto table_at = [&](std::size_t first) {
      std::size_t n = 0;
      const auto& list = uses_[i];
      while (first + n < list.size() && list[first + n].indexed &&
             size_of(list[first + n].type) == 8 &&
             list[first + n].offset == list[first].offset + 8 * n) {
        ++n;
      }
      return n % kTable == 0 ? std::min<std::uint64_t>(n, kTable) : n;
    };
    for (std::size_t u = 0; u < uses_[i].size(); ++u) {
      const ParameterUse& use = uses_[i][u];
      const std::uint64_t size = size_of(use.type);
      if (size == 0 || use.offset + size > p.bytes) continue;
      if (const std::uint64_t n = table_at(u); n > 1) {
        if ((at + 7) / 8 * 8 != use.offset) skip(use.offset);
        const std::string memory = name + "_" + std::to_string(use.offset);
        add_memory(memory, "symmetric, as the kernel takes its peers' addresses");
        add("{replicas = \"" + memory + "\", count = " + std::to_string(n) + "}");
        at = use.offset + 8 * n;
        widest = 8;
        u += n - 1;
        continue;
      }
      // Fields are aligned by themselves.
      if ((at + size - 1) / size * size != use.offset) skip(use.offset);
      if (size == 8 && use.address) {
        add(address(name + "_" + std::to_string(use.offset), use).value);
      } else {
        add(number(use.type, size).value);
      }
      at = use.offset + size;
      widest = std::max(widest, size);
    }
    if ((at + widest - 1) / widest * widest != p.bytes) skip(p.bytes);
    return {
        "{struct = [" + fields + "]}",
        "FILL: a struct of " + std::to_string(p.bytes) + " bytes, aligned to " +
            std::to_string(p.alignment) +
            "; its fields are guessed from what the kernel loads, bytes are not loaded by name"};
  }

  const Function& kernel_;
  std::string prefix_;
  std::string name_;
  std::vector<std::string> types_;  // by parameter; empty: not known
  std::vector<std::vector<ParameterUse>> uses_;
  KernelListing listing_;
  std::string memories_;
};

}  // namespace

std::string case_template(const std::vector<ModuleKernel>& kernels, const std::string& path) {
  std::string names, memories, launches;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    // Memories of several kernels may be one: the reader says which.
    LaunchTemplate one(*kernels[k].module, *kernels[k].kernel,
                       kernels.size() == 1 ? "" : "k" + std::to_string(k) + "_");
    launches += one.launch(path);
    memories += one.memories();
    names += (names.empty() ? "" : ", ") + demangle(kernels[k].kernel->name);
  }
  return "# A case for " + names +
         "\n# Replace what is marked FILL; delete memories that no argument names.\n"
         "version = 1\nranks = 2\ncalls = 1\n" +
         memories + launches +
         "\n[check]\n"
         "modes = [\"stream\"]          # what a launch orders for other ranks: strict (nothing), "
         "stream\n"
         "                            # (as a fence at its start and end), coherent (relies on "
         "hardware)\n"
         "# equal = [\"p0\"]              # memories whose replicas agree at the end\n"
         "# restored = [\"p1\"]           # memories that end as they began\n"
         "# [check.expected.p0]         # what a memory should hold: docs/values.md\n"
         "# sum = \"p1\"\n";
}

}  // namespace ringfence::ptx
