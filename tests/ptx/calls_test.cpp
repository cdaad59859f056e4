// Functions that stay calls, as nvcc emits them (kernels/calls.cu) and as PTX has them.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/fault.hpp"
#include "emulator/ptx/link.hpp"
#include "emulator/ptx/listing.hpp"
#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

const std::string kHead = ".version 8.5\n.target sm_90a\n.address_size 64\n";

// A kernel `k(out)` whose thread t stores %r9, from `body`, at out[t].
std::string kernel(const std::string& body) {
  return ".visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<10>;\n.reg .b64 %rd<6>;\n"
         "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [out];\nmul.wide.u32 %rd2, %r1, 4;\n"
         "add.u64 %rd1, %rd1, %rd2;\n" +
         body + "st.global.u32 [%rd1], %r9;\nret;\n}\n";
}

std::vector<std::uint32_t> run(Module module, std::uint32_t threads = 32) {
  Single single(std::move(module), "k");
  const std::uint64_t out = single.buffer(4 * threads);
  single.run(launch(1, threads, Parameters().add(out)));
  const std::uint32_t* const values = view<std::uint32_t>(single.memory, out, threads);
  return {values, values + threads};
}
std::vector<std::uint32_t> run(const std::string& text, std::uint32_t threads = 32) {
  return run(parse(kHead + text, "k.ptx"), threads);
}

std::string refused(const std::string& text) {
  const Module module = parse(kHead + text, "k.ptx");
  try {
    decode(module, module.kernel("k"));
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

std::string fault(const std::string& text) {
  try {
    run(text, 1);
  } catch (const KernelFault& e) {
    return e.what();
  }
  return "none";
}

const std::string kTwice =
    ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<3>;\n"
    "ld.param.u32 %r1, [x];\nadd.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";
const std::string kCallTwice =
    "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\ncall.uni (b), twice, (a);\n"
    "ld.param.b32 %r9, [b];\n}\n";

std::int64_t fibonacci(std::int64_t n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

}  // namespace

TEST_CASE("calls: what nvcc leaves as calls gives what the C++ says") {
  struct Parts {
    std::int64_t a;
    std::int32_t b;
    float c;
  };
  constexpr std::uint32_t kThreads = 64;
  Single single(load("calls"), "calls");
  const std::uint64_t out = single.buffer(8 * 8 * kThreads);
  const Parts s{1'000'000'000'000, 3, 4.0F};
  const std::int32_t n = 11;
  single.run(launch(1, kThreads, Parameters().add(out).add(s.a).add(s.b).add(s.c).add(n)));
  const std::int64_t* v = view<std::int64_t>(single.memory, out, 8 * kThreads);
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(kThreads); ++t, v += 8) {
    CAPTURE(t);
    const auto c = static_cast<std::int8_t>(t - 5);
    const auto h = static_cast<std::int16_t>(1000 - t);
    CHECK(v[0] == s.a + (n + t) + c);
    CHECK(v[1] == (t % 3 == 0 ? h : -h));
    CHECK(v[2] == static_cast<std::int64_t>(static_cast<float>(2.5 * n) * 4));
    CHECK(v[3] == fibonacci(t % 12));
    CHECK(v[4] == (t % 2 == 0 ? 1 : 0));
    CHECK(v[5] == (t % 2 == 0 ? t + 7 : t - 7));
    CHECK(v[6] == ((t & 2) != 0 ? t + 1 : t * 2));
    CHECK(v[7] == t);
  }
}

TEST_CASE("calls: a recursion without end is a fault that names the function") {
  Single single(load("calls"), "too_deep");
  const std::uint64_t out = single.buffer(4);
  std::string what;
  try {
    single.run(launch(1, 1, Parameters().add(out).add(std::int32_t{1})));
  } catch (const KernelFault& e) {
    what = e.what();
  }
  CHECK(what.find("'_Z7endlessi' calls itself deeper than 64 times") != std::string::npos);
  // One that ends is none; is_even(63) above ends at the bound itself.
  Single ends(load("calls"), "too_deep");
  const std::uint64_t to = ends.buffer(4);
  ends.run(launch(1, 1, Parameters().add(to).add(std::int32_t{-1})));
  CHECK(view<std::int32_t>(ends.memory, to, 1)[0] == 0);
}

TEST_CASE("calls: a guard on the call and on the return, and an argument of a byte") {
  const auto all = run(kTwice + kernel(kCallTwice));
  const auto odd = run(kTwice + kernel("mov.u32 %r9, 5;\nand.b32 %r2, %r1, 1;\n"
                                       "setp.ne.u32 %p1, %r2, 0;\n{\n.param .b32 a;\n"
                                       ".param .b32 b;\nst.param.b32 [a], %r1;\n"
                                       "@%p1 call (b), twice, (a);\n"
                                       "@%p1 ld.param.b32 %r9, [b];\n}\n"));
  // Returns early where the argument is below 10; bytes are sign-extended.
  const auto early =
      run(".func (.param .b32 r) f(.param .b32 x, .param .b8 y)\n{\n.reg .pred %p;\n"
          ".reg .b32 %r<4>;\nld.param.u32 %r1, [x];\nst.param.b32 [r], 1;\n"
          "setp.lt.u32 %p, %r1, 10;\n@%p ret;\nld.param.s8 %r2, [y];\nst.param.b32 [r], %r2;\n}\n" +
          kernel("sub.u32 %r2, 0, %r1;\ncvt.u16.u32 %h1, %r2;\n{\n.param .b32 a;\n.param .b8 c;\n"
                 ".param .b32 b;\nst.param.b32 [a], %r1;\nst.param.b8 [c], %h1;\n"
                 "call (b), f, (a, c);\nld.param.b32 %r9, [b];\n}\n"));
  for (std::uint32_t t = 0; t < 32; ++t) {
    CAPTURE(t);
    CHECK(all[t] == 2 * t);
    CHECK(odd[t] == (t % 2 == 1 ? 2 * t : 5));
    CHECK(early[t] == (t < 10 ? 1 : 0U - t));
  }
}

TEST_CASE("calls: an indirect call goes by its list of targets, or by what fits its prototype") {
  const std::string thrice =
      ".func (.param .b32 r) thrice(.param .b32 x)\n{\n.reg .b32 %r<3>;\n"
      "ld.param.u32 %r1, [x];\nmul.lo.u32 %r2, %r1, 3;\nst.param.b32 [r], %r2;\nret;\n}\n"
      ".func wide(.param .b64 x)\n{\nret;\n}\n";
  const auto call = [](const std::string& label, const std::string& list) {
    return "mov.u64 %rd3, twice;\nmov.u64 %rd4, thrice;\nmov.u64 %rd5, wide;\n"
           "and.b32 %r2, %r1, 1;\nsetp.ne.u32 %p1, %r2, 0;\nselp.b64 %rd3, %rd3, %rd4, %p1;\n"
           "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\n" +
           label + list + "call (b), %rd3, (a), " + label.substr(0, label.find(':')) +
           ";\nld.param.b32 %r9, [b];\n}\n";
  };
  for (const std::string& list :
       {std::string(".calltargets twice, thrice;\n"),
        std::string(".callprototype (.param .b32 _) _ (.param .b32 _);\n")}) {
    const auto values = run(kTwice + thrice + kernel(call("L: ", list)));
    for (std::uint32_t t = 0; t < 32; ++t) CHECK(values[t] == (t % 2 == 1 ? 2 * t : 3 * t));
  }
  // The address of a function that the list does not have, or that takes something else.
  CHECK(fault(kTwice + thrice + kernel(call("L: ", ".calltargets twice;\n")))
            .find("the address of no function that fits the call") != std::string::npos);
  CHECK(fault(kTwice + thrice +
              kernel("mov.u64 %rd3, wide;\nmov.u64 %rd4, twice;\n{\n.param .b32 a;\n"
                     ".param .b32 b;\nst.param.b32 [a], %r1;\n"
                     "L: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
                     "call (b), %rd3, (a), L;\nld.param.b32 %r9, [b];\n}\n"))
            .find("the address of no function that fits the call") != std::string::npos);
}

TEST_CASE("calls: shared memory of a function is the block's, its local memory each thread's") {
  // Thread 0 leaves 40 + 2 in the function's shared variable; thread 33 reads it by another call.
  const std::string f =
      ".func (.param .b32 r) f(.param .b32 x)\n{\n.reg .b32 %r<3>;\n.reg .pred %p;\n"
      ".shared .align 4 .b32 kept;\n.local .align 4 .b32 mine;\nld.param.u32 %r1, [x];\n"
      "st.local.u32 [mine], %r1;\nsetp.ne.u32 %p, %r1, 42;\n@!%p st.shared.u32 [kept], %r1;\n"
      "bar.sync 0;\nld.shared.u32 %r2, [kept];\nld.local.u32 %r1, [mine];\n"
      "add.u32 %r2, %r2, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";
  const std::string once =
      "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r3;\ncall (b), f, (a);\n"
      "ld.param.b32 %r9, [b];\n}\n";
  const auto values = run(f + kernel("setp.eq.u32 %p1, %r1, 0;\nselp.u32 %r3, 42, 7, %p1;\n" +
                                     once + "bar.sync 0;\nadd.u32 %r3, %r1, 100;\n" + once),
                          64);
  for (std::uint32_t t = 0; t < 64; ++t) CHECK(values[t] == 42 + t + 100);
}

TEST_CASE("calls: what cannot be followed refuses the kernel, by name") {
  const std::string call = kernel(kCallTwice);
  CHECK(refused(".extern .func (.param .b32 r) twice(.param .b32 x);\n" + call)
            .find("call of 'twice', which nothing here defines") != std::string::npos);
  CHECK(refused(".func (.param .b32 r) twice(.param .b32 x, .param .b32 y)\n{\nret;\n}\n" + call)
            .find("'twice' has 2 arguments, the call 1") != std::string::npos);
  CHECK(refused(".func (.param .b64 r) twice(.param .b32 x)\n{\nret;\n}\n" + call)
            .find("result 1 has 4 bytes, 'twice' declares 8") != std::string::npos);
  // A kernel of the same file that does not call it is as good as ever.
  const Module module = parse(kHead + ".extern .func (.param .b32 r) twice(.param .b32 x);\n" +
                                  call + ".visible .entry other()\n{\nret;\n}\n",
                              "k.ptx");
  CHECK_NOTHROW(decode(module, module.kernel("other")));
  const Listing listing = list(module);
  REQUIRE(listing.kernels.size() == 2);
  CHECK(listing.kernels[0].unsupported.size() == 1);
  CHECK(listing.kernels[1].unsupported.empty());
}

TEST_CASE("calls: a chain of functions that is too deep is refused, also where each calls two") {
  const auto chain = [](int n, bool twice) {
    std::string text = ".func f" + std::to_string(n) + "()\n{\nret;\n}\n";
    for (int i = n - 1; i >= 0; --i) {
      const std::string call = "call f" + std::to_string(i + 1) + ";\n";
      text += ".func f" + std::to_string(i) + "()\n{\n" + call + (twice ? call : "") + "ret;\n}\n";
    }
    return text + kernel("call f0;\n");
  };
  CHECK(refused(chain(500, false)) == "accepted");
  CHECK(refused(chain(600, false)).find("deeper than 512") != std::string::npos);
  // Twice in each of 60: by copies that were 2^60 of them, so the functions are shared.
  CHECK(refused(chain(60, true)) == "accepted");
  CHECK(refused(chain(5000, false)).find("more than 4096 functions") != std::string::npos);
}

TEST_CASE("link: a function of another module, and names that are each module's own") {
  const std::string declared = ".extern .func (.param .b32 r) twice(.param .b32 x);\n";
  const std::string own =
      ".func (.param .b32 r) own(.param .b32 x)\n{\n.reg .b32 %r<3>;\n"
      "ld.param.u32 %r1, [x];\nadd.u32 %r2, %r1, OWN;\nst.param.b32 [r], %r2;\nret;\n}\n";
  const auto with = [&](const std::string& number) {
    std::string text = own;
    return text.replace(text.find("OWN"), 3, number);
  };
  // Each module's `own` and `step` are its own; `common` is the one of both.
  const std::string first =
      kHead + ".global .u32 step = 1000;\n.extern .global .u32 common;\n" + declared + with("1") +
      kernel(kCallTwice +
             "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r9;\ncall (b), own, (a);\n"
             "ld.param.b32 %r9, [b];\n}\nld.global.u32 %r3, [step];\nadd.u32 %r9, %r9, %r3;\n"
             "ld.global.u32 %r3, [common];\nadd.u32 %r9, %r9, %r3;\n");
  const std::string second =
      kHead + ".global .u32 step = 5;\n.visible .global .u32 common = 70000;\n" + with("100") +
      ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<4>;\n"
      "ld.param.u32 %r1, [x];\nadd.u32 %r2, %r1, %r1;\nld.global.u32 %r3, [step];\n"
      "add.u32 %r2, %r2, %r3;\n{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r2;\n"
      "call (b), own, (a);\nld.param.b32 %r2, [b];\n}\nst.param.b32 [r], %r2;\nret;\n}\n";
  for (const bool swapped : {false, true}) {
    std::vector<Module> modules;
    modules.push_back(parse(swapped ? second : first, swapped ? "b.ptx" : "a.ptx"));
    modules.push_back(parse(swapped ? first : second, swapped ? "a.ptx" : "b.ptx"));
    const auto values = run(link(std::move(modules)));
    for (std::uint32_t t = 0; t < 32; ++t) {
      CHECK(values[t] == 2 * t + 5 + 100 + 1 + 1000 + 70000);
    }
  }
}

TEST_CASE("link: two definitions of a visible name are refused, of a weak one the first counts") {
  const auto module = [](const std::string& linkage, const std::string& number,
                         const std::string& file) {
    return parse(kHead + linkage +
                     ".func (.param .b32 r) twice(.param .b32 x)\n{\n"
                     "st.param.b32 [r], " +
                     number + ";\nret;\n}\n" + (file == "a.ptx" ? kernel(kCallTwice) : ""),
                 file);
  };
  const auto linked = [&](const std::string& one, const std::string& other) {
    std::vector<Module> modules;
    modules.push_back(module(one, "1", "a.ptx"));
    modules.push_back(module(other, "2", "b.ptx"));
    return run(link(std::move(modules)))[0];
  };
  CHECK_THROWS_WITH_AS(linked(".visible ", ".visible "),
                       doctest::Contains("b.ptx:4: 'twice' is defined in two modules"), Error);
  CHECK(linked(".weak ", ".weak ") == 1);
  CHECK(linked(".weak ", ".visible ") == 2);
  CHECK(linked(".visible ", ".weak ") == 1);
}

TEST_CASE("link: a fault in a function of another module names that module's file and line") {
  std::vector<Module> modules;
  modules.push_back(
      parse(kHead + ".extern .func (.param .b32 r) twice(.param .b32 x);\n" + kernel(kCallTwice),
            "a.ptx"));
  modules.push_back(parse(
      kHead + ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\n\n\ntrap;\n}\n", "b.ptx"));
  std::string what;
  try {
    run(link(std::move(modules)));
  } catch (const KernelFault& e) {
    what = e.what();
  }
  CHECK(what.find("b.ptx:8") != std::string::npos);
}

}  // namespace ringfence::ptx::test
