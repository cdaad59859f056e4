// What the text of a loop that waits compares with what it reads.
#include <doctest/doctest.h>

#include <string>

#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/looks.hpp"
#include "emulator/ptx/parser.hpp"

using namespace ringfence::ptx;

namespace {

// The test of the only load of a kernel that waits: `test` sets %p, and while it holds it goes on.
std::optional<Looks::Test> test_of(const std::string& test) {
  const std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 a, .param .u32 n)\n{\n"
      ".reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd1, [a];\nld.param.u32 %r2, [n];\n"
      "L: ld.acquire.sys.global.u32 %r1, [%rd1];\n" +
      test + "\n@%p1 bra L;\nret;\n}\n";
  const Module module = parse(text, "k.ptx");
  const Program program = decode(module, module.kernel("k"));
  for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
    if (program.function->instructions[op].text.starts_with("ld.acquire")) {
      REQUIRE(program.looks->is_look(op));
      return program.looks->test(op);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a wait's comparison is that of its setp, the value of the look at the left") {
  using Compare = LookTest::Compare;
  const auto ne = test_of("setp.ne.s32 %p1, %r1, 1;");
  REQUIRE(ne);
  CHECK(ne->compare == Compare::ne);
  CHECK_FALSE(ne->swapped);
  CHECK(ne->is_signed);
  const auto lo = test_of("setp.lo.u32 %p1, %r1, %r2;");
  REQUIRE(lo);
  CHECK(lo->compare == Compare::lt);
  CHECK_FALSE(lo->is_signed);
  // n > value: the value is less.
  const auto gt = test_of("setp.gt.u32 %p1, %r2, %r1;");
  REQUIRE(gt);
  CHECK(gt->compare == Compare::lt);
  CHECK(gt->swapped);
  const auto moved = test_of("mov.u32 %r3, %r1;\nsetp.ge.u32 %p1, %r3, 7;");
  REQUIRE(moved);
  CHECK(moved->compare == Compare::ge);
}

TEST_CASE("what is no comparison of the value itself is none") {
  CHECK_FALSE(test_of("and.b32 %r3, %r1, 1;\nsetp.eq.s32 %p1, %r3, 0;"));
  CHECK_FALSE(test_of("add.s32 %r1, %r1, 1;\nsetp.eq.s32 %p1, %r1, 2;"));
  CHECK_FALSE(test_of("setp.eq.s32 %p1, %r1, %r1;"));
}

TEST_CASE("a comparison holds by its width and sign, and its opposite where it does not") {
  LookTest t;
  t.compare = LookTest::Compare::lt;
  t.with = 0;
  t.is_signed = true;
  CHECK(t.holds(0xFFFFFFFF));
  CHECK_FALSE(t.holds(0));
  CHECK(t.negated().holds(0));
  CHECK_FALSE(t.negated().holds(0xFFFFFFFF));
  t.is_signed = false;
  t.with = 3;
  CHECK_FALSE(t.holds(0xFFFFFFFF));
  CHECK(t.holds(2));
  // What lies above its bytes does not count.
  CHECK(t.holds(0x100000002));
}

TEST_CASE("an instruction's place is that of the first file beside the module's, both are known") {
  const std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k()\n{\n"
      ".loc 1 40 5\nmembar.sys;\n"
      ".loc 2 7 1, function_name $L__info_string0, inlined_at 1 41 9\nmembar.gl;\n"
      ".loc 3 8 1, function_name $L__info_string0, inlined_at 2 7 1\nmembar.cta;\n"
      "ret;\n}\n"
      ".file 1 \"/home/me/kernel.cu\"\n.file 2 \"/opt/lib/include/sync.hpp\"\n"
      ".file 3 \"/opt/lib/include/detail.hpp\"\n";
  const Module module = parse(text, "/home/me/kernel.ptx");
  const auto& all = module.kernel("k").instructions;
  const std::uint32_t lines[] = {40, 41, 41};
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const SourceLocation* at = shown_location(module, all[i]);
    REQUIRE(at != nullptr);
    CHECK(at->file == 1);
    CHECK(at->line == lines[i]);
  }
  CHECK(all[2].location->file == 3);
  CHECK(all[2].location->line == 8);
  // Of a module elsewhere, what is in no folder of headers.
  const Module other = parse(text, "/tmp/k.ptx");
  CHECK(shown_location(other, other.kernel("k").instructions[2])->line == 41);
}
