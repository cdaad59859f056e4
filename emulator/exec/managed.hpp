#pragma once
// __managed__ variables in PTX: each has one address, whatever the device.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ringfence::exec {

// Names of the variables with .attribute(.managed), in order.
std::vector<std::string> managed_variables(std::string_view ptx);

// The text with the variables' addresses in place of their names, and without their declarations.
// Lines stay where they are.
std::string with_addresses(std::string_view ptx,
                           const std::map<std::string, std::uint64_t, std::less<>>& addresses);

}  // namespace ringfence::exec
