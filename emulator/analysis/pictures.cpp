#include "emulator/analysis/pictures.hpp"

#include "emulator/cases/case_program.hpp"
#include "emulator/trace/exports.hpp"
#include "emulator/trace/page.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::analysis {
namespace {

// What the verdict on a case leaves open, in the words of the text output (emulator/cli/notes.cpp).
std::vector<std::string> notes_of(const schedule::Program& program) {
  std::vector<std::string> notes;
  const auto* const c = dynamic_cast<const cases::CaseProgram*>(&program);
  if (c == nullptr) return notes;
  for (const std::string& remark : c->remarks()) notes.push_back("note: " + remark);
  for (const std::string& what : c->left_out()) notes.push_back("left out: " + what);
  return notes;
}

}  // namespace

void write_pictures(const PictureOptions& o, const trace::Trace& trace,
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
                                                .notes = notes_of(program),
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
