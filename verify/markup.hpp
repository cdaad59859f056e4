#pragma once
// Text inside XML and HTML. Bytes that are no UTF-8, and characters that XML forbids, become
// U+FFFD.

#include <string>
#include <string_view>

namespace ringfence::verify {

std::string for_element(std::string_view text);
// Between double quotes. A line break becomes a reference: a reader would make it a space.
std::string for_attribute(std::string_view text);

}  // namespace ringfence::verify
