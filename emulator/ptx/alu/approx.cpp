#include "emulator/ptx/alu/approx.hpp"

#include <cmath>

namespace ringfence::ptx {

float rsqrt_approx(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
float sqrt_approx(float x) { return std::sqrt(x); }
float rcp_approx(float x) { return 1.0F / x; }
float ex2_approx(float x) { return static_cast<float>(std::exp2(static_cast<double>(x))); }
float lg2_approx(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }
float sin_approx(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
float cos_approx(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
float tanh_approx(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }

}  // namespace ringfence::ptx
