#pragma once
// What operations cost on a machine: a TOML file with a figure and its source for each key
// (cuda/profiles/h200.toml says what the keys mean).

#include <stdexcept>
#include <string>

#include "emulator/timing/server.hpp"

namespace ringfence::timing {

// Of a profile that cannot be used: "FILE:LINE:COLUMN: what, and what would be right".
class ProfileError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Rates in GB/s (bytes a nanosecond), times in nanoseconds.
struct Profile {
  std::string name;
  double multiprocessors = 0;
  struct {
    double load = 0, store = 0, copy = 0, sync = 0, row_sum = 0;
  } block;
  struct {
    double rate = 0, load = 0, swap = 0, add = 0;
  } memory;
  struct {
    double read = 0, write = 0, load = 0, swap = 0, signal = 0;
  } link;
  struct {
    double rate = 0, reduce = 0;
  } in_switch;
  struct {
    double entry = 0, peer = 0, fence = 0;
  } signal;
  struct {
    double kernel = 0, prologue = 0;
  } launch;
  struct {
    double tflop_s = 0, start = 0, tile_rows = 0, tile_columns = 0;
  } product;
};

// `name` is the file's, for messages. Throws ProfileError.
Profile parse_profile(const std::string& text, const std::string& name);
// A file, or a profile that ringfence brings along, by its name: "h200". Throws ProfileError.
Profile read_profile(const std::string& path_or_name);

// n bytes at a rate.
inline Time time_of(double bytes, double gb_s) {
  return static_cast<Time>(bytes / gb_s * 1000.0 + 0.5);
}
inline Time nanoseconds(double ns) { return static_cast<Time>(ns * 1000.0 + 0.5); }

}  // namespace ringfence::timing
