#include "verify/markup.hpp"

#include <fmt/core.h>

#include <cstdint>

namespace ringfence::verify {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Length of the UTF-8 sequence at text[i], 0 where there is none that XML allows.
std::size_t sequence_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) return 0;
  std::uint32_t code = lead & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i + k) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool forbidden = (code >= 0xd800 && code <= 0xdfff) || code == 0xfffe || code == 0xffff;
  return overlong || forbidden || code > 0x10ffff ? 0 : length;
}

std::string escaped(std::string_view text, bool attribute) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = sequence_length(text, i);
    if (length != 1) {
      result += length == 0 ? kReplacement : text.substr(i, length);
      i += length == 0 ? 1 : length;
      continue;
    }
    ++i;
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\n' || c == '\t' || c == '\r') {
      result +=
          attribute || c == '\r' ? fmt::format("&#{};", static_cast<int>(c)) : std::string(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += kReplacement;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string for_element(std::string_view text) { return escaped(text, false); }
std::string for_attribute(std::string_view text) { return escaped(text, true); }

}  // namespace ringfence::verify
