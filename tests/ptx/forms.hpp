#pragma once

// Runs one PTX statement over many operand values, as a kernel of its own: text in, lanes out. So
// lexer, parser, decoder and handler are tested together.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {

struct Triple {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
};

/// What stands where a lane did not execute the statement.
constexpr std::uint64_t kUntouched = 0x5A5A5A5A5A5A5A5AULL;

/// Operands %a %b %c have the classes given by `bits` (16, 32, 64; 1 = predicate, true when the
/// operand is odd); the result %d has `result` bits (1 = predicate, read back as 0 or 1). With
/// `guarded` only odd threads execute it.
inline std::vector<std::uint64_t> run_statement(const std::string& statement, int result,
                                                std::vector<int> bits,
                                                const std::vector<Triple>& values, bool guarded) {
  const auto type = [](int n) { return n == 1 ? std::string(".pred") : ".b" + std::to_string(n); };
  std::string text =
      ".version 8.5\n.target sm_90a\n.address_size 64\n"
      ".visible .entry form(.param .u64 in, .param .u64 out)\n{\n"
      ".reg .pred %p, %q;\n.reg .b32 %r<8>;\n.reg .b64 %rd<12>;\n.reg .b16 %h;\n"
      ".reg " +
      type(result) + " %d;\n";
  const char names[3] = {'a', 'b', 'c'};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    text += ".reg " + type(bits[i]) + " %" + names[i] + ";\n";
  }
  text +=
      "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, %tid.x;\n"
      "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmad.lo.u32 %r4, %r2, %r3, %r1;\n"
      "mul.wide.u32 %rd3, %r4, 24;\nadd.u64 %rd1, %rd1, %rd3;\nmul.wide.u32 %rd4, %r4, 8;\n"
      "add.u64 %rd2, %rd2, %rd4;\nld.global.u64 %rd5, [%rd1];\nld.global.u64 %rd6, [%rd1+8];\n"
      "ld.global.u64 %rd7, [%rd1+16];\n";
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::string name = std::string("%") + names[i];
    const std::string from = "%rd" + std::to_string(5 + i);
    if (bits[i] == 64) text += "mov.u64 " + name + ", " + from + ";\n";
    if (bits[i] == 32) text += "cvt.u32.u64 " + name + ", " + from + ";\n";
    if (bits[i] == 16) text += "cvt.u16.u64 " + name + ", " + from + ";\n";
    if (bits[i] == 1) {
      text += "and.b64 %rd8, " + from + ", 1;\nsetp.ne.u64 " + name + ", %rd8, 0;\n";
    }
  }
  const std::string untouched = std::to_string(kUntouched);
  text += "mov.u64 %rd9, " + untouched + ";\n";
  if (result == 64) text += "mov.u64 %d, %rd9;\n";
  if (result == 32) text += "cvt.u32.u64 %d, %rd9;\n";
  if (result == 16) text += "cvt.u16.u64 %d, %rd9;\n";
  if (result == 1) text += "setp.ne.u64 %d, 0, 0;\n";
  text += "and.b32 %r5, %r1, 1;\nsetp.ne.u32 %q, %r5, 0;\n";
  text += (guarded ? "@%q " : "") + statement + "\n";
  if (result == 64) text += "mov.u64 %rd10, %d;\n";
  if (result == 32) text += "cvt.u64.u32 %rd10, %d;\n";
  if (result == 16) text += "cvt.u64.u16 %rd10, %d;\n";
  if (result == 1) text += "selp.u64 %rd10, 1, 0, %d;\n";
  text += "st.global.u64 [%rd2], %rd10;\nret;\n}\n";
  Single run(parse(text, "form.ptx"), "form");
  const std::size_t count = (values.size() + 63) / 64 * 64;
  const std::uint64_t in = run.buffer(count * 24);
  const std::uint64_t out = run.buffer(count * 8);
  std::memcpy(run.memory.at(in, count * 24), values.data(), values.size() * 24);
  run.run(launch(static_cast<std::uint32_t>(count / 64), 64, Parameters().add(in).add(out)));
  const std::uint64_t* results = view<std::uint64_t>(run.memory, out, count);
  return {results, results + values.size()};
}

}  // namespace ringfence::ptx::test
