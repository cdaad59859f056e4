// Reading a TOML file that people write. What is wrong is said at FILE:LINE:COLUMN with what would
// be right, in one line whatever the file holds, as an exception of the caller's kind.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ringfence::verify {
struct TomlAssertion {};
[[noreturn]] void throw_toml_assertion();
// The first byte of a character beyond ASCII that stands neither in a string nor in a comment,
// where TOML has no use for one; npos: none.
std::size_t bare_beyond_ascii(std::string_view text);
}  // namespace ringfence::verify

// Some of toml++'s assertions fail for what a file holds ("[$"): they throw here. Where NDEBUG is
// set it would take them for granted. So the parser is our own build of it, in toml.cpp.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : ringfence::verify::throw_toml_assertion())
#define TOML_EXCEPTIONS 1
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace ringfence::verify {

template <class Error>
class TomlReader {
 public:
  // `path` is named in errors.
  explicit TomlReader(std::string path) : path_(std::move(path)) {}

  toml::table parse(std::string_view text) const {
    // toml++ 3.3 asks of such a character whether it is a blank, and has no answer for all of them.
    if (const std::size_t odd = bare_beyond_ascii(text); odd != std::string_view::npos) {
      const std::string_view before = text.substr(0, odd);
      toml::source_region at;
      at.begin.line =
          static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n')) + 1;
      at.begin.column = static_cast<std::uint32_t>(odd - (before.rfind('\n') + 1)) + 1;
      fail(at, "not TOML: outside strings and comments all text is ASCII");
    }
    try {
      return toml::parse(text, path_);
    } catch (const toml::parse_error& e) {
      fail(e.source(), "not TOML: {}", e.description());
    } catch (const TomlAssertion&) {
      toml::source_region at;
      at.begin = {first_asserting_line(text), 1};
      fail(at, "not TOML: what stands here is no key, value or table");
    }
  }

  template <class... Args>
  [[noreturn]] void fail(const toml::source_region& at, fmt::format_string<Args...> text,
                         Args&&... args) const {
    throw Error(fmt::format("{}:{}:{}: {}", path_, at.begin.line, at.begin.column,
                            shown(fmt::format(text, std::forward<Args>(args)...))));
  }

  // Every key of `table` must be one of `known`, a list of strings.
  template <class Known>
  void only(const toml::table& table, std::string_view where, const Known& known) const {
    for (const auto& [key, node] : table) {
      bool ok = false;
      for (const std::string_view k : known) ok = ok || k == key.str();
      if (!ok) {
        fail(key.source(), "unknown key '{}' in {}; known here: {}", key.str(), where,
             fmt::join(known, ", "));
      }
    }
  }
  void only(const toml::table& table, std::string_view where,
            std::initializer_list<std::string_view> known) const {
    only<std::initializer_list<std::string_view>>(table, where, known);
  }

  const toml::node& need(const toml::table& table, std::string_view where,
                         std::string_view key) const {
    const toml::node* n = table.get(key);
    if (n == nullptr) fail(table.source(), "{} lacks the key '{}'", where, key);
    return *n;
  }

  std::uint64_t number(const toml::node& n, std::string_view what, std::uint64_t least,
                       std::uint64_t most) const {
    const auto* v = n.as_integer();
    if (v == nullptr || v->get() < 0 || static_cast<std::uint64_t>(v->get()) < least ||
        static_cast<std::uint64_t>(v->get()) > most) {
      fail(n.source(), "{} must be a whole number from {} to {}", what, least, most);
    }
    return static_cast<std::uint64_t>(v->get());
  }
  std::string text(const toml::node& n, std::string_view what) const {
    const auto* v = n.as_string();
    if (v == nullptr || v->get().empty()) fail(n.source(), "{} must be a non-empty string", what);
    return v->get();
  }
  double real(const toml::node& n, std::string_view what) const {
    if (const auto* f = n.as_floating_point()) return f->get();
    if (const auto* i = n.as_integer()) return static_cast<double>(i->get());
    fail(n.source(), "{} must be a number", what);
  }
  const toml::table& table(const toml::node& n, std::string_view what) const {
    const auto* t = n.as_table();
    if (t == nullptr) fail(n.source(), "{} must be a table", what);
    return *t;
  }
  const toml::array& array(const toml::node& n, std::string_view what) const {
    const auto* a = n.as_array();
    if (a == nullptr) fail(n.source(), "{} must be an array", what);
    return *a;
  }

 private:
  // The parser goes from line to line, so that an assertion fails in every longer part too.
  static std::uint32_t first_asserting_line(std::string_view text) {
    std::uint32_t fine = 0;
    auto fails = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    while (fails - fine > 1) {
      const std::uint32_t lines = fine + (fails - fine) / 2;
      std::size_t end = 0;
      for (std::uint32_t i = 0; i < lines; ++i) end = text.find('\n', end) + 1;
      try {
        static_cast<void>(toml::parse(text.substr(0, end)));
        fine = lines;
      } catch (const toml::parse_error&) {
        fine = lines;
      } catch (const TomlAssertion&) {
        fails = lines;
      }
    }
    return fails;
  }

  // A message may quote what the file holds, line ends and a long string too.
  static std::string shown(const std::string& message) {
    constexpr std::size_t kMost = 400;
    std::string out;
    for (const char c : message) {
      if (out.size() >= kMost) return out + "...";
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        out += c;
      }
    }
    return out;
  }

  std::string path_;
};

}  // namespace ringfence::verify
