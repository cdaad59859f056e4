// ptx: what a PTX file holds, and what of it the executor does not support.
#include "emulator/cli/ptx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <nlohmann/json.hpp>

#include "emulator/cli/report.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::cli {

namespace {

bool supported(const std::vector<ptx::Listing>& listings) {
  return std::all_of(listings.begin(), listings.end(),
                     [](const ptx::Listing& l) { return l.supported(); });
}

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

// `listings`: of the file's modules, one or more.
Json listing_json(const std::vector<ptx::Listing>& listings, const std::string& file) {
  Json j = result_head("ptx", supported(listings) ? Verdict::pass : Verdict::finding, 0);
  j["file"] = file;
  j["ptx_version"] = listings[0].version;
  j["target"] = listings[0].target;
  Json kernels = Json::array();
  for (const ptx::Listing& listing : listings) {
    for (const ptx::KernelListing& k : listing.kernels) {
      kernels.push_back(kernel_json(k));
      if (listings.size() > 1) kernels.back()["module"] = listing.file;
    }
  }
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
  std::list<ptx::Module> modules;
  if (!o.case_template.empty()) {
    std::vector<ptx::ModuleKernel> kernels;
    for (const std::string& name : o.case_template) {
      const std::string file = ptx::modules_with(o.file, name).front();
      const auto same = std::find_if(modules.begin(), modules.end(),
                                     [&](const ptx::Module& m) { return m.file == file; });
      const ptx::Module& module = same != modules.end()
                                      ? *same
                                      : modules.emplace_back(ptx::parse(ptx::read_ptx(file), file));
      kernels.push_back({&module, &module.kernel(name)});
    }
    fmt::print("{}", ptx::case_template(kernels, o.file));
    return Exit::clean;
  }
  std::vector<ptx::Listing> listings;
  std::vector<verify::JunitSuite> suites;
  const std::vector<ptx::NamedText> texts = ptx::read_modules(o.file);
  for (const ptx::NamedText& m : texts) {
    ptx::Module module = ptx::parse(m.text, m.name, texts.size() > 1);
    const auto is_kernel = [](const ptx::Function& f) { return f.entry && f.has_body; };
    // Sources without kernels, and of what nvcc links in.
    const bool any = std::any_of(module.functions.begin(), module.functions.end(), is_kernel);
    if (!any && texts.size() > 1) continue;
    modules.push_back(std::move(module));
    listings.push_back(ptx::list(modules.back()));
    fmt::print("{}{}", listings.size() > 1 ? "\n" : "", ptx::to_text(listings.back()));
    suites.push_back(junit_of(listings.back()));
  }
  if (listings.empty()) {
    throw UsageError(o.file + ": none of its " + std::to_string(texts.size()) +
                     " modules holds a kernel");
  }
  write_reports(o.reports, listing_json(listings, o.file), suites);
  return supported(listings) ? Exit::clean : Exit::finding;
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
