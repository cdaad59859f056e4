// diff: results of the operator in two files, against the reference and against each other.
#include "emulator/cli/diff.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "emulator/cli/report.hpp"
#include "emulator/trace/trace.hpp"
#include "verify/diff.hpp"
#include "verify/report.hpp"
#include "verify/report_html.hpp"
#include "verify/report_json.hpp"

namespace ringfence::cli {

Exit run(const DiffOptions& o) {
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
  options.has_eps = given(o.eps_given);
  options.eps = o.eps;
  options.names = verify::parse_input_names(o.input_map, "--map");
  const verify::Diff d = verify::diff(o.a, o.b, o.reference, options);
  for (const std::string& note : d.notes) fmt::print(stderr, "{}\n", note);
  fmt::print("diff A = {}, B = {}, reference from {}\n\n{}", o.a, o.b, o.reference,
             verify::comparison_table(d.comparisons));
  fmt::print("\n{}\n",
             d.passed() ? "both agree with the reference and with each other" : "MISMATCH");

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
  if (!o.input_map.empty()) j["input_map"] = o.input_map;
  j["tensors"] = verify::to_json(d.comparisons);
  write_reports(o.reports, j, {verify::junit_suite("diff", d.comparisons)});
  return d.passed() ? Exit::clean : Exit::finding;
}

}  // namespace ringfence::cli
