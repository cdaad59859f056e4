#include <CLI/CLI.hpp>

#include "emulator/analysis/pictures.hpp"
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

void add_picture_options(CLI::App& app, PictureOptions& o) {
  app.add_option("--html", o.html, "File for the run as one self-contained HTML page")
      ->group("Reports");
  app.add_option("--perfetto", o.perfetto,
                 "File for the run as Chrome trace JSON, for ui.perfetto.dev")
      ->group("Reports");
  app.add_option("--dot", o.dot, "File for the run's strong accesses as a Graphviz graph")
      ->group("Reports");
  app.add_option("--shiviz", o.shiviz, "File for the same as a log that ShiViz reads")
      ->group("Reports");
}

}  // namespace ringfence::cli
