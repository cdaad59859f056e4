#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringfence::ptx {

/// A PTX text that cannot be read, decoded or launched. what() is one line: FILE:LINE: reason:
/// 'statement'.
class Error : public std::runtime_error {
 public:
  /// line counts from 1; 0 stands for the whole file. statement may be empty.
  Error(std::string_view file, std::uint32_t line, std::string_view reason,
        std::string_view statement = {});

  std::uint32_t line() const { return line_; }
  /// The reason alone, without place and statement.
  const std::string& reason() const { return reason_; }
  /// The statement's text on one line, white space collapsed, at most 160 characters.
  const std::string& statement() const { return statement_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::uint32_t line_;
  std::string reason_;
  std::string statement_;
};

/// Text on one line: runs of white space become one space, comments vanish, long text ends in
/// "...".
std::string one_line(std::string_view text);

}  // namespace ringfence::ptx
