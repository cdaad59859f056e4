#include "emulator/cli/shard.hpp"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "emulator/cli/errors.hpp"

namespace ringfence::cli {

namespace {

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::uint32_t variable(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (const auto n = number(text)) return *n;
  throw UsageError(fmt::format("{}={}: expected a number", name, text));
}

}  // namespace

Shard find_shard(const std::string& given, const Environment& environment) {
  if (!given.empty()) {
    const std::size_t slash = given.find('/');
    const auto i = number(std::string_view(given).substr(0, slash));
    const auto n = slash == std::string::npos ? std::nullopt
                                              : number(std::string_view(given).substr(slash + 1));
    if (!i || !n || *i < 1 || *i > *n) {
      throw UsageError(
          fmt::format("--shard {}: expected I/N with I from 1 to N, such as 3/8", given));
    }
    return {*i - 1, *n};
  }
  const struct {
    const char *index, *first, *count;
  } pairs[] = {
      {"TEST_SHARD_INDEX", nullptr, "TEST_TOTAL_SHARDS"},
      {"GTEST_SHARD_INDEX", nullptr, "GTEST_TOTAL_SHARDS"},
      {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"},
      {"JOB_COMPLETION_INDEX", nullptr, "TEST_TOTAL_SHARDS"},
  };
  for (const auto& p : pairs) {
    if (environment(p.index) == nullptr || environment(p.count) == nullptr) continue;
    std::uint32_t index = variable(environment, p.index);
    const std::uint32_t count = variable(environment, p.count);
    if (p.first != nullptr && environment(p.first) != nullptr) {
      index -= variable(environment, p.first);
    }
    if (index >= count) {
      throw UsageError(fmt::format("{} is {} of {}={}: expected less, they count from 0", p.index,
                                   index, p.count, count));
    }
    return {index, count};
  }
  return {};
}

void acknowledge_shard(const Environment& environment) {
  for (const char* name : {"TEST_SHARD_STATUS_FILE", "GTEST_SHARD_STATUS_FILE"}) {
    if (const char* path = environment(name)) std::ofstream(path, std::ios::app);
  }
}

}  // namespace ringfence::cli
