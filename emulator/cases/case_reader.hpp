#pragma once
// What the parts that read a case file share.

#include "emulator/cases/case_file.hpp"
#include "verify/toml.hpp"

namespace ringfence::cases {

using Reader = verify::TomlReader<CaseError>;

Argument read_argument(const Reader& r, const toml::node& n, unsigned depth = 0);

// [check.expected.*] and [check.let].
void read_expected(const Reader& r, const toml::table& check, Check& out);
// What a reference with `round` or `tiles` says as expressions, in place of check.reference.
void express_reference(const Reader& r, const toml::table& reference, CaseFile& file);
void resolve_expected(const Reader& r, const toml::table& root, const CaseFile& c);

// Names that are used are declared, and kinds fit.
void resolve(const Reader& r, const toml::table& root, const CaseFile& c);

}  // namespace ringfence::cases
