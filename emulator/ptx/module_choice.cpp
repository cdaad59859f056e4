// Which of a binary's modules has a kernel. Their texts are searched and not read: a program may
// hold many, and what is wrong with one that nobody asks for is no matter.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/demangle.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/link.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::ptx {
namespace {

struct Entry {
  std::size_t module = 0;
  std::string_view name;
  std::string_view text;  // from its name on
  bool seen = false;      // by other modules: .visible or .weak
};

void add_entries(std::string_view text, std::size_t module, std::vector<Entry>& out) {
  constexpr std::string_view kWord = ".entry ";
  for (std::size_t at = text.find(kWord); at != std::string_view::npos;
       at = text.find(kWord, at + 1)) {
    const std::size_t begin = at + kWord.size();
    const std::size_t end = std::min(text.find_first_of("( \t\r\n", begin), text.size());
    const std::string_view before = text.substr(0, at);
    const std::size_t last = std::min(text.find("\n}", end), text.size());
    out.push_back({module, text.substr(begin, end - begin), text.substr(begin, last - begin),
                   before.ends_with(".visible ") || before.ends_with(".weak ")});
  }
}

std::string listed(const std::vector<Entry>& entries, const std::vector<NamedText>& modules) {
  constexpr std::size_t kMost = 20;
  std::string out;
  for (std::size_t i = 0; i < entries.size() && i < kMost; ++i) {
    out += i == 0 ? "" : ", ";
    out += std::string(entries[i].name) + " in " + modules[entries[i].module].name;
  }
  if (entries.size() > kMost) out += " and " + std::to_string(entries.size() - kMost) + " more";
  return out;
}

// The module that has it.
std::size_t choose(const std::vector<NamedText>& modules, const std::string& path,
                   const std::string& kernel) {
  std::vector<Entry> entries;
  for (std::size_t m = 0; m < modules.size(); ++m) add_entries(modules[m].text, m, entries);
  // The whole name, a part of the mangled one, a part of the other.
  std::array<std::vector<Entry>, 3> found;
  for (const Entry& e : entries) {
    if (e.name == kernel) found[0].push_back(e);
    if (e.name.find(kernel) != std::string_view::npos) {
      found[1].push_back(e);
    } else if (demangle(e.name).find(kernel) != std::string::npos) {
      found[2].push_back(e);
    }
  }
  for (const std::vector<Entry>& of : found) {
    if (of.empty()) continue;
    const auto same = [&](const Entry& e) {
      // Sources that use a template each have its kernel, and they are one.
      return e.module == of[0].module || (e.seen && of[0].seen && e.text == of[0].text);
    };
    if (std::all_of(of.begin(), of.end(), same)) return of[0].module;
    throw Error(path, 0,
                "the kernel name '" + kernel + "' matches " + std::to_string(of.size()) + ": " +
                    listed(of, modules) + "; give more of the name, or '" +
                    modules[of[0].module].name + "' for the file");
  }
  throw Error(path, 0,
              "the kernel name '" + kernel + "' matches none of: " + listed(entries, modules));
}

bool names_others(std::string_view text) {
  for (const std::string_view what : {".extern .func", ".extern .global", ".extern .const"}) {
    if (text.find(what) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> modules_with(const std::string& path, const std::string& kernel) {
  const std::vector<NamedText> modules = read_binary(path);
  if (modules.size() < 2) return {path};
  const std::size_t chosen = choose(modules, path, kernel);
  std::vector<std::string> out = {modules[chosen].name};
  if (!names_others(modules[chosen].text)) return out;
  std::vector<Module> parsed;
  std::vector<std::size_t> number;
  std::vector<bool> roots;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    try {
      parsed.push_back(parse(modules[m].text, modules[m].name, true));
    } catch (const Error&) {
      if (m == chosen) throw;
      continue;
    }
    number.push_back(m);
    roots.push_back(m == chosen);
  }
  const std::vector<bool> needed = with_what_they_name(parsed, roots);
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    if (needed[i] && number[i] != chosen) out.push_back(modules[number[i]].name);
  }
  return out;
}

std::vector<std::string> modules_of(const std::string& path) {
  const std::vector<NamedText> modules = read_binary(path);
  if (modules.empty()) return {path};
  std::vector<std::string> out;
  for (const NamedText& m : modules) out.push_back(m.name);
  return out;
}

}  // namespace ringfence::ptx
