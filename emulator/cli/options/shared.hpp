#pragma once
// Groups of options that several subcommands have.

#include "emulator/analysis/pictures.hpp"
#include "emulator/cli/campaign.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/options.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

void add_case_options(CLI::App& app, CaseOptions& options);
// --boundary, --policy, --ignore
void add_model_options(CLI::App& app, CaseOptions& options);
// --stall and --executor
void add_executor_options(CLI::App& app, ExecutorOptions& options);
void add_campaign_options(CLI::App& app, CampaignOptions& options);
void add_report_options(CLI::App& app, ReportOptions& options);
void add_sarif_option(CLI::App& app, ReportOptions& options);
void add_picture_options(CLI::App& app, PictureOptions& options);
// --remedies[=SECONDS] and --no-remedies
void add_remedies_option(CLI::App& app, bool& remedies, double& seconds);

}  // namespace ringfence::cli
