// The instructions that shipped communication kernels have (records/launcher-forms.txt, one a
// line): each is run as it stands there, and what it leaves is compared with what the PTX ISA says,
// written down here. Orders are tests/cases/form_orders_test.cpp's.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "emulator/ptx/error.hpp"
#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

// `given` and `due` are places and values: rN, rdN, rsN, fN, pN and qN=LOW:HIGH are registers, mN
// and dN the word and the double word at byte N of the memory at %rd1, oN the word of the other
// rank's replica where %rd1 is a multicast address, sN a word of shared memory. Values with a point
// are f32; sh is the address of shared memory, t the thread, t%N a remainder or whether it is 0.
struct Row {
  const char* form;
  const char* given;
  const char* due;
  const char* before = "";
  const char* after = "";
};

const Row kRows[] = {
    {"atom.global.sys.acquire.cas.b32 %r1, [%rd1], 0, 1;", "m0=0", "r1=0 m0=1"},
    {"atom.global.sys.acquire.cas.b32 %r1, [%rd1], 0, 1;", "m0=5", "r1=5 m0=5"},
    {"atom.global.release.sys.cas.b32 %r1, [%rd1], 0, 1;", "m0=0", "r1=0 m0=1"},
    {"atom.global.release.sys.cas.b32 %r1, [%rd1], 0, 1;", "m0=5", "r1=5 m0=5"},
    {"{\\n.reg .u32 %tmp32_<1>;\\n.reg .pred %p<1>;\\nL: atom.global.relaxed.sys.cas.b32 %tmp32_0, "
     "[%rd1], 0, 1;\\nsetp.eq.u32 %p0, %tmp32_0, 0;\\n@!%p0 bra L;\\n}\\n{\\n.reg .u32 "
     "%tmp32_<1>;\\n.reg .pred %p<1>;\\nL: atom.global.sys.acquire.cas.b32 %tmp32_0, [%rd1], 1, "
     "0;\\nsetp.eq.u32 %p0, %tmp32_0, 1;\\n@!%p0 bra L;\\n}",
     "m0=0", "m0=0 r5=2", "", "mov.u32 %r5, 2;"},
    {"@%p1 atom.global.gpu.acq_rel.add.f32 %f1, [ %rd1 + 0 ], %f2;", "p1=1 f2=1.5 m0=2.25",
     "f1=2.25 m0=3.75"},
    {"@%p1 atom.global.gpu.acq_rel.add.f32 %f1, [ %rd1 + 0 ], %f2;", "p1=0 f1=9.0 f2=1.5 m0=2.25",
     "f1=9.0 m0=2.25"},
    {"@%p1 atom.global.gpu.acq_rel.add.noftz.bf16x2 %r1, [ %rd1 + 0 ], %r2;",
     "p1=1 r2=0x40003f80 m0=0x3f804000", "r1=0x3f804000 m0=0x40404040"},
    {"@%p1 atom.global.gpu.acq_rel.add.noftz.f16 %rs1, [ %rd1 + 0 ], %rs2;",
     "p1=1 rs2=0x4000 m0=0x12343c00", "rs1=0x3c00 m0=0x12344200"},
    {"@%p1 atom.global.acq_rel.sys.exch.b32 %r1, [%rd1], %r2;", "p1=1 r2=7 m0=3", "r1=3 m0=7"},
    {"@%p1 atom.global.acq_rel.sys.exch.b32 %r1, [%rd1], %r2;", "p1=0 r1=1 r2=7 m0=3", "r1=1 m0=3"},
    {"@%p1 atom.global.acq_rel.sys.v4.f32.add {%f1,%f2,%f3,%f4}, [%rd1], {%f1,%f2,%f3,%f4};",
     "p1=1 f1=1.0 f2=2.0 f3=3.0 f4=4.0 m0=10.0 m4=20.0 m8=30.0 m12=40.0",
     "f1=10.0 f2=20.0 f3=30.0 f4=40.0 m0=11.0 m4=22.0 m8=33.0 m12=44.0"},
    {"atom.global.v4.f32.add.acq_rel.sys {%f1,%f2,%f3,%f4}, [%rd1], {%f1,%f2,%f3,%f4};",
     "f1=1.0 f2=2.0 f3=3.0 f4=4.0 m0=10.0 m4=20.0 m8=30.0 m12=40.0",
     "f1=10.0 f2=20.0 f3=30.0 f4=40.0 m0=11.0 m4=22.0 m8=33.0 m12=44.0"},
    {"red.global.v4.f32.add.relaxed.sys [%rd1], {%f1,%f2,%f3,%f4};",
     "f1=1.0 f2=2.0 f3=3.0 f4=4.0 m0=10.0 m4=20.0 m8=30.0 m12=40.0",
     "f1=1.0 m0=11.0 m4=22.0 m8=33.0 m12=44.0 m16=0"},
    {"red.global.v2.bf16x2.add.noftz.relaxed.sys [%rd1], {%r1,%r2};",
     "r1=0x3f804000 r2=0x40003f80 m0=0x3f803f80 m4=0x40004000", "m0=0x40004040 m4=0x40804040 m8=0"},
    {"red.relaxed.sys.global.add.noftz.v4.bf16x2 [%rd1], {%r1,%r2,%r3,%r4};",
     "r1=0x3f803f80 r2=0x3f803f80 r3=0x3f803f80 r4=0 m0=0x40004000 m4=0x40003f80 m8=0 m12=7",
     "m0=0x40404040 m4=0x40404000 m8=0x3f803f80 m12=7"},
    {"atom.global.sys.acq_rel.and.b32 %r1, [%rd1], %r2;", "r2=0x0ff0 m0=0xff0f",
     "r1=0xff0f m0=0x0f00"},
    {"atom.global.sys.relaxed.max.s32 %r1, [%rd1], %r2;", "r2=3 m0=0xfffffffb",
     "r1=0xfffffffb m0=3"},
    {"atom.global.sys.relaxed.max.s32 %r1, [%rd1], %r2;", "r2=0xfffffff7 m0=0xfffffffb",
     "m0=0xfffffffb"},
    {"atom.global.sys.relaxed.inc.u32 %r1, [%rd1], %r2;", "r2=5 m0=4", "r1=4 m0=5"},
    {"atom.global.sys.relaxed.inc.u32 %r1, [%rd1], %r2;", "r2=5 m0=5", "r1=5 m0=0"},
    {"atom.global.sys.relaxed.inc.u32 %r1, [%rd1], %r2;", "r2=5 m0=9", "r1=9 m0=0"},
    {"atom.global.sys.acq_rel.cas.b16 %rs1, [%rd1], %rs2, %rs3;", "rs2=5 rs3=9 m0=0xabcd0005",
     "rs1=5 m0=0xabcd0009"},
    {"atom.global.sys.acq_rel.cas.b16 %rs1, [%rd1], %rs2, %rs3;", "rs2=6 rs3=9 m0=0xabcd0005",
     "rs1=5 m0=0xabcd0005"},
    {"atom.global.sys.acq_rel.cas.b128 %q1, [%rd1], %q1, %q2;", "q1=1:2 q2=7:8 d0=1 d8=2",
     "q1=1:2 d0=7 d8=8"},
    {"atom.global.sys.acq_rel.cas.b128 %q1, [%rd1], %q1, %q2;", "q1=1:3 q2=7:8 d0=1 d8=2",
     "q1=1:2 d0=1 d8=2"},
    {"atom.acquire.sys.global.exch.b128 %q1, [%rd1], %q2;", "q2=7:8 d0=1 d8=2", "q1=1:2 d0=7 d8=8"},
    {"ld.relaxed.sys.global.b128 %q1, [%rd1];", "d0=11 d8=22", "q1=11:22"},
    {"st.release.sys.global.b128 [%rd1], %q1;", "q1=11:22", "d0=11 d8=22 d16=0"},
    {"ld.global.b128 %q1, [%rd1];", "d0=11 d8=22", "q1=11:22"},
    {"mov.b128 {%rd2,%rd3}, %q1;", "q1=11:22", "rd2=11 rd3=22"},
    {"createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;", "rd2=5", "rd2=0"},
    {"mov.u64 %rd2, 0x0;\\ncreatepolicy.fractional.L2::evict_last.b64 %rd2, "
     "1.0;\\nld.global.L1::evict_last.L2::cache_hint.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ], "
     "%rd2;",
     "m0=1 m4=2 m8=3 m12=4", "r1=1 r2=2 r3=3 r4=4"},
    {"st.global.L1::no_allocate.v4.b32 [ %rd1 + 0 ], { %r1, %r2, %r3, %r4 };",
     "r1=1 r2=2 r3=3 r4=4", "m0=1 m4=2 m8=3 m12=4 m16=0"},
    {"ld.global.nc.L1::no_allocate.L2::256B.v4.s32 {%r1,%r2,%r3,%r4}, [%rd1];",
     "m0=1 m4=2 m8=3 m12=4", "r1=1 r2=2 r3=3 r4=4"},
    {"ld.global.cg.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1];", "m0=1 m4=2 m8=3 m12=4",
     "r1=1 r2=2 r3=3 r4=4"},
    {"ld.global.cv.b32 %r1, [%rd1];", "m0=6", "r1=6"},
    {"st.global.wt.b32 [%rd1], %r1;", "r1=6", "m0=6 m4=0"},
    {"st.global.cs.v4.b32 [%rd1], {%r1,%r2,%r3,%r4};", "r1=1 r2=2 r3=3 r4=4",
     "m0=1 m4=2 m8=3 m12=4 m16=0"},
    {"ld.mmio.relaxed.sys.global.u32 %r1, [%rd1];", "m0=6", "r1=6"},
    {"st.mmio.relaxed.sys.global.u32 [%rd1], %r1;", "r1=6", "m0=6 m4=0"},
    {"ld.acquire.cluster.global.u32 %r1, [%rd1];", "m0=6", "r1=6"},
    {"ld.volatile.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];", "m0=1.0 m4=2.0 m8=3.0 m12=4.0",
     "f1=1.0 f2=2.0 f3=3.0 f4=4.0"},
    {"st.volatile.global.b16 [%rd1], %rs1;", "rs1=0xbeef m0=0x11112222", "m0=0x1111beef"},
    {"ld.acquire.sys.b32 %r1, [%rd1+4];", "m0=1 m4=2", "r1=2"},
    {"ld.global.relaxed.sys.v2.u64 {%rd2,%rd3}, [%rd1];", "d0=5 d8=6", "rd2=5 rd3=6"},
    {"ld.relaxed.sys.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];",
     "m0=1 m4=2 m8=3 m12=4 m16=5 m20=6 m24=7 m28=8", "r1=1 r2=2 r3=3 r4=4 r5=5 r6=6 r7=7 r8=8"},
    {"@100 ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];",
     "m0=1 m4=2 m8=3 m12=4 m16=5 m20=6 m24=7 m28=8", "r1=1 r2=2 r3=3 r4=4 r5=5 r6=6 r7=7 r8=8"},
    {"@100 st.global.v4.b64 [%rd1], {%rd2,%rd3,%rd4,%rd5};", "rd2=2 rd3=3 rd4=4 rd5=5",
     "d0=2 d8=3 d16=4 d24=5 d32=0"},
    {"mov.u32 %r1, %cluster_ctarank;", "r1=9", "r1=0"},
    {"mov.u32 %r1, %nclusterid.x;", "r1=9", "r1=1"},
    {"mov.u32 %r1, %smid;", "r1=9", "r1=0"},
    {"mov.u32 %r1, %warpid;", "r1=9", "r1=0"},
    {"mov.u32 %r1, %dynamic_smem_size;", "r1=9", "r1=256"},
    {"mov.b32 %r1, %envreg0;", "r1=9", "r1=0"},
    {"cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, 0x10;",
     "r1=sh m0=1 m4=2 m8=3 m12=4", "s0=1 s4=2 s8=3 s12=4 s16=0", "", "cp.async.wait_all;"},
    {"cp.async.commit_group;\\ncp.async.wait_group 0x0;", "r1=sh m0=7", "s0=7",
     "cp.async.ca.shared.global [%r1], [%rd1], 4;"},
    {"mbarrier.init.shared::cta.b64 [%r1], 1;", "r1=sh", "p2=1 p3=0", "",
     "mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;\nmbarrier.arrive.shared.b64 %rd2, "
     "[%r1];\nmbarrier.test_wait.shared.b64 %p2, [%r1], %rd2;"},
    {"mbarrier.arrive.shared::cta.b64 _, [%r1];", "r1=sh", "p2=1 p3=0",
     "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;",
     "mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;"},
    {"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], 1;", "r1=sh", "p2=1 p3=0",
     "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;",
     "mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;"},
    {"mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r2;", "r1=sh r2=0", "p2=1",
     "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.arrive.shared.b64 _, [%r1];"},
    {"mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r2;", "r1=sh r2=1", "p2=1",
     "mbarrier.init.shared.b64 [%r1], 1;"},
    {"mbarrier.try_wait.parity.acquire.sys.shared::cta.b64 %p2, [%r1], %r2;", "r1=sh r2=0", "p2=1",
     "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.arrive.shared.b64 _, [%r1];"},
    {"mbarrier.try_wait.parity.acquire.sys.shared::cta.b64 %p2, [%r1], %r2;", "r1=sh r2=1", "p2=1",
     "mbarrier.init.shared.b64 [%r1], 1;"},
    {"@100 mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [%r1], %r2;", "r1=sh r2=0",
     "p2=1", "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.arrive.shared.b64 _, [%r1];"},
    {"@100 mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [%r1], %r2;", "r1=sh r2=1",
     "p2=1", "mbarrier.init.shared.b64 [%r1], 1;"},
    {"mbarrier.test_wait.shared.b64 %p2, [%r1], %rd2;", "r1=sh", "p2=1",
     "mbarrier.init.shared.b64 [%r1], 1;\nmbarrier.arrive.shared.b64 %rd2, [%r1];"},
    {"mbarrier.test_wait.shared.b64 %p2, [%r1], %rd2;", "r1=sh", "p2=0",
     "mbarrier.init.shared.b64 [%r1], 2;\nmbarrier.arrive.shared.b64 %rd2, [%r1];"},
    {"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 64;", "r1=sh", "p2=0 p3=1",
     "mbarrier.init.shared.b64 [%r1], 1;",
     "mbarrier.arrive.shared.b64 _, [%r1];\nmbarrier.test_wait.parity.shared.b64 %p2, [%r1], "
     "0;\nmbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], "
     "64;\nmbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];",
     "r1=sh r2=sh+128 m0=1 m60=2 m64=3", "s0=1 s60=2 s64=0",
     "mbarrier.init.shared.b64 [%r2], 1;\nfence.proxy.async;\nmbarrier.arrive.expect_tx.shared.b64 "
     "_, [%r2], 64;",
     "W: mbarrier.try_wait.parity.shared.b64 %p5, [%r2], 0;\n@!%p5 bra W;"},
    {"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;", "r1=sh s0=1 s60=2 s64=3",
     "m0=1 m60=2 m64=0", "fence.proxy.async;",
     "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"},
    {"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1], [%r1], 64, %rd2;",
     "r1=sh s0=1 s60=2 s64=3", "m0=1 m60=2 m64=0", "fence.proxy.async;",
     "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 64;",
     "r1=sh s0=1.5 s60=2.0 s64=4.0 m0=1.0 m60=0.5 m64=1.0", "m0=2.5 m60=2.5 m64=1.0",
     "fence.proxy.async;", "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%rd1], [%r1], 64;",
     "r1=sh s0=0x3f804000 s60=0x40404040 s64=0x3f803f80 m0=0x3f803f80 m60=0x40003f80 m64=1",
     "m0=0x40004040 m60=0x40a04080 m64=1", "fence.proxy.async;",
     "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"},
    {"cp.async.bulk.commit_group;", "r1=sh s0=5", "m0=5",
     "fence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;",
     "cp.async.bulk.wait_group 0;"},
    {"cp.async.bulk.wait_group.read 0;", "r1=sh s0=5", "s0=6 m0=5",
     "fence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], "
     "64;\ncp.async.bulk.commit_group;",
     "st.shared.u32 [%r1], 6;\ncp.async.bulk.wait_group 0;"},
    {"cp.async.bulk.prefetch.L2.global [%rd1], 64;", "m0=5 m124=6", "m0=5 m124=6"},
    {"prefetch.global.L2 [%rd1];", "m0=5 m124=6", "m0=5 m124=6"},
    {"prefetch.tensormap [%rd1];", "m0=5 m124=6", "m0=5 m124=6"},
    {"applypriority.global.L2::evict_normal [%rd1], 128;", "m0=5 m124=6", "m0=5 m124=6"},
    {"multimem.ld_reduce.global.add.acc::f32.v4.bf16x2 {%r1,%r2,%r3,%r4}, [%rd1];",
     "m0=0x3f803f80 o0=0x40004000 m12=0x3f803f80", "r1=0x40404040 r2=0 r3=0 r4=0x3f803f80"},
    {"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%r1,%r2,%r3,%r4}, [%rd1];",
     "m0=0x3f803f80 o0=0x40004000 m12=0x3f803f80", "r1=0x40404040 r2=0 r3=0 r4=0x3f803f80"},
    {"multimem.ld_reduce.acquire.sys.global.add.u32 %r1, [%rd1];", "m0=5 o0=7", "r1=12"},
    {"multimem.ld_reduce.relaxed.sys.global.min.s32 %r1, [%rd1];", "m0=0xfffffffb o0=3",
     "r1=0xfffffffb"},
    {"multimem.ld_reduce.relaxed.sys.global.min.s32 %r1, [%rd1];", "m0=4 o0=3", "r1=3"},
    {"multimem.ld_reduce.relaxed.sys.global.max.v4.bf16x2 {%r1,%r2,%r3,%r4}, [%rd1];",
     "m0=0x3f80c000 o0=0xbf804000 m4=0 o4=0xbf80bf80", "r1=0x3f804000 r2=0"},
    {"multimem.ld_reduce.relaxed.sys.global.and.b32 %r1, [%rd1];", "m0=0xff00 o0=0x0ff0",
     "r1=0x0f00"},
    {"multimem.st.global.v4.f32 [%rd1], {%f1,%f2,%f3,%f4};", "f1=1.0 f2=2.0 f3=3.0 f4=4.0",
     "m0=1.0 m12=4.0 o0=1.0 o8=3.0 o16=0"},
    {"multimem.st.release.sys.global.u32 [%rd1], %r1;", "r1=9", "m0=9 o0=9 m4=0"},
    {"multimem.red.release.sys.global.add.u32 [%rd1], %r1;", "r1=10 m0=1 o0=2", "m0=11 o0=12"},
    {"multimem.red.relaxed.sys.global.add.v4.f32 [%rd1], {%f1,%f2,%f3,%f4};",
     "f1=1.0 f2=2.0 f3=3.0 f4=4.0 m0=1.0 o0=2.0 o12=0.5", "m0=2.0 o0=3.0 m12=4.0 o12=4.5"},
    {"multimem.red.relaxed.sys.global.or.b32 [%rd1], %r1;", "r1=0xf0 m0=0x0f o0=0x100",
     "m0=0xff o0=0x1f0"},
    {"@100 multimem.ld_reduce.global.add.acc::f16.v4.e4m3x4 {%r1,%r2,%r3,%r4}, [%rd1];",
     "m0=0x38384038 o0=0x40383840 m12=0x38", "r1=0x44404444 r4=0x38"},
    {"@100 multimem.st.global.v4.e4m3x4 [%rd1], {%r1,%r2,%r3,%r4};", "r1=1 r2=2 r3=3 r4=4",
     "m0=1 m12=4 o0=1 o8=3"},
    {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
     "r1=sh r2=77 r3=sh+128", "s0=77 s4=0",
     "mbarrier.init.shared.b64 [%r3], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r3], 4;",
     "W: mbarrier.try_wait.parity.shared.b64 %p5, [%r3], 0;\n@!%p5 bra W;"},
    {"st.async.release.sys.global.b32 [%rd1], %r2;", "r2=7 m0=1", "m0=7 m4=0"},
    {"@100 st.async.mmio.release.sys.global.b32 [%rd1], %r2;", "r2=7 m0=1", "m0=7 m4=0"},
    {"@100 red.async.mmio.release.sys.global.add.u32 [%rd1], %r2;", "r2=7 m0=1", "m0=8 m4=0"},
    {"cvt.rn.bf16x2.f32 %r1, %f1, %f2;", "f1=1.0 f2=2.0", "r1=0x3f804000"},
    {"cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;", "f1=1.0 f2=1000.0", "rs1=0x387e"},
    {"cvt.rn.f16x2.e4m3x2 %r1, %rs1;", "rs1=0x3840", "r1=0x3c004000"},
    {"cvt.rna.tf32.f32 %r1, %f1;", "f1=0x3f801000", "r1=0x3f802000"},
    {"cvt.rna.tf32.f32 %r1, %f1;", "f1=0x3f800fff", "r1=0x3f800000"},
    {"cvt.s64.s32 %rd2, %rd1;", "rd1=0x18765c3f9", "rd2=0xffffffff8765c3f9"},
    {"cvt.u32.u16 %r1, %r2;", "r2=0x12345678", "r1=0x5678"},
    {"cvt.f32.bf16 %f1, %rs1;", "rs1=0x4000", "f1=2.0"},
    {"fma.rn.bf16x2 %r1, %r2, %r3, %r4;", "r2=0x40004000 r3=0x40404000 r4=0x3f803f80",
     "r1=0x40e040a0"},
    {"fma.rn.relu.f16x2 %r1, %r2, %r3, %r4;", "r2=0x4000c000 r3=0x42004200 r4=0x3c003c00",
     "r1=0x47000000"},
    {"add.rn.bf16x2 %r1, %r2, %r3;", "r2=0x3f804000 r3=0x40003f80", "r1=0x40404040"},
    {"max.xorsign.abs.f32 %f1, %f2, %f3;", "f2=-2.0 f3=1.5", "f1=-2.0"},
    {"max.xorsign.abs.f32 %f1, %f2, %f3;", "f2=-2.0 f3=-1.5", "f1=2.0"},
    {"max.NaN.f32 %f1, %f2, %f3;", "f2=0x7fc00000 f3=1.0", "f1=0x7fffffff"},
    {"max.NaN.f32 %f1, %f2, %f3;", "f2=2.0 f3=1.0", "f1=2.0"},
    {"max.bf16x2 %r1, %r2, %r3;", "r2=0x3f80c000 r3=0xbf804000", "r1=0x3f804000"},
    {"ex2.approx.ftz.f32 %f1, %f2;", "f2=3.0", "f1=8.0"},
    {"ex2.approx.ftz.f32 %f1, %f2;", "f2=0x00000001", "f1=1.0"},
    {"ex2.approx.ftz.bf16x2 %r1, %r2;", "r2=0x40004040", "r1=0x40804100"},
    {"ex2.approx.f16x2 %r1, %r2;", "r2=0x40004200", "r1=0x44004800"},
    {"tanh.approx.f32 %f1, %f2;", "f2=0.0", "f1=0.0"},
    {"tanh.approx.f32 %f1, %f2;", "f2=100.0", "f1=1.0"},
    {"tanh.approx.bf16x2 %r1, %r2;", "r2=0x00004348", "r1=0x00003f80"},
    {"rsqrt.approx.ftz.f32 %f1, %f2;", "f2=4.0", "f1=0.5"},
    {"div.full.f32 %f1, %f2, %f3;", "f2=6.0 f3=3.0", "f1=2.0"},
    {"prmt.b32 %r1, %r2, %r3, 0x5410;", "r2=0x44332211 r3=0x88776655", "r1=0x66552211"},
    {"lop3.b32 %r1, %r2, %r3, %r4, 0x96;", "r2=0xf0 r3=0xcc r4=0xaa", "r1=0x96"},
    {"lop3.or.b32 %r1|%p2, %r2, %r3, %r4, 0x96, %p1;", "r2=0xf0 r3=0xf0 r4=0 p1=0", "r1=0 p2=0"},
    {"lop3.or.b32 %r1|%p2, %r2, %r3, %r4, 0x96, %p1;", "r2=0xf0 r3=0xf0 r4=0 p1=1", "r1=0 p2=1"},
    {"lop3.or.b32 %r1|%p2, %r2, %r3, %r4, 0x96, %p1;", "r2=1 r3=2 r4=0 p1=0", "r1=3 p2=1"},
    {"shf.l.wrap.b32 %r1, %r2, %r3, 8;", "r2=0xab000000 r3=0x00112233", "r1=0x112233ab"},
    {"bfe.u32 %r1, %r2, 4, 4;", "r2=0xabcd", "r1=0xc"},
    {"bmsk.clamp.b32 %r1, %r2, %r3;", "r2=4 r3=3", "r1=0x70"},
    {"bmsk.clamp.b32 %r1, %r2, %r3;", "r2=40 r3=3", "r1=0"},
    {"szext.wrap.u32 %r1, %r2, %r3;", "r2=0xffff r3=4", "r1=0xf"},
    {"szext.wrap.u32 %r1, %r2, %r3;", "r2=0xffff r3=36", "r1=0xf"},
    {"dp4a.s32.s32 %r1, %r2, %r3, %r4;", "r2=0x01020304 r3=0x01010101 r4=5", "r1=15"},
    {"dp4a.s32.s32 %r1, %r2, %r3, %r4;", "r2=0xff000000 r3=0x02000000 r4=5", "r1=3"},
    {"vabsdiff4.u32.u32.u32 %r1, %r2, %r3, %r4;", "r2=0x05ff0001 r3=0x0300ff03 r4=0x12345678",
     "r1=0x02ffff02"},
    {"add.u16x2 %r1, %r2, %r3;", "r2=0xffff0001 r3=0x00010002", "r1=0x00000003"},
    {"max.s16x2 %r1, %r2, %r3;", "r2=0xffff0001 r3=0x0001fffe", "r1=0x00010001"},
    {"mad.wide.u32 %rd2, %r1, %r2, %rd1;", "r1=0x10000 r2=0x10000 rd1=5", "rd2=0x100000005"},
    {"mad24.lo.s32 %r1, %r2, %r3, %r4;", "r2=3 r3=4 r4=5", "r1=17"},
    {"mad24.lo.s32 %r1, %r2, %r3, %r4;", "r2=0xff000003 r3=0x00ffffff r4=5", "r1=2"},
    {"mul.hi.u64 %rd2, %rd1, %rd3;", "rd1=0x8000000000000000 rd3=6", "rd2=3"},
    {"add.cc.u32 %r1, %r2, %r3;\\naddc.u32 %r4, %r5, %r6;", "r2=0xffffffff r3=1 r5=1 r6=2",
     "r1=0 r4=4"},
    {"add.cc.u32 %r1, %r2, %r3;\\naddc.u32 %r4, %r5, %r6;", "r2=5 r3=1 r5=1 r6=2", "r1=6 r4=3"},
    {"brx.idx %r1, tgt;\\ntgt: .branchtargets A;\\nA: mov.u32 %r1, 0;", "r1=0", "r1=0 r5=1", "",
     "mov.u32 %r5, 1;"},
    {"exit;", "m0=0", "m0=1", "st.global.u32 [%rd1], 1;", "st.global.u32 [%rd1], 2;"},
    {"pmevent 1;", "m0=5", "m0=5"},
    {"isspacep.global %p2, %rd1;", "p2=0", "p2=1"},
    {"isspacep.shared::cluster %p2, %rd1;", "p2=1", "p2=0"},
    {"isspacep.global %p2, %rd1;", "rd1=sh p2=1", "p2=0", "cvta.shared.u64 %rd1, %rd1;"},
    {"isspacep.shared::cluster %p2, %rd1;", "rd1=sh p2=0", "p2=1", "cvta.shared.u64 %rd1, %rd1;"},
    {"@100 add.rn.f32x2 %rd2, %rd3, %rd4;", "rd3=0x400000003f800000 rd4=0x3e8000003f000000",
     "rd2=0x401000003fc00000"},
    {"@100 fma.rn.ftz.f32x2 %rd2, %rd3, %rd4, %rd5;",
     "rd3=0x400000003f800000 rd4=0x404000003f000000 rd5=0x3f8000003f800000",
     "rd2=0x40e000003fc00000"},
    {"@100 max.f32 %f1, %f2, %f3, %f4;", "f2=1.0 f3=-2.0 f4=3.0", "f1=3.0"},
    {"@100 max.f32 %f1, %f2, %f3, %f4;", "f2=1.0 f3=-2.0 f4=0x7fc00000", "f1=1.0"},
};

// Of the 32 threads of a warp: what each finds in one register.
struct WarpRow {
  const char* form;
  const char* given;
  const char* place;
  std::function<std::uint64_t(std::uint32_t)> due;
  const char* before = "";
};

// Thread t's eight halves at 16 t of shared memory, 8 t and on.
const char* const kFill =
    "mul.lo.u32 %r6, %hr1, 8;\nmov.u32 %r5, sh;\nmad.lo.u32 %r5, %hr1, 16, %r5;\n"
    "mov.u32 %r7, 0;\nFILL:\nadd.u32 %r8, %r6, %r7;\ncvt.u16.u32 %rs5, %r8;\n"
    "mad.lo.u32 %r8, %r7, 2, %r5;\nst.shared.u16 [%r8], %rs5;\nadd.u32 %r7, %r7, 1;\n"
    "setp.lt.u32 %p5, %r7, 8;\n@%p5 bra FILL;\nbar.warp.sync -1;";

std::uint64_t halves(std::uint32_t low, std::uint32_t high) { return low | high << 16; }

const std::string kLdmatrix = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];";
const std::string kLdmatrixTrans =
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];";

std::vector<WarpRow> warp_rows() {
  std::vector<WarpRow> out = {
      {"elect.sync %r1|%p2, -1;", "r1=9", "r1", [](std::uint32_t) { return 0; }},
      {"elect.sync %r1|%p2, -1;", "r1=9", "p2", [](std::uint32_t t) { return t == 0 ? 1 : 0; }},
      {"activemask.b32 %r1;", "", "r1", [](std::uint32_t) { return 0xFFFFFFFFU; }},
      {"match.any.sync.b32 %r1, %r2, -1;", "r2=t%4", "r1",
       [](std::uint32_t t) { return 0x11111111U << t % 4; }},
      {"redux.sync.add.s32 %r1, %r2, -1;", "r2=t", "r1", [](std::uint32_t) { return 496; }},
      {"shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;", "r2=t", "r1",
       [](std::uint32_t t) { return t ^ 16U; }},
      {"shfl.sync.idx.b32 %r1|%p2, %r2, 0, 31, -1;", "r2=t%7 r1=9", "r1",
       [](std::uint32_t) { return 0; }},
      {"shfl.sync.idx.b32 %r1|%p2, %r2, 0, 31, -1;", "p2=0", "p2", [](std::uint32_t) { return 1; }},
      {"vote.sync.all.pred %p2, %p1, -1;", "p1=t%1", "p2", [](std::uint32_t) { return 1; }},
      {"vote.sync.all.pred %p2, %p1, -1;", "p1=t%2 p2=1", "p2", [](std::uint32_t) { return 0; }},
      {"mov.u32 %r1, %laneid;", "r1=99", "r1", [](std::uint32_t t) { return t; }},
      {"mov.u32 %r1, %lanemask_lt;", "r1=99", "r1", [](std::uint32_t t) { return (1U << t) - 1; }},
      {"bar.red.popc.u32 %r1, 0, %p1;", "p1=t%3", "r1", [](std::uint32_t) { return 11; }},
      {"setmaxnreg.inc.sync.aligned.u32 40;", "r1=t", "r1", [](std::uint32_t t) { return t; }},
      {"@100 redux.sync.min.f32 %f1, %f2, -1;", "f2=2.5", "f1",
       [](std::uint32_t) { return 0x40200000U; }},
  };
  for (std::uint32_t m = 0; m < 4; ++m) {
    static const char* const kNames[] = {"r1", "r2", "r3", "r4"};
    out.push_back({kLdmatrix.c_str(), "", kNames[m],
                   [m](std::uint32_t t) {
                     const std::uint32_t first = (8 * m + t / 4) * 8 + t % 4 * 2;
                     return halves(first, first + 1);
                   },
                   kFill});
    out.push_back({kLdmatrixTrans.c_str(), "", kNames[m],
                   [m](std::uint32_t t) {
                     const std::uint32_t first = (8 * m + t % 4 * 2) * 8 + t / 4;
                     return halves(first, first + 8);
                   },
                   kFill});
  }
  return out;
}

// Where the value or the order of the others is tested, by the name of the test.
const std::pair<const char*, const char*> kElsewhere[] = {
    {"fence.acquire.sys;", "orders of forms: a flag publishes where a fence"},
    {"fence.release.sys;", "orders of forms: a flag publishes where a fence"},
    {"fence.sc.sys;", "orders of forms: a flag publishes where a fence"},
    {"fence.acq_rel.cluster;", "orders of forms: a flag publishes where a fence"},
    {"membar.sys;", "orders of forms: a flag publishes where a fence"},
    {"membar.gl;", "orders of forms: a flag publishes where a fence"},
    {"fence.proxy.alias;", "orders of forms: another address of a place needs fence.proxy.alias"},
    {"fence.proxy.async;", "what threads write in shared memory needs a proxy fence before"},
    {"fence.proxy.async.global;",
     "and what they write in global memory before a bulk load reads it"},
    {"fence.proxy.tensormap::generic.acquire.sys [%rd1], 128;",
     "fences that the model has no rule for are named"},
    {"fence.proxy.tensormap::generic.release.sys;",
     "fences that the model has no rule for are named"},
    {"fence.mbarrier_init.release.cluster;",
     "fence.mbarrier_init and a relaxed arrival publish inits, and nothing else"},
    {"nanosleep.u32 100;", "a time-out on the virtual clock ends a wait"},
    {"mov.u64 %rd2, %globaltimer;", "a time-out on the virtual clock ends a wait"},
    {"griddepcontrol.wait;",
     "griddepcontrol.wait by one thread holds for others behind a barrier alone"},
    {"griddepcontrol.launch_dependents;",
     "a release fence before launch_dependents covers what its thread did, with a note"},
    {"barrier.cta.sync 1, 32;",
     "a named barrier orders producer and consumer, its absence is a race"},
    {"barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;",
     "barrier.cluster.arrive orders only what precedes it"},
    {"bar.warp.sync 0xffffffff;", "votes and shuffles order no memory, bar.warp.sync does"},
    {"mapa.shared::cluster.u32 %r1, %r2, 1;",
     "st.async writes at another block, whose mbarrier counts its bytes"},
    {"cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];",
     "forms: copies arrive on an mbarrier, and a wait for it sees all of them"},
    {"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1,%r2}], [%r3];",
     "a tensor copy stores what lies inside the tensor, in whole pieces of 16 bytes"},
    {"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r1,%r2}], "
     "[%r3];",
     "a tensor reduction combines the elements of the box with those that are there"},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
     "cluster [%r1], [%rd1, {%r2,%r3}], [%r4], %rs1;",
     "a multicast copy reaches the blocks named, and tells each one's mbarrier"},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, "
     "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
     "forms: mma.sync equals the exact product of small integers"},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, "
     "{%r5,%r6}, {%f1,%f2,%f3,%f4};",
     "forms: mma.sync equals the exact product of small integers"},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, "
     "{%r9,%r10}, {%r1,%r2,%r3,%r4};",
     "forms: mma.sync of bytes is exact, wraps or saturates"},
    {"wgmma.fence.sync.aligned;", "registers of a product come before a wgmma.fence"},
};

// The first is none of ptxas, either.
const char* const kRefused[] = {
    "red.async.relaxed.cluster.global.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], "
    "%r2, [%r3];",
    "discard.global.L2 [%rd1], 128;",
    "@100 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;",
    "@100 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;",
};
const char* const kTraps[] = {"trap;", "brkpt;"};

struct Place {
  std::string kind;
  std::uint32_t number = 0;
  std::string value;
};

std::vector<Place> places(const std::string& text) {
  std::vector<Place> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t digit = word.find_first_of("0123456789"), equals = word.find('=');
    Place p;
    p.kind = word.substr(0, digit);
    p.number = static_cast<std::uint32_t>(std::stoul(word.substr(digit)));
    if (equals != std::string::npos) p.value = word.substr(equals + 1);
    out.push_back(p);
  }
  return out;
}

std::uint64_t bits_of_value(const std::string& text) {
  if (text.find('.') == std::string::npos) return std::stoull(text, nullptr, 0);
  const float value = std::stof(text);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}

std::string statement_of(std::string form) {
  if (form.starts_with("@100 ")) form = form.substr(5);
  for (std::size_t at = 0; (at = form.find("\\n")) != std::string::npos;) {
    form.replace(at, 2, "\n");
  }
  return form;
}

constexpr std::uint32_t kDumped = 16;  // places of a thread

std::string number(std::uint64_t n) { return std::to_string(n); }

// PTX that puts the value there.
std::string give(const Place& p) {
  const std::string reg = "%" + p.kind + number(p.number);
  const bool wide = p.kind == "rd";
  if (p.kind == "q") {
    const std::size_t colon = p.value.find(':');
    return "mov.u64 %hd3, " + p.value.substr(0, colon) + ";\nmov.u64 %hd4, " +
           p.value.substr(colon + 1) + ";\nmov.b128 " + reg + ", {%hd3, %hd4};\n";
  }
  std::string from = "mov.u32 %hr2, ";
  if (p.value.starts_with("sh")) {
    const std::size_t plus = p.value.find('+');
    from = "mov.u32 %hr2, sh;\nadd.u32 %hr2, %hr2, " +
           (plus == std::string::npos ? "0" : p.value.substr(plus + 1)) + ";\n";
  } else if (p.value.starts_with("t%")) {
    from = "rem.u32 %hr2, %hr1, " + p.value.substr(2) + ";\n";
  } else if (p.value == "t") {
    from += "%hr1;\n";
  } else if (wide) {
    return "mov.u64 " + reg + ", " + p.value + ";\n";
  } else {
    from += number(bits_of_value(p.value) & 0xFFFFFFFFU) + ";\n";
  }
  if (p.kind == "r") return from + "mov.b32 " + reg + ", %hr2;\n";
  if (p.kind == "f") return from + "mov.b32 " + reg + ", %hr2;\n";
  if (p.kind == "rs") return from + "cvt.u16.u32 " + reg + ", %hr2;\n";
  if (wide) return from + "cvt.u64.u32 " + reg + ", %hr2;\n";
  if (p.kind == "s") return from + "st.shared.u32 [sh+" + number(p.number) + "], %hr2;\n";
  REQUIRE(p.kind == "p");
  const bool remainder = p.value.starts_with("t%");
  return from + "setp." + (remainder ? "eq" : "ne") + ".u32 " + reg + ", %hr2, 0;\n";
}

// PTX that puts it into %hd3, and the high half of a %q into %hd4.
std::string take(const Place& p) {
  const std::string reg = "%" + p.kind + number(p.number);
  if (p.kind == "q") return "mov.b128 {%hd3, %hd4}, " + reg + ";\n";
  if (p.kind == "rd") return "mov.u64 %hd3, " + reg + ";\n";
  if (p.kind == "rs") return "cvt.u64.u16 %hd3, " + reg + ";\n";
  if (p.kind == "p") return "selp.u64 %hd3, 1, 0, " + reg + ";\n";
  if (p.kind == "s") {
    return "ld.shared.u32 %hr2, [sh+" + number(p.number) + "];\ncvt.u64.u32 %hd3, %hr2;\n";
  }
  return "mov.b32 %hr2, " + reg + ";\ncvt.u64.u32 %hd3, %hr2;\n";
}

bool in_memory(const Place& p) { return p.kind == "m" || p.kind == "o" || p.kind == "d"; }

std::string kernel(const std::string& form, const std::vector<Place>& given,
                   const std::vector<Place>& due, const std::string& before,
                   const std::string& after) {
  std::string text =
      ".version 8.8\n.target sm_100a\n.address_size 64\n"
      ".visible .entry form(.param .u64 data, .param .u64 out)\n{\n"
      ".shared .align 128 .b8 sh[1024];\n"
      ".reg .pred %p<16>;\n.reg .b16 %rs<16>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n"
      ".reg .f32 %f<16>;\n.reg .b128 %q<16>;\n.reg .b32 %hr<4>;\n.reg .b64 %hd<8>;\n"
      "ld.param.u64 %rd1, [data];\nld.param.u64 %hd1, [out];\nmov.u32 %hr1, %tid.x;\n"
      "mul.wide.u32 %hd2, %hr1, " +
      number(16 * kDumped) + ";\nadd.u64 %hd1, %hd1, %hd2;\n";
  for (const Place& p : given) {
    if (!in_memory(p)) text += give(p);
  }
  text += before + "\n" + statement_of(form) + "\n" + after + "\n";
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (in_memory(due[i])) continue;
    const std::string at = "[%hd1+" + number(16 * i);
    text += take(due[i]) + "st.global.u64 " + at + "], %hd3;\n";
    if (due[i].kind == "q") text += "st.global.u64 " + at + "+8], %hd4;\n";
  }
  return text + "ret;\n}\n";
}

struct Ran {
  FlatMemory memory{2};
  FlatMemory::Symmetric data = memory.symmetric("data", 256);
  std::uint64_t out = memory.allocate("out", 0, std::size_t{32} * 16 * kDumped);

  std::byte* at(const Place& p) {
    return memory.at(data.unicast[p.kind == "o" ? 1 : 0] + p.number, p.kind == "d" ? 8 : 4);
  }
  std::uint64_t dumped(std::uint32_t thread, std::size_t i, bool high = false) {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.at(out + (thread * kDumped + i) * 16 + (high ? 8 : 0), 8), 8);
    return value;
  }
  void run(const std::string& form, const std::string& text, const std::vector<Place>& given,
           std::uint32_t threads) {
    for (const Place& p : given) {
      if (!in_memory(p)) continue;
      const std::uint64_t value = bits_of_value(p.value);
      std::memcpy(at(p), &value, p.kind == "d" ? 8 : 4);
    }
    const Module module = parse(text, "form.ptx");
    const Program program = decode(module, module.kernel("form"));
    const bool multicast = statement_of(form).find("multimem") != std::string::npos;
    LaunchConfig config =
        launch(1, threads, Parameters().add(multicast ? data.multicast : data.unicast[0]).add(out));
    config.dynamic_shared = 256;
    config.instruction_budget = 100'000;
    VirtualClock clock;
    std::vector<Execution> launches;
    launches.emplace_back(program, std::move(config), memory, clock, [](const std::string&) {});
    FairChooser fair;
    run_to_end(launches, clock, fair);
  }
};

std::vector<std::string> recorded_forms() {
  std::ifstream in("tests/ptx/records/launcher-forms.txt");
  REQUIRE(in.is_open());
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The names of all tests.
std::string test_names() {
  std::string out;
  for (const char* folder : {"tests/ptx", "tests/cases"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".cpp") continue;
      std::istringstream lines(read_file(entry.path().string()));
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("TEST_CASE(")) out += line + "\n";
        // A name too long for its line stands in the next one.
        if (line == "TEST_CASE(" && std::getline(lines, line)) out += line + "\n";
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("launcher forms: each leaves what the PTX ISA says") {
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.form));
    CAPTURE(std::string(row.given));
    const std::vector<Place> given = places(row.given), due = places(row.due);
    REQUIRE(due.size() <= kDumped);
    const std::string text = kernel(row.form, given, due, row.before, row.after);
    CAPTURE(text);
    Ran ran;
    ran.run(row.form, text, given, 1);
    for (std::size_t i = 0; i < due.size(); ++i) {
      const Place& p = due[i];
      CAPTURE(p.kind + number(p.number));
      if (in_memory(p)) {
        std::uint64_t value = 0;
        std::memcpy(&value, ran.at(p), p.kind == "d" ? 8 : 4);
        CHECK(value == bits_of_value(p.value));
      } else if (p.kind == "q") {
        const std::size_t colon = p.value.find(':');
        CHECK(ran.dumped(0, i) == std::stoull(p.value.substr(0, colon)));
        CHECK(ran.dumped(0, i, true) == std::stoull(p.value.substr(colon + 1)));
      } else {
        CHECK(ran.dumped(0, i) == bits_of_value(p.value));
      }
    }
  }
}

TEST_CASE("launcher forms: each thread of a warp finds what the PTX ISA says") {
  for (const WarpRow& row : warp_rows()) {
    CAPTURE(std::string(row.form));
    CAPTURE(std::string(row.given));
    const std::vector<Place> given = places(row.given), due = places(row.place);
    Ran ran;
    ran.run(row.form, kernel(row.form, given, due, row.before, ""), given, 32);
    for (std::uint32_t t = 0; t < 32; ++t) {
      CAPTURE(t);
      CHECK(ran.dumped(t, 0) == row.due(t));
    }
  }
}

TEST_CASE("launcher forms: a trap ends the kernel") {
  for (const std::string form : kTraps) {
    CAPTURE(form);
    try {
      Ran ran;
      ran.run(form, kernel(form, {}, {}, "", ""), {}, 1);
      FAIL("no fault");
    } catch (const KernelFault& fault) {
      CHECK(fault.kind() == FaultKind::trap);
    }
  }
}

TEST_CASE("launcher forms: what is not there refuses its kernel by name, and no other") {
  for (const std::string form : kRefused) {
    CAPTURE(form);
    const std::string statement = statement_of(form);
    const Module module =
        parse(kernel(form, {}, {}, "", "") + ".visible .entry other()\n{\nret;\n}\n", "form.ptx");
    CHECK_THROWS_WITH_AS(decode(module, module.kernel("form")),
                         doctest::Contains(statement.substr(0, statement.find('.')).c_str()),
                         Error);
    CHECK(decode(module, module.kernel("other")).ops.size() == 1);
  }
}

TEST_CASE("launcher forms: all recorded ones are tried, 171 of 175 run, four are refused") {
  const std::vector<std::string> forms = recorded_forms();
  REQUIRE(forms.size() == 175);
  std::set<std::string> known;
  for (const Row& row : kRows) known.insert(row.form);
  for (const WarpRow& row : warp_rows()) known.insert(row.form);
  known.insert(std::begin(kTraps), std::end(kTraps));
  const std::string tests = test_names();
  for (const auto& [form, test] : kElsewhere) {
    CAPTURE(std::string(test));
    CHECK(tests.find(test) != std::string::npos);
    CHECK(known.insert(form).second);
    const Module module = parse(kernel(form, {}, {}, "", ""), "form.ptx");
    CHECK(decode(module, module.kernel("form")).ops.size() > 0);
  }
  CHECK(known.size() == 171);
  known.insert(std::begin(kRefused), std::end(kRefused));
  for (const std::string& form : forms) {
    CAPTURE(form);
    CHECK(known.count(form) == 1);
  }
}

}  // namespace ringfence::ptx::test
