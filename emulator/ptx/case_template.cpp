#include <cctype>

#include "emulator/ptx/listing.hpp"

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

struct Argument {
  std::string value;
  std::string comment;
};

Argument argument_of(const Variable& parameter, std::size_t index, bool& pointer) {
  const std::string number = std::to_string(index);
  pointer = false;
  switch (parameter.type) {
    case Type::u64:
    case Type::b64:
    case Type::s64:
      if (parameter.bytes == 8) {
        pointer = true;
        return {
            "{memory = \"p" + number + "\"}",
            "FILL: {memory}, {memory, peer = 1}, {multicast}, {peers} for a pointer; or {u64 = N}"};
      }
      break;
    case Type::u32:
    case Type::b32:
    case Type::s32:
      if (parameter.bytes == 4) return {"{u32 = 0}", "FILL: {u32 = N}, \"rank\" or \"world\""};
      break;
    case Type::f32:
      if (parameter.bytes == 4) return {"{f32 = 0.0}", "FILL"};
      break;
    case Type::f64:
      if (parameter.bytes == 8) return {"{f64 = 0.0}", "FILL"};
      break;
    default:
      break;
  }
  if (parameter.bytes <= 2) {
    const std::string key = "u" + std::to_string(8 * parameter.bytes);
    return {"{" + key + " = 0}", "FILL"};
  }
  std::string bytes;
  for (std::uint64_t i = 0; i < parameter.bytes; ++i) bytes += i == 0 ? "0" : ", 0";
  return {"{bytes = [" + bytes + "]}", "FILL: a struct of " + std::to_string(parameter.bytes) +
                                           " bytes, aligned to " +
                                           std::to_string(parameter.alignment)};
}

}  // namespace

std::string case_template(const Module& module, const Function& kernel, const std::string& path) {
  const KernelListing listing = [&] {
    for (KernelListing& candidate : list(module).kernels) {
      if (candidate.name == kernel.name) return std::move(candidate);
    }
    return KernelListing{};
  }();
  std::string out = "# A case for " + listing.demangled +
                    "\n# Replace what is marked FILL; delete memories that no argument names.\n"
                    "version = 1\nranks = 2\ncalls = 1\n";
  std::string arguments;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    bool pointer = false;
    const Argument argument = argument_of(kernel.parameters[i], i, pointer);
    arguments += "  " + argument.value + (i + 1 < kernel.parameters.size() ? ",  # " : "   # ") +
                 std::to_string(i) + ": " + listing.parameters[i].type + "; " + argument.comment +
                 "\n";
    if (!pointer) continue;
    out += "\n[memory.p" + std::to_string(i) +
           "]\nkind = \"FILL\"        # symmetric | local\n"
           "bytes = 4096         # FILL\ninit = \"zero\"        # FILL: zero | poison | { bf16 = "
           "\"integers\" } | { file = \"x.safetensors\", tensor = \"x\" }\n";
  }
  std::uint32_t threads = 128;
  if (kernel.max_threads) threads = (*kernel.max_threads)[0];
  if (kernel.required_threads) threads = (*kernel.required_threads)[0];
  out += "\n[[launch]]\nptx = " + quoted(path) + "\nkernel = " + quoted(listing.name) +
         "\ngrid = [1]           # FILL, or one for each rank: [[2], [3]]\nblock = [" +
         std::to_string(threads) + "]\nshared_bytes = 0" +
         (listing.dynamic_shared ? "     # FILL: the kernel uses dynamic shared memory" : "") +
         "\nstream = 0\nargs = [\n" + arguments + "]\n";
  out +=
      "\n[check]\n# modes = [\"coherent\"]        # default: all\n"
      "# equal = [\"p0\"]              # memories whose replicas agree at the end\n"
      "# restored = [\"p1\"]           # memories that end as they began\n";
  return out;
}

}  // namespace ringfence::ptx
