#include "emulator/cli/case_program.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "emulator/cases/case_program.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/programs/switches.hpp"
#include "emulator/ptx/error.hpp"
#include "verify/error.hpp"

namespace ringfence::cli {
namespace {

// The line of whatever a case's readers threw.
template <class F>
auto as_invalid_argument(F&& f) {
  try {
    return f();
  } catch (const cases::CaseError& e) {
    throw std::invalid_argument(e.what());
  } catch (const ptx::Error& e) {
    throw std::invalid_argument(e.what());
  } catch (const verify::InputError& e) {
    throw std::invalid_argument(e.what());
  }
}

// The digest of what lies there; empty if that is no case.
std::string digest_at(const std::string& path) {
  try {
    return cases::digest(cases::read_case(path));
  } catch (const cases::CaseError&) {
    return {};
  }
}

}  // namespace

std::string read_suppressions(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) {
    throw std::invalid_argument(fmt::format("--suppress {}: cannot be read", path));
  }
  as_invalid_argument([&] { cases::read_suppressions(text, path); });
  return text;
}

void check_config(const programs::Config& config) {
  if (!is_case(config)) return programs::validate(config);
  note_case();
  constexpr std::uint32_t kMostCalls = 4096;
  if (config.calls < 1 || config.calls > kMostCalls) {
    throw std::invalid_argument(
        fmt::format("--calls {}: 1 to {} is due", config.calls, kMostCalls));
  }
  as_invalid_argument([&] {
    verify::parse_summation(config.summation);
    const cases::CaseFile file = cases::read_case(config.case_file);
    const std::string now = cases::digest(file);
    if (!config.case_digest.empty() && config.case_digest != now) {
      throw std::invalid_argument(
          fmt::format("{}: its content, or that of a file it names (digest {}), is not that of the "
                      "trace ({})",
                      config.case_file, now, config.case_digest));
    }
    // Says which edit is wrong, or which memory no case has.
    if (!config.set.empty() || !config.suppress.empty()) build_program(config);
  });
}

std::unique_ptr<schedule::Program> build_program(const programs::Config& config) {
  if (!is_case(config)) return programs::make_program(config);
  return as_invalid_argument([&]() -> std::unique_ptr<schedule::Program> {
    cases::Settings settings;
    settings.calls = config.calls;
    settings.payload_seed = config.payload_seed;
    settings.summation = verify::parse_summation(config.summation);
    settings.edits = config.set;
    if (!config.suppress.empty()) {
      settings.ignore = cases::read_suppressions(config.suppress, "--suppress");
    }
    return std::make_unique<cases::CaseProgram>(cases::read_case(config.case_file), settings);
  });
}

void print_numerics(const schedule::Program& program) {
  const auto* const kernels = dynamic_cast<const cases::CaseProgram*>(&program);
  if (kernels == nullptr || kernels->numerics().empty()) return;
  fmt::print("numerics {}\n", kernels->numerics());
}

std::vector<Step> weaker_steps(const programs::Config& config) {
  std::vector<Step> out;
  if (!is_case(config)) {
    for (programs::Weakening& w : programs::weakenings(config.protocol, config.set)) {
      out.push_back({w.key, w.from, w.to, {}});
    }
    return out;
  }
  as_invalid_argument([&] {
    for (const cases::EditSite& site :
         cases::edit_sites(cases::read_case(config.case_file), config.set)) {
      const std::string where =
          site.text + (site.place.empty() ? std::string() : " (" + site.place + ")");
      for (const std::string& to : site.weaker) {
        out.push_back({site.key, site.present, to, where});
      }
    }
  });
  return out;
}

std::vector<Step> stronger_steps(const programs::Config& config) {
  std::vector<Step> out;
  if (!is_case(config)) {
    for (programs::Strengthening& s : programs::strengthenings(config.protocol, config.set)) {
      out.push_back({s.key, s.from, s.to, {}});
    }
    return out;
  }
  as_invalid_argument([&] {
    const cases::CaseFile file = cases::read_case(config.case_file);
    const auto all = cases::edit_sites(file, config.set);
    // What synchronises already, before the weak accesses.
    for (const bool strong : {true, false}) {
      for (const cases::EditSite& site : all) {
        if (site.strong != strong) continue;
        const std::string where =
            site.text + (site.place.empty() ? std::string() : ", " + site.place);
        for (const std::string& to : site.stronger) {
          out.push_back({site.key, site.present, to, where});
        }
      }
    }
  });
  return out;
}

std::vector<machine::Boundary> read_case(programs::Config& config, bool calls_given) {
  return as_invalid_argument([&] {
    note_case();
    const cases::CaseFile file = cases::read_case(config.case_file);
    config.protocol = "case";
    config.ranks = file.ranks;
    if (!calls_given) config.calls = file.calls;
    config.case_digest = cases::digest(file);
    return file.check.modes;
  });
}

void find_case(programs::Config& config, const std::string& trace_path) {
  namespace fs = std::filesystem;
  if (digest_at(config.case_file) == config.case_digest) return;
  fs::path folder = fs::path(trace_path).parent_path();
  if (folder.empty()) folder = ".";
  std::vector<fs::path> places{folder / config.case_file};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") places.push_back(entry.path());
  }
  for (const fs::path& place : places) {
    if (!fs::is_regular_file(place, error) || digest_at(place.string()) != config.case_digest) {
      continue;
    }
    config.case_file = place.string();
    return;
  }
  check_config(config);  // says what is wrong with the one at the path
}

}  // namespace ringfence::cli
