#include "emulator/cli/switches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/cli/case_options.hpp"
#include "emulator/programs/config.hpp"

namespace ringfence::cli {

Exit run(const SwitchesOptions& o) {
  if (o.protocol.empty()) {
    for (const programs::Protocol& p : programs::protocols()) {
      fmt::print("{:<18}{}\n", p.name, p.summary);
    }
    fmt::print("\nringfence switches PROTOCOL lists the switches of one, for --set\n");
    return Exit::clean;
  }
  const programs::Protocol& p = protocol_of(o.protocol);
  fmt::print("{}: {}\n\n", p.name, p.summary);
  std::size_t key = 0, values = std::string_view("--set KEY=").size();
  for (const programs::ProtocolSwitch& s : p.switches) {
    key = std::max(key, s.key.size());
    values = std::max(values, s.values.size());
  }
  const auto row = [&](std::string_view a, std::string_view b, std::string_view c) {
    std::string line = fmt::format("{:<{}}  {:<{}}  {}", a, key, b, values, c);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  };
  row("--set", "values", "default");
  for (const programs::ProtocolSwitch& s : p.switches) {
    row(s.key, s.values, s.values == "none" ? "in place" : s.without);
  }
  return Exit::clean;
}

}  // namespace ringfence::cli
