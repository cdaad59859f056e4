#include "emulator/ptx/error.hpp"

#include <cctype>

namespace ringfence::ptx {
namespace {

constexpr std::size_t kLongestStatement = 160;

std::string compose(std::string_view file, std::uint32_t line, std::string_view reason,
                    std::string_view statement) {
  std::string text(file);
  if (line != 0) text += ':' + std::to_string(line);
  text += ": ";
  text += reason;
  const std::string shown = one_line(statement);
  if (!shown.empty()) text += ": '" + shown + "'";
  return text;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out;
  bool space = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      const std::size_t end = text.find('\n', i);
      i = end == std::string_view::npos ? text.size() : end;
      space = true;
      continue;
    }
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (std::isspace(c) != 0) {
      space = true;
      continue;
    }
    if (space && !out.empty()) out += ' ';
    space = false;
    out += std::isprint(c) != 0 ? static_cast<char>(c) : '?';
    if (out.size() >= kLongestStatement) return out + "...";
  }
  return out;
}

Error::Error(std::string_view file, std::uint32_t line, std::string_view reason,
             std::string_view statement)
    : std::runtime_error(compose(file, line, reason, statement)),
      file_(file),
      line_(line),
      reason_(reason),
      statement_(one_line(statement)) {}

}  // namespace ringfence::ptx
