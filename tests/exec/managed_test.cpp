// __managed__ variables in PTX become addresses.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emulator/exec/managed.hpp"

using ringfence::exec::managed_variables;
using ringfence::exec::with_addresses;

namespace {

const std::string kText = R"(.version 8.0
.visible .global .attribute(.managed) .align 4 .u32 n = 3;
.visible .global .align 4 .u32 nn;
.extern .global .attribute(.managed) .align 4
 .b8 table[24];
.visible .entry n_kernel(.param .u64 n_kernel_param_0)
{
  .reg .b32 %n;  // n
  .file 1 "n.cu"
  ld.global.u32 %n, [n];
  ld.global.u32 %n, [nn+4];
  st.global.f32 [table+20], %f1;
  mov.u64 %rd1, table;
}
)";

}  // namespace

TEST_CASE("the names of managed variables, in order") {
  CHECK(managed_variables(kText) == std::vector<std::string>{"n", "table"});
  CHECK(managed_variables(".global .u32 x;").empty());
  CHECK(managed_variables(".global .attribute(.managed) .u32 x").size() == 1);
}

TEST_CASE("addresses stand where names stood, and nothing else changes, nor any line's number") {
  const std::string due = R"(.version 8.0

.visible .global .align 4 .u32 nn;


.visible .entry n_kernel(.param .u64 n_kernel_param_0)
{
  .reg .b32 %n;  // n
  .file 1 "n.cu"
  ld.global.u32 %n, [4096];
  ld.global.u32 %n, [nn+4];
  st.global.f32 [8192+20], %f1;
  mov.u64 %rd1, 8192;
}
)";
  CHECK(with_addresses(kText, {{"n", 4096}, {"table", 8192}}) == due);
  CHECK(with_addresses(kText, {}) == kText);
}
