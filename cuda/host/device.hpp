// What the devices of this machine are and can do.
#pragma once

#include <string>
#include <vector>

namespace ringfence::cuda {

struct Device {
  int ordinal = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
  double memory_gib = 0;
  double l2_mib = 0;
  bool cooperative_launch = false;
  bool multicast_supported = false;  // as the driver says; it does not say that it is allowed
};

/// All devices; empty where there is no driver or no device.
std::vector<Device> devices();

/// "13.0" of the driver and the runtime; empty where there is none.
std::string driver_version();
std::string runtime_version();

/// The device, or Error(no_device) that says how many there are.
Device require_device(int ordinal);

/// Throws Error(not_supported) where the kernels were not compiled for the device.
void require_kernels(const Device& device, const void* kernel, const char* name);

/// Throws Error(not_supported) naming the pair unless each of the devices can access each other's
/// memory.
void require_peer_access(const std::vector<int>& ordinals);

}  // namespace ringfence::cuda
