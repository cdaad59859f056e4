#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

std::string recorded(const char* name) {
  return std::filesystem::absolute(std::string("traces/ptx/") + name).string();
}

TEST_CASE("ptx lists what a file holds, and exits 1 when a form is not supported") {
  const Folder f;
  const Result good = ringfence(f, "ptx " + recorded("fused.ptx"));
  CHECK_MESSAGE(good.status == 0, good.err);
  CHECK(good.out.find("multimem.ld_reduce") != std::string::npos);

  std::ofstream(f / "odd.ptx")
      << ".version 8.0\n.target sm_90\n.address_size 64\n"
         ".visible .entry k()\n{\n  .reg .b32 %r<2>;\n"
         "  tex.1d.v4.s32.s32 {%r0, %r1, %r0, %r1}, [t, {%r0}];\n  ret;\n}\n";
  const Result odd = ringfence(f, "ptx odd.ptx");
  CHECK_MESSAGE(odd.status != 0, odd.out);
}

TEST_CASE(
    "a PTX file cut short is refused with its name and line; a template names every argument") {
  const Folder f;
  std::ifstream in(recorded("barriers.ptx"));
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  REQUIRE(text.size() > 1000);
  std::ofstream(f / "cut.ptx") << text.substr(0, text.size() / 2);
  const Result cut = ringfence(f, "ptx cut.ptx");
  CHECK(cut.status == 2);
  CHECK(cut.err.find("cut.ptx:") != std::string::npos);
  CHECK(ringfence(f, "ptx absent.ptx").status == 2);

  const Result none =
      ringfence(f, "ptx " + recorded("fused.ptx") + " --case-template nosuchkernel");
  CHECK(none.status == 2);
}

}  // namespace
}  // namespace ringfence::cli
