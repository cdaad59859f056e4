// Arbitrary bytes as a case file: read, or refused with a CaseError of one line that names the
// file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "emulator/cases/case_file.hpp"

namespace {

// The byte behind the last that a tensor map names, not wrapped.
double reach(const ringfence::cases::Argument& a, std::uint32_t ranks) {
  double end = static_cast<double>(a.offset) + static_cast<double>(a.offset_per_rank) * (ranks - 1);
  for (unsigned i = 0; i < a.map.dimensions; ++i) {
    end += static_cast<double>(a.map.size[i] - 1) * static_cast<double>(a.map.stride[i]);
  }
  return end + a.map.element_bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringfence::cases;
  try {
    const CaseFile file =
        parse_case(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.toml");
    // What was read is well formed.
    if (file.ranks < 1 || file.ranks > kMaxRanks || file.launches.empty()) std::abort();
    for (const Launch& launch : file.launches) {
      if (launch.grid.size() != 1 && launch.grid.size() != file.ranks) std::abort();
      for (const Argument& a : launch.args) {
        if (!a.name.empty() && file.find(a.name) == nullptr) std::abort();
        if (a.kind == Argument::Kind::tensor_map && reach(a, file.ranks) > file.find(a.name)->bytes)
          std::abort();
      }
    }
  } catch (const CaseError& e) {
    const std::string_view what = e.what();
    if (what.find('\n') != std::string_view::npos || what.rfind("fuzz.toml", 0) != 0) std::abort();
  }
  return 0;
}
