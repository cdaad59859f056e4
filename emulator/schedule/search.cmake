# Looking for a failing run and making it small, with any executor.
add_library(ringfence_search corpus.cpp failure.cpp search.cpp shrink.cpp)
target_link_libraries(ringfence_search PUBLIC ringfence_schedule Threads::Threads)
