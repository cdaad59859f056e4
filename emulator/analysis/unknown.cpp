#include "emulator/analysis/unknown.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/label.hpp"

namespace ringfence::analysis {

std::vector<std::string> left_out_texts(const std::vector<check::LeftOut>& all,
                                        const schedule::Program& program) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i) {
    const check::LeftOut& one = all[i];
    const bool apart = one.what == check::LeftOut::What::lanes && one.first != one.second;
    const std::size_t line = apart ? std::size(kLeftOut) - 1 : static_cast<std::size_t>(one.what);
    out.push_back(fmt::format(
        fmt::runtime(kLeftOut[line]), schedule::text(schedule::unpack(one.label)),
        program.site_name(one.first), program.site_name(one.second), machine::kMaxMessages));
  }
  return out;
}

}  // namespace ringfence::analysis
