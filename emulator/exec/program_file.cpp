#include "emulator/exec/program_file.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace ringfence::exec {
namespace {

template <class T>
bool read_at(std::ifstream& in, std::uint64_t at, T* out, std::size_t count = 1) {
  in.clear();
  in.seekg(static_cast<std::streamoff>(at));
  in.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(sizeof(T) * count));
  return static_cast<bool>(in);
}

std::string string_at(const std::string& table, std::uint64_t at) {
  return at < table.size() ? std::string(table.c_str() + at) : std::string();
}

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 26;  // of a table of names

}  // namespace

ProgramFile read_program(const std::string& path) {
  ProgramFile out;
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr head{};
  if (!read_at(in, 0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64) {
    return out;
  }
  out.elf = true;
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  if (head.e_shentsize != sizeof(Elf64_Shdr) || sections.empty() ||
      !read_at(in, head.e_shoff, sections.data(), sections.size())) {
    return out;
  }
  const auto table = [&](std::size_t section) {
    std::string names;
    if (section >= sections.size() || sections[section].sh_size > kMostBytes) return names;
    names.resize(sections[section].sh_size);
    if (!read_at(in, sections[section].sh_offset, names.data(), names.size())) names.clear();
    return names;
  };
  const std::string names = table(head.e_shstrndx);
  for (const Elf64_Shdr& s : sections) {
    const std::string name = string_at(names, s.sh_name);
    out.kernels = out.kernels || name == ".nv_fatbin";
    if (s.sh_type != SHT_DYNAMIC || s.sh_size > kMostBytes) continue;
    std::vector<Elf64_Dyn> entries(s.sh_size / sizeof(Elf64_Dyn));
    if (!read_at(in, s.sh_offset, entries.data(), entries.size())) continue;
    const std::string strings = table(s.sh_link);
    for (const Elf64_Dyn& d : entries) {
      if (d.d_tag == DT_NEEDED) out.libraries.push_back(string_at(strings, d.d_un.d_val));
    }
  }
  return out;
}

std::string why_not(const std::string& path, const ProgramFile& program) {
  bool runtime = false;
  for (const std::string& library : program.libraries) {
    const bool known = library == "libcudart.so.13" || library == "libcudart.so.12";
    runtime = runtime || known;
    if (library.starts_with("libcudart.so") && !known) {
      return fmt::format(
          "{}: linked with {}; exec replaces libcudart.so.13 and libcudart.so.12, of CUDA 13 and "
          "12",
          path, library);
    }
    for (const char* own : {"libcublas", "libcudnn", "libnccl", "libcufft", "libcusolver",
                            "libcusparse", "libcurand", "libnvshmem"}) {
      if (!library.starts_with(own)) continue;
      return fmt::format(
          "{}: linked with {}, which needs a CUDA driver; exec runs only the program's own kernels",
          path, library);
    }
  }
  if (program.kernels && !runtime) {
    return fmt::format(
        "{}: holds kernels, and no libcudart.so is asked for: link with -cudart shared, as "
        "ringfence nvcc does",
        path);
  }
  return {};
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string there = (folder.empty() ? "." : folder) + "/" + name;
    if (access(there.c_str(), X_OK) == 0) return there;
  }
  return {};
}

}  // namespace ringfence::exec
