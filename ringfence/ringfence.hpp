#pragma once
// All of the library: docs/library.md.

#include "ringfence/case.hpp"
#include "ringfence/litmus.hpp"
#include "ringfence/result.hpp"
#include "ringfence/subject.hpp"
#include "ringfence/tensor.hpp"
#include "ringfence/threads.hpp"
