#pragma once
// What the parts that read a case file share.

#include "emulator/cases/case_file.hpp"
#include "verify/toml.hpp"

namespace ringfence::cases {

using Reader = verify::TomlReader<CaseError>;

// `ranks`: how many entries a list of numbers by rank has.
Argument read_argument(const Reader& r, const toml::node& n, std::uint32_t ranks,
                       unsigned depth = 0);
// A whole number, or a string with a formula.
Formula read_formula(const Reader& r, const toml::node& n, std::string_view type);

// [memory.*], in the file's order.
std::vector<Memory> read_memories(const Reader& r, const toml::table& memories,
                                  std::uint32_t ranks);

// A [[host]]; the file's launches are there.
HostStep read_host_step(const Reader& r, const toml::table& t, const CaseFile& file);

// [check.expected.*] and [check.let].
void read_expected(const Reader& r, const toml::table& check, Check& out);
// What a reference with `round` or `tiles` says as expressions, in place of check.reference.
void express_reference(const Reader& r, const toml::table& reference, CaseFile& file);
void resolve_expected(const Reader& r, const toml::table& root, const CaseFile& c);

// [[ignore]] of a file.
std::vector<Suppression> read_ignores(const Reader& r, const toml::table& root,
                                      const std::string& path);

// Names that are used are declared, and kinds fit.
void resolve(const Reader& r, const toml::table& root, const CaseFile& c);

}  // namespace ringfence::cases
