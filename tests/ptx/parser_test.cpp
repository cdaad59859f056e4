// The front end: what is read, what is refused and with which words.

#include <doctest/doctest.h>
#include <lz4.h>
#include <zstd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/source.hpp"
#include "tests/ptx/cksum.hpp"
#include "tests/ptx/fatbin.hpp"
#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

const std::string kHeader = ".version 8.5\n.target sm_90a\n.address_size 64\n";

Module kernel(const std::string& body) {
  return parse(
      kHeader + ".visible .entry k(.param .u64 p, .param .align 8 .b8 s[24])\n{\n" + body + "\n}\n",
      "k.ptx");
}

std::string error_of(auto&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("reader: nested blocks redeclare registers and labels") {
  const Module module = kernel(
      ".reg .f32 r0; .reg .b32 %r<3>;\n{ .reg .b32 r0; mov.u32 r0, 1; L: bra L; { mov.u32 r0, 2; } "
      "}\n"
      "{ .reg .b64 r0; mov.u64 r0, 3; bra L; L: }\nmov.f32 r0, 0f3F800000;\nret;");
  const Function& k = module.functions[0];
  const auto target = [&](std::size_t i) {
    return k.registers[k.instructions[i].operands[0].index].type;
  };
  CHECK(target(0) == Type::b32);
  CHECK(target(2) == Type::b32);  // from the block around
  CHECK(target(3) == Type::b64);
  CHECK(target(5) == Type::f32);
  CHECK(k.labels[k.instructions[1].operands[0].index].target == 1);
  CHECK(k.labels[k.instructions[4].operands[0].index].target == 5);
}

TEST_CASE("reader: the order of modifiers does not matter") {
  const char* forms[] = {"atom.global.release.sys.cas.b32 %r0, [%rd0], %r1, %r2;",
                         "atom.release.sys.global.cas.b32 %r0, [%rd0], %r1, %r2;",
                         "atom.cas.release.sys.global.b32 %r0, [%rd0], %r1, %r2;"};
  for (const char* form : forms) {
    const Module module =
        kernel(".reg .b32 %r<3>; .reg .b64 %rd<1>;\n" + std::string(form) + "\nret;");
    const Program program = decode(module, module.functions[0]);
    CHECK(program.accesses[0].access.order == Order::release);
    CHECK(program.accesses[0].access.scope == Scope::sys);
    CHECK(program.accesses[0].access.combine == Combine::cas);
    CHECK(program.accesses[0].access.space == Space::global);
  }
}

TEST_CASE("reader: defaults of order and scope are the manual's") {
  const Module module = kernel(
      ".reg .b32 %r<3>; .reg .b64 %rd<1>;\nld.global.u32 %r0, [%rd0];\natom.global.add.u32 %r0, "
      "[%rd0], 1;\n"
      "multimem.ld_reduce.global.add.f32 %r0, [%rd0];\nmultimem.red.global.add.u32 [%rd0], 1;\n"
      "ld.volatile.global.u32 %r0, [%rd0];\nmultimem.ld_reduce.global.add.v4.bf16x2.acc::f32 "
      "{%r0,%r1,%r2,%r0}, [%rd0];\nret;");
  const Program program = decode(module, module.functions[0]);
  const auto check = [&](std::size_t i, Order order, Scope scope) {
    CHECK(program.accesses[i].access.order == order);
    if (order != Order::weak) CHECK(program.accesses[i].access.scope == scope);
  };
  check(0, Order::weak, {});
  check(1, Order::relaxed, Scope::gpu);
  check(2, Order::weak, {});
  check(3, Order::relaxed, Scope::sys);
  check(4, Order::relaxed, Scope::sys);
  CHECK(program.accesses[5].access.accumulate == Type::f32);
  CHECK(program.accesses[5].access.elements == 4);
}

TEST_CASE("reader: addresses, immediates and constants") {
  const Module module = kernel(
      ".reg .b32 %r<2>; .reg .b64 %rd<2>; .shared .align 4 .b8 box[16];\n"
      "ld.param.u32 %r0, [s+20];\nmov.b64 %rd0, s;\nld.param.u32 %r1, [%rd0+4];\n"
      "ld.global.u32 %r0, [%rd0+-4];\nst.shared.u32 [box+(2+1)*4], 0x10;\nmov.u64 %rd1, "
      "box+8;\nmov.f64 %rd1, 0d3FF0000000000000;\nret;");
  const Function& k = module.functions[0];
  CHECK(k.instructions[3].operands[1].offset == -4);
  CHECK(k.instructions[4].operands[0].offset == 12);
  CHECK(k.instructions[5].operands[1].offset == 8);
  CHECK(k.instructions[6].operands[1].value == 0x3FF0000000000000ULL);
  CHECK(decode(module, k).static_shared == 16);
}

TEST_CASE("reader: an instruction knows its CUDA line") {
  const Module module =
      parse(kHeader +
                ".entry k()\n{\n.loc 1 42 7\nbar.sync 0;\n.loc 2 7 1, function_name "
                "$L__info_string0, inlined_at 1 43 9\nret;\n}\n.file 1 \"a.cu\"\n.file 2 \"b.h\", "
                "123, 456\n.section .debug_str\n{\n$L__info_string0:\n.b8 95,90\n}\n",
            "k.ptx");
  const Function& k = module.functions[0];
  CHECK(k.instructions[0].location->line == 42);
  CHECK(module.files[k.instructions[1].location->file] == "b.h");
}

TEST_CASE("reader: variables keep bytes, addresses and alignment") {
  const Module module =
      parse(kHeader +
                ".global .align 1 .b8 text[4] = {104, 105, 0};\n.global .u64 table[2] = {text, "
                "generic(text)+2};\n.const .f32 c = 0f40000000;\n.extern .shared .align 16 .b8 "
                "dyn[];\n.entry k() { ret; }\n",
            "k.ptx");
  const Program program = decode(module, module.functions[0]);
  const std::vector<std::uint8_t> bytes = initial_globals(program, 0x1000);
  CHECK(bytes[0] == 104);
  CHECK(bytes[program.module_placement[1].offset + 1] == 0x10);
  CHECK(bytes[program.module_placement[1].offset + 8] == 2);
  CHECK(bytes[program.module_placement[2].offset + 3] == 0x40);
  CHECK(module.variables[3].unsized);
}

TEST_CASE("reader: errors name file, line, reason and statement") {
  CHECK(error_of([] { kernel(".reg .b32 %r<2>;\nmov.u32 %r0, %r7;"); }) ==
        "k.ptx:7: unknown name '%r7': 'mov.u32 %r0, %r7'");
  CHECK(error_of([] { kernel("bra nowhere;"); }) == "k.ptx:6: no label 'nowhere': 'bra nowhere;'");
  CHECK(contains(error_of([] { kernel(".reg .b32 %r<2>;\nmov.u32 %r0 %r1;"); }),
                 "k.ptx:7: ';' is missing before '%r1'"));
  CHECK(contains(error_of([] { kernel(".reg .b32 a; .reg .b32 a;"); }), "'a' is declared twice"));
  CHECK(contains(error_of([] { kernel(".reg .b32 %r<99999999>;"); }), "too many registers"));
  CHECK(contains(error_of([] { kernel("@%q ret;"); }), "unknown register '%q'"));
  CHECK(
      contains(error_of([] { kernel("mov.u32 %r0, 0f3F80;"); }), "0f needs 8 hexadecimal digits"));
  CHECK(contains(error_of([] { parse("", "e.ptx"); }), "e.ptx:1: a PTX text starts with .version"));
  CHECK(contains(error_of([] { parse(kHeader, "e.ptx"); }), "holds no kernel"));
  CHECK(contains(error_of([] { parse(".version 8.0 .target sm_90 .address_size 32", "e.ptx"); }),
                 "only .address_size 64"));
  CHECK(contains(error_of([] { parse(kHeader + ".entry k() { ret; } /* ", "e.ptx"); }),
                 "comment without end"));
  CHECK(contains(error_of([] { parse(kHeader + ".global .b8 x[9999999999];", "e.ptx"); }),
                 "larger than 1 GiB"));
}

TEST_CASE("reader: unsupported statements are collected with their lines") {
  const Module module = kernel(
      ".reg .b32 %r<4>; .reg .b64 %rd<1>;\nadd.u32 %r0, %r1, %r2;\ntex.2d.v4.s32.s32 "
      "{%r0,%r1,%r2,%r3}, [%rd0, {%r0,%r1}];\n"
      "div.full.f64 %rd0, %rd0, %rd0;\nadd.u32.what %r0, %r1, %r2;\nret;");
  CHECK(module.functions.size() == 1);
  const std::vector<Unsupported> forms = unsupported_forms(module, module.functions[0]);
  REQUIRE(forms.size() == 3);
  CHECK(forms[0].line == 8);
  CHECK(forms[0].reason == "unsupported instruction");
  CHECK(forms[1].reason == "unsupported form");
  CHECK(forms[2].reason == "unsupported modifier '.what'");
  CHECK(forms[2].statement == "add.u32.what %r0, %r1, %r2;");
  CHECK(contains(error_of([&] { decode(module, module.functions[0]); }),
                 "k.ptx:8: unsupported instruction"));
}

TEST_CASE("reader: a text that is cut at any byte gives an error") {
  const std::string whole = read_file("traces/ptx/fused.ptx");
  const std::size_t end = whole.find("\n}\n") + 2;  // behind the only kernel nothing is needed
  for (std::size_t cut = 0; cut < end; cut += cut < 1500 || cut + 1500 > end ? 1 : 61) {
    bool refused = false;
    try {
      parse(whole.substr(0, cut), "cut.ptx");
    } catch (const Error& error) {
      refused = std::string(error.what()).find('\n') == std::string::npos;
    }
    REQUIRE_MESSAGE(refused, "cut at byte " << cut);
  }
  parse(whole.substr(0, end), "cut.ptx");
}

TEST_CASE("listing: parameters, resources, histogram and a case to fill in") {
  const Module module = load("fused");
  const Listing listing = list(module);
  REQUIRE(listing.kernels.size() == 1);
  const KernelListing& k = listing.kernels[0];
  CHECK(k.name == "fused_rs_ln_ag");
  CHECK(k.parameters.size() == 9);
  CHECK(k.parameters[8].type == "f32");
  CHECK(k.static_shared == 132);
  CHECK(k.limits == ".maxntid 1024, 1, 1");
  CHECK(k.histogram.at("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2") == 1);
  CHECK(k.unsupported.empty());
  CHECK(listing.supported());
  const std::string text = to_text(listing);
  CHECK(contains(text, "multimem.st.relaxed.sys.global.v4.f32"));
  CHECK(contains(text, "unsupported: none"));
  const std::string templ = case_template({{&module, &module.kernel("fused")}}, "fused.ptx");
  CHECK(contains(templ, "[[launch]]\nptx = \"fused.ptx\"\nkernel = \"fused_rs_ln_ag\""));
  CHECK(contains(templ, "{f32 = 0.0}"));
  CHECK(contains(templ, "[memory.p0]"));
}

TEST_CASE("listing: a kernel's name may be any part that is unique") {
  const Module module = load("barriers");
  CHECK(module.kernel("times").name == "times_out");
  CHECK(module.kernel("named").name == "named");  // equal to one, part of another
  CHECK(contains(error_of([&] { module.kernel("a"); }), "matches 6: all_"));
  CHECK(contains(error_of([&] { module.kernel("zebra"); }), "matches none of: all_to_all, "));
}

TEST_CASE("source: PTX inside a binary is found, compressed or not") {
  const std::string text = kHeader + ".entry k() { ret; }\n";
  CHECK(ptx_in_binary(elf() + fatbin(text, 0x11, 1), "a.so") == text);
  CHECK(contains(error_of([&] { ptx_in_binary(fatbin("garbage", 0x8011, 1), "a.so"); }),
                 "cuobjdump -xptx all a.so"));
  CHECK(contains(error_of([&] { ptx_in_binary(fatbin(text, 0x11, 2), "a.so"); }), "holds no PTX"));
  // What nvcc --compress-mode=speed and the other modes write.
  const auto packed = [&](std::string payload, std::uint64_t flags, std::uint64_t size) {
    const std::size_t bytes = payload.size();
    std::string out = fatbin(payload + std::string(5, '\0'), flags, 1);
    for (unsigned i = 0; i < 4; ++i) out[16 + 16 + i] = static_cast<char>(bytes >> (8 * i));
    for (unsigned i = 0; i < 8; ++i) out[16 + 56 + i] = static_cast<char>(size >> (8 * i));
    return out;
  };
  std::string lz4(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(text.size()))), '\0');
  lz4.resize(static_cast<std::size_t>(LZ4_compress_default(
      text.data(), lz4.data(), static_cast<int>(text.size()), static_cast<int>(lz4.size()))));
  std::string zstd(ZSTD_compressBound(text.size()), '\0');
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), text.data(), text.size(), 3));
  for (const auto& [payload, flags] : {std::pair{lz4, 0x2011U}, std::pair{zstd, 0x8011U}}) {
    CHECK(ptx_in_binary(elf() + packed(payload, flags, text.size()), "a.so") == text);
    for (const std::uint64_t size :
         {std::uint64_t{0}, text.size() - 1, text.size() + 1, std::uint64_t{1} << 62}) {
      CHECK(contains(error_of([&] { ptx_in_binary(packed(payload, flags, size), "a.so"); }),
                     "cuobjdump -xptx all a.so"));
    }
    for (std::size_t n = 0; n < payload.size(); n += 5) {
      CHECK(error_of([&] {
              ptx_in_binary(packed(payload.substr(0, n), flags, text.size()), "a.so");
            }) != "no error");
    }
  }
  const std::string cut = fatbin(text, 0x11, 1);
  for (std::size_t n = 0; n < cut.size(); n += 3) {
    CHECK(error_of([&] { ptx_in_binary(cut.substr(0, n), "a.so"); }) != "no error");
  }
  CHECK(contains(error_of([] { read_ptx("no/such.cu"); }), "no/such.cu: cannot be read"));
}

TEST_CASE("traces: the PTX kept here was made of the sources here") {
  for (const char* name :
       {"fused", "matmul", "barriers", "warp", "zoo", "protocols", "put_add", "two_shot"}) {
    const std::string source = read_file("tests/ptx/kernels/" + std::string(name) + ".cu");
    const std::string ptx = read_file("traces/ptx/" + std::string(name) + ".ptx");
    const std::string first = ptx.substr(0, ptx.find('\n'));
    CHECK(first == "// tests/ptx/kernels/" + std::string(name) + ".cu cksum " +
                       std::to_string(Cksum().add(source).value()));
  }
}

TEST_CASE("the corpus of the fuzz target is read and decoded") {
  unsigned kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/ptx")) {
    CAPTURE(entry.path().string());
    const Module module = parse(read_file(entry.path().string()), "corpus.ptx");
    for (const Function& function : module.functions) {
      if (!function.entry || !function.has_body) continue;
      CHECK(decode(module, function).ops.size() == function.instructions.size());
      ++kernels;
    }
  }
  CHECK(kernels >= 7);
}

}  // namespace ringfence::ptx::test
