// --case in run, fuzz and replay: statuses, reports, traces that find their case, bad input.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/command.hpp"
#include "tests/support/says.hpp"

namespace ringfence::cli {
namespace {

namespace fs = std::filesystem;

// A folder with copies of a zoo case and of its PTX, so that they may be edited.
struct Zoo {
  Folder f;
  std::string text;
  explicit Zoo(const std::string& name) {
    fs::copy_file("traces/ptx/zoo.ptx", f / "zoo.ptx");
    text = content("tests/zoo/" + name + ".toml");
    edit("../../traces/ptx/zoo.ptx", "zoo.ptx");
  }
  // In the case as it is; the file gets the result.
  void edit(const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, "no ", from, " in ", text);
    text.replace(at, from.size(), to);
    write("case.toml", text);
  }
  void write(const std::string& name, const std::string& what) const {
    std::FILE* out = std::fopen((f / name).c_str(), "wb");
    std::fwrite(what.data(), 1, what.size(), out);
    std::fclose(out);
  }
};

// A compiler in nvcc's place, in `f`: it writes the zoo's PTX, and a line to `asked`.
void use_compiler(const Folder& f) {
  const std::string script = f / "compiler";
  std::ofstream(script) << "#!/bin/sh\necho asked >> '" << (f / "asked") << "'\n"
                        << "for out; do :; done\ncp '" << (f / "zoo.ptx") << "' \"$out\"\n";
  fs::permissions(script, fs::perms::owner_all);
  ::setenv("NVCC", script.c_str(), 1);
}

TEST_CASE("nvcc is asked once for a .cu, however many programs a search makes of it") {
  Zoo zoo("scope-fault");
  zoo.edit("zoo.ptx", "zoo.cu");
  zoo.write("zoo.cu", "// one text");
  use_compiler(zoo.f);
  const Result r = ringfence(zoo.f, "fuzz --case case.toml --executor inline");
  ::unsetenv("NVCC");
  CHECK(r.status == 1);
  CHECK(r.out.find("What would make it pass") != std::string::npos);  // remedies were tried
  CHECK(content(zoo.f / "asked") == "asked\n");
}

TEST_CASE("a finding in shared memory is confirmed over processes, and its trace is the same run") {
  const Folder f;
  const std::string file = fs::absolute("tests/cases/files/shared-store-buffering.toml").string();
  for (const std::string command : {"fuzz --executor inline --schedules 100", "check"}) {
    const std::string searched =
        command + " --boundary strict --no-remedies --trace x.trace.jsonl --case " + file;
    const Result r = ringfence(f, searched);
    CHECK_MESSAGE(r.status == 1, r.out, r.err);
    CHECK(says(r.out, "trap"));
    CHECK_FALSE(says(r.out, "unconfirmed"));
    for (const std::string executor : {"processes", "inline"}) {
      CHECK(says(ringfence(f, "replay x.trace.jsonl --executor " + executor).out, "bit for bit"));
    }
  }
}

TEST_CASE("a case template is refused until it is filled in, so that it passes as nothing") {
  Zoo zoo("scope-fault");
  const Result made = ringfence(zoo.f, "ptx zoo.ptx --case-template scope_gpu");
  REQUIRE(made.status == 0);
  zoo.write("made.toml", made.out);
  const Result r = ringfence(zoo.f, "run --case made.toml");
  CHECK(r.status == 2);
  CHECK(lines(r.err) == 1);
  CHECK(r.err.find("made.toml:8:") != std::string::npos);
  CHECK(r.err.find("FILL") != std::string::npos);
  CHECK(r.err.find("symmetric") != std::string::npos);
}

TEST_CASE("a kernel's fault is found, shrunk, confirmed over processes and replayed") {
  const Zoo z("scope-fault");
  const Result fuzz = ringfence(
      z.f,
      "fuzz --case case.toml --schedules 50 --boundary coherent --trace t.jsonl --json r.json");
  CHECK_MESSAGE(fuzz.status == 1, fuzz.out, fuzz.err);
  CHECK(says(fuzz.out, "zoo.cu:"));
  CHECK(!says(fuzz.out, "NOT CONFIRMED"));
  const auto j = json_of(z.f / "r.json");
  CHECK(j["configuration"]["case"] == "case.toml");
  CHECK(j["findings"][0]["kind"] == "data-race");
  for (const std::string executor : {"processes", "inline"}) {
    const Result again = ringfence(z.f, "replay t.jsonl --executor " + executor);
    CHECK_MESSAGE(again.status == 1, again.out, again.err);
    CHECK(says(again.out, "the recorded run, bit for bit"));
  }
  // The case is found by its digest under another name, and refused once it has changed.
  fs::rename(z.f / "case.toml", z.f / "renamed.toml");
  CHECK(ringfence(z.f, "replay t.jsonl").status == 1);
  z.write("renamed.toml", z.text + "# changed\n");
  const Result changed = ringfence(z.f, "replay t.jsonl");
  CHECK(changed.status == 2);
  CHECK(lines(changed.err) == 1);
}

TEST_CASE("a fixed kernel is clean in fuzz and in a free run over processes") {
  const Zoo z("scope-fixed");
  const Result fuzz = ringfence(z.f, "fuzz --case case.toml --schedules 20 --executor inline");
  CHECK_MESSAGE(fuzz.status == 0, fuzz.out, fuzz.err);
  const Result run = ringfence(z.f, "run --case case.toml");
  CHECK_MESSAGE(run.status == 0, run.out, run.err);
  CHECK(says(run.out, "the memory compared is equal bit for bit"));
}

TEST_CASE("bad cases end with 2 and one line that says where") {
  const auto refused = [](const Zoo& z, const std::string& options, const std::string& part) {
    const Result r = ringfence(z.f, "fuzz --case case.toml --schedules 1 " + options);
    CHECK_MESSAGE(r.status == 2, r.out, r.err);
    CHECK_MESSAGE(lines(r.err) == 1, r.err);
    CHECK_MESSAGE(says(r.err, part), r.err);
  };
  Zoo z("scope-fixed");
  refused(z, "--ranks 4", "--ranks");
  z.edit("exchange_rows", "exchange");
  CHECK(ringfence(z.f, "fuzz --case case.toml --schedules 1").status == 0);  // a part will do
  z.edit("\"exchange\"", "\"r\"");
  refused(z, "", "zoo.ptx");  // many have it
  z.edit("kernel = \"r\"", "kernal = \"r\"");
  refused(z, "", "kernal");
  const std::string ptx = content(z.f / "zoo.ptx");
  Zoo cut("scope-fixed");
  for (std::size_t n = 100; n < ptx.size(); n += ptx.size() / 7) {
    cut.write("zoo.ptx", ptx.substr(0, n));
    const Result r = ringfence(cut.f, "fuzz --case case.toml --schedules 1 --executor inline");
    CHECK_MESSAGE(r.status == 2, n, r.out, r.err);
    CHECK_MESSAGE(lines(r.err) == 1, r.err);
  }
}

}  // namespace
}  // namespace ringfence::cli
