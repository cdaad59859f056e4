#pragma once
// What commands ask of the options that they were given. CLI11 itself is seen by
// emulator/cli/options alone: it takes seconds to compile.

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ringfence::cli {

// Whether the command line has the option. Only once it is read.
bool given(const CLI::Option* option);
// As it is written: "--ranks".
std::string name_of(const CLI::Option* option);

}  // namespace ringfence::cli
