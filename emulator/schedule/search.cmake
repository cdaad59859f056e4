# Looking for a failing run and making it small. Needs executors only, not the runtime.
add_library(ringfence_search failure.cpp search.cpp shrink.cpp)
target_link_libraries(ringfence_search PUBLIC ringfence_machine ringfence_options Threads::Threads)
