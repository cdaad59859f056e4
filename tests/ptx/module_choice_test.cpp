// Which module of a program has a kernel, and which others it needs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/source.hpp"
#include "tests/ptx/fatbin.hpp"

namespace ringfence::ptx::test {
namespace {

const std::string kHead = ".version 8.5\n.target sm_90a\n.address_size 64\n";

std::string kernel(const std::string& name, const std::string& body = "",
                   const std::string& linkage = ".visible ") {
  return linkage + ".entry " + name + "()\n{\n" + body + "ret;\n}\n";
}

// A program with a module of each text.
class Binary {
 public:
  explicit Binary(const std::vector<std::string>& texts)
      : path_((std::filesystem::temp_directory_path() /
               ("ringfence-modules-" + std::to_string(::getpid())))
                  .string()) {
    std::ofstream out(path_, std::ios::binary);
    out << elf();
    for (const std::string& text : texts) out << fatbin(kHead + text);
  }
  Binary(const Binary&) = delete;
  Binary& operator=(const Binary&) = delete;
  ~Binary() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }
  // Numbers of the modules that the kernel takes.
  std::vector<std::string> with(const std::string& kernel) const {
    std::vector<std::string> out = modules_with(path_, kernel);
    for (std::string& name : out) {
      REQUIRE(name.starts_with(path_));
      name = name.substr(path_.size());
    }
    return out;
  }
  std::string refusal(const std::string& kernel) const {
    try {
      modules_with(path_, kernel);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  }

 private:
  std::string path_;
};

using Names = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("modules: a program's module is the one that has the kernel") {
  const Binary b({kernel("first") + kernel("shared"), kernel("second") + kernel("shared_too"),
                  kernel("_Z5thirdPi")});
  CHECK(b.with("first") == Names{"#1"});
  CHECK(b.with("second") == Names{"#2"});
  CHECK(b.with("third(int") == Names{"#3"});  // of the demangled name
  CHECK(b.with("shared") == Names{"#1"});     // the whole name, also where it is a part of another
  CHECK(b.with("shared_t") == Names{"#2"});
  CHECK(read_ptx(b.path() + "#2") == kHead + kernel("second") + kernel("shared_too"));
  CHECK(read_modules(b.path()).size() == 3);
  CHECK(modules_of(b.path()) == Names{b.path() + "#1", b.path() + "#2", b.path() + "#3"});
  CHECK_THROWS_WITH_AS(read_ptx(b.path() + "#4"), (b.path() + ": has no module #4").c_str(), Error);
}

TEST_CASE("modules: a name that several have, or none, is refused with where they are") {
  const Binary b({kernel("alpha_one") + kernel("own", "exit;\n", ""),
                  kernel("alpha_two") + kernel("own", "", "")});
  CHECK(has(b.refusal("alpha"), "the kernel name 'alpha' matches 2: alpha_one in " + b.path() +
                                    "#1, alpha_two in " + b.path() + "#2; give more of the name"));
  CHECK(has(b.refusal("beta"), "the kernel name 'beta' matches none of: alpha_one in"));
  // Static kernels of two sources are two, whatever they are called.
  CHECK(has(b.refusal("own"), "matches 2: own in"));
  const Binary same({kernel("own", "", ""), kernel("other") + kernel("own", "", "")});
  CHECK(has(same.refusal("own"), "matches 2: own in"));
}

TEST_CASE("modules: a template's kernel that several sources have is one") {
  const Binary b({kernel("x"), kernel("of_template"), kernel("y") + kernel("of_template")});
  CHECK(b.with("of_template") == Names{"#2"});
  const Binary differs({kernel("of_template", "exit;\n"), kernel("y") + kernel("of_template")});
  CHECK(has(differs.refusal("of_template"), "matches 2"));
}

TEST_CASE("modules: what a kernel names and its module does not define comes with it") {
  const std::string declared = ".extern .func helper;\n";
  const Binary b({kernel("plain"), declared + kernel("caller", "call helper;\n"),
                  ".extern .global .u32 count;\n.visible .func helper\n{\nret;\n}\n",
                  ".visible .global .u32 count;\n"});
  CHECK(b.with("plain") == Names{"#1"});
  CHECK(b.with("caller") == Names{"#2", "#3", "#4"});
  // Nobody defines it: decode says so where it is called.
  const Binary alone({kernel("plain"), declared + kernel("caller")});
  CHECK(alone.with("caller") == Names{"#2"});
}

TEST_CASE("modules: a file that holds one goes by its own name, and a text is not looked into") {
  const Binary b({kernel("k")});
  CHECK(b.with("anything") == Names{""});
  CHECK(read_modules(b.path()).front().name == b.path());
  CHECK(modules_with("no/such.ptx", "k") == Names{"no/such.ptx"});
}

}  // namespace ringfence::ptx::test
