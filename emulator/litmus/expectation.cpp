#include "emulator/litmus/expectation.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "emulator/litmus/parser.hpp"

namespace ringfence::litmus {
namespace {

struct Word {
  std::string_view text;
  int column = 0;
};

std::vector<Word> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<Word> words;
  constexpr std::string_view blanks = " \t\r";
  for (std::size_t i = 0; (i = line.find_first_not_of(blanks, i)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, i), line.size());
    words.push_back({line.substr(i, end - i), static_cast<int>(i) + 1});
    i = end;
  }
  return words;
}

std::optional<Observation> observation_of(std::string_view word) {
  for (Observation o : {Observation::Never, Observation::Sometimes, Observation::Always}) {
    if (word == to_string(o)) return o;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Expectation> parse_expectations(std::string_view text, const std::string& file_name) {
  std::vector<Expectation> expectations;
  std::set<std::pair<std::string, std::map<std::string, std::string>>> seen;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::vector<Word> words = words_of(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
    if (words.empty()) continue;

    Expectation expectation;
    expectation.line = line;
    expectation.name = words.front().text;
    std::size_t i = 1;
    for (; i < words.size() && words[i].text.find('=') != std::string_view::npos; ++i) {
      const std::size_t equals = words[i].text.find('=');
      expectation.settings[std::string(words[i].text.substr(0, equals))] =
          words[i].text.substr(equals + 1);
    }
    const auto observation = i < words.size() ? observation_of(words[i].text) : std::nullopt;
    if (!observation) {
      const int column = i < words.size() ? words[i].column : static_cast<int>(length) + 1;
      throw ParseError(file_name, {line, column},
                       "Never, Sometimes or Always expected after the name and its settings");
    }
    expectation.observation = *observation;
    if (++i < words.size()) {
      if (words[i].text != "race" && words[i].text != "no-race") {
        throw ParseError(file_name, {line, words[i].column},
                         "race, no-race or the end of the line expected after the verdict");
      }
      expectation.race = words[i].text == "race";
      ++i;
    }
    if (i < words.size()) {
      throw ParseError(file_name, {line, words[i].column}, "the end of the line expected");
    }
    if (!seen.emplace(expectation.name, expectation.settings).second) {
      throw ParseError(file_name, {line, 1},
                       "second line for `" + expectation.name + "`; keep one for each setting");
    }
    expectations.push_back(std::move(expectation));
  }
  return expectations;
}

std::vector<Expectation> parse_expectation_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ParseError(path, {}, "cannot be opened; it must be a readable file");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_expectations(text, path);
}

}  // namespace ringfence::litmus
