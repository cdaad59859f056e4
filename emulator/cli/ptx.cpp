// ptx: what a PTX file holds, and what of it the executor does not support.
#include <fmt/format.h>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::cli {

namespace {

struct PtxCommand {
  std::string file, case_template;
};

Exit ptx(const PtxCommand& o) {
  const ptx::Module module = ptx::parse(ptx::read_ptx(o.file), o.file);
  if (!o.case_template.empty()) {
    fmt::print("{}", ptx::case_template(module, module.kernel(o.case_template), o.file));
    return Exit::clean;
  }
  const ptx::Listing listing = ptx::list(module);
  fmt::print("{}", ptx::to_text(listing));
  return listing.supported() ? Exit::clean : Exit::finding;
}

}  // namespace

void add_ptx(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<PtxCommand>();
  CLI::App* sub = app.add_subcommand(
      "ptx", "Lists a PTX file's kernels, parameters and instructions, and what is not supported");
  sub->footer("Exit status: 0 all supported, 1 something is not, 2 bad usage or input.");
  sub->add_option("file", o->file,
                  "PTX text, a program or library with PTX inside, or a .cu (nvcc)")
      ->required();
  sub->add_option(
      "--case-template", o->case_template,
      "Print a case file to fill in for this kernel (a part of its name that is unique)");
  sub->callback([o, &exit] {
    try {
      exit = ptx(*o);
    } catch (const ptx::Error& e) {
      throw UsageError(e.what());
    }
  });
}

}  // namespace ringfence::cli
