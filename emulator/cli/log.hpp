#pragma once
// What is said of the work itself, on standard error: results alone are on standard output.

#include <string>

namespace ringfence::cli {

// --verbose: what is being done is said too. Set before anything runs.
void set_verbose();
// "ringfence: info: TEXT", if it is wanted.
void log_info(const std::string& text);
void log_error(const std::string& text);

}  // namespace ringfence::cli
