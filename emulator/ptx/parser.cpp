#include "emulator/ptx/parser.hpp"

#include <algorithm>
#include <utility>

#include "emulator/ptx/body.hpp"
#include "emulator/ptx/cursor.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/variables.hpp"

namespace ringfence::ptx {
namespace {

class Parser {
 public:
  explicit Parser(Module& module) : module_(module), cursor_(*module.source, module.file) {}

  void run(bool may_be_empty) {
    header();
    while (!cursor_.at_end()) {
      cursor_.begin_statement();
      module_statement();
    }
    const bool any = std::any_of(module_.functions.begin(), module_.functions.end(),
                                 [](const Function& function) { return function.has_body; });
    if (!any && !may_be_empty)
      throw Error(module_.file, 0, "the PTX text holds no kernel (is it cut off?)");
    resolve_relocations();
  }

 private:
  void header() {
    cursor_.begin_statement();
    if (!cursor_.accept_directive(".version")) cursor_.fail("a PTX text starts with .version");
    const Lexeme version = cursor_.take();
    if (version.kind != Token::float64) cursor_.fail(".version needs MAJOR.MINOR");
    module_.version = version.text;
    cursor_.begin_statement();
    if (!cursor_.accept_directive(".target")) cursor_.fail(".target does not follow .version");
    module_.target = cursor_.expect_word("target");
    while (cursor_.accept(",")) cursor_.expect_word("target option");
    cursor_.begin_statement();
    if (!cursor_.accept_directive(".address_size")) return;
    if (cursor_.expect_count(".address_size") != 64)
      cursor_.fail("only .address_size 64 is supported");
  }

  void module_statement() {
    bool external = false;
    Linkage linkage = Linkage::internal;
    for (;;) {
      if (cursor_.peek().kind != Token::directive) {
        if (cursor_.accept(";")) return;
        cursor_.take();
        cursor_.fail("a module-level statement starts with a directive");
      }
      const std::string_view name = cursor_.take().text;
      if (name == ".extern") {
        external = true;
      } else if (name == ".visible") {
        linkage = Linkage::visible;
      } else if (name == ".weak" || name == ".common") {
        linkage = Linkage::weak;
      } else if (name == ".entry" || name == ".func") {
        return function(name == ".entry", external ? Linkage::visible : linkage);
      } else if (name == ".global") {
        return variables(Space::global, external, linkage);
      } else if (name == ".const") {
        return variables(Space::constant, external, linkage);
      } else if (name == ".shared") {
        return variables(Space::shared, external, linkage);
      } else if (name == ".file") {
        return file();
      } else if (name == ".section") {
        return section();
      } else if (name == ".loc") {
        parse_location(cursor_);
        return;
      } else if (name == ".pragma" || name == ".alias") {
        while (!cursor_.at_end() && !cursor_.is(";")) cursor_.take();
        return cursor_.expect(";");
      } else {
        cursor_.fail("unknown directive '" + std::string(name) + "'");
      }
    }
  }

  void variables(Space space, bool external, Linkage linkage) {
    do {
      Variable variable = parse_variable(cursor_, space, external);
      variable.linkage = external ? Linkage::visible : linkage;
      const auto same = std::find_if(module_.variables.begin(), module_.variables.end(),
                                     [&](const Variable& v) { return v.name == variable.name; });
      if (same == module_.variables.end()) {
        module_.variables.push_back(std::move(variable));
      } else if (same->external && !external) {
        *same = std::move(variable);
      } else if (!external) {
        cursor_.fail("'" + std::string(variable.name) + "' is declared twice");
      }
    } while (cursor_.accept(","));
    cursor_.expect(";");
  }

  void file() {
    const std::uint32_t index = cursor_.expect_count(".file");
    if (index > 65535) cursor_.fail(".file number is too large");
    if (cursor_.peek().kind != Token::string) cursor_.fail(".file has no name");
    if (module_.files.size() <= index) module_.files.resize(index + 1);
    module_.files[index] = cursor_.take().text;
    while (cursor_.accept(",")) cursor_.expect_count(".file");
    cursor_.accept(";");
  }

  void section() {
    while (!cursor_.at_end() && !cursor_.is("{")) cursor_.take();
    cursor_.expect("{");
    // Debugging information holds no nested blocks.
    while (!cursor_.at_end() && !cursor_.is("}")) cursor_.take();
    cursor_.expect("}");
  }

  std::vector<Variable> parameter_list() {
    std::vector<Variable> out;
    cursor_.expect("(");
    if (cursor_.accept(")")) return out;
    do {
      if (cursor_.accept_directive(".reg")) {
        out.push_back(parse_variable(cursor_, Space::param, false));
        out.back().in_register = true;
        continue;
      }
      if (!cursor_.accept_directive(".param")) cursor_.fail("a parameter starts with .param");
      out.push_back(parse_variable(cursor_, Space::param, false));
    } while (cursor_.accept(","));
    cursor_.expect(")");
    return out;
  }

  std::array<std::uint32_t, 3> dimensions(std::string_view what) {
    std::array<std::uint32_t, 3> out = {1, 1, 1};
    for (std::size_t i = 0; i < 3; ++i) {
      out[i] = cursor_.expect_count(what);
      if (!cursor_.accept(",")) break;
    }
    return out;
  }

  void performance(Function& function) {
    while (cursor_.peek().kind == Token::directive) {
      const std::string_view name = cursor_.take().text;
      if (name == ".maxntid") {
        function.max_threads = dimensions(name);
      } else if (name == ".reqntid") {
        function.required_threads = dimensions(name);
      } else if (name == ".reqnctapercluster") {
        function.cluster = dimensions(name);
      } else if (name == ".minnctapersm") {
        function.min_blocks = cursor_.expect_count(name);
      } else if (name == ".maxnreg") {
        function.max_registers = cursor_.expect_count(name);
      } else if (name == ".maxnctapersm" || name == ".maxclusterrank") {
        cursor_.expect_count(name);
      } else if (name == ".explicitcluster" || name == ".noreturn" || name == ".unified") {
      } else if (name == ".pragma") {
        while (cursor_.peek().kind == Token::string || cursor_.is(",")) cursor_.take();
        cursor_.expect(";");
      } else {
        cursor_.fail("unknown directive '" + std::string(name) + "' of a function");
      }
    }
  }

  void function(bool entry, Linkage linkage) {
    Function function;
    function.entry = entry;
    function.linkage = linkage;
    function.line = cursor_.statement_line();
    while (cursor_.peek().kind == Token::directive) cursor_.take();  // .attribute and the like
    if (!entry && cursor_.is("(")) function.results = parameter_list();
    function.name = cursor_.expect_word("function name");
    if (cursor_.is("(")) function.parameters = parameter_list();
    performance(function);
    if (!cursor_.accept(";")) {
      cursor_.expect("{");
      BodyReader(cursor_, module_, function).read();
    }
    for (Function& known : module_.functions) {
      if (known.name != function.name) continue;
      if (known.has_body && function.has_body) {
        cursor_.fail("'" + std::string(function.name) + "' is defined twice");
      }
      if (function.has_body) known = std::move(function);
      return;
    }
    module_.functions.push_back(std::move(function));
  }

  void resolve_relocations() {
    const auto named = [](const auto& list, std::string_view name) {
      return static_cast<std::uint32_t>(
          std::find_if(list.begin(), list.end(),
                       [&](const auto& one) { return one.name == name; }) -
          list.begin());
    };
    for (Variable& variable : module_.variables) {
      for (Relocation& relocation : variable.relocations) {
        relocation.index = named(module_.variables, relocation.name);
        if (relocation.index < module_.variables.size()) continue;
        relocation.index = named(module_.functions, relocation.name);
        relocation.of_function = true;
        if (relocation.index == module_.functions.size()) {
          throw Error(module_.file, variable.line,
                      "unknown name '" + std::string(relocation.name) + "'", variable.name);
        }
      }
    }
  }

  Module& module_;
  Cursor cursor_;
};

}  // namespace

Module parse(std::string text, std::string file, bool may_be_empty) {
  Module module;
  module.source = std::make_shared<const std::string>(std::move(text));
  module.file = std::move(file);
  Parser(module).run(may_be_empty);
  return module;
}

}  // namespace ringfence::ptx
