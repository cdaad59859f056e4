#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringfence::ptx {

/// The C++ name, or the name itself where it is none.
std::string demangle(std::string_view name);

/// The parameters' types in a demangled name: "int*", "void* const*", "ns::Params". Empty where it
/// has no list of them.
std::vector<std::string> parameter_types(std::string_view demangled);

}  // namespace ringfence::ptx
