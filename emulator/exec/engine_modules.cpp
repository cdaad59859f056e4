// Modules of the program, their kernels and their variables.

#include <fmt/format.h>

#include <algorithm>

#include "emulator/cases/residency.hpp"
#include "emulator/exec/engine.hpp"
#include "emulator/exec/managed.hpp"
#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/link.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::exec {
namespace {

bool is_text(const std::string& image) {
  return !image.starts_with(
             "\x7f"
             "ELF") &&
         !image.starts_with("\x50\xed\x55\xba");
}

// Of modules that are linked, those with kernels and what they need.
std::vector<bool> called(const std::vector<ptx::Module>& modules) {
  std::vector<bool> out(modules.size(), modules.size() == 1);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (const ptx::Function& f : modules[i].functions) {
      if (f.entry && f.has_body) out[i] = true;
    }
  }
  return ptx::with_what_they_name(modules, std::move(out));
}

}  // namespace

void Engine::add_module(Turn& turn, In& in) {
  const auto count = in.get<std::uint32_t>();
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<ptx::Module> parsed;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string image(in.blob());
    const std::string file = count == 1
                                 ? fmt::format("program.{}.ptx", devices_.modules.size())
                                 : fmt::format("program.{}.{:03}.ptx", devices_.modules.size(), i);
    std::string text;
    try {
      // What a program loads itself may be PTX as it is.
      text = is_text(image) ? image : ptx::ptx_in_binary(image, file);
    } catch (const ptx::Error&) {
      continue;  // a cubin alone
    }
    parsed.push_back(ptx::parse(text, file));
    files.emplace_back(file, std::move(text));
  }
  if (files.empty()) {
    say("ringfence exec: the program's kernels hold no PTX: compile with ringfence nvcc, or add "
        "-gencode arch=compute_90a,code=compute_90a");
    turn.status = kNoKernelImage;
    return;
  }
  // Of a library that nvcc links in with -rdc, what kernels call.
  const std::vector<bool> wanted = called(parsed);
  Module m;
  std::vector<ptx::Module> linked;
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    if (!wanted[i]) continue;
    linked.push_back(std::move(parsed[i]));
    m.files.push_back(std::move(files[i]));
  }
  m.parsed = ptx::link(std::move(linked));
  place_managed(m);
  devices_.modules.push_back(std::move(m));
  turn.out.put(std::uint64_t{devices_.modules.size() - 1});
}

// __managed__ variables: one for the host and all devices. What names them says where they are from
// now on, as an address that no module has a copy of.
void Engine::place_managed(Module& module) {
  std::map<std::string, std::uint64_t, std::less<>> addresses;
  for (auto& [file, text] : module.files) {
    const ptx::Module parsed = ptx::parse(text, file);
    for (const std::string& name : managed_variables(text)) {
      const auto v = std::find_if(parsed.variables.begin(), parsed.variables.end(),
                                  [&](const ptx::Variable& one) { return one.name == name; });
      if (v == parsed.variables.end() || v->external || options_.folder.empty()) continue;
      Allocation* const a = add_shared(0, v->bytes, fmt::format("managed_variable{}", shared_++));
      if (a == nullptr) throw ptx::Error(file, v->line, "no memory for a managed variable");
      a->managed = true;
      std::copy(v->initial.begin(), v->initial.end(), a->host.get());
      addresses[name] = module.managed[name] = a->address;
    }
  }
  if (addresses.empty()) return;
  std::vector<ptx::Module> parsed;
  for (auto& [file, text] : module.files) {
    text = with_addresses(text, addresses);
    parsed.push_back(ptx::parse(text, file));
  }
  module.parsed = ptx::link(std::move(parsed));
}

void Engine::tell_managed(Turn& turn, In& in) {
  const auto number = in.get<std::uint64_t>();
  const std::string name(in.blob());
  const Module& m = devices_.modules.at(number);
  const auto at = m.managed.find(name);
  const Allocation* const a = at == m.managed.end() ? nullptr : devices_.at(at->second);
  if (a == nullptr) {
    turn.status = kInvalidSymbol;
    return;
  }
  turn.out.put(a->address).put(a->bytes).blob(a->file);
}

const ptx::Program& Engine::program_of(std::uint64_t module, const std::string& kernel) {
  Module& m = devices_.modules.at(module);
  const auto at = m.kernels.find(kernel);
  if (at != m.kernels.end()) return *at->second;
  auto program = std::make_unique<ptx::Program>(ptx::decode(m.parsed, m.parsed.kernel(kernel)));
  return *m.kernels.emplace(kernel, std::move(program)).first->second;
}

void Engine::tell_kernel(Turn& turn, In& in) {
  const auto module = in.get<std::uint64_t>();
  const std::string name(in.blob());
  const std::vector<ptx::Function>& all = devices_.modules.at(module).parsed.functions;
  const bool there = std::any_of(all.begin(), all.end(), [&](const ptx::Function& f) {
    return f.entry && f.has_body && f.name == name;
  });
  if (!there) {
    turn.status = kInvalidDeviceFunction;
    return;
  }
  const ptx::Program& p = program_of(module, name);
  const ptx::Function& f = *p.function;
  KernelFacts facts;
  facts.static_shared = p.static_shared;
  facts.local_bytes = p.local_bytes;
  if (f.max_threads) {
    facts.max_threads =
        std::min(1024U, (*f.max_threads)[0] * (*f.max_threads)[1] * (*f.max_threads)[2]);
  }
  facts.registers = f.max_registers.value_or(0);
  if (f.cluster) std::copy(f.cluster->begin(), f.cluster->end(), facts.cluster);
  facts.parameters = static_cast<std::uint32_t>(f.parameters.size());
  turn.out.put(facts);
  for (std::size_t i = 0; i < f.parameters.size(); ++i) {
    const ptx::Variable& v = f.parameters[i];
    turn.out.put(p.parameter_offset[i])
        .put(std::uint64_t{v.bytes != 0 ? v.bytes : size_of(v.type)});
  }
}

void Engine::place_variables(Module& module, const ptx::Program& program) {
  if (program.global_bytes == 0 || !module.variables.empty()) return;
  std::size_t index = 0;
  while (&devices_.modules[index] != &module) ++index;
  for (std::uint32_t d = 0; d < devices_.count; ++d) {
    Allocation& a = add_allocation(d, program.global_bytes, fmt::format("variables_{}", index));
    const std::vector<std::uint8_t> initial = ptx::initial_globals(program, a.address);
    a.put(0, initial.data(), initial.size());
    module.variables.push_back(a.address);
  }
}

void Engine::find_symbol(Turn& turn, In& in) {
  const auto number = in.get<std::uint64_t>();
  const std::string name(in.blob());
  Module& m = devices_.modules.at(number);
  // Where variables lie is decided with a kernel: any will do.
  const ptx::Program* program = nullptr;
  for (const ptx::Function& f : m.parsed.functions) {
    if (f.entry && f.has_body && program == nullptr) {
      program = &program_of(number, std::string(f.name));
    }
  }
  for (std::size_t i = 0; program != nullptr && i < m.parsed.variables.size(); ++i) {
    const ptx::Variable& v = m.parsed.variables[i];
    if (v.name != name) continue;
    place_variables(m, *program);
    turn.out.put(m.variables.at(turn.request.device) + program->module_placement[i].offset)
        .put(v.bytes);
    return;
  }
  turn.status = kInvalidSymbol;
}

void Engine::occupancy(Turn& turn, In& in) {
  const auto how = in.get<LaunchRequest>();
  const ptx::Program& p = program_of(how.module, std::string(in.blob()));
  ptx::LaunchConfig c;
  std::copy(how.block, how.block + 3, c.block.begin());
  c.dynamic_shared = how.dynamic_shared;
  c.multiprocessors = options_.profile.multiprocessors;
  const std::uint64_t fit = cases::residency(p, c, options_.policy.registers).blocks;
  turn.out.put(static_cast<std::uint32_t>(fit / c.multiprocessors));
}

}  // namespace ringfence::exec
