#pragma once
// What the devices are said to be like: a file of --device-profile.

#include <cstdint>
#include <map>
#include <string>

namespace ringfence::exec {

// By default an H200.
struct DeviceProfile {
  std::string name;  // empty: nothing but the compute capability
  std::uint32_t multiprocessors = 132;
  std::uint64_t memory_bytes = std::uint64_t{141} << 30;
  std::uint64_t l2_bytes = std::uint64_t{60} << 20;
  std::map<std::int32_t, std::int32_t>
      attributes;  // by cudaDeviceAttr's number: what they are else
};

// `name` is the file's, for messages. A machine profile (cuda/profiles) is one too: its name and
// its multiprocessors count. Throws analysis::InputError.
DeviceProfile parse_device_profile(const std::string& text, const std::string& name);
DeviceProfile read_device_profile(const std::string& path);

}  // namespace ringfence::exec
