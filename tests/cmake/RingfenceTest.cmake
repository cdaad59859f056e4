# ringfence_test(PART SOURCES ... LIBRARIES ... [ALONE ...] [LABELS ...]): one doctest executable for a
# part of the tree, its test cases registered with ctest by name. Its sources are compiled a few at
# a time, as those of a room are; ALONE names those whose helpers clash with another's.
include(doctest)

add_library(ringfence_test_main STATIC
  ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp)
target_link_libraries(ringfence_test_main PUBLIC ringfence_options ringfence_verify doctest::doctest)

function(ringfence_test PART)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;ALONE;LABELS" ${ARGN})
  add_executable(test_${PART} ${ARG_SOURCES})
  set_target_properties(test_${PART} PROPERTIES UNITY_BUILD ${RINGFENCE_UNITY} UNITY_BUILD_BATCH_SIZE 4)
  if(ARG_ALONE)
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  # What takes time in a test is what it tests: it is compiled in three quarters of the time.
  target_compile_options(test_${PART} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo>>:-O0>)
  target_link_libraries(test_${PART} PRIVATE ringfence_test_main ${ARG_LIBRARIES})
  doctest_discover_tests(test_${PART}
    TEST_PREFIX "${PART}: "
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    # A test that says why it could not run is skipped, unless something in it failed.
    PROPERTIES LABELS "${PART};${ARG_LABELS}" TIMEOUT 300
               SKIP_REGULAR_EXPRESSION "MESSAGE: not run: .*Status: SUCCESS")
endfunction()
