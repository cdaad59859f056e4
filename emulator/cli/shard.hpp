#pragma once
// Which part of a campaign this process takes.

#include <cstdint>
#include <functional>
#include <string>

namespace ringfence::cli {

// Part `index` (from 0) of `count`: the units whose number is index modulo count.
struct Shard {
  std::uint32_t index = 0, count = 1;
  bool takes(std::uint64_t unit) const { return unit % count == index; }
};

// "3/8", counted from 1. Empty: what the environment says, if it does, by the first pair of
//   TEST_SHARD_INDEX, TEST_TOTAL_SHARDS (Bazel), GTEST_SHARD_INDEX, GTEST_TOTAL_SHARDS,
//   SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN, SLURM_ARRAY_TASK_COUNT,
//   JOB_COMPLETION_INDEX (Kubernetes), TEST_TOTAL_SHARDS
// that is whole; indices there count from 0. Throws UsageError. `environment` gives nullptr for a
// variable that is not set.
using Environment = std::function<const char*(const char*)>;
Shard find_shard(const std::string& given, const Environment& environment);

// Bazel and GoogleTest want to see that sharding is understood: touches the file that
// TEST_SHARD_STATUS_FILE or GTEST_SHARD_STATUS_FILE names.
void acknowledge_shard(const Environment& environment);

}  // namespace ringfence::cli
