// Expected values of any memory: each collective is right, and its twin that lacks one term of one
// element is a mismatch at that element.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "tests/cases/harness.hpp"
#include "tests/support/says.hpp"
#include "verify/safetensors.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using cases::CaseProgram;

namespace {

constexpr int kCount = 24;  // elements of a rank

struct Collective {
  int op;             // of the kernel
  const char* words;  // of the case file
  int elements;       // of a result, for `ranks`
};

// A case of tests/cases/files/collectives.cu.
struct Text {
  int ranks = 3;
  int calls = 1;
  std::string dtype = "u32";
  std::string init = "integers";
  std::string kernel = "of_u32";
  int size = 4;
  int op = 0;
  int drop = 0;
  int count = kCount;  // that the kernel is told
  int out_elements = kCount;
  std::string check = "sum = 'data'";
  std::string more;  // sections
};

std::string text_of(const Text& t) {
  return fmt::format(R"(version = 1
ranks = {}
calls = {}
[memory.data]
kind = "symmetric"
bytes = {}
init = {{ {} = "{}" }}
[memory.out]
kind = "local"
bytes = {}
[memory.pad]
kind = "symmetric"
bytes = 64
[memory.epoch]
kind = "local"
bytes = 4
[[launch]]
ptx = "collectives.ptx"
kernel = "{}"
grid = [1]
block = [32]
args = [ {{peers = "data"}}, {{memory = "out"}}, {{peers = "pad"}}, "rank", "world", {{s32 = {}}},
         {{s32 = {}}}, {{s32 = {}}}, {{memory = "epoch"}} ]
[check.expected.out]
{}
{}
)",
                     t.ranks, t.calls, kCount * t.size, t.dtype, t.init, t.out_elements * t.size,
                     t.kernel, t.count, t.op, t.drop, t.check, t.more);
}

std::unique_ptr<CaseProgram> program_of(const Text& t) {
  return std::make_unique<CaseProgram>(
      cases::parse_case(text_of(t), "tests/cases/files/expected.toml"), cases::Settings{});
}

struct Ran {
  std::string kind;  // "clean" or the finding's
  std::string message;
  std::vector<std::string> not_judged, never_written;
};

Ran run(const Text& t) {
  const auto program = program_of(t);
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  const auto f = schedule::failure(outcome);
  return {f ? std::string(machine::name(f->kind)) : "clean", program->last_mismatch(),
          program->values_not_judged(), program->never_written()};
}

std::string refusal(const Text& t) {
  try {
    program_of(t);
  } catch (const cases::CaseError& e) {
    return e.what();
  }
  return "accepted";
}

// Right as it is; with one term of one element left out, a mismatch there on the last rank.
void check_with_twin(Text t) {
  CAPTURE(t.check);
  CAPTURE(t.kernel);
  const Ran right = run(t);
  CHECK_MESSAGE(right.kind == "clean", right.message);
  CHECK(right.not_judged == std::vector<std::string>{"epoch"});
  t.drop = 1;
  const Ran wrong = run(t);
  CHECK(wrong.kind == "numeric-mismatch");
  CHECK_MESSAGE(says(wrong.message, fmt::format("1 of {} elements mismatch", t.out_elements)),
                wrong.message);
  CHECK_MESSAGE(says(wrong.message, fmt::format("[5] of rank {}: got", t.ranks - 1)),
                wrong.message);
}

}  // namespace

TEST_CASE("each collective over the ranks is judged exactly, and fails where one term is missing") {
  for (const int ranks : {2, 3}) {
    const Collective all[] = {{0, "sum = 'data'", kCount},
                              {3, "product = 'data'", kCount},
                              {4, "concat = 'data'", kCount * ranks},
                              {5, "scatter = 'data'", kCount / ranks},
                              {6, "all_to_all = 'data'", kCount},
                              {7, "reduce_scatter = 'data'", kCount / ranks},
                              {8, "broadcast = 'data'", kCount}};
    for (const Collective& c : all) {
      Text t;
      t.ranks = ranks;
      t.op = c.op;
      t.check = c.words;
      t.out_elements = c.elements;
      check_with_twin(t);
    }
  }
}

TEST_CASE("a maximum and a minimum fail where the rank that has them is left out") {
  for (const auto& [op, words] : {std::pair<int, const char*>{1, "max"}, {2, "min"}}) {
    // An element whose extreme the last rank has: some seed has one at the place that is dropped.
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      for (const int drop : {0, 1}) {
        Text t;
        t.op = op;
        t.drop = drop;
        t.check = fmt::format("{} = 'data'", words);
        cases::Settings settings;
        settings.payload_seed = seed;
        CaseProgram program(cases::parse_case(text_of(t), "tests/cases/files/expected.toml"),
                            settings);
        const auto executor = ranks::make_inline(program);
        schedule::RunSpec spec;
        spec.strategy.kind = schedule::StrategySpec::Kind::first;
        const bool failed = schedule::failure(executor->run(spec)).has_value();
        if (drop == 0) CHECK_FALSE(failed);
        if (drop == 1 && failed) ++found;
      }
    }
    CAPTURE(words);
    CHECK(found >= 1);
    CHECK(found < 12);  // and where another rank has it, nothing is wrong
  }
}

TEST_CASE("sums are judged in every dtype, with payloads of every kind") {
  struct Of {
    const char* dtype;
    const char* kernel;
    int size;
  };
  for (const Of& of : {Of{"u32", "of_u32", 4}, Of{"s32", "of_s32", 4}, Of{"u8", "of_u8", 1},
                       Of{"s64", "of_s64", 8}, Of{"f32", "of_f32", 4}, Of{"f64", "of_f64", 8},
                       Of{"bf16", "of_bf16", 2}}) {
    const bool whole = of.dtype[0] == 'u' || of.dtype[0] == 's';
    for (const char* init : {"integers", "normal", "adversarial"}) {
      if (whole && init == std::string("normal")) continue;
      Text t;
      t.dtype = of.dtype;
      t.kernel = of.kernel;
      t.size = of.size;
      t.init = init;
      CAPTURE(t.dtype);
      CAPTURE(init);
      if (init == std::string("adversarial")) {
        const Ran ran = run(t);
        CHECK_MESSAGE(ran.kind == "clean", ran.message);
      } else {
        check_with_twin(t);
      }
    }
  }
}

TEST_CASE("expected values are those of each call, or of the calls and ranks that are named") {
  Text t;
  t.calls = 3;
  check_with_twin(t);
  t.drop = 1;  // on rank 2
  t.check = "sum = 'data'\nranks = [0, 1]";
  CHECK(run(t).kind == "clean");
  t.check = "sum = 'data'\nranks = [2]\ncalls = [1]";
  const Ran ran = run(t);
  CHECK(ran.kind == "numeric-mismatch");
  CHECK(says(ran.message, "call 1"));
}

TEST_CASE("a tolerance takes the place of the derived bound") {
  Text t;
  t.dtype = "f32";
  t.kernel = "of_f32";
  t.init = "normal";
  t.drop = 1;
  t.check = "sum = 'data'\natol = 10";
  CHECK(run(t).kind == "clean");
  t.check = "sum = 'data'\nrtol = 1e-5";
  CHECK(run(t).kind == "numeric-mismatch");
}

TEST_CASE("an expression of the inputs is judged with its rounding points") {
  Text t;
  t.dtype = "bf16";
  t.kernel = "of_bf16";
  t.size = 2;
  t.init = "normal";
  t.check = "value = 'total - 2 * data + 2 * data'\nround = ['total']\natol = 0.05";
  t.more = "[check.let]\ntotal = 'sum(data)'";
  CHECK(run(t).kind == "clean");
  t.check = "value = 'total'\nround = ['total']";
  check_with_twin(t);
}

TEST_CASE("a tensor of a file is judged: one for all, or each rank's and call's own") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("rf-expected-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "x.safetensors").string();
  // The values that an independent sum over the payload gives.
  Text t;
  t.calls = 2;
  const auto program = program_of(t);
  verify::Safetensors file;
  for (int call = 0; call < 2; ++call) {
    verify::Tensor sum(verify::Dtype::u32, {kCount});
    for (int i = 0; i < kCount; ++i) {
      std::uint32_t total = 0;
      for (std::uint32_t r = 0; r < 3; ++r) {
        std::uint32_t x = 0;
        std::memcpy(
            &x, program->payload().content(static_cast<std::uint32_t>(call), r, 0).data() + i * 4,
            4);
        total += x;
      }
      std::memcpy(sum.bytes.data() + i * 4, &total, 4);
    }
    for (int r = 0; r < 3; ++r) file.add(fmt::format("out.{}.{}", r, call), sum);
  }
  verify::write_safetensors(path, file);
  t.check = fmt::format("file = '{}'\ntensor = 'out.{{rank}}.{{call}}'", path);
  check_with_twin(t);
  t.drop = 0;
  t.check = fmt::format("file = '{}'\ntensor = 'out.0.0'", path);  // call 1 has other inputs
  CHECK(says(run(t).message, "call 1"));
  t.check = fmt::format("file = '{}'\ntensor = 'sum'", path);
  CHECK(says(refusal(t), "no tensor 'sum'"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a result that agrees on all ranks and is no sum is a mismatch against the sum") {
  Text t;
  t.op = 8;  // every rank copies rank 0's input
  const Ran ran = run(t);
  CHECK(ran.kind == "numeric-mismatch");
  CHECK_MESSAGE(says(ran.message, "24 of 24 elements mismatch, first [0] of rank 0: got"),
                ran.message);
  // Also where some of the terms are as good as nothing.
  CHECK_MESSAGE(
      says(ran.message,
           "; in every wrong element rank 0's own value is there, and the other terms are missing"),
      ran.message);
}

TEST_CASE("a tail that every rank leaves out is a mismatch, and its bytes are never written") {
  Text t;
  t.count = kCount - 1;
  const Ran ran = run(t);
  CHECK(ran.kind == "numeric-mismatch");
  CHECK_MESSAGE(says(ran.message, "first [23] of rank 0: got 0"), ran.message);
  t.check = "sum = 'data'\natol = 1e9";
  const Ran unjudged = run(t);
  CHECK(unjudged.kind == "clean");
  CHECK(unjudged.never_written ==
        std::vector<std::string>{"bytes 92 to 95 of out of rank 0 (the consumer reads them)",
                                 "bytes 92 to 95 of out of rank 1 (the consumer reads them)",
                                 "bytes 92 to 95 of out of rank 2 (the consumer reads them)"});
}

TEST_CASE("a memory that a kernel wrote and nothing judged is named, signals apart") {
  Text t;
  t.check = "sum = 'data'\nranks = [0]";
  CHECK(run(t).not_judged == std::vector<std::string>{"epoch"});
  std::string text = text_of(t);
  text = text.substr(0, text.find("[check.expected"));
  CaseProgram program(
      cases::parse_case(text + "[check]\nequal = ['out']\n", "tests/cases/files/expected.toml"),
      {});
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  executor->run(spec);
  CHECK(
      program.values_not_judged() ==
      std::vector<std::string>{"out (its replicas are compared with one another alone)", "epoch"});
}

TEST_CASE("what is not judged of a memory is not read: it may never have been written") {
  // Poison, of which reading what nobody wrote is a finding.
  const auto judge = [](const std::string& check) {
    Text t;
    t.count = kCount / 2;
    t.check = check;
    std::string text = text_of(t);
    const std::string out = "[memory.out]\nkind = \"local\"\n";
    text.insert(text.find(out) + out.size(), "init = \"poison\"\n");
    CaseProgram program(cases::parse_case(text, "tests/cases/files/expected.toml"), {});
    const auto executor = ranks::make_inline(program);
    schedule::RunSpec spec;
    spec.strategy.kind = schedule::StrategySpec::Kind::first;
    const auto f = schedule::failure(executor->run(spec));
    return f ? std::string(machine::name(f->kind)) : "clean";
  };
  CHECK(judge("value = 'slice(sum(data), first = 0, count = 12)'") == "clean");
  CHECK(judge("value = 'slice(sum(data), first = 4, count = 8)'\noffset = 16") == "clean");
  CHECK(judge("sum = 'data'") != "clean");
}

TEST_CASE("bytes that a peer reads and nobody wrote are named") {
  std::string text = text_of({});
  text = text.substr(0, text.find("[check.expected"));
  const std::size_t init = text.find("init = {");
  text.erase(init, text.find('\n', init) - init);
  CaseProgram program(
      cases::parse_case(text + "[check]\nequal = ['out']\n", "tests/cases/files/expected.toml"),
      {});
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  executor->run(spec);
  REQUIRE(program.never_written().size() == 3);
  CHECK(program.never_written()[1] == "bytes 0 to 95 of data of rank 1 (a peer reads them)");
}

TEST_CASE("bytes that the consumer reads and nobody wrote are named") {
  Text t;
  t.op = 4;  // the last rank's element 5 of a concatenation is never written
  t.out_elements = kCount * 3;
  t.drop = 1;
  t.check = "concat = 'data'\natol = 1e9";
  Ran ran = run(t);
  CHECK(ran.kind == "clean");
  CHECK(ran.never_written ==
        std::vector<std::string>{"bytes 20 to 23 of out of rank 2 (the consumer reads them)"});
  t.drop = 0;
  CHECK(run(t).never_written.empty());
}

TEST_CASE("an expected value that cannot be is refused with its line, and what would be right") {
  const auto with = [](const std::string& check, const std::string& more = "") {
    Text t;
    t.check = check;
    t.more = more;
    return refusal(t);
  };
  CHECK(says(with("sum = 'datum'"), "'datum'"));
  CHECK(says(with("sum = 'pad'"), "init holds no values"));
  CHECK(says(with("sum = 'data'\nmax = 'data'"), "one of"));
  CHECK(says(with("value = 'sum(data'"), "expected ')'"));
  CHECK(says(with("value = 'summ(data)'"), "no function 'summ'"));
  CHECK(says(with("value = 'a'", "[check.let]\na = 'b'\nb = 'a'"), "defined by itself"));
  CHECK(says(with("concat = 'data'"), "'out' has 96 bytes"));
  CHECK(says(with("sum = 'data'\nranks = [3]"), "rank 3 of 3"));
  CHECK(says(with("sum = 'data'\nround = ['x']"), "round names 'x'"));
  CHECK(says(with("sum = 'data'\ndtype = 'f12'"), "unknown dtype"));
  CHECK(says(with("sum = 'data'\nrtol = -1"), "rtol"));
  CHECK(says(with("sum = 'data'\noffset = 4"), "from byte 4"));
}
