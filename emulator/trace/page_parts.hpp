#pragma once
// The page's files (emulator/trace/html), embedded by embed.cmake when ringfence is built.

#include <string_view>

namespace ringfence::trace {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;

}  // namespace ringfence::trace
