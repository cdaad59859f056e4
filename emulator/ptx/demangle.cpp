#include "emulator/ptx/demangle.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace ringfence::ptx {

std::string demangle(std::string_view name) {
  // Else what is taken for a type: "r06_copy" would be a restrict pointer.
  if (!name.starts_with("_Z")) return std::string(name);
  int status = 0;
  const std::string text(name);
  const std::unique_ptr<char, void (*)(void*)> out(
      abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && out ? std::string(out.get()) : text;
}

std::vector<std::string> parameter_types(std::string_view demangled) {
  if (demangled.empty() || demangled.back() != ')') return {};
  // The list is the last pair of parentheses that is in no other.
  std::size_t open = demangled.size();
  for (int depth = 0; open > 0;) {
    const char c = demangled[--open];
    depth += c == ')' ? 1 : c == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  const std::string_view list = demangled.substr(open + 1, demangled.size() - open - 2);
  std::vector<std::string> out;
  std::string one;
  int depth = 0;
  for (const char c : list) {
    depth += c == '(' || c == '<' || c == '[' ? 1 : c == ')' || c == '>' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      out.push_back(one);
      one.clear();
    } else if (c != ' ' || !one.empty()) {
      one += c;
    }
  }
  if (!one.empty() && one != "void") out.push_back(one);
  return out;
}

}  // namespace ringfence::ptx
