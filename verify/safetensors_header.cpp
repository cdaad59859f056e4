#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "verify/error.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

using nlohmann::json;

// A name from the file, fit for one line of an error message.
std::string quoted(const std::string& name) {
  std::string text = "'";
  for (const char c : name.substr(0, 64)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + (name.size() > 64 ? "...'" : "'");
}

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw InputError(fmt::format("{}: {}", file, what));
}

// The JSON text as a value; refuses duplicate keys, which the parser would let win silently, and
// nesting deeper than a header has.
json parse_json(const std::string& file, const char* text, std::size_t bytes) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= 3) fail(file, "header is nested deeper than the 3 levels of safetensors");
      if (event == Event::object_start) keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        fail(file, fmt::format("key {} appears twice in the header: keep one", quoted(key)));
      }
    }
    return true;
  };
  // The exceptions' own text starts with their class and number in brackets.
  const auto reason = [](const json::exception& error) {
    const std::string what = error.what();
    const std::size_t start = what.find("] ");
    return start == std::string::npos ? what : what.substr(start + 2);
  };
  try {
    return json::parse(text, text + bytes, check);
  } catch (const json::parse_error& error) {
    fail(file, fmt::format("byte {}: the header is not valid JSON: {}",
                           8 + (error.byte > 0 ? error.byte - 1 : 0), reason(error)));
  } catch (const json::out_of_range& error) {
    // A number that no double holds, such as 1e999.
    fail(file, fmt::format("the header's numbers must be integers: {}", reason(error)));
  }
}

const json& field(const std::string& file, const std::string& tensor, const json& value,
                  const char* name) {
  const auto found = value.find(name);
  if (found == value.end()) {
    fail(file, fmt::format("tensor {} has no '{}': dtype, shape and data_offsets are needed",
                           quoted(tensor), name));
  }
  return *found;
}

Dtype read_dtype(const std::string& file, const std::string& tensor, const json& value) {
  if (value.is_string()) {
    const auto& name = value.get_ref<const std::string&>();
    if (const auto dtype = safetensors_dtype(name)) return *dtype;
    fail(file, fmt::format("tensor {} has dtype {}: {} are supported", quoted(tensor), quoted(name),
                           safetensors_dtype_names()));
  }
  fail(file, fmt::format("tensor {}: dtype is not a string: use {}", quoted(tensor),
                         safetensors_dtype_names()));
}

Shape read_shape(const std::string& file, const std::string& tensor, const json& value) {
  Shape shape;
  if (!value.is_array()) {
    fail(file, fmt::format("tensor {}: shape is not an array of integers", quoted(tensor)));
  }
  for (const json& extent : value) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > INT64_MAX) {
      fail(file,
           fmt::format("tensor {}: shape has {}: use integers from 0 to 2^63-1", quoted(tensor),
                       extent.dump(-1, ' ', true, json::error_handler_t::replace)));
    }
    shape.push_back(extent.get<std::int64_t>());
  }
  try {
    element_count(shape);
  } catch (const InputError& error) {
    fail(file, fmt::format("tensor {}: {}", quoted(tensor), error.what()));
  }
  return shape;
}

TensorEntry read_entry(const std::string& file, const std::string& name, const json& value) {
  if (!value.is_object()) {
    fail(file, fmt::format("tensor {} is not an object with dtype, shape and data_offsets",
                           quoted(name)));
  }
  for (const auto& item : value.items()) {
    if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets") {
      fail(file,
           fmt::format("tensor {} has an unknown field {}: expected dtype, shape and data_offsets",
                       quoted(name), quoted(item.key())));
    }
  }
  TensorEntry entry;
  entry.name = name;
  entry.dtype = read_dtype(file, name, field(file, name, value, "dtype"));
  entry.shape = read_shape(file, name, field(file, name, value, "shape"));
  const json& offsets = field(file, name, value, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    fail(file,
         fmt::format("tensor {}: data_offsets is not two integers [begin, end]", quoted(name)));
  }
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  const std::uint64_t bytes = element_count(entry.shape) * dtype_bytes(entry.dtype);
  if (entry.begin > entry.end || entry.end - entry.begin != bytes) {
    fail(file, fmt::format("tensor {}: data_offsets [{}, {}] do not hold the {} bytes of {} {}",
                           quoted(name), entry.begin, entry.end, bytes, dtype_name(entry.dtype),
                           shape_text(entry.shape)));
  }
  return entry;
}

Metadata read_metadata(const std::string& file, const json& value) {
  Metadata metadata;
  if (!value.is_object()) fail(file, "__metadata__ is not an object of strings");
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) {
      fail(file, fmt::format("__metadata__ key {} is not a string", quoted(item.key())));
    }
    metadata.emplace(item.key(), item.value().get<std::string>());
  }
  return metadata;
}

// The tensors, in order of their offsets, cover the data bytes 0 .. data_bytes once each.
void check_tiling(const std::string& file, const std::vector<TensorEntry>& tensors,
                  std::uint64_t data_begin, std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  const TensorEntry* before = nullptr;
  for (const TensorEntry& entry : tensors) {
    if (entry.end > data_bytes) {
      fail(file, fmt::format("truncated: tensor {} ends at byte {}, the file at byte {}",
                             quoted(entry.name), data_begin + entry.end, data_begin + data_bytes));
    }
    if (entry.begin < covered) {
      fail(file, fmt::format("tensor {} begins at data offset {}, inside tensor {}: expected {}",
                             quoted(entry.name), entry.begin, quoted(before->name), covered));
    }
    if (entry.begin > covered) {
      fail(file, fmt::format("data offsets {} to {} belong to no tensor: {} must begin at {}",
                             covered, entry.begin, quoted(entry.name), covered));
    }
    covered = entry.end;
    before = &entry;
  }
  if (covered != data_bytes) {
    fail(file,
         fmt::format("byte {}: {} trailing bytes after the last tensor: the file must end here",
                     data_begin + covered, data_bytes - covered));
  }
}

}  // namespace

std::uint64_t safetensors_header_bytes(const std::string& file, const void* prefix,
                                       std::uint64_t file_bytes) {
  if (file_bytes < 8) {
    fail(file, fmt::format("truncated: {} bytes, the header's length alone takes 8", file_bytes));
  }
  unsigned char length[8];
  std::memcpy(length, prefix, sizeof length);
  std::uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i) bytes = bytes << 8 | length[i];
  if (bytes > kMaxHeaderBytes) {
    fail(file,
         fmt::format("byte 0: header length {} is over the limit of {}: not a safetensors file?",
                     bytes, kMaxHeaderBytes));
  }
  if (bytes > file_bytes - 8) {
    fail(file, fmt::format("byte 0: header length {} does not fit: {} bytes follow", bytes,
                           file_bytes - 8));
  }
  return bytes;
}

SafetensorsHeader parse_safetensors_header(const std::string& file, const char* text,
                                           std::size_t json_bytes, std::uint64_t file_bytes) {
  if (json_bytes == 0 || text[0] != '{') fail(file, "byte 8: the header must begin with '{'");
  const json root = parse_json(file, text, json_bytes);
  SafetensorsHeader header;
  header.data_begin = 8 + json_bytes;
  for (const auto& item : root.items()) {
    if (item.key() == "__metadata__") {
      header.metadata = read_metadata(file, item.value());
    } else {
      header.tensors.push_back(read_entry(file, item.key(), item.value()));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
            });
  check_tiling(file, header.tensors, header.data_begin, file_bytes - header.data_begin);
  for (TensorEntry& entry : header.tensors) {
    entry.begin += header.data_begin;
    entry.end += header.data_begin;
  }
  return header;
}

}  // namespace ringfence::verify
