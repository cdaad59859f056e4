#define TOML_IMPLEMENTATION
#include "verify/toml.hpp"

namespace ringfence::verify {

void throw_toml_assertion() { throw TomlAssertion{}; }

std::size_t bare_beyond_ascii(std::string_view text) {
  const auto is = [&](std::size_t at, std::string_view what) {
    return text.substr(at, what.size()) == what;
  };
  std::size_t i = is(0, "\xEF\xBB\xBF") ? 3 : 0;  // a mark of the encoding is no text
  while (i < text.size()) {
    const char c = text[i];
    if ((static_cast<unsigned char>(c) & 0x80U) != 0) return i;
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    ++i;
    if (c != '"' && c != '\'') continue;
    const bool lines = text.substr(i, 2) == std::string(2, c);
    const std::string end(lines ? 3 : 1, c);
    if (lines) i += 2;
    // To behind the end, or to a line end in a string of one line: the parser goes no further.
    while (i < text.size() && !is(i, end) && (lines || text[i] != '\n')) {
      i += c == '"' && text[i] == '\\' ? 2 : 1;
    }
    i += end.size();
    // Up to two quotes belong to a string of several lines.
    for (int more = 0; lines && more < 2 && i < text.size() && text[i] == c; ++more) ++i;
  }
  return std::string_view::npos;
}

}  // namespace ringfence::verify
