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

// The kernel of all_reduce.cu over data of zeros that the host writes, before it or too late.
Case zeroed_by_host(bool in_time) {
  Case c(4, "zeroed");
  c.symmetric("data", 256, Content::poison())
      .symmetric("pad", 16, Content::fill(0))
      .local("out", 256);
  const std::string memset = "[[host]]\nmemset = { to = {memory = \"data\"}, bytes = 256 }";
  if (in_time) c.raw(memset);
  c.launch({.ptx = kExamples + "all_reduce.ptx",
            .kernel = "all_reduce",
            .block = {64},
            .arguments = {Argument::peers("data"), Argument::peers("pad"), Argument::memory("out"),
                          Argument::rank(), Argument::world()},
            .cluster = {1}});
  if (!in_time) c.raw(memset);
  c.expect("out", Tensor(std::vector<float>(64)));
  return c;
}

TEST_CASE("a step of the host stands where it was added, before a launch or behind it") {
  CHECK(Subject(zeroed_by_host(true)).fuzz({.schedules = 20}).verdict == Verdict::pass);
  const Result late = Subject(zeroed_by_host(false)).fuzz({.schedules = 20});
  REQUIRE(late.finding() != nullptr);
  CHECK(late.finding()->kind == "uninitialised-read");
}

TEST_CASE("lines before the first table are keys of the file, and a case takes each") {
  Case c = zeroed_by_host(true);
  c.raw(
      "  # of each GPU\nmultiprocessors = 1\n[[ignore]]\nkind = \"data-race\"\nreason = \"none\"");
  CHECK(Subject(c).run().verdict == Verdict::pass);
  CHECK(c.text().find("multiprocessors = 1") < c.text().find("[memory"));
  CHECK(c.text().find("[[ignore]]") > c.text().find("[memory"));
  c.raw("multiprocessors = 0");
  CHECK(kind_of([&] { Subject{c}; }) == Error::Kind::input);
}

TEST_CASE("scalars reach a kernel as they are, however small or large") {
  Case c(2, "scalars");
  c.local("out", 40).launch(
      {.kernel = "scalars",
       .arguments = {Argument::memory("out"), Argument::scalar(1e-30f), Argument::scalar(1e300),
                     Argument::scalar(3.0f), Argument::scalar(-5),
                     Argument::scalar(~std::uint64_t{0} - 1), Argument::scalar(std::uint64_t{7})},
       .text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry scalars(.param .u64 o, .param .f32 a, .param .f64 b, .param .f32 c, .param .s32 d,
                       .param .u64 e, .param .u64 f)
{
  .reg .b64 %rd<5>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [o];
  ld.param.b64 %rd2, [b];
  ld.param.b32 %r1, [a];
  ld.param.b32 %r2, [c];
  ld.param.b32 %r3, [d];
  ld.param.b64 %rd3, [e];
  ld.param.b64 %rd4, [f];
  cvta.to.global.u64 %rd1, %rd1;
  st.global.b64 [%rd1], %rd2;
  st.global.b32 [%rd1+8], %r1;
  st.global.b32 [%rd1+12], %r2;
  st.global.b32 [%rd1+16], %r3;
  st.global.b64 [%rd1+24], %rd3;
  st.global.b64 [%rd1+32], %rd4;
  ret;
}
)"});
  const Result r = Subject(c).run({.memories = true});
  REQUIRE(r.verdict == Verdict::pass);
  const std::vector<std::byte>& out = r.memories.at("out.1").bytes;
  REQUIRE(out.size() == 40);
  const auto at = [&]<class T>(std::size_t byte, T value) {
    std::memcpy(&value, out.data() + byte, sizeof value);
    return value;
  };
  CHECK(at(0, double{}) == 1e300);
  CHECK(at(8, float{}) == 1e-30f);
  CHECK(at(12, float{}) == 3.0f);
  CHECK(at(16, std::int32_t{}) == -5);
  CHECK(at(24, std::uint64_t{}) == 0xfffffffffffffffe);
  CHECK(at(32, std::uint64_t{}) == 7);
}

TEST_CASE("what a run leaves is a value, of each memory and rank") {
  Case c = all_reduce("all_reduce.ptx");
  c.calls(1).expect("out", sum_of);
  const Result r = Subject(c).run({.memories = true});
  REQUIRE(r.memories.contains("out.3"));
  CHECK(r.memories.contains("data.0"));
  const Tensor& out = r.memories.at("out.3");
  CHECK(out.bytes.size() == 256);
  CHECK(out.bytes == r.memories.at("out.0").bytes);
  CHECK(out.bytes != r.memories.at("data.0").bytes);
}

TEST_CASE("behind a finding others are met where they are asked for") {
  Case c = all_reduce("all_reduce_broken.ptx");
  c.expect("out", "sum(data)");
  const Options one{.schedules = 300, .shrink = false, .remedies = false};
  CHECK(Subject(c).fuzz(one).modes.front().more.empty());
  Options all = one;
  all.findings = 4;
  const Result r = Subject(c).fuzz(all);
  REQUIRE(r.finding() != nullptr);
  REQUIRE_FALSE(r.modes.front().more.empty());
  CHECK(r.modes.front().more.size() <= 3);
  CHECK(r.modes.front().more.front().id != r.finding()->id);
  CHECK(r.modes.front().more.front().message != r.finding()->message);
}

TEST_CASE("a case file is run with the calls and the suppressions of whoever runs it") {
  const std::string broken = kExamples + "all_reduce_broken.toml";
  // What lacks is the barrier between two calls.
  const Options options{.schedules = 300, .shrink = false, .remedies = false};
  CHECK(Subject::case_file(broken).fuzz(options).verdict == Verdict::finding);
  CHECK(Subject::case_file(broken, {.calls = 1}).fuzz(options).verdict == Verdict::pass);
  CHECK(kind_of([&] { Subject::case_file(broken, {.suppress = "[[ignore]]\n"}); }) ==
        Error::Kind::input);
  CHECK(kind_of([&] { Subject::case_file(broken, {.calls = 5000}); }) == Error::Kind::input);
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

  Case throws = all_reduce("all_reduce.ptx");
  throws.expect("out",
                [](const Inputs&, std::uint32_t) -> Tensor { throw std::out_of_range("x"); });
  CHECK(kind_of([&] { Subject{throws}; }, &line) == Error::Kind::input);
  CHECK(line == "expected 'out' of rank 0, call 0: its function threw: x");

  Case nothing = all_reduce("all_reduce.ptx");
  nothing.expect("out", ExpectedFunction());
  CHECK(kind_of([&] { Subject{nothing}; }, &line) == Error::Kind::input);
  CHECK(line == "expected 'out': expected a function, a tensor or an expression");

  Case twice = all_reduce("all_reduce.ptx");
  twice.expect("out", sum_of).expect("out", "sum(data)");
  CHECK(kind_of([&] { Subject{twice}; }, &line) == Error::Kind::input);
  CHECK(line == "expected 'out': given twice");

  Case no_content(2, "empty");
  no_content.symmetric("data", 256, Content::by_rank({}));
  CHECK(kind_of([&] { Subject{no_content}; }, &line) == Error::Kind::input);
  CHECK(line == "memory 'data' of rank 0: expected a function");
}

}  // namespace
}  // namespace ringfence
