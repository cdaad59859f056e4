#include "emulator/litmus/templates.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "emulator/litmus/lexer.hpp"
#include "emulator/litmus/parser.hpp"

namespace ringfence::litmus {
namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

std::string number(int n) { return std::to_string(n); }

// One instance of a template, turned into a test of the public syntax, which the reader reads.
class Instance {
 public:
  Instance(const std::string& text, const std::string& file, std::string name)
      : lexer_(Cursor(text), file), file_(file), name_(std::move(name)) {}

  std::vector<Test> read() {
    while (accept(".")) read_address();
    while (lexer_.peek().kind == TokenKind::Word && !is_question(lexer_.peek().text)) read_thread();
    if (threads_.empty()) fail("a thread such as d0.b0.t0 { … } expected");
    std::vector<Test> tests;
    while (lexer_.peek().kind != TokenKind::End) read_question();
    if (questions_.empty()) fail("permit, assert or check with a condition expected");
    for (const Question& q : questions_) tests.push_back(test_of(q));
    return tests;
  }

 private:
  struct Thread {
    int gpu = 0, cta = 0, number = 0;
    std::vector<std::pair<std::string, Position>> cells;
  };
  struct Question {
    std::string quantifier, condition, name;
    Position at;
  };

  [[noreturn]] void fail(const std::string& message) {
    const Token& next = lexer_.peek();
    throw ParseError(file_, next.at, message + ", not " + describe(next));
  }
  bool next_is(std::string_view text) const {
    return lexer_.peek().kind != TokenKind::End && lexer_.peek().text == text;
  }
  bool accept(std::string_view text) {
    if (!next_is(text)) return false;
    lexer_.take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail("`" + std::string(text) + "` expected");
  }
  std::string word(const std::string& what) {
    if (lexer_.peek().kind != TokenKind::Word) fail(what + " expected");
    return std::string(lexer_.take().text);
  }
  static bool is_question(std::string_view w) {
    return w == "permit" || w == "assert" || w == "check";
  }

  void read_address() {
    const std::string space = word("global, shared, texref, surfref or conref");
    const std::string proxy = space == "texref"    ? "texture"
                              : space == "surfref" ? "surface"
                              : space == "conref"  ? "constant"
                                                   : "generic";
    if (proxy == "generic" && space != "global" && space != "shared") {
      fail("global, shared, texref, surfref or conref expected before the name");
    }
    const std::string name = word("a name");
    if (accept(";")) {
      if (proxy != "generic") fail("`virtually aliases` and a location expected");
      state_ += name + "=0; ";
      return;
    }
    const std::string kind = word("physically or virtually");
    if (kind != (proxy == "generic" ? "physically" : "virtually")) {
      fail("`" + std::string(proxy == "generic" ? "physically" : "virtually") +
           " aliases` expected before the name of a location");
    }
    expect("aliases");
    state_ += name + " @ " + proxy + " aliases " + word("a location") + "; ";
    expect(";");
  }

  int level(char letter) {
    const std::string form = std::string(1, letter) + "0";
    const Token t = lexer_.peek();
    const std::string text = word("a thread's place such as d0.b0.t0");
    const bool digits = text.size() > 1 && text.size() < 5 && text[0] == letter &&
                        text.find_first_not_of("0123456789", 1) == std::string::npos;
    if (!digits) throw ParseError(file_, t.at, "`" + form + "` expected, not `" + text + "`");
    return std::stoi(text.substr(1));
  }

  void read_thread() {
    Thread place;
    place.gpu = level('d');
    expect(".");
    place.cta = level('b');
    expect(".");
    place.number = level('t');
    const auto same = [&](const Thread& t) {
      return t.gpu == place.gpu && t.cta == place.cta && t.number == place.number;
    };
    auto thread = std::find_if(threads_.begin(), threads_.end(), same);
    if (thread == threads_.end()) thread = threads_.insert(threads_.end(), place);
    const auto index = static_cast<int>(thread - threads_.begin());
    expect("{");
    while (!accept("}")) read_instruction(index);
  }

  // Its tokens up to the semicolon, an order added where none stands.
  void read_instruction(int thread) {
    const Position at = lexer_.peek().at;
    const std::string mnemonic = word("an instruction");
    std::vector<std::string> modifiers;
    while (accept(".")) modifiers.push_back(word("a modifier"));
    if (mnemonic == "fence" && !modifiers.empty() && modifiers[0] == "alias") {
      modifiers.insert(modifiers.begin(), "proxy");
    }
    auto& cells = threads_[static_cast<std::size_t>(thread)].cells;
    if (mnemonic == "fence" && modifiers.size() > 1 && modifiers[0] == "proxy") {
      // fence.proxy.surface.texture is one fence after the other.
      for (std::size_t i = 1; i < modifiers.size(); ++i) {
        cells.emplace_back("fence.proxy." + modifiers[i], at);
      }
      expect(";");
      return;
    }
    const bool access = mnemonic == "ld" || mnemonic == "tld" || mnemonic == "suld" ||
                        mnemonic == "ldc" || mnemonic == "st" || mnemonic == "sust";
    if (access && modifiers.empty()) modifiers.push_back("weak");
    std::string cell = mnemonic;
    for (const std::string& m : modifiers) cell += "." + m;
    cell += " ";
    const bool writes_register = mnemonic != "st" && mnemonic != "sust" && mnemonic != "red" &&
                                 mnemonic != "sured" && mnemonic != "fence";
    for (bool first = true; !next_is(";") && !next_is("=="); first = false) {
      if (lexer_.peek().kind == TokenKind::End) fail("`;` expected");
      const Token t = lexer_.take();
      if (first && writes_register && t.kind == TokenKind::Word)
        own(std::string(t.text), thread, t.at);
      cell += std::string(t.text) + (t.text == "," ? " " : "");
    }
    cells.emplace_back(cell, at);
    if (accept("==")) {
      if (lexer_.peek().kind != TokenKind::Number || registers_of_last_.empty()) {
        fail("a number that the load returns expected");
      }
      filters_.push_back("P" + number(thread) + ":" + registers_of_last_ +
                         " == " + std::string(lexer_.take().text));
    }
    expect(";");
  }

  void own(const std::string& name, int thread, Position at) {
    registers_of_last_ = name;
    const auto [it, fresh] = owner_.emplace(name, thread);
    if (!fresh && it->second != thread) {
      throw ParseError(file_, at,
                       "`" + name +
                           "` belongs to another thread already; each register "
                           "has a name of its own");
    }
  }

  void read_question() {
    Question q;
    q.at = lexer_.peek().at;
    const std::string kind = word("permit, assert or check");
    if (!is_question(kind)) fail("permit, assert or check expected before");
    q.quantifier = kind == "assert" ? "forall" : "exists";
    expect("(");
    q.condition = read_or();
    expect(")");
    expect("as");
    q.name = word("a name");
    expect(";");
    questions_.push_back(std::move(q));
  }

  std::string read_or() {
    std::string out = "(" + read_and();
    while (accept("|")) {
      expect("|");
      out += " \\/ " + read_and();
    }
    return out + ")";
  }
  std::string read_and() {
    std::string out = read_term();
    while (accept("&")) {
      expect("&");
      out += " /\\ " + read_term();
    }
    return out;
  }
  std::string read_term() {
    if (accept("not")) return "not (" + read_term() + ")";
    if (accept("(")) {
      const std::string inside = read_or();
      expect(")");
      return inside;
    }
    std::string out = read_value();
    const bool equal = accept("==");
    if (!equal) expect("!=");
    return out + (equal ? " == " : " != ") + read_value();
  }
  std::string read_value() {
    if (lexer_.peek().kind == TokenKind::Number) return std::string(lexer_.take().text);
    const Token t = lexer_.peek();
    const std::string name = word("a register or a number");
    const auto owner = owner_.find(name);
    if (owner == owner_.end()) {
      throw ParseError(file_, t.at, "no instruction writes the register `" + name + "`");
    }
    return "P" + number(owner->second) + ":" + name;
  }

  Test test_of(const Question& q) const {
    std::string text =
        "PTX " + name_ + (questions_.size() > 1 ? ":" + q.name : "") + "\n{" + state_ + "}\n";
    std::size_t rows = 0;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      text += (t > 0 ? " | " : " ") + std::string("P") + std::to_string(t) + "@cta " +
              number(threads_[t].cta) + ",gpu " + number(threads_[t].gpu);
      rows = std::max(rows, threads_[t].cells.size());
    }
    text += " ;\n";
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t t = 0; t < threads_.size(); ++t) {
        const auto& cells = threads_[t].cells;
        text += (t > 0 ? " | " : " ") + (r < cells.size() ? cells[r].first : std::string());
      }
      text += " ;\n";
    }
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      text += (i == 0 ? "filter (" : " /\\ ") + filters_[i];
    }
    if (!filters_.empty()) text += ")\n";
    text += q.quantifier + " " + q.condition + "\n";
    try {
      Test test = parse(text, file_);
      for (std::size_t t = 0; t < threads_.size(); ++t) {
        for (std::size_t i = 0; i < threads_[t].cells.size(); ++i) {
          test.threads[t].instructions[i].at = threads_[t].cells[i].second;
        }
      }
      return test;
    } catch (const ParseError& e) {
      // Places in the text made here mean nothing to who wrote the file; rows do.
      const std::string what = e.what();
      const int row = e.at().line - 4;
      Position at = q.at;
      for (const Thread& t : threads_) {
        if (row >= 0 && static_cast<std::size_t>(row) < t.cells.size()) {
          at = t.cells[static_cast<std::size_t>(row)].second;
        }
      }
      throw ParseError(file_, at, name_ + ": " + what.substr(what.find(": ") + 2));
    }
  }

  Lexer lexer_;
  const std::string& file_;
  const std::string name_;
  std::string state_;
  std::vector<Thread> threads_;
  std::map<std::string, int> owner_;  // registers
  std::string registers_of_last_;
  std::vector<std::string> filters_;
  std::vector<Question> questions_;
};

// $0, $1, … by the cells of a row.
std::string filled(std::string text, std::string_view row) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t end = std::min(row.find('|', begin), row.size());
    cells.push_back(trimmed(row.substr(begin, end - begin)));
    begin = end + 1;
  }
  for (std::size_t i = cells.size(); i-- > 0;) {
    const std::string key = "$" + std::to_string(i);
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos;) {
      text.replace(at, key.size(), cells[i]);
      at += cells[i].size();
    }
  }
  return text;
}

}  // namespace

std::vector<Test> parse_templates(std::string_view text, const std::string& file_name,
                                  const std::string& name) {
  const std::size_t mark = text.find("$$");
  const std::string body(text.substr(0, mark));
  if (mark == std::string_view::npos) return Instance(body, file_name, name).read();
  std::vector<Test> tests;
  int line = 1 + static_cast<int>(std::count(body.begin(), body.end(), '\n'));
  std::string_view rows = text.substr(mark + 2);
  for (int row = 0; !rows.empty(); ++line) {
    const std::size_t end = std::min(rows.find('\n'), rows.size());
    const std::string cells = trimmed(rows.substr(0, end));
    rows.remove_prefix(std::min(end + 1, rows.size()));
    if (cells.empty() || cells[0] == '#') continue;
    const std::string instance = filled(body, cells);
    if (instance.find('$') != std::string::npos) {
      throw ParseError(file_name, {line, 1},
                       "the row has too few cells; expected one for each of $0, $1, …");
    }
    for (Test& t : Instance(instance, file_name, name + "#" + number(++row)).read()) {
      tests.push_back(std::move(t));
    }
  }
  if (tests.empty()) throw ParseError(file_name, {line, 1}, "no row behind `$$`; each is a test");
  return tests;
}

}  // namespace ringfence::litmus
