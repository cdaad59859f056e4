# Writes version.cpp, and leaves it alone if nothing changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=10 --match=NONE
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "no commit")
endif()
set(text "// Written by version.cmake.
#include \"emulator/analysis/version.hpp\"

namespace ringfence::analysis {

std::string version() { return \"${VERSION} (${commit})\"; }
std::string toolchain() { return \"${COMPILER}, ${BUILD}\"; }

}  // namespace ringfence::analysis
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
