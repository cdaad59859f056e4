#pragma once
// Arguments, and what memories hold at the start, as bytes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/cases/case_file.hpp"

namespace ringfence::cases {

// What u8 to s64 hold, as far as a signed 64 bits tell it.
struct Range {
  std::int64_t least = 0, most = 0;
};
Range range_of(std::string_view type);
// Adds the bytes of a number of type u8 to s64; false: it does not fit.
bool put_integer(std::string_view type, std::int64_t value, std::vector<std::uint8_t>& out);

// Where memories are.
struct Addresses {
  std::function<std::uint64_t(const std::string& memory, std::uint32_t rank)> replica;
  std::function<std::uint64_t(const std::string& memory)> multicast;
  // Of the device array of all replicas' addresses that is on `rank`.
  std::function<std::uint64_t(const std::string& memory, std::uint32_t rank)> peers;
};

// Adds the argument's bytes on rank `context.rank`; "rank" and "world" have `word_bytes`. Throws
// std::invalid_argument where a formula's value does not fit its type.
void encode(const Argument& argument, const Addresses& addresses, const FormulaContext& context,
            std::size_t word_bytes, std::vector<std::uint8_t>& out);

// Bytes that a part of a memory fills; one element where it repeats.
std::uint64_t content_bytes(const Content& content);
// As many bytes, or `room` where it repeats.
void encode(const Content& content, const Addresses& addresses, FormulaContext context,
            std::uint64_t room, std::vector<std::uint8_t>& out);

// f(argument) for the argument and all fields in it.
template <class F>
void each_argument(const Argument& argument, const F& f) {
  f(argument);
  for (const Argument& field : argument.fields) each_argument(field, f);
}
template <class F>
void each_argument(const Memory& memory, const F& f) {
  for (const Content& c : memory.initial.contents) {
    if (c.value) each_argument(*c.value, f);
  }
}

}  // namespace ringfence::cases
