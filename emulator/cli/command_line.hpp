#pragma once
// The whole program: main without its name, which a library cannot have.

namespace ringfence::cli {

// Reads the command line, runs its subcommand, says on standard error what went wrong. Returns the
// exit status.
int command_line(int argc, char** argv);

}  // namespace ringfence::cli
