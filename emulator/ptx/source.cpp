#include "emulator/ptx/source.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/ptx/compressed.hpp"
#include "emulator/ptx/error.hpp"

extern char** environ;

namespace ringfence::ptx {
namespace {

constexpr std::uint16_t kPtxEntry = 1;
// Bits of an entry's flags: an older compression of nvcc's own, LZ4 and Zstandard.
constexpr std::uint64_t kOldCompression = 0x1000;
constexpr std::uint64_t kLz4 = 0x2000;
constexpr std::uint64_t kZstd = 0x8000;

// Offsets in a fat binary's entry header, read off nvcc 12 and 13 output.
struct Entry {
  std::uint16_t kind = 0;
  std::uint32_t header = 0;
  std::uint64_t size = 0;
  std::uint32_t compressed = 0;  // bytes of the payload; 0: it is not compressed
  std::uint32_t architecture = 0;
  std::uint64_t flags = 0;
  std::uint64_t decompressed = 0;
};
constexpr std::size_t kEntryBytes = 64;
constexpr std::size_t kFatbinHeaderBytes = 16;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path, 0, std::string("cannot be read: ") + std::strerror(errno));
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad()) throw Error(path, 0, "cannot be read");
  return std::move(out).str();
}

template <class T>
T field(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Entry read_entry(const std::string& bytes, std::size_t at) {
  Entry entry;
  entry.kind = field<std::uint16_t>(bytes, at);
  entry.header = field<std::uint32_t>(bytes, at + 4);
  entry.size = field<std::uint64_t>(bytes, at + 8);
  entry.compressed = field<std::uint32_t>(bytes, at + 16);
  entry.architecture = field<std::uint32_t>(bytes, at + 28);
  entry.flags = field<std::uint64_t>(bytes, at + 40);
  entry.decompressed = field<std::uint64_t>(bytes, at + 56);
  return entry;
}

// The entry's PTX; empty where it cannot be read.
std::string text_of(const Entry& entry, std::string_view payload) {
  std::string text(payload);
  if ((entry.flags & (kLz4 | kZstd)) != 0) {
    const auto how = (entry.flags & kZstd) != 0 ? Compression::zstd : Compression::lz4;
    if (entry.compressed != 0 && entry.compressed <= payload.size()) {
      payload = payload.substr(0, entry.compressed);
    }
    text = decompress(payload, how, entry.decompressed).value_or(std::string());
  } else if ((entry.flags & kOldCompression) != 0) {
    return {};
  }
  text.resize(std::strlen(text.c_str()));
  // The flags differ between generations of nvcc; the text itself decides what is readable.
  return text.find(".version") != std::string::npos ? text : std::string();
}

struct Found {
  std::optional<std::string> text;
  std::uint32_t architecture = 0;
  bool compressed = false;
};

// One fat binary at `at`, which nvcc makes of a source; entries that run past the file end it.
void scan_fatbin(const std::string& bytes, std::size_t at, Found& found) {
  const auto header = field<std::uint16_t>(bytes, at + 6);
  const auto size = field<std::uint64_t>(bytes, at + 8);
  std::size_t entry_at = at + header;
  if (size > bytes.size() - at) return;
  const std::size_t end = std::min<std::size_t>(bytes.size(), entry_at + size);
  while (entry_at + kEntryBytes <= end) {
    const Entry entry = read_entry(bytes, entry_at);
    if (entry.header < kEntryBytes || entry.header > end - entry_at ||
        entry.size > end - entry_at - entry.header) {
      return;
    }
    if (entry.kind == kPtxEntry) {
      std::string text =
          text_of(entry, std::string_view(bytes).substr(entry_at + entry.header, entry.size));
      if (text.empty()) {
        found.compressed = true;
      } else if (!found.text || entry.architecture > found.architecture) {
        found.text = std::move(text);
        found.architecture = entry.architecture;
      }
    }
    entry_at += entry.header + entry.size;
  }
}

// Of each fat binary, in the file's order.
std::vector<Found> fatbins_of(const std::string& bytes) {
  std::vector<Found> out;
  const char magic[4] = {'\x50', '\xED', '\x55', '\xBA'};
  std::size_t at = bytes.find(magic, 0, 4);
  for (; at != std::string::npos; at = bytes.find(magic, at + 4, 4)) {
    if (bytes.size() - at < kFatbinHeaderBytes) continue;
    scan_fatbin(bytes, at, out.emplace_back());
  }
  return out;
}

Error no_ptx(const std::string& path, bool compressed) {
  return {path, 0,
          compressed ? "the PTX inside is compressed in a way that is not known: extract it with "
                       "'cuobjdump -xptx all " +
                           path + "' or build with 'nvcc --no-compress'"
                     : "holds no PTX: build with '-gencode arch=compute_90a,code=compute_90a'"};
}

bool starts_as_binary(std::string_view bytes) {
  return bytes.starts_with(
             "\x7f"
             "ELF") ||
         bytes.starts_with("\x50\xED\x55\xBA");
}

bool is_binary(const std::string& path) {
  char first[4] = {};
  std::ifstream in(path, std::ios::binary);
  in.read(first, sizeof first);
  return in && starts_as_binary({first, sizeof first});
}

// FILE of FILE#N, where a file of the whole name is not there.
std::optional<std::string> file_of_module(const std::string& path) {
  const std::size_t mark = path.rfind('#');
  if (mark == std::string::npos || std::filesystem::exists(path)) return std::nullopt;
  std::string file = path.substr(0, mark);
  return is_binary(file) ? std::optional(std::move(file)) : std::nullopt;
}

std::string compile(const std::string& path, bool relocatable) {
  const char* chosen = std::getenv("NVCC");
  const std::string nvcc = chosen != nullptr && *chosen != '\0' ? chosen : "nvcc";
  std::string out = (std::filesystem::temp_directory_path() / "ringfence-XXXXXX").string();
  const int descriptor = mkstemp(out.data());
  if (descriptor < 0) throw Error(path, 0, "no temporary file for nvcc's output");
  close(descriptor);
  std::vector<std::string> words = {nvcc,         "-ptx", "-arch=sm_90a", "-lineinfo",
                                    "-std=c++17", path,   "-o",           out};
  if (relocatable) words.emplace_back("-rdc=true");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  const int failed = posix_spawnp(&child, nvcc.c_str(), nullptr, nullptr, argv.data(), environ);
  if (failed != 0) {
    std::filesystem::remove(out);
    throw Error(
        path, 0,
        "'" + nvcc + "' cannot be started (give PTX, or set NVCC): " + std::strerror(failed));
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::filesystem::remove(out);
    throw Error(path, 0, "'" + nvcc + "' could not compile it");
  }
  std::string text = slurp(out);
  std::filesystem::remove(out);
  return text;
}

// A process asks for a kernel many times: once a mode, a job, a replay and a remedy that is tried.
// nvcc takes seconds, so it is asked once for a text. Headers are not looked at again: all runs of
// a process are of one kernel.
std::string compile_once(const std::string& path, std::string source, bool relocatable) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::string> compiled;
  const std::lock_guard lock(mutex);
  const std::pair key((relocatable ? "rdc:" : "") + path, std::move(source));
  const auto at = compiled.find(key);
  return at != compiled.end() ? at->second
                              : compiled.emplace(key, compile(path, relocatable)).first->second;
}

}  // namespace

std::string ptx_in_binary(const std::string& bytes, const std::string& path) {
  Found best;
  for (Found& found : fatbins_of(bytes)) {
    best.compressed = best.compressed || found.compressed;
    if (found.text && (!best.text || found.architecture > best.architecture)) {
      best.text = std::move(found.text);
      best.architecture = found.architecture;
    }
  }
  if (!best.text) throw no_ptx(path, best.compressed);
  return *best.text;
}

std::vector<NamedText> read_modules(const std::string& path) {
  std::vector<NamedText> out = read_binary(path);
  if (out.empty()) out.push_back({path, read_ptx(path)});
  return out;
}

std::vector<NamedText> read_binary(const std::string& path) {
  if (!is_binary(path)) return {};
  const std::string bytes = slurp(path);
  std::vector<NamedText> out;
  bool compressed = false;
  for (Found& found : fatbins_of(bytes)) {
    compressed = compressed || found.compressed;
    if (!found.text) continue;  // machine code alone
    const bool there = std::any_of(out.begin(), out.end(),
                                   [&](const NamedText& m) { return m.text == *found.text; });
    if (!there)
      out.push_back({path + "#" + std::to_string(out.size() + 1), std::move(*found.text)});
  }
  if (out.empty()) throw no_ptx(path, compressed);
  if (out.size() == 1) out[0].name = path;
  return out;
}

std::string file_of(const std::string& path) { return file_of_module(path).value_or(path); }

std::string read_ptx(const std::string& path, bool relocatable) {
  if (std::filesystem::is_directory(path)) throw Error(path, 0, "is a folder");
  if (const auto file = file_of_module(path)) {
    for (NamedText& m : read_modules(*file)) {
      if (m.name == path) return std::move(m.text);
    }
    throw Error(*file, 0, "has no module " + path.substr(file->size()));
  }
  if (std::filesystem::path(path).extension() == ".cu") {
    return compile_once(path, slurp(path),
                        relocatable);  // A missing file is our message, not nvcc's.
  }
  std::string bytes = slurp(path);
  return starts_as_binary(bytes) ? ptx_in_binary(bytes, path) : bytes;
}

}  // namespace ringfence::ptx
