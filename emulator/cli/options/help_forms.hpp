#pragma once
// The text of --help in other forms. All take the whole program, with its subcommands.

#include <string>

#include "emulator/cli/options.hpp"

namespace ringfence::cli {

// The page docs/commands.md.
std::string markdown(const CLI::App& app);

// The page ringfence.1 in roff, for man. `version` as --version says it.
std::string manual(const CLI::App& app, const std::string& version);

// A script that completes subcommands, options and the values that an option takes out of a set.
// `shell`: bash, zsh or fish.
std::string completion(const CLI::App& app, const std::string& shell);

// "--jobs UINT", "--shrink, --no-shrink", "trace"
std::string option_name(const CLI::Option& option);
// What it does, whether it must be given, its default.
std::string option_text(const CLI::Option& option);

}  // namespace ringfence::cli
