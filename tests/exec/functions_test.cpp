// Which functions of the runtime there are: docs/exec.md says it, the library has them all.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CAPTURE(path);
  REQUIRE(in.is_open());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> all(const std::string& text, const std::string& pattern) {
  const std::regex what(pattern);
  std::set<std::string> out;
  for (std::sregex_iterator i(text.begin(), text.end(), what), end; i != end; ++i) {
    out.insert((*i)[1].str());
  }
  return out;
}

std::set<std::string> refused(const std::string& file = "refused.inc") {
  return all(content("emulator/exec/client/" + file), "RF_REFUSED\\((\\w+)\\)");
}

// The names in the tables of a section of docs/exec.md.
std::set<std::string> listed(const std::string& section, const std::string& name) {
  const std::string page = content("docs/exec.md");
  const std::size_t begin = page.find("\n## " + section + "\n");
  REQUIRE(begin != std::string::npos);
  const std::string text = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  return all(text.substr(text.find("| --- |")), "\\b(" + name + ")");
}
std::set<std::string> done() { return listed("Supported functions", "_?_?cuda[A-Za-z0-9_]+"); }

// A function without the form for streams of a thread's own.
std::string plain_form(const std::string& name) {
  return std::regex_replace(name, std::regex("(_ptsz|_ptds)$"), "");
}

// A function of the driver without its version and the form for streams of a thread's own.
std::string plain(std::string name) {
  return std::regex_replace(name, std::regex("(_v[0-9]+)?(_ptsz|_ptds)?$"), "",
                            std::regex_constants::format_first_only);
}

}  // namespace

TEST_CASE("docs/exec.md lists the functions that the sources define, and none that is refused") {
  std::set<std::string> defined;
  for (const char* file : {"cuda12", "devices", "libraries", "memory", "modules", "streams"}) {
    const std::string text = content(std::string("emulator/exec/client/") + file + ".cpp");
    for (const std::string& name : all(text, "RF_API [^(]*?\\b(_?_?cuda\\w+)\\(")) {
      defined.insert(name);
    }
  }
  REQUIRE(defined.size() > 100);
  std::set<std::string> usual;
  for (const std::string& name : defined) {
    const bool twin = name.ends_with("_ptsz") || name.ends_with("_ptds");
    if (!twin) usual.insert(name);
    if (twin) CHECK(defined.count(name.substr(0, name.size() - 5)) == 1);
  }
  for (const std::string& name : usual) {
    CAPTURE(name);
    CHECK(done().count(name) == 1);
  }
  for (const std::string& name : done()) {
    CAPTURE(name);
    CHECK(usual.count(name) == 1);
    CHECK(refused().count(name) == 0);
  }
}

TEST_CASE("docs/exec.md lists the functions that are refused, and none that is done") {
  std::set<std::string> due;
  for (const char* file : {"refused.inc", "refused12.inc"}) {
    for (const std::string& name : refused(file)) due.insert(plain_form(name));
  }
  REQUIRE(due.size() > 100);
  const std::set<std::string> told = listed("Refused functions", "_?_?cuda[A-Za-z0-9_]+");
  CHECK(told == due);
  for (const std::string& name : told) {
    CAPTURE(name);
    CHECK(done().count(name) == 0);
  }
}

TEST_CASE("every function of the runtime's header is in the library: done, or refused by name") {
#ifndef RINGFENCE_CUDA_HEADER
  MESSAGE("not run: no cuda_runtime_api.h of CUDA 13");
#else
  void* const library = dlopen(RINGFENCE_CUDART, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
  const std::set<std::string> declared =
      all(content(RINGFENCE_CUDA_HEADER), "CUDARTAPI(?:_CDECL)?\\s+\\*?(cuda\\w+)\\(");
  REQUIRE(declared.size() > 250);
  for (const std::string& name : declared) {
    CAPTURE(name);
    CHECK(dlsym(library, name.c_str()) != nullptr);
  }
  dlclose(library);
#endif
}

TEST_CASE("docs/exec.md lists the driver's functions that the sources define, and no other") {
  std::set<std::string> defined;
  for (const char* file : {"driver_device", "driver_launch", "driver_memory"}) {
    const std::string text = content(std::string("emulator/exec/client/") + file + ".cpp");
    for (const std::string& name :
         all(text, "(?:RF_API [^(;]*?\\b|RF_AS\\(|RF_BOTH\\()(cu[A-Z]\\w+)[(,]")) {
      defined.insert(plain(name));
    }
  }
  REQUIRE(defined.size() > 80);
  CHECK(listed("Supported functions of the driver", "cu[A-Z][A-Za-z0-9]+") == defined);
}

TEST_CASE("every function of the driver's header is in the library: done, or refused by name") {
#ifndef RINGFENCE_CUDA_HEADER
  MESSAGE("not run: no cuda.h of CUDA 13");
#else
  void* const library = dlopen(RINGFENCE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
  const std::string header = content(RINGFENCE_CUDA_DRIVER_HEADER);
  std::set<std::string> declared = all(header, "CUDAAPI\\s+(cu[A-Z]\\w+)\\s*\\(");
  const std::set<std::string> versions = all(header, "#define cu\\w+ +(cu[A-Z]\\w+_v[0-9]+)");
  declared.insert(versions.begin(), versions.end());
  REQUIRE(declared.size() > 400);
  for (const std::string& name : declared) {
    CAPTURE(name);
    CHECK(dlsym(library, name.c_str()) != nullptr);
  }
  for (const std::string& name : refused("refused_driver.inc")) {
    CAPTURE(name);
    CHECK(dlsym(library, name.c_str()) != nullptr);
  }
  dlclose(library);
#endif
}
