#include "emulator/analysis/pictures.hpp"

#include "emulator/trace/exports.hpp"
#include "emulator/trace/page.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::analysis {

void write_pictures(const PictureOptions& o, const trace::Trace& trace,
                    const schedule::Outcome& outcome, const schedule::Program& program,
                    const std::string& replay, const std::string& remedy,
                    const schedule::Outcome* passing) {
  if (!o.html.empty()) {
    const std::string story =
        trace::story(trace, outcome, program,
                     {.replay = replay, .remedy = remedy, .free_running = replay.empty()});
    trace::write_text_file(
        o.html,
        trace::page(trace, outcome, program,
                    {.replay = replay, .remedy = remedy, .story = story, .passing = passing}));
  }
  if (!o.perfetto.empty()) {
    trace::write_text_file(o.perfetto, trace::chrome_trace(trace, outcome, program));
  }
  if (!o.dot.empty()) trace::write_text_file(o.dot, trace::dot_graph(trace, outcome, program));
  if (!o.shiviz.empty()) {
    trace::write_text_file(o.shiviz, trace::shiviz_log(trace, outcome, program));
  }
}

}  // namespace ringfence::analysis
