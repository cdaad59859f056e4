// The one main of all test executables, with the reporter `numerics`.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "verify/doctest.hpp"
