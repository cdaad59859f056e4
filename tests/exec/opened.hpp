#pragma once
// What a command and all that it starts open, seen from outside.

#include <set>
#include <string>
#include <vector>

namespace ringfence::tests {

struct Opened {
  bool traced = false;          // false: this system lets nobody trace
  int status = -1;              // of the command, as waitpid gives it
  std::set<std::string> paths;  // asked for, whether or not they were there
};

// Its standard output and error go to nobody.
Opened opened_by(const std::vector<std::string>& command);

}  // namespace ringfence::tests
