#include "emulator/ptx/body.hpp"

#include <algorithm>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/variables.hpp"

namespace ringfence::ptx {
namespace {

// Limits that no compiler output comes near; they keep a hostile file from taking the memory.
constexpr std::size_t kMostRegisters = 1U << 20;
constexpr std::size_t kDeepestBlock = 256;
constexpr std::size_t kMostOperands = 64;

void split(std::string_view word, Instruction& out) {
  std::size_t from = word.find('.');
  out.opcode = word.substr(0, from);
  while (from != std::string_view::npos) {
    const std::size_t to = word.find('.', from + 1);
    out.modifiers.push_back(word.substr(from + 1, to - from - 1));
    from = to;
  }
}

}  // namespace

SourceLocation parse_location(Cursor& cursor, SourceLocation* inlined_at) {
  const std::uint32_t line = cursor.peek().line;
  SourceLocation out;
  out.file = cursor.expect_count(".loc file");
  out.line = cursor.expect_count(".loc line");
  out.column = cursor.expect_count(".loc column");
  while (!cursor.at_end() && cursor.peek().line == line && !cursor.is("}")) {
    if (cursor.take().text != "inlined_at" || inlined_at == nullptr) continue;
    inlined_at->file = cursor.expect_count("inlined_at file");
    inlined_at->line = cursor.expect_count("inlined_at line");
    inlined_at->column = cursor.expect_count("inlined_at column");
  }
  return out;
}

BodyReader::BodyReader(Cursor& cursor, Module& module, Function& function)
    : cursor_(cursor),
      module_(module),
      function_(function),
      operands_(cursor, module, function, scopes_) {}

void BodyReader::read() {
  open_block();
  while (!scopes_.empty()) {
    cursor_.begin_statement();
    if (cursor_.at_end()) cursor_.fail("the body has no end: '}' is missing");
    statement();
  }
  function_.has_body = true;
}

void BodyReader::open_block() {
  if (scopes_.size() == kDeepestBlock) cursor_.fail("blocks are nested too deeply");
  scopes_.emplace_back();
  pending_.emplace_back();
}

void BodyReader::close_block() {
  const NameScope scope = std::move(scopes_.back());
  std::vector<Pending> open = std::move(pending_.back());
  scopes_.pop_back();
  pending_.pop_back();
  for (const Pending& use : open) {
    if (const auto index = scope.find_label(use.name)) {
      if (use.in_targets) {
        function_.labels[use.index].branches[use.element] = *index;
      } else {
        function_.instructions[use.index].operands[use.element].index = *index;
      }
    } else if (!pending_.empty()) {
      pending_.back().push_back(use);
    } else {
      throw Error(module_.file, use.line, "no label '" + std::string(use.name) + "'", use.text);
    }
  }
}

void BodyReader::declare(std::string_view name) {
  if (scopes_.back().holds(name)) {
    cursor_.fail("'" + std::string(name) + "' is declared twice");
  }
}

void BodyReader::statement() {
  if (cursor_.accept("{")) return open_block();
  if (cursor_.accept("}")) return close_block();
  if (cursor_.accept(";")) return;
  if (cursor_.peek().kind == Token::directive) return directive();
  if (cursor_.peek().kind == Token::word && cursor_.peek(1).kind == Token::punctuation &&
      cursor_.peek(1).text == ":") {
    const std::string_view name = cursor_.take().text;
    cursor_.take();
    return label(name);
  }
  instruction();
}

void BodyReader::label(std::string_view name) {
  declare(name);
  const auto index = static_cast<std::uint32_t>(function_.labels.size());
  const auto target = static_cast<std::uint32_t>(function_.instructions.size());
  function_.labels.push_back({name, target, {}, cursor_.statement_line(), false, {}});
  scopes_.back().add_label(name, index);
  if (cursor_.accept_directive(".branchtargets")) return branch_targets(index);
  if (cursor_.accept_directive(".calltargets")) {
    do {
      const std::string_view callee = cursor_.expect_word("function in .calltargets");
      function_.labels[index].callees.push_back(operands_.function(callee));
    } while (cursor_.accept(","));
    cursor_.expect(";");
  } else if (cursor_.accept_directive(".callprototype")) {
    // The arguments of the call say as much.
    function_.labels[index].prototype = true;
    while (!cursor_.at_end() && !cursor_.is(";")) cursor_.take();
    cursor_.expect(";");
  }
}

void BodyReader::branch_targets(std::uint32_t label_index) {
  do {
    const std::string_view name = cursor_.expect_word("label in .branchtargets");
    const auto element = static_cast<std::uint32_t>(function_.labels[label_index].branches.size());
    function_.labels[label_index].branches.push_back(0);
    pending_.back().push_back(
        {true, label_index, element, name, cursor_.statement_line(), cursor_.text()});
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

void BodyReader::directive() {
  const std::string_view name = cursor_.take().text;
  if (name == ".reg") return registers();
  if (name == ".shared") return variables(Space::shared);
  if (name == ".local") return variables(Space::local);
  if (name == ".param") return variables(Space::param);
  if (name == ".loc") {
    SourceLocation call;
    location_ = parse_location(cursor_, &call);
    const auto same = [](const SourceLocation& a, const SourceLocation& b) {
      return a.file == b.file && a.line == b.line && a.column == b.column;
    };
    std::vector<SourceLocation>& calls = module_.calls;
    if (call.line != 0 && !same(call, *location_)) {
      // Of a call that is itself inlined, an earlier .loc says where.
      for (const SourceLocation& seen : seen_) {
        if (same(seen, call)) call.outer = seen.outer;
      }
      const auto known = std::find_if(calls.begin(), calls.end(), [&](const SourceLocation& c) {
        return same(c, call) && c.outer == call.outer;
      });
      location_->outer = static_cast<std::uint32_t>(known - calls.begin()) + 1;
      if (known == calls.end()) calls.push_back(call);
      if (std::none_of(seen_.begin(), seen_.end(),
                       [&](const SourceLocation& s) { return same(s, *location_); })) {
        seen_.push_back(*location_);
      }
    }
    return;
  }
  if (name == ".pragma") {
    while (cursor_.peek().kind == Token::string || cursor_.is(",")) cursor_.take();
    return cursor_.expect(";");
  }
  if (name == ".noreturn") return;
  cursor_.fail("unknown directive '" + std::string(name) + "' in a body");
}

void BodyReader::registers() {
  Type type = Type::none;
  while (cursor_.peek().kind == Token::directive) {
    const std::string_view word = cursor_.take().text.substr(1);
    const auto found = type_of(word);
    if (!found) cursor_.fail("'." + std::string(word) + "' is no register type");
    type = *found;
  }
  if (type == Type::none) cursor_.fail("the registers have no type");
  do {
    const std::string_view name = cursor_.expect_word("register name");
    declare(name);
    const auto first = static_cast<std::uint32_t>(function_.registers.size());
    std::uint32_t count = 1;
    const bool ranged = cursor_.accept("<");
    if (ranged) {
      if (cursor_.peek().kind != Token::integer) cursor_.fail("no number of registers");
      const std::uint64_t bound = cursor_.take().bits;
      cursor_.expect(">");
      if (bound > kMostRegisters) cursor_.fail("too many registers");
      count = static_cast<std::uint32_t>(bound);
    }
    if (function_.registers.size() + count > kMostRegisters) cursor_.fail("too many registers");
    for (std::uint32_t i = 0; i < count; ++i) {
      function_.registers.push_back({name, i, ranged, type});
    }
    if (ranged) {
      scopes_.back().add_range(name, {first, count});
    } else {
      scopes_.back().add_register(name, first);
    }
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

void BodyReader::variables(Space space) {
  do {
    Variable variable = parse_variable(cursor_, space, false);
    declare(variable.name);
    scopes_.back().add_variable(variable.name,
                                static_cast<std::uint32_t>(function_.variables.size()));
    function_.variables.push_back(std::move(variable));
  } while (cursor_.accept(","));
  cursor_.expect(";");
}

void BodyReader::instruction() {
  Instruction out;
  out.line = cursor_.statement_line();
  out.location = location_;
  if (cursor_.accept("@")) {
    out.guard_negated = cursor_.accept("!");
    const std::string_view name = cursor_.expect_word("predicate behind '@'");
    out.guard = static_cast<std::int32_t>(operands_.predicate(name));
    if (function_.registers[static_cast<std::size_t>(out.guard)].type != Type::pred) {
      cursor_.fail("the guard is no .pred register");
    }
  }
  split(cursor_.expect_word("instruction"), out);
  operands_.labels_allowed(out.opcode == "bra" || out.opcode == "brx" || out.opcode == "call");
  if (!cursor_.is(";")) {
    do {
      if (out.operands.size() == kMostOperands) cursor_.fail("too many operands");
      out.operands.push_back(operands_.operand());
    } while (cursor_.accept(","));
  }
  cursor_.expect(";");
  out.text = cursor_.text();
  const auto index = static_cast<std::uint32_t>(function_.instructions.size());
  for (std::size_t i = 0; i < out.operands.size(); ++i) {
    if (out.operands[i].kind != Operand::Kind::label) continue;
    // Of a call that is the list of targets or the prototype, behind a register.
    const bool indirect =
        std::any_of(out.operands.begin(), out.operands.end(),
                    [](const Operand& o) { return o.kind == Operand::Kind::reg; });
    if (out.opcode == "call" && !indirect)
      cursor_.fail("unknown name '" + std::string(out.operands[i].name) + "'");
    pending_.back().push_back(
        {false, index, static_cast<std::uint32_t>(i), out.operands[i].name, out.line, out.text});
  }
  function_.instructions.push_back(std::move(out));
}

}  // namespace ringfence::ptx
