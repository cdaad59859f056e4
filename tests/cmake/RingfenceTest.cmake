# ringfence_test(PART SOURCES ... LIBRARIES ... [LABELS ...]): one doctest executable for a part of
# the tree, its test cases registered with ctest by name.
include(doctest)

add_library(ringfence_test_main STATIC
  ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp)
target_link_libraries(ringfence_test_main PUBLIC ringfence_options ringfence_verify doctest::doctest)

function(ringfence_test PART)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(test_${PART} ${ARG_SOURCES})
  target_link_libraries(test_${PART} PRIVATE ringfence_test_main ${ARG_LIBRARIES})
  doctest_discover_tests(test_${PART}
    TEST_PREFIX "${PART}: "
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    # A test that says why it could not run is skipped, unless something in it failed.
    PROPERTIES LABELS "${PART};${ARG_LABELS}" TIMEOUT 300
               SKIP_REGULAR_EXPRESSION "MESSAGE: not run: .*Status: SUCCESS")
endfunction()
