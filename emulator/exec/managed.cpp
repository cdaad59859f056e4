#include "emulator/exec/managed.hpp"

#include <algorithm>
#include <cctype>

namespace ringfence::exec {
namespace {

constexpr std::string_view kAttribute = ".attribute(.managed)";

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// The name that a declaration is of: its last word before what it holds.
std::string name_in(std::string_view declaration) {
  std::size_t end = declaration.find_first_of("[=");
  if (end == std::string_view::npos) end = declaration.size();
  while (end > 0 && !in_word(declaration[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && in_word(declaration[begin - 1])) --begin;
  return std::string(declaration.substr(begin, end - begin));
}

// [begin, end) of each declaration with the attribute, its semicolon included.
template <class Visit>
void each_declaration(std::string_view ptx, const Visit& visit) {
  for (std::size_t at = 0; (at = ptx.find(kAttribute, at)) != std::string_view::npos;) {
    std::size_t begin = ptx.find_last_of(";{}\n", at);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    const std::size_t end = std::min(ptx.find(';', at), ptx.size() - 1) + 1;
    visit(begin, end,
          name_in(ptx.substr(at + kAttribute.size(), end - 1 - at - kAttribute.size())));
    at = end;
  }
}

}  // namespace

std::vector<std::string> managed_variables(std::string_view ptx) {
  std::vector<std::string> out;
  each_declaration(
      ptx, [&](std::size_t, std::size_t, std::string name) { out.push_back(std::move(name)); });
  return out;
}

std::string with_addresses(std::string_view ptx,
                           const std::map<std::string, std::uint64_t, std::less<>>& addresses) {
  std::string bare;
  std::size_t from = 0;
  each_declaration(ptx, [&](std::size_t begin, std::size_t end, const std::string& name) {
    if (addresses.count(name) == 0) return;
    bare += ptx.substr(from, begin - from);
    bare.append(
        static_cast<std::size_t>(std::count(ptx.begin() + static_cast<std::ptrdiff_t>(begin),
                                            ptx.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
        '\n');
    from = end;
  });
  bare += ptx.substr(from);
  std::string out;
  bool quoted = false;
  for (std::size_t at = 0; at < bare.size();) {
    const char c = bare[at];
    // A comment or a file's name is no use of a variable, nor is a directive or a register.
    if (c == '/' && bare.compare(at, 2, "//") == 0) {
      const std::size_t end = std::min(bare.find('\n', at), bare.size());
      out += bare.substr(at, end - at);
      at = end;
      continue;
    }
    if (c == '"') quoted = !quoted;
    const bool starts =
        in_word(c) && !quoted && (at == 0 || (bare[at - 1] != '.' && bare[at - 1] != '%'));
    std::size_t end = at + 1;
    if (in_word(c)) {
      while (end < bare.size() && in_word(bare[end])) ++end;
    }
    const std::string word = bare.substr(at, end - at);
    const auto known = starts ? addresses.find(word) : addresses.end();
    out += known != addresses.end() ? std::to_string(known->second) : word;
    at = end;
  }
  return out;
}

}  // namespace ringfence::exec
