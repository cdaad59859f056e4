// A message check for errors that must be one line which says what would be right.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "verify/error.hpp"

namespace ringfence::tests {

// The message of the InputError that `action` throws; fails the test where it throws none.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const verify::InputError& error) {
    const std::string message = error.what();
    CHECK_MESSAGE(message.find('\n') == std::string::npos, "a message is one line: " << message);
    return message;
  }
  FAIL_CHECK("no InputError was thrown");
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ringfence::tests

// `action` throws an InputError whose message holds each of the given parts.
#define CHECK_ERROR(action, ...)                                                           \
  do {                                                                                     \
    const std::string check_error_message = ::ringfence::tests::error_of([&] { action; }); \
    for (const std::string part : {__VA_ARGS__}) {                                         \
      CHECK_MESSAGE(::ringfence::tests::contains(check_error_message, part),               \
                    "'" << part << "' is not in: " << check_error_message);                \
    }                                                                                      \
  } while (false)
