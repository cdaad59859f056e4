#include "emulator/exec/device_profile.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "emulator/analysis/errors.hpp"
#include "verify/toml.hpp"

namespace ringfence::exec {
namespace {

using Reader = verify::TomlReader<analysis::InputError>;

// What the file does not say stays as it is; in a machine profile figures come with their source.
void read_number(const Reader& r, const toml::table& t, const char* key, std::uint64_t most,
                 std::uint64_t unit, std::uint64_t& out) {
  const toml::node* n = t.get(key);
  if (n == nullptr) return;
  if (const toml::array* pair = n->as_array(); pair != nullptr && !pair->empty()) n = pair->get(0);
  out = r.number(*n, key, 1, most) * unit;
}

void read_attributes(const Reader& r, const toml::table& t, DeviceProfile& out) {
  const toml::node* const n = t.get("attributes");
  if (n == nullptr) return;
  for (const auto& [key, value] : r.table(*n, "attributes")) {
    const std::string_view word = key.str();
    int number = 0;
    const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), number);
    constexpr int kMost = 1000;
    if (wrong != std::errc() || end != word.data() + word.size() || number < 1 || number > kMost) {
      r.fail(key.source(), "attributes: '{}' is no number of a cudaDeviceAttr; expected 1 to {}",
             word, kMost);
    }
    out.attributes[number] =
        static_cast<std::int32_t>(r.number(value, word, 0, std::uint64_t{0x7fffffff}));
  }
}

}  // namespace

DeviceProfile parse_device_profile(const std::string& text, const std::string& name) {
  const Reader r(name);
  const toml::table root = r.parse(text);
  r.only(root, "a device profile",
         {"version", "name", "multiprocessors", "memory_gib", "l2_mib", "attributes", "block",
          "memory", "link", "switch", "signal", "launch", "product"});
  DeviceProfile out;
  if (const toml::node* n = root.get("name")) out.name = r.text(*n, "name");
  std::uint64_t multiprocessors = out.multiprocessors;
  read_number(r, root, "multiprocessors", 1024, 1, multiprocessors);
  out.multiprocessors = static_cast<std::uint32_t>(multiprocessors);
  read_number(r, root, "memory_gib", 4096, std::uint64_t{1} << 30, out.memory_bytes);
  read_number(r, root, "l2_mib", 2047, std::uint64_t{1} << 20, out.l2_bytes);
  read_attributes(r, root, out);
  return out;
}

DeviceProfile read_device_profile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) {
    throw analysis::InputError(
        fmt::format("--device-profile {}: cannot be read: {}; expected a TOML file with "
                    "multiprocessors, memory_gib, l2_mib or attributes",
                    path, std::strerror(errno)));
  }
  return parse_device_profile(text, path);
}

}  // namespace ringfence::exec
