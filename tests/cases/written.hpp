#pragma once
// Cases that a test writes itself: PTX of a few instructions beside a case file, in a folder of
// their own that goes with the object.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "emulator/cases/case_program.hpp"
#include "emulator/ptx/error.hpp"
#include "tests/support/says.hpp"

namespace ringfence::cases::test {

class Written {
 public:
  // `body`: the kernels, from ".visible .entry" on.
  explicit Written(const std::string& body) {
    static int number = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("ringfence-written-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(folder_);
    add("k.ptx", ".version 8.6\n.target sm_90a\n.address_size 64\n" + body);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written() { std::filesystem::remove_all(folder_); }

  void add(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // `text` without its version; the kernels are in "k.ptx".
  CaseFile file(const std::string& text) const {
    return parse_case("version = 1\n" + text, path("case.toml"));
  }
  std::unique_ptr<CaseProgram> open(const std::string& text, const Settings& settings = {}) const {
    return std::make_unique<CaseProgram>(file(text), settings);
  }
  // What the case is refused with.
  std::string refusal(const std::string& text) const {
    try {
      open(text);
    } catch (const CaseError& e) {
      return e.what();
    } catch (const ptx::Error& e) {
      return e.what();
    }
    return "accepted";
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace ringfence::cases::test
