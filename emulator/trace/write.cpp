// Traces as text and as files.
#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/config_json.hpp"
#include "emulator/trace/names.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

using Json = nlohmann::ordered_json;

namespace {

// What determines the run; the rest of the header says how it was found.
Json case_json(const Header& h) {
  Json ignore = Json::array();
  for (machine::FindingKind k : h.ignore) ignore.push_back(machine::name(k));
  Json j{{"config", config_json(h.config, h.input_digest)},
         {"boundary", machine::name(h.policy.boundary)},
         {"policy",
          {{"multicast-flag", machine::policy_word(h.policy, "multicast-flag")},
           {"alias-data", machine::policy_word(h.policy, "alias-data")}}},
         {"ignore", ignore}};
  for (const auto& [name, value] : kernel_policies(h.policy)) j["policy"][name] = value;
  if (h.policy.registers != 0) j["policy"]["registers"] = h.policy.registers;
  if (h.survive) j["survive"] = true;
  return j;
}

Json decision_json(const schedule::Decision& d) {
  Json j{{"agent", schedule::text(schedule::unpack(d.agent))}, {"point", d.point}};
  if (d.nth > 0) j["nth"] = d.nth;
  const std::string key(name(d.kind));
  if (d.kind == schedule::DecisionKind::pick) {
    j[key] = schedule::text(schedule::unpack(d.value));
  } else if (d.kind == schedule::DecisionKind::fault) {
    const auto fault = schedule::decode_step_fault(d.value);
    if (!fault) throw std::invalid_argument("a trace has no word for this fault");
    j[key] = kStepFaultWords[static_cast<std::size_t>(fault->kind)];
    if (fault->kind >= schedule::FaultKind::pause) j["for"] = fault->span;
  } else if (d.kind == schedule::DecisionKind::dirty) {
    const auto dirty = schedule::decode_dirty(d.value);
    if (!dirty) throw std::invalid_argument("a trace has no word for this dirty pad");
    j[key] = dirty->word;
    j["holds"] = dirty->holds;
  } else {
    j[key] = d.value;
  }
  return j;
}

Json side_json(const machine::AccessInfo& a, const SideNames& names) {
  return Json{{"access", name(a.kind)},
              {"order", machine::name(a.order)},
              {"scope", machine::name(a.scope)},
              {"proxy", name(a.proxy)},
              {"agent", schedule::text(schedule::unpack(a.label))},
              {"step", a.step},
              {"site", a.site},
              {"line", names.line},
              {"region", a.region},
              {"offset", a.offset},
              {"bytes", a.bytes},
              {"place", names.place}};
}

Json finding_json(const Verdict& v) {
  const machine::Finding& f = *v.finding;
  Json j{{"kind", machine::name(f.kind)}, {"missing", name(f.missing)}};
  if (f.has_first) j["first"] = side_json(f.first, v.first);
  if (f.has_second) j["second"] = side_json(f.second, v.second);
  return j;
}

Json verdict_json(const Verdict& v) {
  Json j{{"verdict", v.finding                             ? "finding"
                     : v.end == schedule::RunEnd::complete ? "pass"
                                                           : "unknown"},
         {"end", name(v.end)}};
  if (v.finding) j.update(finding_json(v));
  j["message"] = v.message;
  if (!v.stuck.empty()) {
    Json stuck = Json::array();
    for (const StuckNames& s : v.stuck) {
      stuck.push_back(Json{{"agent", schedule::text(schedule::unpack(s.label))},
                           {"slot", s.slot},
                           {"needs", s.needs},
                           {"there", s.there},
                           {"writer", s.writer}});
    }
    j["stuck"] = stuck;
  }
  j["points"] = v.points;
  j["steps"] = v.steps;
  j["digest"] = fmt::format("{:016x}", v.digest);
  return j;
}

// Text from outside (paths, names of sites) need not be UTF-8.
std::string line(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw TraceError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

}  // namespace

std::string to_text(const Trace& trace) {
  const Header& h = trace.header;
  Json header{{"ringfence-trace", kVersion}, {"ringfence", h.made_by}};
  header.update(case_json(h));
  header["strategy"] = h.strategy;
  header["seed"] = h.seed;
  header["executor"] = h.executor;
  if (!h.faults.empty()) header["faults"] = h.faults;
  std::string text = line(header);
  for (const schedule::Decision& d : trace.decisions) text += line(decision_json(d));
  text += line(verdict_json(trace.verdict));
  return text;
}

std::string finding_id(const Trace& trace) {
  Json of = case_json(trace.header);
  const CaseConfig* const kernels = trace.header.config.kernels();
  if (kernels != nullptr && !kernels->digest.empty()) of["config"].erase("case");
  std::string content = line(of);
  for (const schedule::Decision& d : trace.decisions) content += line(decision_json(d));
  content += fmt::format("{:016x}", trace.verdict.digest);
  return fmt::format("{}-{:016x}",
                     trace.verdict.finding ? machine::name(trace.verdict.finding->kind) : "clean",
                     XXH3_64bits(content.data(), content.size()));
}

std::string file_name(const Trace& trace) { return finding_id(trace) + std::string(kSuffix); }

std::string file_digest(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path, "cannot read");
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<char> buffer(1 << 16);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    XXH3_64bits_update(&state, buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) fail(path, "cannot read");
  return fmt::format("{:016x}", XXH3_64bits_digest(&state));
}

void write_text_file(const std::string& path, std::string_view text) {
  const schedule::Unbroken whole;
  // A pipe or a terminal (/dev/stdout) cannot be replaced by a new file.
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    std::ofstream out(path, std::ios::binary | std::ios::app);
    if (!out.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) {
      fail(path, "cannot write");
    }
    return;
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) fail(path, "cannot write");
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    done += static_cast<std::size_t>(n);
  }
  const bool written = done == text.size() && ::fsync(fd) == 0;
  const int why = errno;
  ::close(fd);
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    if (!written) errno = why;
    const int kept = errno;
    ::unlink(temporary.c_str());
    errno = kept;
    fail(path, "cannot write");
  }
}

void write_file(const std::string& path, const Trace& trace) {
  write_text_file(path, to_text(trace));
}

}  // namespace ringfence::trace
