// The kernels of a case as a subject: the sites of their instructions.
#include "emulator/analysis/subject.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "emulator/cases/case_program.hpp"
#include "emulator/ptx/error.hpp"
#include "verify/error.hpp"

namespace ringfence::analysis {
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

class CaseSubject final : public RecordedAs<trace::CaseConfig> {
 public:
  CaseSubject(std::shared_ptr<const cases::CaseFile> file, trace::CaseConfig config)
      : RecordedAs(std::move(config)), file_(std::move(file)) {}

  bool kernels() const override { return true; }
  std::vector<machine::Boundary> claims() const override { return file_->check.modes; }

  std::unique_ptr<schedule::Program> make_program() const override {
    return as_invalid_argument([&]() -> std::unique_ptr<schedule::Program> {
      const trace::CaseConfig& c = record();
      cases::Settings settings;
      settings.calls = c.calls;
      settings.payload_seed = c.payload_seed;
      settings.summation = verify::parse_summation(c.summation);
      settings.edits = c.set;
      if (!c.suppress.empty()) {
        settings.ignore = cases::read_suppressions(c.suppress, "--suppress");
      }
      return std::make_unique<cases::CaseProgram>(*file_, settings);
    });
  }

  std::vector<Step> weaker() const override {
    std::vector<Step> out;
    for (const cases::EditSite& site : sites()) {
      const std::string where =
          site.text + (site.place.empty() ? std::string() : " (" + site.place + ")");
      for (const std::string& to : site.weaker) out.push_back({site.key, site.present, to, where});
    }
    return out;
  }

  std::vector<Step> stronger() const override {
    std::vector<Step> out;
    const auto all = sites();
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
    return out;
  }

  std::string site_key(const schedule::Program& program, std::uint16_t site) const override {
    return mine(program).site_key(site);
  }

  std::string memory_key(const schedule::Program& program,
                         machine::RegionId region) const override {
    const std::string name = mine(program).memory_name(region);
    return name.empty() ? name : "memory." + name;
  }

  SubjectPtr with(const Settings& set) const override {
    trace::CaseConfig changed = record();
    changed.set = set;
    return std::make_shared<CaseSubject>(file_, std::move(changed));
  }

  SubjectPtr like(const trace::Configuration& recorded) const override {
    trace::CaseConfig c = std::get<trace::CaseConfig>(recorded.what());
    c.file = record().file;
    c.digest = record().digest;
    c.ranks = record().ranks;
    return std::make_shared<CaseSubject>(file_, std::move(c));
  }

  SubjectPtr passing_over(const std::string& tables) const override {
    trace::CaseConfig c = record();
    if (!c.suppress.empty()) c.suppress += '\n';
    c.suppress += tables;
    return std::make_shared<CaseSubject>(file_, std::move(c));
  }

  // The file has the sizes, and its kernel's scalars go with them: only the calls are ours.
  std::vector<SubjectPtr> smaller() const override {
    std::vector<SubjectPtr> out;
    std::uint32_t last = 0;
    for (const std::uint32_t calls : {1u, record().calls / 2, record().calls - 1}) {
      if (calls < 1 || calls >= record().calls || calls == last) continue;
      trace::CaseConfig c = record();
      c.calls = last = calls;
      out.push_back(std::make_shared<CaseSubject>(file_, std::move(c)));
    }
    return out;
  }

  Notes notes(const schedule::Program& program) const override {
    const cases::CaseProgram& c = mine(program);
    return {c.values_not_judged(), c.never_written(), c.unused_suppressions(),
            c.remarks(),           c.unexplored(),    c.left_out(),
            c.time_outs()};
  }
  std::string numerics(const schedule::Program& program) const override {
    return mine(program).numerics();
  }
  std::vector<verify::Comparison> compare(const schedule::Program& program) const override {
    return mine(program).comparisons();
  }
  ReplicaCheck replicas(const schedule::Program& program) const override {
    if (file_->check.equal.empty()) return {true, "the case compares none"};
    const std::string difference = mine(program).replica_difference();
    if (!difference.empty()) return {false, difference};
    return {true, fmt::format("{} equal bit for bit", file_->check.equal.size() == 1
                                                          ? "the memory compared is"
                                                          : "all memories compared are")};
  }
  verify::Safetensors tensors(const schedule::Program& program) const override {
    verify::Safetensors file = mine(program).final_memories();
    file.metadata["case"] = record().file;
    file.metadata["case_digest"] = record().digest;
    return file;
  }

 private:
  // make_program makes no other.
  static const cases::CaseProgram& mine(const schedule::Program& program) {
    return static_cast<const cases::CaseProgram&>(program);
  }
  std::vector<cases::EditSite> sites() const {
    return as_invalid_argument([&] { return cases::edit_sites(*file_, record().set); });
  }

  std::shared_ptr<const cases::CaseFile> file_;
};

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

SubjectPtr make_case_subject(cases::CaseFile file, trace::CaseConfig config) {
  constexpr std::uint32_t kMostCalls = 4096;
  if (config.calls < 1 || config.calls > kMostCalls) {
    throw std::invalid_argument(
        fmt::format("--calls {}: expected 1 to {}", config.calls, kMostCalls));
  }
  as_invalid_argument([&] { verify::parse_summation(config.summation); });
  const bool changed = !config.set.empty() || !config.suppress.empty();
  const auto subject = std::make_shared<CaseSubject>(
      std::make_shared<const cases::CaseFile>(std::move(file)), std::move(config));
  // Says which edit is wrong, or which memory no case has.
  if (changed) subject->make_program();
  return subject;
}

SubjectPtr read_case_subject(const trace::CaseConfig& config) {
  return as_invalid_argument([&] {
    cases::CaseFile file = cases::read_case(config.file);
    const std::string now = cases::digest(file);
    if (!config.digest.empty() && config.digest != now) {
      throw std::invalid_argument(
          fmt::format("{}: its content, or that of a file it names (digest {}), is not that of the "
                      "trace ({})",
                      config.file, now, config.digest));
    }
    return make_case_subject(std::move(file), config);
  });
}

trace::CaseConfig config_of(const cases::CaseFile& file) {
  trace::CaseConfig config;
  config.file = file.path;
  config.digest = cases::digest(file);
  config.ranks = file.ranks;
  config.calls = file.calls;
  return config;
}

std::vector<machine::Boundary> read_case(trace::CaseConfig& config, bool calls_given) {
  return as_invalid_argument([&] {
    const cases::CaseFile file = cases::read_case(config.file);
    const trace::CaseConfig there = config_of(file);
    config.digest = there.digest;
    config.ranks = there.ranks;
    if (!calls_given) config.calls = there.calls;
    return file.check.modes;
  });
}

}  // namespace ringfence::analysis
