// ptx: what a PTX file holds, and what of it the executor does not support.
#include "emulator/cli/ptx.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "emulator/cli/report.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::cli {

namespace {

Json kernel_json(const ptx::KernelListing& k) {
  Json parameters = Json::array(), unsupported = Json::array();
  for (const auto& p : k.parameters) {
    parameters.push_back(Json{{"type", p.type}, {"bytes", p.bytes}, {"alignment", p.alignment}});
  }
  for (const ptx::Unsupported& u : k.unsupported) {
    unsupported.push_back(Json{{"line", u.line}, {"statement", u.statement}, {"reason", u.reason}});
  }
  return Json{{"name", k.name},
              {"demangled", k.demangled},
              {"line", k.line},
              {"parameters", parameters},
              {"registers", k.registers},
              {"static_shared", k.static_shared},
              {"dynamic_shared", k.dynamic_shared},
              {"local", k.local},
              {"limits", k.limits},
              {"instructions", k.instructions},
              {"histogram", k.histogram},
              {"unsupported", unsupported}};
}

Json listing_json(const ptx::Listing& listing) {
  Json j = result_head("ptx", listing.supported() ? Verdict::pass : Verdict::finding, 0);
  j["file"] = listing.file;
  j["ptx_version"] = listing.version;
  j["target"] = listing.target;
  Json kernels = Json::array();
  for (const ptx::KernelListing& k : listing.kernels) kernels.push_back(kernel_json(k));
  j["kernels"] = kernels;
  return j;
}

// A case a kernel: it fails where something of it is not supported.
verify::JunitSuite junit_of(const ptx::Listing& listing) {
  verify::JunitSuite suite;
  suite.name = "ptx";
  for (const ptx::KernelListing& k : listing.kernels) {
    verify::JunitCase one;
    one.classname = "ptx." + listing.file;
    one.name = k.demangled.empty() ? k.name : k.demangled;
    if (!k.unsupported.empty()) {
      one.status = verify::JunitCase::Status::failed;
      one.message = fmt::format("{} statements are not supported", k.unsupported.size());
      for (const ptx::Unsupported& u : k.unsupported) {
        one.detail += fmt::format("{}:{}: {}: {}\n", u.file, u.line, u.reason, u.statement);
      }
    }
    suite.cases.push_back(one);
  }
  return suite;
}

Exit list_file(const PtxOptions& o) {
  check_writable(o.reports);
  const ptx::Module module = ptx::parse(ptx::read_ptx(o.file), o.file);
  if (!o.case_template.empty()) {
    std::vector<const ptx::Function*> kernels;
    for (const std::string& name : o.case_template) kernels.push_back(&module.kernel(name));
    fmt::print("{}", ptx::case_template(module, kernels, o.file));
    return Exit::clean;
  }
  const ptx::Listing listing = ptx::list(module);
  fmt::print("{}", ptx::to_text(listing));
  write_reports(o.reports, listing_json(listing), {junit_of(listing)});
  return listing.supported() ? Exit::clean : Exit::finding;
}

}  // namespace

Exit run(const PtxOptions& o) {
  try {
    return list_file(o);
  } catch (const ptx::Error& e) {
    throw UsageError(e.what());
  }
}

}  // namespace ringfence::cli
