// [check.reference] of fp32 data: the operator of a kernel that computes in fp32 throughout.
#include <doctest/doctest.h>

#include <string>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

namespace ringfence::cases::test {
namespace {

// 2 ranks, 3 rows of 8: one thread a rank adds both partials in rank order, and the residual,
// writes the stream, and normalises by 1/sqrt(mean + 1e-6) and gamma. Peers' partials are read
// behind a flag of theirs.
const std::string kNorm = R"(
.visible .entry norm(.param .u64 data, .param .u64 flags, .param .u64 residual, .param .u64 gamma,
                     .param .u64 out, .param .u64 stream, .param .u32 rank)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .f32 %f<10>;
  .reg .b64 %d<16>;
  ld.param.u64 %d1, [data];
  ld.param.u64 %d2, [flags];
  ld.param.u64 %d3, [residual];
  ld.param.u64 %d4, [gamma];
  ld.param.u64 %d5, [out];
  ld.param.u64 %d6, [stream];
  ld.param.u32 %r1, [rank];
  mul.wide.u32 %d7, %r1, 8;
  add.u64 %d8, %d2, %d7;
  ld.global.u64 %d8, [%d8];
  xor.b64 %d7, %d7, 8;
  add.u64 %d9, %d2, %d7;
  ld.global.u64 %d9, [%d9];
  mov.u32 %r2, 1;
  st.release.sys.global.u32 [%d9], %r2;
WAIT:
  ld.acquire.sys.global.u32 %r2, [%d8];
  setp.eq.u32 %p, %r2, 0;
  @%p bra WAIT;
  ld.global.u64 %d10, [%d1];
  ld.global.u64 %d11, [%d1+8];
  mov.u64 %d12, 0;
ROW:
  mov.f32 %f1, 0f00000000;
  mov.u64 %d13, 0;
ADD:
  add.u64 %d14, %d12, %d13;
  add.u64 %d15, %d10, %d14;
  ld.global.f32 %f2, [%d15];
  add.u64 %d15, %d11, %d14;
  ld.global.f32 %f3, [%d15];
  // twin
  add.f32 %f2, %f2, %f3;
  add.u64 %d15, %d3, %d14;
  ld.global.f32 %f4, [%d15];
  add.f32 %f2, %f2, %f4;
  add.u64 %d15, %d6, %d14;
  st.global.f32 [%d15], %f2;
  fma.rn.f32 %f1, %f2, %f2, %f1;
  add.u64 %d13, %d13, 4;
  setp.lt.u64 %p, %d13, 32;
  @%p bra ADD;
  fma.rn.f32 %f1, %f1, 0f3e000000, 0f358637bd;
  rsqrt.approx.ftz.f32 %f5, %f1;
  mov.u64 %d13, 0;
SCALE:
  add.u64 %d14, %d12, %d13;
  add.u64 %d15, %d6, %d14;
  ld.global.f32 %f2, [%d15];
  add.u64 %d15, %d4, %d13;
  ld.global.f32 %f6, [%d15];
  mul.f32 %f7, %f2, %f5;
  mul.f32 %f7, %f7, %f6;
  // rounding
  add.u64 %d15, %d5, %d14;
  st.global.f32 [%d15], %f7;
  add.u64 %d13, %d13, 4;
  setp.lt.u64 %p, %d13, 32;
  @%p bra SCALE;
  add.u64 %d12, %d12, 32;
  setp.lt.u64 %p, %d12, 96;
  @%p bra ROW;
  ret;
}
)";

std::string with(const std::string& place, const std::string& line) {
  std::string text = kNorm;
  return text.replace(text.find(place), place.size(), line);
}

std::string case_of(const std::string& payload, const std::string& dtype = "fp32",
                    const std::string& more = "") {
  std::string text = R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 96
init = { f32 = "PAYLOAD" }
[memory.residual]
kind = "local"
bytes = 96
init = { f32 = "PAYLOAD", same = true }
[memory.gamma]
kind = "local"
bytes = 32
init = { f32 = "PAYLOAD", same = true }
[memory.out]
kind = "local"
bytes = 96
[memory.stream]
kind = "local"
bytes = 96
[memory.flags]
kind = "symmetric"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = "norm"
grid = [1]
block = [1]
args = [ {peers = "data"}, {peers = "flags"}, {memory = "residual"}, {memory = "gamma"}, {memory = "out"},
         {memory = "stream"}, "rank" ]
[check]
modes = ["coherent"]
[check.reference]
protocol = "tokenweave"
tensor = "data"
residual = "residual"
residual_out = "stream"
out = "out"
gamma = "gamma"
tokens = 3
hidden = 8
)";
  for (auto at = text.find("PAYLOAD"); at != std::string::npos; at = text.find("PAYLOAD")) {
    text.replace(at, 7, payload);
  }
  return text + "dtype = \"" + dtype + "\"\n" + more;
}

struct Judged {
  std::string found, mismatch;
  std::vector<verify::Comparison> tensors;
};

Judged judge(const std::string& ptx, const std::string& text, verify::Summation summation) {
  const Written w(ptx);
  Settings settings;
  settings.summation = summation;
  const auto program = w.open(text, settings);
  // What a program tells of its last run lies in the memory of the executor.
  const auto executor = ranks::make_inline(*program);
  schedule::SearchSpec spec;
  spec.run.policy.boundary = machine::Boundary::coherent;
  spec.schedules = 20;
  const schedule::SearchResult r = schedule::search({executor.get()}, spec);
  return {found(r), program->last_mismatch(), program->comparisons()};
}

TEST_CASE("the operator's reference judges data in fp32, exactly and by bounds") {
  using verify::Summation;
  // The order of the norm's sum of squares is this kernel's own: bits are due of the exact payload.
  const std::pair<const char*, Summation> judged[] = {{"integers", Summation::fp32_rank_order},
                                                      {"integers", Summation::fp32_truncated},
                                                      {"normal", Summation::fp32_truncated},
                                                      {"adversarial", Summation::fp32_truncated}};
  for (const auto& [payload, summation] : judged) {
    CAPTURE(payload);
    const Judged j = judge(kNorm, case_of(payload), summation);
    CHECK_MESSAGE(j.found == "clean", j.mismatch);
    REQUIRE(j.tensors.size() == 2);
    for (const verify::Comparison& c : j.tensors) {
      CHECK(c.dtype == verify::Dtype::f32);
      CHECK(c.mismatches == 0);
      CHECK(c.bit_exact == (std::string(payload) == "integers"));
    }
  }
}

TEST_CASE("a kernel of fp32 data that lacks one term of one element is told with the element") {
  // Row 1, column 6 lacks rank 1's part: byte 56 of the second row's 32.
  const std::string twin = with("// twin",
                                "setp.eq.u64 %p, %d14, 56;\n"
                                "  @%p mov.f32 %f3, 0f00000000;");
  for (const char* payload : {"integers", "normal"}) {
    CAPTURE(payload);
    const Judged j = judge(twin, case_of(payload), verify::Summation::fp32_truncated);
    CHECK(j.found == "numeric-mismatch");
    CHECK_MESSAGE(says(j.mismatch, "residual_out"), j.mismatch);
    CHECK_MESSAGE(says(j.mismatch, "[1, 6]"), j.mismatch);
  }
}

TEST_CASE("a kernel that rounds fp32 results to bf16 is a mismatch") {
  const std::string twin = with("// rounding", "and.b32 %f7, %f7, 0xffff0000;");
  const Judged j = judge(twin, case_of("normal"), verify::Summation::fp32_truncated);
  CHECK(j.found == "numeric-mismatch");
  CHECK_MESSAGE(says(j.mismatch, "out, call 0"), j.mismatch);
}

TEST_CASE("memories of the reference are as long as fp32 has them, and of its dtype") {
  const Written w(kNorm);
  CHECK(says(w.refusal(case_of("normal", "bf16")), "check.reference has dtype bf16"));
  std::string small = case_of("normal");
  small.replace(small.find("bytes = 32"), 10, "bytes = 16");
  CHECK(says(w.refusal(small), "check.reference needs 32 bytes of 'gamma', which has 16"));
  CHECK(says(w.refusal(case_of("normal", "fp64")), "known: bf16, fp16, fp32"));
}

}  // namespace
}  // namespace ringfence::cases::test
