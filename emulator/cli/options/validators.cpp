#include "emulator/cli/options/validators.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/options.hpp"

namespace ringfence::cli {
namespace {

// Takes a number that satisfies `right`; `due` says which do.
template <class Right>
CLI::Validator number(const char* description, const char* due, Right right) {
  return CLI::Validator(
      [due, right](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && right(value)) return std::string();
        return fmt::format("expected {}, not {}", due, text);
      },
      description);
}

// A name for a file by which two paths to it are equal; empty where it is none that a report would
// replace, such as /dev/null or a pipe.
std::string identity(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return {};
  return fs::weakly_canonical(fs::absolute(path, error), error).string();  // also of none yet
}

// The options that name files which are read. Of a positional one the name without dashes.
constexpr const char* kInputs[] = {"--case",      "--input",  "--profile", "--expect",
                                   "--reference", "--resume", "trace",     "FILE",
                                   "A",           "B",        "file"};
constexpr const char* kOutputs[] = {"--json",     "--junit",   "--sarif",  "--html",
                                    "--perfetto", "--dot",     "--shiviz", "--trace",
                                    "--output",   "--numbers", "--svg"};

}  // namespace

bool given(const CLI::Option* option) { return option->count() > 0; }
std::string name_of(const CLI::Option* option) { return option->get_name(); }

CLI::Validator above_zero() {
  return number("POSITIVE", "a number above 0", [](double v) { return std::isfinite(v) && v > 0; });
}

CLI::Validator fraction() {
  return number("FLOAT in [0 - 1]", "a number from 0 to 1",
                [](double v) { return v >= 0 && v <= 1; });
}

void check_outputs_apart(const CLI::App& sub) {
  std::map<std::string, std::string> taken;  // by identity, the option that named it
  const auto each = [&](const char* name, const auto& what) {
    const CLI::Option* option = sub.get_option_no_throw(name);
    if (option == nullptr) return;
    for (const std::string& path : option->results()) {
      if (const std::string id = identity(path); !id.empty()) what(path, id);
    }
  };
  for (const char* name : kInputs) {
    each(name, [&](const std::string&, const std::string& id) { taken.emplace(id, name); });
  }
  for (const char* name : kOutputs) {
    each(name, [&](const std::string& path, const std::string& id) {
      const auto [at, first] = taken.emplace(id, name);
      if (first) return;
      throw UsageError(fmt::format("{} {}: the file of {} too; expected a name of its own", name,
                                   path, at->second));
    });
  }
}

}  // namespace ringfence::cli
