// The test format of Lustig, Cooksey, Giroux, "Mixed-Proxy Extensions for the NVIDIA PTX Memory
// Consistency Model" (2022): templates with a table of rows, each row a test. In words:
//
//   .global x;                          a location, so are .shared ones
//   .global y physically aliases x;     a second virtual address of x
//   .surfref s virtually aliases y;     a handle for the surface proxy, of y's address; .texref and
//                                       .conref likewise
//   d0.b1.t0 { st.release.gpu [x], 1; … }   a thread on gpu 0, cta 1; instructions as in the public
//                                       syntax, addresses in brackets, without an order weak
//   ld.weak r0, [x] == 1;               only executions in which the load returns that count
//   permit (r0 == 1 && r1 != 2) as n;   exists; `check` likewise, `assert` is forall
//   $$                                  behind it the rows: cell i of a row, between `|`, stands
//   for
//                                       $i in the text before
//
// Registers belong to the thread that writes them, so each name has one. Blank rows and those that
// begin with # are none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

// Tests NAME, or NAME#ROW (rows from 1), and with several questions NAME#ROW:QUESTION. Throws
// ParseError.
std::vector<Test> parse_templates(std::string_view text, const std::string& file_name,
                                  const std::string& name);

}  // namespace ringfence::litmus
