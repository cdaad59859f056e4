// help: what --help says of every subcommand, as text, as the page docs/commands.md, as a manual
// page or as a shell completes it.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "emulator/analysis/version.hpp"
#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/help_forms.hpp"

namespace ringfence::cli {

namespace {

// Text for a cell of a table.
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, 1, '\\');
  }
  return text;
}

std::string option_row(const CLI::Option& o) {
  return fmt::format("| `{}` | {} |\n", cell(option_name(o)), cell(option_text(o)));
}

std::string section(const CLI::App& sub) {
  std::string out = fmt::format("## ringfence {}\n\n{}.\n", sub.get_name(), sub.get_description());
  std::vector<std::string> groups;
  for (const CLI::Option* o : sub.get_options()) {
    const std::string& group = o->get_group();
    if (group.empty() || o->check_name("--help")) continue;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  for (const std::string& group : groups) {
    out += fmt::format("\n| {} | |\n| --- | --- |\n", group);
    for (const CLI::Option* o : sub.get_options()) {
      if (o->get_group() == group && !o->check_name("--help")) out += option_row(*o);
    }
  }
  std::string footer = sub.get_footer();
  std::replace(footer.begin(), footer.end(), '\n', ' ');
  if (!footer.empty()) out += "\n" + footer + "\n";
  return out + "\n";
}

}  // namespace

std::string option_name(const CLI::Option& o) {
  std::string name = o.get_positional() ? o.get_name(true) : o.get_name(false, true);
  for (const char* mark : {"{false}", "{true}"}) {
    for (std::size_t i; (i = name.find(mark)) != std::string::npos;) {
      name.erase(i, std::string(mark).size());
    }
  }
  for (std::size_t i = 0; (i = name.find(',', i)) != std::string::npos; i += 2) {
    name.insert(i + 1, 1, ' ');
  }
  const bool takes_value = o.get_items_expected_max() > 0 && !o.get_type_name().empty();
  return takes_value ? name + ' ' + o.get_type_name() : name;
}

std::string option_text(const CLI::Option& o) {
  std::string what = o.get_description();
  if (o.get_required()) what += " (required)";
  if (!o.get_default_str().empty()) what += fmt::format(" (default: {})", o.get_default_str());
  return what;
}

std::string markdown(const CLI::App& app) {
  std::string out = fmt::format(
      "# Commands\n\n{}\n\nThis page is what `ringfence help --markdown` prints, from the text of "
      "`--help`; `./dev docs` writes it.\n\n",
      app.get_description());
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    out += section(*sub);
  }
  out.pop_back();
  return out;
}

void add_help(CLI::App& app, Exit& exit) {
  struct Forms {
    bool markdown = false, manual = false;
    std::string shell;
  };
  auto forms = std::make_shared<Forms>();
  CLI::App* sub = app.add_subcommand("help", "Prints the --help of every subcommand");
  sub->footer("Exit status: 0.");
  auto* page = sub->add_flag("--markdown", forms->markdown, "In the form of docs/commands.md");
  auto* man = sub->add_flag("--man", forms->manual, "In the form of a manual page")->excludes(page);
  sub->add_option("--completion", forms->shell, "Print the completion script for a shell")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->excludes(page)
      ->excludes(man);
  sub->callback([&app, forms, &exit] {
    fmt::print("{}", forms->markdown         ? markdown(app)
                     : forms->manual         ? manual(app, version())
                     : !forms->shell.empty() ? completion(app, forms->shell)
                                             : app.help("", CLI::AppFormatMode::All));
    exit = Exit::clean;
  });
}

}  // namespace ringfence::cli
