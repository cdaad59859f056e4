#include "emulator/litmus/expectation.hpp"

#include <algorithm>
#include <filesystem>
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

struct Place {
  const std::string& file;
  int line;
  int end;  // the column behind the line's last one
};

// The words from `i` on, which say what is expected.
void read_outcome(const std::vector<Word>& words, std::size_t i, const Place& place,
                  Expectation& e) {
  const auto fail = [&](std::size_t word, const std::string& message) {
    const int column = word < words.size() ? words[word].column : place.end;
    throw ParseError(place.file, {place.line, column}, message);
  };
  const auto yes_or_no = [&](std::string_view yes, std::string_view no, std::optional<bool>& slot) {
    const bool is = words[i].text == yes;
    if (!is && words[i].text != no) return false;
    if (slot) fail(i, "`" + std::string(words[i].text) + "` repeats an earlier word; keep one");
    slot = is;
    return true;
  };
  if (e.ok) return;
  if (i < words.size()) {
    e.observation = observation_of(words[i].text);
    if (e.observation) ++i;
  }
  const std::size_t first = i;
  for (; i < words.size(); ++i) {
    if (yes_or_no("race", "no-race", e.race) || yes_or_no("hang", "no-hang", e.hang)) continue;
    if (i == first && !e.observation) break;
    fail(i, "race, no-race, hang, no-hang or the end of the line expected after the verdict");
  }
  if (!e.observation && !e.race && !e.hang) {
    fail(first,
         "Never, Sometimes or Always expected after the name and its settings, or race, "
         "no-race, hang, no-hang");
  }
}

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> out;
  for (const auto& part : std::filesystem::path(path).lexically_normal()) {
    out.push_back(part.string());
  }
  return out;
}

}  // namespace

bool Expectation::is_of(std::string_view test, std::string_view file) const {
  if (name == test) return true;
  const std::vector<std::string> mine = components(name), its = components(file);
  const std::size_t n = std::min(mine.size(), its.size());
  return n > 0 &&
         std::equal(mine.rbegin(), mine.rbegin() + static_cast<std::ptrdiff_t>(n), its.rbegin());
}

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
    if (const std::size_t comma = expectation.name.rfind(',');
        words.size() == 1 && comma != std::string::npos) {
      const std::string answer = expectation.name.substr(comma + 1);
      if (answer != "0" && answer != "1") {
        throw ParseError(file_name, {line, words.front().column + static_cast<int>(comma) + 1},
                         "0 or 1 expected after the comma");
      }
      expectation.ok = answer == "1";
      expectation.name.resize(comma);
    }
    std::size_t i = 1;
    for (; i < words.size() && words[i].text.find('=') != std::string_view::npos; ++i) {
      const std::size_t equals = words[i].text.find('=');
      expectation.settings[std::string(words[i].text.substr(0, equals))] =
          words[i].text.substr(equals + 1);
    }
    read_outcome(words, i, {file_name, line, static_cast<int>(length) + 1}, expectation);
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
