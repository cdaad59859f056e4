// ringfence's own pypto kernel, as compiled: product by wgmma from tiles that the copy engine
// brings, put, signals, norm. Its results, and what is found when a piece of it is taken out.
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "emulator/check/explorer.hpp"
#include "emulator/trace/verdict.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

std::string path_of(const std::string& name) { return "tests/cases/files/pypto-" + name + ".toml"; }

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.is_open());
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The case with another PTX text in place of the recorded one; the file lives as long as this.
class Changed {
 public:
  Changed(const std::string& name, const std::string& ptx)
      : file_(std::filesystem::temp_directory_path() /
              ("ringfence-pypto-" + std::to_string(::getpid()) + ".ptx")) {
    std::ofstream(file_, std::ios::binary) << ptx;
    text_ = replaced(read(path_of(name)), "../../../traces/ptx/made/pypto.ptx", file_.string());
    path_ = path_of(name);
    program_ = another();
  }
  ~Changed() { std::filesystem::remove(file_); }
  cases::CaseProgram& program() { return *program_; }
  std::unique_ptr<cases::CaseProgram> another() const {
    return std::make_unique<cases::CaseProgram>(cases::parse_case(text_, path_), cases::Settings{});
  }

 private:
  std::filesystem::path file_;
  std::string text_, path_;
  std::unique_ptr<cases::CaseProgram> program_;
};

std::string recorded() { return read(made_path("pypto")); }

// What a program tells of its last run lies in the memory of the executor.
struct Ran {
  std::unique_ptr<schedule::Executor> executor;
  schedule::Outcome outcome;
};

Ran run(cases::CaseProgram& program) {
  Ran r{ranks::make_inline(program), {}};
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  spec.policy.boundary = Boundary::coherent;
  r.outcome = r.executor->run(spec);
  return r;
}

std::string kind_of(const Ran& ran) {
  const auto f = schedule::failure(ran.outcome);
  return f ? std::string(machine::name(f->kind)) : "clean";
}

constexpr Boundary kModes[] = {Boundary::strict, Boundary::stream, Boundary::coherent};

}  // namespace

TEST_CASE("the pypto kernel gives the reference's bits on 2, 4 and 8 ranks, in each of its forms") {
  if (!made("pypto")) return;
  for (const char* name :
       {"2", "4", "8", "pipelined-2", "pipelined-4", "pipelined-8", "many-2", "wide-2", "waves-2",
        "owned-2", "owned-4", "owned-8", "owned-wide-2", "owned-small-2"}) {
    CAPTURE(std::string(name));
    const auto program = open(path_of(name));
    const Ran ran = run(*program);
    CAPTURE(program->last_mismatch());
    CHECK(ran.outcome.end == schedule::RunEnd::complete);
    // The last has two calls.
    CHECK(program->comparisons().size() == (std::string(name) == "owned-small-2" ? 4 : 2));
    for (const verify::Comparison& c : program->comparisons()) {
      CAPTURE(c.name);
      CAPTURE(c.elements);
      CAPTURE(c.mismatches);
      CHECK(c.bit_exact);
      CHECK(c.passed());
    }
    CHECK(program->numerics() == "wgmma: exact products, added in fp32 in the order of k");
  }
}

TEST_CASE("the pypto kernel is within the derived bound on normal numbers") {
  if (!made("pypto")) return;
  for (const char* name : {"normal-2", "owned-normal-2"}) {
    CAPTURE(std::string(name));
    const auto program = open(path_of(name));
    const Ran ran = run(*program);
    CHECK(ran.outcome.end == schedule::RunEnd::complete);
    CHECK(program->comparisons().size() == 4);  // of two calls
    for (const verify::Comparison& c : program->comparisons()) {
      CHECK(!c.bit_exact);
      CHECK(c.passed());
      CHECK(c.max_error_over_bound > 0);
    }
  }
}

TEST_CASE("the pypto kernel is clean in every boundary mode") {
  if (!made("pypto")) return;
  for (const char* name : {"small-2", "pipelined-2", "waves-2", "owned-small-2", "owned-2"}) {
    const auto program = open(path_of(name));
    for (const Boundary mode : kModes) {
      CAPTURE(name);
      CAPTURE(machine::name(mode));
      CHECK(found(fuzz(*program, mode, 10)) == "clean");
    }
  }
}

TEST_CASE("every execution of the pypto kernel with one tile ends well, and one stands for all") {
  if (!made("pypto")) return;
  const auto checked = [](Boundary mode, const check::Factory& make) {
    check::CheckSpec spec;
    spec.run.policy.boundary = mode;
    return check::check(make, spec);
  };
  Changed relaxed("small-2", replaced(recorded(), "red.release.sys.global.add.u32",
                                      "red.relaxed.sys.global.add.u32"));
  for (const Boundary mode : kModes) {
    CAPTURE(machine::name(mode));
    const auto r = checked(mode, [] { return open(path_of("small-2")); });
    CHECK(r.verdict == check::Verdict::pass);
    CHECK(r.complete == 1);
    const auto broken = checked(mode, [&] { return relaxed.another(); });
    REQUIRE(broken.verdict == check::Verdict::fail);
    CHECK(schedule::failure(broken.outcome)->kind == machine::FindingKind::data_race);
  }
}

TEST_CASE("the pypto kernel's signals release what was put, and its waits acquire it") {
  if (!made("pypto")) return;
  for (const auto& [from, to] :
       {std::pair<const char*, const char*>{"red.release.sys.global.add.u32",
                                            "red.relaxed.sys.global.add.u32"},
        {"ld.acquire.sys.global.u32", "ld.relaxed.sys.global.u32"}}) {
    Changed changed("small-2", replaced(recorded(), from, to));
    for (const Boundary mode : kModes) {
      CAPTURE(from);
      CAPTURE(machine::name(mode));
      CHECK(found(fuzz(changed.program(), mode, 20)) == "data-race");
    }
  }
}

TEST_CASE("a signal before the adds of all warps is found") {
  if (!made("pypto")) return;
  // arrive(): the block's barrier before its arrival at the rank's counter. The other block, the
  // last to arrive, signals for both.
  std::string text = recorded();
  const std::size_t end = text.find("\n.entry", text.find("pyptoILi8ELi64EE"));
  const std::size_t arrival = text.rfind("atom.acq_rel.sys.global.add.u32", end);
  const std::size_t barrier = text.rfind("bar.sync", arrival);
  REQUIRE(barrier != std::string::npos);
  text.replace(barrier, text.find(';', barrier) - barrier, "// ");
  Changed changed("2", text);
  for (const Boundary mode : kModes) {
    CAPTURE(machine::name(mode));
    CHECK(found(fuzz(changed.program(), mode, 40)) == "data-race");
  }
}

TEST_CASE("a tile that is cleared while another rank still reads its rows there is found") {
  if (!made("pypto")) return;
  const std::string text = recorded();
  const std::size_t kernel = text.find("pyptoILi8ELi64EE");
  REQUIRE(kernel != std::string::npos);
  const auto changed_at = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from, kernel);
    REQUIRE(at != std::string::npos);
    return text.substr(0, at) + to + text.substr(at + from.size());
  };
  const auto found_with = [](const char* name, const std::string& ptx) {
    Changed changed(name, ptx);
    std::string kinds;
    for (const Boundary mode : kModes) kinds += found(fuzz(changed.program(), mode, 40)) + " ";
    return kinds;
  };
  // pypto_lead(): three tiles open on four slots, so a group clears what is still read.
  CHECK(found_with("owned-2", changed_at(", -2;\n\tsetp.lt.s32", ", -1;\n\tsetp.lt.s32")) ==
        "data-race data-race data-race ");
  // No meeting at the beginning of a launch, as where one launch has all ranks' blocks: the rank
  // that is first clears what the other still reads of the call before.
  CHECK(found_with("owned-small-2", changed_at(", %nctaid.x;", ", 2;")) ==
        "data-race data-race data-race ");
}

TEST_CASE("a tile that is multiplied before its copy has come is a race") {
  if (!made("pypto")) return;
  Changed changed("small-2", replaced(recorded(), "mbarrier.try_wait.parity.shared::cta.b64 p,",
                                      "setp.eq.u32 p, 0, 0; //"));
  const Ran ran = run(changed.program());
  CHECK(kind_of(ran) == "data-race");
  const auto f = schedule::failure(ran.outcome);
  REQUIRE(f);
  CHECK(f->missing == machine::Missing::completion);
  CHECK(changed.program().site_name(f->first.site).find("cp.async.bulk") != std::string::npos);
}

TEST_CASE("a phase that never completes is a deadlock that names the mbarrier and what it lacks") {
  if (!made("pypto")) return;
  // 64 columns and 8 rows of 64 inner elements.
  Changed changed("small-2", replaced(recorded(), ", 9216;", ", 9200;"));
  const Ran ran = run(changed.program());
  CHECK(kind_of(ran) == "deadlock");
  const std::string text = changed.program().last_mismatch();
  CAPTURE(text);
  CHECK(text.find("of the mbarrier at shared byte") != std::string::npos);
  CHECK(text.find("16 bytes came that were not announced") != std::string::npos);
  // The table of those who wait says it of each of them.
  const trace::Verdict v = trace::make_verdict(ran.outcome, changed.program());
  std::size_t named = 0;
  for (const trace::StuckNames& s : v.stuck) {
    if (s.slot.find("phase 0 of the mbarrier at shared byte") != 0) continue;
    CHECK(s.needs.find("0 of 1 arrivals") == 0);
    ++named;
  }
  CHECK(named > 0);
  // Threads that leave a counted barrier short never arrive there.
  Changed left("small-2", replaced(recorded(), "mbarrier.try_wait.parity.shared::cta.b64 p,",
                                   "bar.sync 1, 1024; //"));
  CHECK(kind_of(run(left.program())) == "deadlock");
}
