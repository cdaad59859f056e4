// Subjects: what is analysed, made and changed.
#include "ringfence/subject.hpp"

#include "emulator/analysis/input.hpp"
#include "emulator/analysis/version.hpp"
#include "emulator/trace/trace.hpp"
#include "ringfence/held.hpp"

namespace ringfence {

using detail::as_error;
using detail::hold;

std::shared_ptr<detail::Held> detail::hold(analysis::SubjectPtr subject) {
  auto held = std::make_shared<Held>();
  held->subject = std::move(subject);
  const std::string input = held->subject->input_file();
  if (!input.empty()) held->input_digest = trace::file_digest(input);
  return held;
}

std::string version() { return analysis::version(); }

Subject::Subject(const Case& of) : held_(as_error([&] { return hold(make_case_subject(of)); })) {}
Subject::Subject(const Threads& of)
    : held_(as_error([&] { return hold(make_threads_subject(of)); })) {}

Subject Subject::case_file(const std::string& path, const CaseSettings& settings) {
  return as_error([&] {
    trace::CaseConfig config;
    config.file = path;
    config.calls = settings.calls;
    config.payload_seed = settings.payload_seed;
    config.summation = settings.summation;
    config.suppress = settings.suppress;
    analysis::read_case(config, settings.calls > 0);
    return Subject(hold(analysis::make_subject(config)));
  });
}

Subject Subject::protocol(const Protocol& of) {
  return as_error([&] {
    programs::Config c;
    c.protocol = of.name;
    c.ranks = of.ranks;
    c.tokens = of.tokens;
    c.hidden = of.hidden;
    c.inner = of.inner;
    c.blocks = of.blocks;
    c.calls = of.calls;
    c.dtype = of.dtype;
    c.set = of.switches;
    c.payload = of.payload;
    c.payload_seed = of.payload_seed;
    c.summation = of.summation;
    c.input = of.input;
    c.input_map = of.input_map;
    if (!c.input.empty()) {
      analysis::adopt_input(c);
    } else if (!c.input_map.empty()) {
      throw analysis::InputError("input_map: without an input there are no tensors to name");
    }
    if (of.eps >= 0 || !c.input.empty()) c.eps = of.eps;
    return Subject(hold(analysis::make_subject(c)));
  });
}

Subject Subject::with(const std::map<std::string, std::string>& switches) const {
  return as_error([&] {
    auto changed = hold(held_->subject->with(switches));
    changed->subject->make_program();  // says what is wrong
    return Subject(std::move(changed));
  });
}

std::vector<std::string> Subject::sites() const {
  return as_error([&] {
    std::vector<std::string> out;
    for (const analysis::Step& s : held_->subject->weaker()) {
      if (out.empty() || out.back() != s.key) out.push_back(s.key);
    }
    return out;
  });
}

std::string Subject::text() const { return trace::case_text(held_->subject->config()); }

}  // namespace ringfence
