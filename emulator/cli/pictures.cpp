#include "emulator/cli/pictures.hpp"

#include "emulator/cli/report.hpp"
#include "emulator/trace/page.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

void add_picture_options(CLI::App& app, PictureOptions& o) {
  app.add_option("--html", o.html, "File for the run as one self-contained HTML page")
      ->group("Reports");
}

void check_writable(const PictureOptions& o) { check_writable("--html", o.html); }

void write_pictures(const PictureOptions& o, const trace::Trace& trace,
                    const schedule::Outcome& outcome, const schedule::Program& program,
                    const std::string& replay, const std::string& remedy) {
  if (!o.html.empty()) {
    const std::string story =
        trace::story(trace, outcome, program,
                     {.replay = replay, .remedy = remedy, .free_running = replay.empty()});
    trace::write_text_file(
        o.html,
        trace::page(trace, outcome, program, {.replay = replay, .remedy = remedy, .story = story}));
  }
}

}  // namespace ringfence::cli
