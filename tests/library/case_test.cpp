#include "ringfence/case.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "ringfence/subject.hpp"

namespace ringfence {
namespace {

const std::string kExamples = "docs/examples/";

// docs/examples/all_reduce.toml, in code.
Case all_reduce(const std::string& ptx) {
  Case c(4, "all_reduce");
  c.calls(2)
      .symmetric("data", 256, Content::integers("f32"))
      .symmetric("pad", 16)
      .local("out", 256)
      .launch({.ptx = kExamples + ptx,
               .kernel = "all_reduce",
               .block = {64},
               .arguments = {Argument::peers("data"), Argument::peers("pad"),
                             Argument::memory("out"), Argument::rank(), Argument::world()}})
      .modes({Boundary::stream})
      .restored("pad");
  return c;
}

Tensor sum_of(const Inputs& in, std::uint32_t) {
  std::vector<float> sum(64);
  for (std::uint32_t r = 0; r < in.ranks(); ++r) {
    const auto data = in.values<float>("data", r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += data[i];
  }
  return sum;
}

Error::Kind kind_of(const std::function<void()>& f, std::string* line = nullptr) {
  try {
    f();
  } catch (const Error& e) {
    if (line != nullptr) *line = e.what();
    return e.kind();
  }
  FAIL("nothing was thrown");
  return Error::Kind::internal;
}

TEST_CASE("a case in code gives what the case file that says the same gives") {
  Case c = all_reduce("all_reduce_broken.ptx");
  c.expect("out", "sum(data)");
  const Options options{.schedules = 300};
  const Result in_code = Subject(c).fuzz(options);
  const Result in_file = Subject::case_file(kExamples + "all_reduce_broken.toml").fuzz(options);
  REQUIRE(in_code.finding() != nullptr);
  REQUIRE(in_file.finding() != nullptr);
  CHECK(in_code.finding()->kind == "data-race");
  CHECK(in_code.finding()->message == in_file.finding()->message);
  CHECK(in_code.modes.front().executions == in_file.modes.front().executions);
  CHECK(in_code.finding()->confirmed);
}

TEST_CASE("expected values are functions of the inputs, and a wrong one is found") {
  Case right = all_reduce("all_reduce.ptx");
  right.expect("out", sum_of);
  const Result r = Subject(right).fuzz({.schedules = 20});
  CHECK(r.verdict == Verdict::pass);
  REQUIRE(r.modes.size() == 1);
  CHECK(r.modes.front().mode == Boundary::stream);
  CHECK(r.modes.front().executions == 21);  // and the default schedule
  CHECK(Subject(right).run().verdict == Verdict::pass);

  Case wrong = all_reduce("all_reduce.ptx");
  wrong.expect("out", [](const Inputs& in, std::uint32_t rank) {
    Tensor t = sum_of(in, rank);
    if (in.call() == 1 && rank == 2) t.bytes[17] ^= std::byte{1};  // one bit of element 4
    return t;
  });
  const Result w = Subject(wrong).fuzz({.schedules = 20});
  REQUIRE(w.finding() != nullptr);
  CHECK(w.finding()->kind == "numeric-mismatch");
  CHECK(w.finding()->story.find("out") != std::string::npos);
  const Result once = Subject(wrong).run();
  REQUIRE(once.finding() != nullptr);
  CHECK(once.finding()->kind == "numeric-mismatch");
}

TEST_CASE("contents by rank are what the kernel reads, and a tensor may be what is due") {
  const auto due_at_63 = [](float at_63) {
    Case c(4, "by_rank");
    c.symmetric("data", 256, Content::by_rank([](std::uint32_t rank) {
                  std::vector<float> v(64);
                  std::iota(v.begin(), v.end(), static_cast<float>(100 * rank));
                  return Tensor(v);
                }))
        .symmetric("pad", 16)
        .local("out", 256)
        .launch({.ptx = kExamples + "all_reduce.ptx",
                 .kernel = "all_reduce",
                 .block = {64},
                 .arguments = {Argument::peers("data"), Argument::peers("pad"),
                               Argument::memory("out"), Argument::rank(), Argument::world()}});
    // 0 + 100 + 200 + 300, and four times the index.
    std::vector<float> sum(64);
    for (std::size_t i = 0; i < 64; ++i) sum[i] = 600 + 4 * static_cast<float>(i);
    sum[63] = at_63;
    c.expect("out", Tensor(sum));
    return Subject(c).run().verdict;
  };
  CHECK(due_at_63(852) == Verdict::pass);
  CHECK(due_at_63(853) == Verdict::finding);
}

TEST_CASE("PTX may be text, and a saved case is the case, by its digest") {
  std::ifstream in(kExamples + "all_reduce_broken.ptx");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Case c(4, "saved");
  c.calls(2)
      .symmetric("data", 256, Content::integers("f32"))
      .symmetric("pad", 16)
      .local("out", 256)
      .launch({.kernel = "all_reduce",
               .block = {64},
               .arguments = {Argument::peers("data"), Argument::peers("pad"),
                             Argument::memory("out"), Argument::rank(), Argument::world()},
               .text = text})
      .modes({Boundary::stream})
      .expect("out", sum_of);
  const Result r = Subject(c).fuzz({.schedules = 300, .remedies = false});
  REQUIRE(r.finding() != nullptr);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ringfence-library-" + std::to_string(::getpid()));
  c.save(folder.string());
  CHECK(std::filesystem::exists(folder / "saved.toml"));
  const std::string trace = (folder / "finding.trace.jsonl").string();
  std::ofstream(trace) << r.finding()->trace;
  const ReplayResult again = replay_file(trace);
  CHECK(again.divergence == "");
  CHECK(again.reproduced);
  CHECK(again.kind == r.finding()->kind);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what a case gets wrong is one line that says what and where") {
  std::string line;
  Case unknown = all_reduce("all_reduce.ptx");
  unknown.expect("nowhere", "sum(data)");
  CHECK(kind_of([&] { Subject{unknown}; }, &line) == Error::Kind::input);
  CHECK(line.find("nowhere") != std::string::npos);
  CHECK(line.find('\n') == std::string::npos);

  Case missing = all_reduce("none.ptx");
  CHECK(kind_of([&] { Subject{missing}; }, &line) == Error::Kind::input);
  CHECK(line.find("none.ptx") != std::string::npos);

  Case of_other = all_reduce("all_reduce.ptx");
  of_other.expect("out", [](const Inputs& input, std::uint32_t rank) {
    return Tensor(input.values<double>("data", rank));
  });
  CHECK(kind_of([&] { Subject{of_other}; }, &line) == Error::Kind::input);
  CHECK(line == "inputs: memory 'data' holds f32, not f64");
}

}  // namespace
}  // namespace ringfence
