#pragma once
// A PTX file that launches of a case name.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/cases/case_program.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::cases {

struct CaseProgram::PtxFile {
  explicit PtxFile(const std::string& p) : path(p), module(ptx::parse(ptx::read_ptx(p), p)) {}
  std::string path;
  EditedText edited;
  ptx::Module module;
  std::vector<std::uint64_t> globals;  // address of its variables, by rank; 0: not mapped yet
};

}  // namespace ringfence::cases
