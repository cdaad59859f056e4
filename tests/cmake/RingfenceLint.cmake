# lint_headers: every header compiled alone, so that no header relies on what its users include: in
# units of several sources (ringfence_unity) most do not come first. Host headers only: those of
# device code need nvcc.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/emulator/*.hpp ${PROJECT_SOURCE_DIR}/ringfence/*.hpp ${PROJECT_SOURCE_DIR}/verify/*.hpp ${PROJECT_SOURCE_DIR}/tests/*.hpp)
list(FILTER headers EXCLUDE REGEX "^tests/package/")
set(stubs)
foreach(header ${headers})
  string(REPLACE "/" "_" name ${header})
  set(stub ${PROJECT_BINARY_DIR}/lint_headers/${name}.cpp)
  file(CONFIGURE OUTPUT ${stub} CONTENT "#include \"${header}\"\n")
  list(APPEND stubs ${stub})
endforeach()
add_library(lint_headers OBJECT EXCLUDE_FROM_ALL ${stubs})
# -fpch-preprocess: as ccache asks of whoever has a precompiled header.
target_compile_options(lint_headers PRIVATE -O0 -g0 -fpch-preprocess)
# The standard library's take most of the time of each: once for all. That every header includes
# those it uses is what tests/lint/standard_headers.pl looks after.
target_precompile_headers(lint_headers PRIVATE
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <concepts> <cstddef> <cstdint> <cstdio>
  <cstdlib> <cstring> <deque> <exception> <filesystem> <fstream> <functional> <initializer_list> <iterator>
  <limits> <map> <memory> <memory_resource> <mutex> <new> <optional> <set> <span> <sstream> <stdexcept>
  <string> <string_view> <tuple> <type_traits> <unordered_map> <unordered_set> <utility> <variant> <vector>)
# What headers of tests take from their CMakeLists.txt.
target_compile_definitions(lint_headers PRIVATE RINGFENCE_EXEC_PROGRAMS="")
target_link_libraries(lint_headers PRIVATE
  ringfence_options Boost::context doctest::doctest fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json
  Threads::Threads)
