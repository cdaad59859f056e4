#include "emulator/analysis/pictures.hpp"

#include "emulator/trace/exports.hpp"
#include "emulator/trace/page.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::analysis {
namespace {

// What the verdict leaves open, in the words of the text output (emulator/cli/notes.cpp).
std::vector<std::string> lines_of(const Notes& notes) {
  std::vector<std::string> lines;
  for (const std::string& remark : notes.remarks) lines.push_back("note: " + remark);
  for (const std::string& what : notes.left_out) lines.push_back("left out: " + what);
  return lines;
}

}  // namespace

void write_pictures(const PictureOptions& o, const Subject& subject, const trace::Trace& trace,
                    const schedule::Outcome& outcome, const schedule::Program& program,
                    const std::string& replay, const std::string& remedy,
                    const schedule::Outcome* passing) {
  if (!o.html.empty()) {
    const std::string story =
        trace::story(trace, outcome, program,
                     {.replay = replay, .remedy = remedy, .free_running = replay.empty()});
    trace::write_text_file(o.html, trace::page(trace, outcome, program,
                                               {.replay = replay,
                                                .remedy = remedy,
                                                .story = story,
                                                .notes = lines_of(subject.notes(program)),
                                                .passing = passing}));
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
