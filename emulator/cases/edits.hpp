#pragma once
// Changes to how the instructions of a kernel synchronise: what relax weakens and what a remedy
// strengthens.
//
// A site is one such property of one instruction, named FILE:LINE/WHAT after the line of the PTX
// (FILE:LINE.N where it is the N-th statement of the line and not the first):
//   order   of a load, store, atomic, reduction or multimem operation; `weak` drops order and scope
//   scope   of any of these, or of a fence
//   fence   sc or acq_rel; none takes the fence out
//   barrier bar.sync, barrier.sync or bar.warp.sync; none takes it out
//   before  an instruction that is put in before it: one of insertions(), or several joined by +
//   after   the same after it
//
// memory.NAME/init=zero initialises a memory that the case leaves uninitialised; memory.NAME/clear
// sets each rank's replica back to its first content, by a memset of the host: behind the last
// launch of each call (`call`), or behind each launch (`launch`).
//
// Accesses to shared, local, parameter and constant memory have no sites. An atomic stays one: it
// has no weak form.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/cases/case_file.hpp"
#include "emulator/ptx/module.hpp"

namespace ringfence::cases {

using Edits = std::map<std::string, std::string>;  // site to value

struct EditSite {
  std::string key;
  std::string present;                // the value in force
  std::vector<std::string> weaker;    // the weakest first
  std::vector<std::string> stronger;  // the least step first
  std::string text;                   // the instruction: "st.release.sys.global.u32"
  std::string place;                  // its line of the CUDA source, "kernel.cu:12"; empty: none
  bool strong = false;                // the access synchronises, or might: it is no weak one
};

// The sites of all kernels that the case launches, in the order of the text, with `edits` in force.
// Throws CaseError or ptx::Error.
std::vector<EditSite> edit_sites(const CaseFile& file, const Edits& edits = {});

// The FILE:LINE of an instruction's key: "zoo.ptx:120", "zoo.ptx:120.2".
std::string place_of(const ptx::Module& module, const ptx::Function& f, std::size_t index);

// Applies those of `edits` that name a memory. Throws a CaseError that names the key.
void apply_memory_edits(CaseFile& file, const Edits& edits);
bool is_memory_edit(std::string_view key);

// The values of `before` and `after`: "bar.sync" (0), "fence.acq_rel.sys", ...
std::vector<std::string_view> insertions();

// Where edited texts live: a module points into it.
using EditedText = std::vector<std::unique_ptr<std::string>>;

// Applies those of `edits` that name this module's file, and takes them out of `left`.
void apply_edits(ptx::Module& module, const Edits& edits, Edits& left, EditedText& text);

// What is left is a mistake: throws a CaseError that names the key.
void refuse_edits(const CaseFile& file, const Edits& left);

}  // namespace ringfence::cases
