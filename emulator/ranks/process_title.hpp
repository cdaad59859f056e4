#pragma once

#include <string>

namespace ringfence::ranks {

// Makes ps and top show `title` for this process. For a forked child: the environment is moved
// away, because its bytes follow the command line's and may be needed.
void set_process_title(const std::string& title);

}  // namespace ringfence::ranks
