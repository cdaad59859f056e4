// ringfence.1: the text of --help as a manual page.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <string>

#include "emulator/cli/options/help_forms.hpp"

namespace ringfence::cli {
namespace {

// Text as roff takes it: no line of it is a request, and a dash is one that can be searched for.
std::string roff(const std::string& text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    at_start = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string entry(const CLI::Option& o) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(option_name(o)), roff(option_text(o)));
}

std::string subsection(const CLI::App& sub) {
  std::string out =
      fmt::format(".SS ringfence {}\n{}.\n", roff(sub.get_name()), roff(sub.get_description()));
  for (const CLI::Option* o : sub.get_options()) {
    if (!o->get_group().empty() && !o->check_name("--help")) out += entry(*o);
  }
  if (!sub.get_footer().empty()) out += ".PP\n" + roff(sub.get_footer()) + "\n";
  return out;
}

}  // namespace

std::string manual(const CLI::App& app, const std::string& version) {
  std::string out = fmt::format(
      ".TH RINGFENCE 1 \"\" \"ringfence {}\" \"User Commands\"\n"
      ".SH NAME\nringfence \\- check, fuzz and run multi\\-GPU kernels under weak memory\n"
      ".SH SYNOPSIS\n.B ringfence\n.I SUBCOMMAND\n.RI [ OPTIONS ]\n"
      ".SH DESCRIPTION\n{}\n.SH OPTIONS\n",
      roff(version), roff(app.get_description()));
  for (const CLI::Option* o : app.get_options()) out += entry(*o);
  out += ".SH SUBCOMMANDS\n";
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    out += subsection(*sub);
  }
  return out;
}

}  // namespace ringfence::cli
