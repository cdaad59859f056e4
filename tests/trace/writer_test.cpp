#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/trace/samples.hpp"

namespace ringfence::trace {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("ringfence-trace-" + std::to_string(::getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
  fs::path path;
};

std::string content(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a trace is one line for the header, each decision and the verdict") {
  const std::string text = to_text(sample());
  CHECK(std::count(text.begin(), text.end(), '\n') == 15);
  CHECK(text.find("\n{\"agent\":\"r1.c0.b2.t3\",\"point\":14,\"pick\":\"r0.host\"}\n") !=
        std::string::npos);
  CHECK(text.find("\n{\"agent\":\"r1.c0.b2.t3\",\"point\":14,\"nth\":2,\"read\":1}\n") !=
        std::string::npos);
  for (const char* line :
       {"{\"agent\":\"r1.c0.b2.t3\",\"point\":14,\"fault\":\"kill\"}",
        "{\"agent\":\"r1.c0.b2.t3\",\"point\":14,\"fault\":\"pause\",\"for\":16777215}",
        "{\"agent\":\"r1.c0.b2.t3\",\"point\":14,\"late\":64}",
        "{\"agent\":\"r1.host\",\"point\":0,\"dirty\":3,\"holds\":4294967295}"}) {
    CAPTURE(line);
    CHECK(text.find("\n" + std::string(line) + "\n") != std::string::npos);
  }
}

TEST_CASE("writing leaves the file and nothing else") {
  Folder folder;
  const fs::path file = folder.path / "a.trace.jsonl";
  write_file(file.string(), sample());
  CHECK(content(file) == to_text(sample()));
  CHECK(folder.files() == 1);
  write_text_file(file.string(), "again\n");
  CHECK(content(file) == "again\n");
  CHECK(folder.files() == 1);
}

TEST_CASE("a write that fails leaves nothing, and the old file as it was") {
  Folder folder;
  CHECK_THROWS_AS(write_text_file((folder.path / "no" / "a").string(), "x"), TraceError);
  // A folder in the way cannot be replaced.
  fs::create_directories(folder.path / "taken");
  CHECK_THROWS_AS(write_text_file((folder.path / "taken").string(), "x"), TraceError);
  CHECK(folder.files() == 1);
}

TEST_CASE("the name of a trace's file is its kind and a hash of what determines it") {
  Trace t = sample();
  const std::string name = file_name(t);
  CHECK(name.find("data-race-") == 0);
  CHECK(name.size() == std::string("data-race-0123456789abcdef.trace.jsonl").size());

  SUBCASE("how it was found does not count") {
    t.header.seed = 1;
    t.header.strategy = "random";
    t.header.executor = "inline";
    t.header.made_by = "another";
    t.verdict.message = "told otherwise";
    CHECK(file_name(t) == name);
  }
  SUBCASE("the configuration counts") {
    programs::Config other = *t.header.config.protocol();
    other.ranks = 3;
    t.header.config = other;
    CHECK(file_name(t) != name);
  }
  SUBCASE("the decisions count") {
    t.decisions.pop_back();
    CHECK(file_name(t) != name);
  }
  SUBCASE("the mode counts") {
    t.header.policy.boundary = machine::Boundary::strict;
    CHECK(file_name(t) != name);
  }
}

TEST_CASE("a file's digest follows its content") {
  Folder folder;
  const std::string a = (folder.path / "a").string(), b = (folder.path / "b").string();
  write_text_file(a, std::string(100000, 'x'));
  write_text_file(b, std::string(100000, 'x'));
  CHECK(file_digest(a) == file_digest(b));
  CHECK(file_digest(a).size() == 16);
  write_text_file(b, std::string(99999, 'x') + 'y');
  CHECK(file_digest(a) != file_digest(b));
  CHECK_THROWS_AS(file_digest((folder.path / "c").string()), TraceError);
}

TEST_CASE("text that is not UTF-8 still makes a readable trace") {
  Trace t = sample();
  t.verdict.message = "\xff\xfe";
  CHECK_NOTHROW(parse("t", to_text(t)));
}

}  // namespace
}  // namespace ringfence::trace
