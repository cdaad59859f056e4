#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ringfence::ptx {

enum class Token : std::uint8_t {
  word,       ///< name, label, opcode with its modifiers (ld.global.v4.u32), or %register
  directive,  ///< .reg, .param, .b32: one dotted part
  integer,    ///< value in `bits`
  float32,    ///< 0fXXXXXXXX, the bits in `bits`
  float64,    ///< 0dXXXXXXXXXXXXXXXX or a decimal literal, the bits in `bits`
  string,     ///< text without the quotes
  punctuation,
  end,
};

struct Lexeme {
  Token kind = Token::end;
  std::string_view text;  ///< points into the source
  std::uint64_t bits = 0;
  std::uint32_t line = 0;  ///< from 1
};

/// Splits a PTX text into lexemes, the last of which is Token::end. The views point into `source`.
/// Comments and lines that start with '#' are skipped. Throws Error (file is used in its message).
std::vector<Lexeme> lex(std::string_view source, std::string_view file);

}  // namespace ringfence::ptx
