#include "emulator/trace/fields.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "emulator/trace/names.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

namespace {

// Text from a file, short and printable enough for a one-line message.
std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (char c : text.substr(0, kShown)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

}  // namespace

Fields::Fields(std::string where, const nlohmann::json& object)
    : where_(std::move(where)), object_(object) {
  if (!object.is_object()) fail(fmt::format("expected an object here, not {}", object.type_name()));
}

void Fields::fail(const std::string& what) const { throw TraceError(where_ + ": " + what); }

const nlohmann::json& Fields::take(const char* key, const char* wanted) {
  auto it = object_.find(key);
  if (it == object_.end()) fail(fmt::format("key '{}' is missing ({})", key, wanted));
  taken_.insert(key);
  return *it;
}

std::string Fields::string(const char* key) {
  const nlohmann::json& v = take(key, "a string");
  if (!v.is_string()) fail(fmt::format("'{}' is a string, not {}", key, v.type_name()));
  return v.get<std::string>();
}

std::string Fields::hex(const char* key) {
  std::string text = string(key);
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail(fmt::format("'{}' is 16 hexadecimal digits, not {}", key, shown(text)));
  }
  return text;
}

std::uint64_t Fields::number(const char* key, std::uint64_t limit) {
  const nlohmann::json& v = take(key, "a number");
  if (!v.is_number_unsigned() || v.get<std::uint64_t>() > limit) {
    fail(fmt::format("'{}' is a whole number from 0 to {}, not {}", key, limit,
                     v.is_number() ? v.dump() : v.type_name()));
  }
  return v.get<std::uint64_t>();
}

double Fields::real(const char* key) {
  const nlohmann::json& v = take(key, "a number");
  if (!v.is_number()) fail(fmt::format("'{}' is a number, not {}", key, v.type_name()));
  return v.get<double>();
}

bool Fields::boolean(const char* key) {
  const nlohmann::json& v = take(key, "true or false");
  if (!v.is_boolean()) fail(fmt::format("'{}' is true or false, not {}", key, v.type_name()));
  return v.get<bool>();
}

const nlohmann::json& Fields::array(const char* key) {
  const nlohmann::json& v = take(key, "an array");
  if (!v.is_array()) fail(fmt::format("'{}' is an array, not {}", key, v.type_name()));
  return v;
}

Fields Fields::object(const char* key) {
  return Fields(where_ + ": in '" + key + "'", take(key, "an object"));
}

std::size_t Fields::word(const char* key, std::span<const std::string_view> words) {
  const std::string text = string(key);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return i;
  }
  fail(fmt::format("'{}' is {}, not {}", key, list_words(words), shown(text)));
}

std::map<std::string, std::string> Fields::strings() {
  std::map<std::string, std::string> out;
  for (const auto& item : object_.items()) out[item.key()] = string(item.key().c_str());
  return out;
}

void Fields::end() const {
  for (const auto& item : object_.items()) {
    if (!taken_.contains(item.key())) {
      fail(fmt::format("unknown key {} (this ringfence reads trace version {})", shown(item.key()),
                       kVersion));
    }
  }
}

nlohmann::json parse_line(const std::string& where, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto note_key = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  nlohmann::json line;
  try {
    line = nlohmann::json::parse(text.begin(), text.end(), note_key);
  } catch (const nlohmann::json::parse_error& e) {
    throw TraceError(
        fmt::format("{}: not JSON at byte {} of the line; each line is one object", where, e.byte));
  } catch (const nlohmann::json::out_of_range&) {
    throw TraceError(fmt::format("{}: a number is beyond what a double holds", where));
  }
  if (!twice.empty()) {
    throw TraceError(fmt::format("{}: key {} is given twice", where, shown(twice)));
  }
  return line;
}

}  // namespace ringfence::trace
