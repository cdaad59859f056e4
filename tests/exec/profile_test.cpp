// What --device-profile reads.
#include <doctest/doctest.h>

#include "emulator/analysis/errors.hpp"
#include "emulator/exec/device_profile.hpp"

using ringfence::analysis::InputError;
using ringfence::exec::DeviceProfile;
using ringfence::exec::parse_device_profile;

TEST_CASE("a device profile says what it says, and what it leaves out is an H200's") {
  const DeviceProfile p = parse_device_profile(
      "name = \"small\"\nmultiprocessors = 16\nmemory_gib = 2\n[attributes]\n13 = 1500000\n",
      "small.toml");
  CHECK(p.name == "small");
  CHECK(p.multiprocessors == 16);
  CHECK(p.memory_bytes == std::uint64_t{2} << 30);
  CHECK(p.l2_bytes == std::uint64_t{60} << 20);
  CHECK(p.attributes == std::map<std::int32_t, std::int32_t>{{13, 1500000}});
}

TEST_CASE("a machine profile of the tree is a device profile") {
  const DeviceProfile p = ringfence::exec::read_device_profile("cuda/profiles/h200.toml");
  CHECK(p.name == "h200");
  CHECK(p.multiprocessors == 132);
}

TEST_CASE("what no device profile says is refused in one line, with what would be right") {
  const auto wrong = [](const char* text) { return parse_device_profile(text, "p.toml"); };
  CHECK_THROWS_WITH_AS(wrong("multiprocessors = 0"),
                       "p.toml:1:19: multiprocessors must be a whole number from 1 to 1024",
                       InputError);
  CHECK_THROWS_AS(wrong("sms = 3"), InputError);
  CHECK_THROWS_WITH_AS(
      wrong("[attributes]\nclock = 3"),
      "p.toml:2:1: attributes: 'clock' is no number of a cudaDeviceAttr; expected 1 to 1000",
      InputError);
  CHECK_THROWS_AS(ringfence::exec::read_device_profile("not-there.toml"), InputError);
}
