#include "emulator/ptx/alu/alu.hpp"

#include <cstdlib>
#include <string_view>

namespace ringfence::ptx {
namespace baseline {
Handler find(const AluKey& key);
}
#if defined(__x86_64__)
namespace x86_64_v3 {
Handler find(const AluKey& key);
}
namespace x86_64_v4 {
Handler find(const AluKey& key);
}
#endif

namespace {

struct Choice {
  const char* name;
  Handler (*find)(const AluKey&);
};

Choice choose() {
#if defined(__x86_64__)
  const char* wish = std::getenv("RINGFENCE_ISA");
  const std::string_view limit = wish != nullptr ? wish : "";
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  if (v4 && limit != "baseline" && limit != "x86-64-v3") return {"x86-64-v4", x86_64_v4::find};
  if (v3 && limit != "baseline") return {"x86-64-v3", x86_64_v3::find};
#endif
  return {"baseline", baseline::find};
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

Handler find_handler(const AluKey& key) { return choice().find(key); }
const char* handler_isa() { return choice().name; }

}  // namespace ringfence::ptx
