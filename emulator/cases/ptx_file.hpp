#pragma once
// A PTX file that launches of a case name.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/cases/case_program.hpp"
#include "emulator/ptx/parser.hpp"

namespace ringfence::cases {

struct CaseProgram::PtxFile {
  PtxFile(const CaseFile& file, const std::string& p)
      : path(p), module(ptx::parse(file.ptx_text(p), p)) {}
  std::string path;
  EditedText edited;
  ptx::Module module;
  std::vector<std::uint64_t> globals;  // address of its variables, by rank; 0: not mapped yet
};

}  // namespace ringfence::cases
