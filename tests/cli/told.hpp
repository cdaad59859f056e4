#pragma once
// What fuzz tells of a case's first finding, and cases of one kernel that is written out.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"
#include "tests/support/says.hpp"

namespace ringfence::cli {

struct Told {
  std::string message, cause, fix, story;
  std::vector<std::string> remedies;
};

inline Told told(const std::string& file, const std::string& options = "") {
  const Folder f;
  const Result r = ringfence(f, "fuzz --executor inline --json r.json --case " +
                                    std::filesystem::absolute(file).string() + " " + options);
  REQUIRE(r.status == 1);
  const auto found = json_of(f / "r.json")["findings"];
  REQUIRE(!found.empty());
  // Of the mode that the case claims, the story is the whole one.
  auto judged =
      std::find_if(found.begin(), found.end(), [](const auto& one) { return one["claimed"]; });
  if (judged == found.end()) judged = found.begin();
  Told t{(*judged)["message"], (*judged)["cause"], (*judged)["fix"], (*judged)["story"], {}};
  for (const auto& remedy : (*judged)["remedies"]["found"]) {
    for (const auto& change : remedy["changes"]) {
      const std::string to = change["to"].is_null() ? "" : change["to"].get<std::string>();
      t.remedies.push_back(change["switch"].get<std::string>() + "=" + to);
    }
  }
  return t;
}

// How the kernel is launched; `more`: further lines of the launch.
struct Shape {
  const char* grid = "2";
  const char* block = "1";
  const char* more = "";
  const char* ranks = "1";
};

// A case of one kernel, `body`, and one memory. The body begins at line 7; .loc 1 is k.cu.
inline void write_case(const Folder& f, const std::string& body, const std::string& head,
                       const std::string& init, const Shape& shape = {}) {
  std::ofstream(f / "k.ptx") << ".version 8.6\n.target sm_90a\n.address_size 64\n"
                                ".visible .entry k(.param .u64 data) {\n"
                                "  .reg .pred %p; .reg .b32 %v; .reg .b64 %m;\n"
                                "  ld.param.u64 %m, [data];\n" +
                                    body + "  ret;\n}\n.file 1 \"k.cu\"\n";
  std::ofstream(f / "c.toml") << std::string("version = 1\nranks = ") + shape.ranks + "\n" + head +
                                     "[memory.count]\nkind = \"local\"\nbytes = 64\n" + init +
                                     "[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [" +
                                     shape.grid + "]\nblock = [" + shape.block + "]\n" +
                                     shape.more + "args = [ {memory = \"count\"} ]\n";
}

}  // namespace ringfence::cli
