#pragma once
// The file of `check --resume`: what the searches of the boundary modes left.

#include <string>

#include "emulator/analysis/check.hpp"

namespace ringfence::cli {

// What a search belongs to: what it left says nothing of anything else.
struct SearchOf {
  std::string what;     // the case and its policies, in one line
  std::string content;  // digests of the files that the case is made of, in one line
  std::string version;  // of ringfence: another one may explore otherwise
};

// Empty if there is no such file. One of another search is refused. Throws UsageError.
analysis::LeftByMode read_resume(const std::string& path, const SearchOf& search);
// Replaces the file as a whole. Throws UsageError.
void write_resume(const std::string& path, const SearchOf& search,
                  const analysis::LeftByMode& left);

}  // namespace ringfence::cli
