#pragma once
// One line of a trace as an object whose keys are all known: each is taken once, with its type and
// range checked, and what is left over is an error. For the reader only.

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace ringfence::trace {

class Fields {
 public:
  // `where` begins every message: "file:line" and, inside an object, its key.
  Fields(std::string where, const nlohmann::json& object);

  bool has(const char* key) const { return object_.contains(key); }
  std::string string(const char* key);
  // 16 hex digits.
  std::string hex(const char* key);
  std::uint64_t number(const char* key, std::uint64_t limit);
  template <class T>
  T integer(const char* key) {
    return static_cast<T>(number(key, std::numeric_limits<T>::max()));
  }
  double real(const char* key);
  bool boolean(const char* key);
  const nlohmann::json& array(const char* key);
  Fields object(const char* key);
  // One of `words`; its index.
  std::size_t word(const char* key, std::span<const std::string_view> words);
  template <class E>
  E word_as(const char* key, std::span<const std::string_view> words) {
    return static_cast<E>(word(key, words));
  }
  // All keys and their strings, for open maps.
  std::map<std::string, std::string> strings();

  // Every key has been taken, or the first other one is named.
  void end() const;
  [[noreturn]] void fail(const std::string& what) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& take(const char* key, const char* wanted);

  std::string where_;
  const nlohmann::json& object_;
  std::set<std::string, std::less<>> taken_;
};

// Parses one line. A key given twice is an error.
nlohmann::json parse_line(const std::string& where, std::string_view text);

}  // namespace ringfence::trace
