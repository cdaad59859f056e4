// Reads PTX litmus tests (the syntax is told in ast.hpp).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

// what() is one line: FILE:LINE:COLUMN: what is wrong; what would be right.
class ParseError : public std::runtime_error {
 public:
  ParseError(const std::string& file, Position at, const std::string& message);
  Position at() const { return at_; }

 private:
  Position at_;
};

// text is the whole file, file_name only goes into messages. Throws ParseError. The result is well
// formed: every name is resolved, every branch has its label, operands fit their instruction.
Test parse(std::string_view text, const std::string& file_name);

// Throws ParseError, with position 0:0 when the file cannot be read.
Test parse_file(const std::string& path);
// The tests of a file: one, or, in the format of templates (templates.hpp, files *.test), one for
// each row and question.
std::vector<Test> parse_tests(const std::string& path);

}  // namespace ringfence::litmus
