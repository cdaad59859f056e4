// libFuzzer target of the PTX reader: any bytes are either refused with a one-line error or become
// a module whose kernels are listed, and decoded unless something in them is unsupported.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

using namespace ringfence::ptx;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_one_line(const Error& error) {
  const std::string text = error.what();
  require(!text.empty() && text.find('\n') == std::string::npos);
}

void check_kernel(const Module& module, const Function& kernel) {
  const std::vector<Unsupported> refused = unsupported_forms(module, kernel);
  try {
    const Program program = decode(module, kernel);
    require(refused.empty());
    require(program.ops.size() == kernel.instructions.size());
    // Every slot lies within its bank, and every jump within the kernel.
    const auto check = [&](Slot slot) {
      if (!slot) return;
      require(slot.offset() <
              (slot.is_constant() ? program.constant_bytes : program.register_bytes));
    };
    for (const Op& op : program.ops) {
      for (const Slot slot : {op.d, op.e, op.a, op.b, op.c, op.f, op.guard}) check(slot);
      if (op.kind == Kind::branch) require(op.detail <= program.ops.size());
      require(op.kind != Kind::alu || op.run != nullptr);
    }
    for (const Slot slot : program.extra) check(slot);
  } catch (const Error& error) {
    require_one_line(error);
    require(!refused.empty());
    require(refused.front().line == error.line());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Module module = parse(bytes, "fuzz.ptx");
    const Listing listing = list(module);
    require(!to_text(listing).empty());
    for (const Function& function : module.functions) {
      if (function.entry && function.has_body) {
        check_kernel(module, function);
        require(!case_template({{&module, &function}}, "fuzz.ptx").empty());
      }
    }
  } catch (const Error& error) {
    require_one_line(error);
  }
  try {
    ptx_in_binary(bytes, "fuzz.so");
  } catch (const Error& error) {
    require_one_line(error);
  }
  return 0;
}
