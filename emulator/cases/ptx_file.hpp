#pragma once
// A PTX file that launches of a case name.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulator/cases/case_program.hpp"
#include "emulator/ptx/module.hpp"

namespace ringfence::cases {

struct CaseProgram::PtxFile {
  PtxFile(const CaseFile& file, std::vector<std::string> p)
      : paths(std::move(p)), module(file.module(paths)) {}
  std::vector<std::string> paths;  // more than one: linked
  EditedText edited;
  ptx::Module module;
  std::vector<std::uint64_t> globals;  // address of its variables, by rank; 0: not mapped yet
};

}  // namespace ringfence::cases
