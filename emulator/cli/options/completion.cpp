// What shells complete: subcommands, their options, and the values of an option that has a set of
// them. A file's name is completed everywhere else.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/options/help_forms.hpp"

namespace ringfence::cli {
namespace {

struct Choice {
  std::vector<std::string> names;  // "--jobs", or "--shrink" and "--no-shrink"
  std::string about;               // a line
  bool takes_value = false;
  std::vector<std::string> values;  // empty: any
};

struct Subcommand {
  std::string name, about;
  std::vector<Choice> options;
  // As words of a shell: all that begins with a dash.
  std::vector<std::string> words() const {
    std::vector<std::string> all;
    for (const Choice& c : options) all.insert(all.end(), c.names.begin(), c.names.end());
    return all;
  }
};

// The set in a type such as "TEXT:{random,pct}", which CLI::IsMember writes.
std::vector<std::string> members(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

// A line of at most 60 characters that no shell's quoting trips over.
std::string brief(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, text.find_first_of(".;\n"))) {
    if (std::string("'\"`$\\[]:").find(c) == std::string::npos) out += c;
  }
  if (out.size() > 60) out = out.substr(0, out.rfind(' ', 57)) + "...";
  return out;
}

std::vector<Choice> choices(const CLI::App& app) {
  std::vector<Choice> out;
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_positional() || o->get_group().empty()) continue;
    Choice c;
    for (const std::string& name : o->get_lnames()) c.names.push_back("--" + name);
    // A flag's other name is among its long ones.
    for (const std::string& name : o->get_snames()) c.names.push_back("-" + name);
    c.about = brief(o->get_description());
    c.takes_value = o->get_items_expected_max() > 0;
    c.values = members(o->get_type_name());
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<Subcommand> subcommands(const CLI::App& app) {
  std::vector<Subcommand> out;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    out.push_back({sub->get_name(), brief(sub->get_description()), choices(*sub)});
  }
  return out;
}

std::vector<std::string> names(const std::vector<Subcommand>& subs) {
  std::vector<std::string> out;
  for (const Subcommand& s : subs) out.push_back(s.name);
  return out;
}

std::string bash(const std::vector<Subcommand>& subs, const std::vector<Choice>& common) {
  std::string out = fmt::format(
      "# bash completion of ringfence\n"
      "_ringfence() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before= words= values= i\n"
      "  [ \"$COMP_CWORD\" -gt 0 ] && before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local sub=\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${{COMP_WORDS[i]}} in -*) ;; *) sub=${{COMP_WORDS[i]}}; break ;; esac\n"
      "  done\n"
      "  case $sub in\n"
      "    '') words='{} {}' ;;\n",
      fmt::join(names(subs), " "), fmt::join(Subcommand{"", "", common}.words(), " "));
  for (const Subcommand& s : subs) {
    out += fmt::format("    {})\n      words='{}'\n      case $before in\n", s.name,
                       fmt::join(s.words(), " "));
    for (const Choice& c : s.options) {
      if (c.values.empty()) continue;
      out += fmt::format("        {}) values='{}' ;;\n", fmt::join(c.names, "|"),
                         fmt::join(c.values, " "));
    }
    out += "      esac ;;\n";
  }
  out +=
      "  esac\n"
      "  if [ -n \"$values\" ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
      "  elif [ -z \"$sub\" ] || [ \"${word#-}\" != \"$word\" ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _ringfence ringfence\n";
  return out;
}

// A flag's other name does the other thing.
std::string about(const Choice& c, const std::string& name) {
  return (name.rfind("--no-", 0) == 0 ? "Not: " : "") + c.about;
}

std::string zsh_argument(const Choice& c, const std::string& name) {
  std::string out = fmt::format("'*{}[{}]", name, about(c, name));
  if (c.takes_value) {
    out +=
        c.values.empty() ? ":value:_files" : fmt::format(":value:({})", fmt::join(c.values, " "));
  }
  return out + "'";
}

std::string zsh(const std::vector<Subcommand>& subs, const std::vector<Choice>& common) {
  std::string out =
      "#compdef ringfence\n"
      "_ringfence() {\n"
      "  local -a subcommands=(\n";
  for (const Subcommand& s : subs) out += fmt::format("    '{}:{}'\n", s.name, s.about);
  out += "  )\n  if (( CURRENT == 2 )); then\n    _describe subcommand subcommands\n    _arguments";
  for (const Choice& c : common) {
    for (const std::string& name : c.names) out += " " + zsh_argument(c, name);
  }
  out +=
      "\n    return\n  fi\n  local sub=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $sub "
      "in\n";
  for (const Subcommand& s : subs) {
    out += fmt::format("    {})\n      _arguments", s.name);
    for (const Choice& c : s.options) {
      for (const std::string& name : c.names) out += " \\\n        " + zsh_argument(c, name);
    }
    out += " \\\n        '*:file:_files' ;;\n";
  }
  return out + "  esac\n}\n_ringfence \"$@\"\n";
}

std::string fish(const std::vector<Subcommand>& subs, const std::vector<Choice>& common) {
  std::string out = "# fish completion of ringfence\n";
  const auto option = [&](const std::string& when, const Choice& c) {
    for (const std::string& name : c.names) {
      const bool is_long = name.rfind("--", 0) == 0;
      out += fmt::format("complete -c ringfence -n '{}' {} {}", when, is_long ? "-l" : "-s",
                         name.substr(is_long ? 2 : 1));
      if (c.takes_value) out += c.values.empty() ? " -r" : " -x";
      if (!c.values.empty()) out += fmt::format(" -a '{}'", fmt::join(c.values, " "));
      out += fmt::format(" -d '{}'\n", about(c, name));
    }
  };
  for (const Choice& c : common) option("__fish_use_subcommand", c);
  for (const Subcommand& s : subs) {
    out += fmt::format("complete -c ringfence -n __fish_use_subcommand -f -a {} -d '{}'\n", s.name,
                       s.about);
    for (const Choice& c : s.options) option("__fish_seen_subcommand_from " + s.name, c);
  }
  return out;
}

}  // namespace

std::string completion(const CLI::App& app, const std::string& shell) {
  const std::vector<Subcommand> subs = subcommands(app);
  const std::vector<Choice> common = choices(app);
  if (shell == "bash") return bash(subs, common);
  if (shell == "zsh") return zsh(subs, common);
  if (shell == "fish") return fish(subs, common);
  throw UsageError(fmt::format("--completion {}: expected bash, zsh or fish", shell));
}

}  // namespace ringfence::cli
