// diff: results of the operator in two files, against the reference and against each other.
#include <fmt/format.h>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/trace/trace.hpp"
#include "verify/diff.hpp"
#include "verify/report.hpp"
#include "verify/report_html.hpp"
#include "verify/report_json.hpp"

namespace ringfence::cli {

namespace {

struct DiffCommand {
  std::string a, b, reference;
  std::string protocol, summation;
  int ranks = 0;
  float eps = 0;
  CLI::Option* eps_given = nullptr;
  ReportOptions reports;
  std::string numbers;  // file
};

Exit diff(const DiffCommand& o) {
  check_writable(o.reports);
  check_writable("--numbers", o.numbers);
  verify::DiffOptions options;
  if (!o.protocol.empty()) {
    options.has_flavour = true;
    options.flavour = verify::parse_flavour(o.protocol);
  }
  if (!o.summation.empty()) {
    options.has_summation = true;
    options.summation = verify::parse_summation(o.summation);
  }
  options.has_ranks = o.ranks > 0;
  options.ranks = o.ranks;
  options.has_eps = o.eps_given->count() > 0;
  options.eps = o.eps;
  const verify::Diff d = verify::diff(o.a, o.b, o.reference, options);
  fmt::print("diff A = {}, B = {}, reference from {}\n\n{}", o.a, o.b, o.reference,
             verify::comparison_table(d.comparisons));
  fmt::print("\n{}\n", d.passed() ? "both agree with the reference and each other" : "MISMATCH");

  if (!o.numbers.empty()) {
    trace::write_text_file(
        o.numbers,
        verify::comparison_html(fmt::format("diff {} {} --reference {}", o.a, o.b, o.reference),
                                d.comparisons));
  }
  Json j = result_head("diff", d.passed() ? Verdict::pass : Verdict::finding, 0);
  j["a"] = o.a;
  j["b"] = o.b;
  j["reference"] = o.reference;
  j["tensors"] = verify::to_json(d.comparisons);
  write_reports(o.reports, j, {verify::junit_suite("diff", d.comparisons)});
  return d.passed() ? Exit::clean : Exit::finding;
}

}  // namespace

void add_diff(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<DiffCommand>();
  CLI::App* sub = app.add_subcommand(
      "diff", "Compares results in two safetensors files with the reference and each other");
  sub->footer("Exit status: 0 all within their bounds, 1 a mismatch, 2 bad usage or input.");
  sub->add_option("A", o->a, "Results: out, and residual_out")->required();
  sub->add_option("B", o->b, "Results to compare with")->required();
  sub->add_option("--reference", o->reference, "Inputs: attn (or x), weight, residual, gamma, beta")
      ->required();
  sub->add_option("--protocol", o->protocol, "tokenweave or pypto (default: as the files say)");
  sub->add_option("--ranks", o->ranks, "Ranks that made the results (default: as the files say)")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--summation", o->summation,
                  "Policy of the sum (default: as the files say, else the widest bound)");
  o->eps_given =
      sub->add_option("--eps", o->eps, "RMSNorm epsilon (default: the files', else 1e-6)");
  sub->add_option("--numbers", o->numbers,
                  "File for the comparison as HTML: error histograms and heat maps")
      ->group("Reports");
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = diff(*o); });
}

}  // namespace ringfence::cli
