// What identifies a case: the bytes of its file and of all files that it names.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "emulator/cases/files.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::cases {
namespace {

std::uint64_t add_file(std::uint64_t digest, const CaseFile& file, const std::string& path) {
  if (const auto here = file.contents.find(path); here != file.contents.end()) {
    return XXH3_64bits_withSeed(here->second.data(), here->second.size(), digest);
  }
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) throw CaseError(path + ": is a folder");
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad()) {
    throw CaseError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), digest);
}

}  // namespace

std::vector<std::string> files_of(const CaseFile& file) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name) { out.push_back(file.beside(name)); };
  const auto add_module = [&](const std::string& name) {
    out.push_back(ptx::file_of(file.beside(name)));
  };
  for (const Launch& launch : file.launches) {
    if (launch.ptx_by_rank.empty()) add_module(launch.ptx);
    for (const std::string& ptx : launch.ptx_by_rank) add_module(ptx);
    for (const std::string& linked : launch.link) add_module(linked);
  }
  for (const Memory& memory : file.memories) {
    if (memory.initial.kind == Initial::Kind::file) add(memory.initial.file);
  }
  for (const ExpectedValue& e : file.check.expected) {
    if (!e.file.empty()) add(e.file);
  }
  return out;
}

std::string digest(const CaseFile& file) {
  std::uint64_t digest = add_file(1, file, file.path);
  for (const std::string& path : files_of(file)) digest = add_file(digest, file, path);
  return fmt::format("{:016x}", digest);
}

}  // namespace ringfence::cases
