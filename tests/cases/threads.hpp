#pragma once
// Kernels of a few threads for the tests of what orders them, judged by the exhaustive search and
// by schedules.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "emulator/check/explorer.hpp"
#include "tests/cases/harness.hpp"

namespace ringfence::cases::test {

// One body for the first thread of each warp; `warps` in front of each block.
struct Threads {
  std::vector<std::string> bodies;  // of warp 0, 1, ...; with "all:" in front, of all its lanes
  unsigned blocks = 1;              // of one cluster; the warps of all of them run the bodies
  unsigned warps = 0;               // a block; 0: as many as bodies
};

// Two blocks share the bodies out: the first ones are block 0's.
inline std::string text_of(const Threads& t, unsigned a_block) {
  std::string out = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data))";
  if (t.blocks > 1) out += " .reqnctapercluster " + std::to_string(t.blocks);
  out += R"(
{
  .reg .pred %p, %q, %r;
  .reg .b32 %v<9>, %lane, %warp, %id;
  .reg .b64 %m, %s, %t;
  .reg .f32 %f1;
  .shared .align 16 .b8 sm[256];
  ld.param.u64 %m, [data];
  mov.u32 %v0, %tid.x;
  and.b32 %lane, %v0, 31;
  shr.u32 %warp, %v0, 5;
  mov.u32 %id, %ctaid.x;
  mad.lo.u32 %id, %id, )" +
         std::to_string(a_block) + R"(, %warp;
)";
  for (std::size_t i = 0; i < t.bodies.size(); ++i) {
    out += "  setp.eq.u32 %p, %id, " + std::to_string(i) + ";\n";
    if (!t.bodies[i].starts_with("all:")) out += "  setp.eq.and.u32 %p, %lane, 0, %p;\n";
    out += "  @%p bra B" + std::to_string(i) + ";\n";
  }
  out += "  ret;\n";
  for (std::size_t i = 0; i < t.bodies.size(); ++i) {
    std::string body = t.bodies[i].starts_with("all:") ? t.bodies[i].substr(4) : t.bodies[i];
    for (std::size_t at; (at = body.find('$')) != std::string::npos;) {
      body.replace(at, 1, "L" + std::to_string(i));
    }
    out += "B" + std::to_string(i) + ":\n" + body + "\n  ret;\n";
  }
  return out + "}\n";
}

inline std::unique_ptr<CaseProgram> program_of(const Threads& t) {
  const auto a_block = t.warps != 0 ? t.warps : static_cast<unsigned>(t.bodies.size()) / t.blocks;
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-orders-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << text_of(t, a_block);
  auto program = std::make_unique<CaseProgram>(
      parse_case("version = 1\nranks = 1\ncalls = 1\n[memory.data]\nkind = \"local\"\n"
                 "bytes = 1024\ninit = \"zero\"\n[[launch]]\nptx = \"" +
                     file.string() + "\"\nkernel = \"k\"\ngrid = [" + std::to_string(t.blocks) +
                     "]\nblock = [" + std::to_string(32 * a_block) +
                     "]\nargs = [ {memory = \"data\"} ]\n",
                 "orders.toml"),
      Settings{});
  std::filesystem::remove(file);
  return program;
}

// What the exhaustive search says: the kind of the finding, "clean", or "unknown". Graphs are
// counted: none is met twice.
inline std::string checked(const Threads& t, const std::vector<machine::FindingKind>& ignore = {},
                           machine::Policy policy = {}) {
  check::CheckSpec spec;
  spec.run.policy = policy;
  spec.run.policy.boundary = machine::Boundary::strict;
  spec.run.ignore = ignore;
  spec.executions = 20000;
  spec.fingerprints = true;
  const check::CheckResult r = check::check([&] { return program_of(t); }, spec);
  CHECK(r.repeated == 0);
  if (r.verdict == check::Verdict::unknown) return "unknown";
  if (r.verdict == check::Verdict::pass) return "clean";
  const auto f = schedule::failure(r.outcome);
  return f ? std::string(machine::name(f->kind)) : "no finding";
}

inline void judge(const std::string& expected, const Threads& t,
                  const std::vector<machine::FindingKind>& ignore = {}) {
  CHECK(checked(t, ignore) == expected);
  const auto program = program_of(t);
  CHECK(found(fuzz(*program, machine::Boundary::strict, 300, ignore)) == expected);
}

// The same under a policy; returns what is told with the verdict.
inline std::vector<std::string> judge(const std::string& expected, const Threads& t,
                                      machine::Policy policy) {
  CHECK(checked(t, {}, policy) == expected);
  policy.boundary = machine::Boundary::strict;
  const auto program = program_of(t);
  std::vector<std::string> remarks;
  CHECK(found(fuzz(*program, policy, 300, {}, [&] { remarks = program->remarks(); })) == expected);
  return remarks;
}

inline std::uint64_t executions(const Threads& t) {
  check::CheckSpec spec;
  spec.run.policy.boundary = machine::Boundary::strict;
  const check::CheckResult r = check::check([&] { return program_of(t); }, spec);
  CHECK(r.verdict == check::Verdict::pass);
  return r.complete;
}

}  // namespace ringfence::cases::test
