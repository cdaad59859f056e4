#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "emulator/analysis/pictures.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

void add_report_options(CLI::App& app, ReportOptions& o) {
  app.add_option("--json", o.json, "File for the result as JSON")->group("Reports");
  app.add_option("--junit", o.junit, "File for the result as JUnit XML")->group("Reports");
}

void add_sarif_option(CLI::App& app, ReportOptions& o) {
  app.add_option("--sarif", o.sarif, "File for the findings as SARIF 2.1.0")->group("Reports");
}

void add_remedies_option(CLI::App& app, bool& remedies, double& seconds) {
  // Without a value 2 s.
  app.add_flag_function(
         "--no-remedies", [&remedies](std::int64_t) { remedies = false; },
         "Do not look for fixes of a finding")
      ->group("Reports");
  app.add_option_function<std::string>(
         "--remedies",
         [&](const std::string& text) {
           remedies = true;
           if (text.empty()) return;
           std::string number = text;
           if (number.ends_with('s')) number.pop_back();
           std::size_t end = 0;
           double value = 0;
           try {
             value = std::stod(number, &end);
           } catch (const std::exception&) {
             end = 0;
           }
           if (end == 0 || end != number.size() || !(value > 0) || value > 86400) {
             throw UsageError("--remedies " + text +
                              ": expected a time in seconds, such as 20 or 20s");
           }
           seconds = value;
         },
         "Look for fixes of a finding for so long: orders, scopes, fences and barriers are tried, "
         "first where its cause is (default: 2s)")
      ->type_name("TIME")
      ->expected(0, 1)
      ->group("Reports");
}

void add_picture_options(CLI::App& app, PictureOptions& o) {
  app.add_option("--html", o.html, "File for the run as one self-contained HTML page")
      ->group("Reports");
  app.add_option("--perfetto", o.perfetto,
                 "File for the run as Chrome trace JSON, for ui.perfetto.dev")
      ->group("Reports");
  app.add_option("--dot", o.dot, "File for the run's strong accesses as a Graphviz graph")
      ->group("Reports");
  app.add_option("--shiviz", o.shiviz, "File for the same accesses as a log for ShiViz")
      ->group("Reports");
}

}  // namespace ringfence::cli
