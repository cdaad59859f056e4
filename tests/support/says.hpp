#pragma once
// Whether a text has a part.

#include <string>

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
