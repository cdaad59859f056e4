// The header of a test, and the names and tokens that all parts of the reader use.
#include "emulator/litmus/parser.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "emulator/litmus/reader.hpp"
#include "emulator/litmus/templates.hpp"

namespace ringfence::litmus {
namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

std::string_view rest_of_line(Cursor& cursor) {
  const std::size_t start = cursor.offset();
  while (!cursor.done() && cursor.current() != '\n') cursor.advance();
  return cursor.since(start);
}

// `PTX NAME`, then quoted comments; words outside quotes are taken as comments too, as the public
// collections have them. Leaves the cursor at the opening brace.
void read_header(Cursor& cursor, const std::string& file, Test& test) {
  skip_blanks(cursor, file);
  if (!cursor.starts_with("PTX ") && !cursor.starts_with("ptx ")) {
    throw ParseError(file, cursor.position(), "a PTX litmus test starts with `PTX NAME`");
  }
  cursor.advance(3);
  const Position name_at = cursor.position();
  test.name = trimmed(rest_of_line(cursor));
  if (test.name.empty()) {
    throw ParseError(file, name_at, "the test has no name; write it behind `PTX`");
  }
  for (;;) {
    skip_blanks(cursor, file);
    const Position at = cursor.position();
    if (cursor.done()) {
      throw ParseError(file, at, "no state section; open it with `{`, `{ }` if it is empty");
    }
    if (cursor.current() == '{') return;
    if (cursor.current() == '"') {
      cursor.advance();
      const std::size_t start = cursor.offset();
      while (cursor.current() != '"') {
        if (cursor.done()) throw ParseError(file, at, "comment without end; close it with `\"`");
        cursor.advance();
      }
      test.comments.emplace_back(cursor.since(start));
      cursor.advance();
    } else {
      const std::size_t start = cursor.offset();
      while (!cursor.done() && cursor.current() != '\n' && cursor.current() != '{' &&
             cursor.current() != '"') {
        cursor.advance();
      }
      test.comments.push_back(trimmed(cursor.since(start)));
    }
  }
}

std::string located(const std::string& file, Position at, const std::string& message) {
  return file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + message;
}

}  // namespace

ParseError::ParseError(const std::string& file, Position at, const std::string& message)
    : std::runtime_error(located(file, at, message)), at_(at) {}

Test parse(std::string_view text, const std::string& file_name) {
  Cursor cursor(text);
  Test header;
  read_header(cursor, file_name, header);
  Test test = Reader(cursor, file_name).read();
  test.name = std::move(header.name);
  test.comments = std::move(header.comments);
  return test;
}

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) {
    throw ParseError(path, {}, "cannot be opened; it must be a readable file");
  }
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw ParseError(path, {}, "cannot be read; it must be a regular file");
  return text;
}

}  // namespace

Test parse_file(const std::string& path) { return parse(content(path), path); }

std::vector<Test> parse_tests(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.extension() == ".test") {
    return parse_templates(content(path), path, file.stem().string());
  }
  return {parse_file(path)};
}

Test Reader::read() {
  read_state();
  read_placements();
  declare_registers();
  read_rows();
  resolve_labels();
  read_condition_part();
  check_registers();
  check_phases();
  return std::move(test_);
}

void Reader::fail(Position at, const std::string& message) const {
  throw ParseError(lexer_.file(), at, message);
}

bool Reader::next_is(std::string_view text) const {
  const Token& token = lexer_.peek();
  return token.kind != TokenKind::End && token.kind != TokenKind::Number && token.text == text;
}

bool Reader::accept(std::string_view symbol_or_word) {
  if (!next_is(symbol_or_word)) return false;
  lexer_.take();
  return true;
}

Token Reader::expect(std::string_view symbol, const std::string& where) {
  if (!next_is(symbol)) {
    fail(lexer_.peek().at,
         "`" + std::string(symbol) + "` expected " + where + ", not " + describe(lexer_.peek()));
  }
  return lexer_.take();
}

Token Reader::expect_word(const std::string& what) {
  if (lexer_.peek().kind != TokenKind::Word) {
    fail(lexer_.peek().at, what + " expected, not " + describe(lexer_.peek()));
  }
  return lexer_.take();
}

std::int64_t Reader::expect_integer(const std::string& what) {
  const Position at = lexer_.peek().at;
  const bool negative = accept("-");
  if (lexer_.peek().kind != TokenKind::Number) {
    fail(lexer_.peek().at, what + " expected, not " + describe(lexer_.peek()));
  }
  const std::uint64_t magnitude = lexer_.take().value;
  constexpr auto smallest = std::uint64_t{1} << 63;
  if (negative && magnitude > smallest) fail(at, "number too small; it must be at least -2^63");
  // Two's complement: 0xffffffffffffffff is -1.
  return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
}

int Reader::expect_small_integer(const std::string& what, int limit) {
  const Token& token = lexer_.peek();
  if (token.kind != TokenKind::Number) fail(token.at, what + " expected, not " + describe(token));
  if (token.value > static_cast<std::uint64_t>(limit)) {
    fail(token.at, what + " is too large; it may be at most " + std::to_string(limit));
  }
  return static_cast<int>(lexer_.take().value);
}

std::optional<LocationId> Reader::find_location(std::string_view name) const {
  const auto it = location_ids_.find(name);
  if (it == location_ids_.end()) return std::nullopt;
  return it->second;
}

LocationId Reader::use_location(const Token& name) {
  if (const auto id = find_location(name.text)) return *id;
  if (thread_number(name.text) >= 0) {
    fail(name.at, "a location expected, not the thread " + describe(name));
  }
  Location location;
  location.name = name.text;
  location.type = default_type_;
  location.initial = {0};
  location.at = name.at;
  test_.undeclared.push_back(location.name);
  return add_location(std::move(location));
}

int Reader::thread_number(std::string_view word) {
  if (word.size() < 2 || word.size() > 4 || word[0] != 'P') return -1;
  int number = 0;
  for (char c : word.substr(1)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

bool Reader::is_register_name(std::string_view word) {
  return word.size() >= 2 && word[0] == 'r' &&
         word.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

RegisterId Reader::reg(int thread, std::string_view name) {
  auto& registers = test_.threads[static_cast<std::size_t>(thread)].registers;
  for (std::size_t i = 0; i < registers.size(); ++i) {
    if (registers[i].name == name) return static_cast<RegisterId>(i);
  }
  registers.push_back({std::string(name), 0, std::nullopt, false});
  return static_cast<RegisterId>(registers.size() - 1);
}

RegisterId Reader::read_register(int thread, const Token& name) {
  const RegisterId id = reg(thread, name.text);
  first_read_[static_cast<std::size_t>(thread)].try_emplace(id, name.at);
  return id;
}

RegisterId Reader::write_register(int thread, const Token& name) {
  if (!is_register_name(name.text)) {
    fail(name.at, "a register such as r0 expected, not " + describe(name));
  }
  const RegisterId id = reg(thread, name.text);
  written_[static_cast<std::size_t>(thread)].insert(id);
  return id;
}

void Reader::check_registers() const {
  for (std::size_t t = 0; t < test_.threads.size(); ++t) {
    for (const auto& [id, at] : first_read_[t]) {
      const RegisterInfo& info = test_.threads[t].registers[static_cast<std::size_t>(id)];
      if (info.declared || written_[t].contains(id)) continue;
      const std::string full = "P" + std::to_string(t) + ":" + info.name;
      fail(at, "undeclared register " + full +
                   "; no instruction writes it, so declare it in the state section: " + full +
                   "=0;");
    }
  }
}

}  // namespace ringfence::litmus
