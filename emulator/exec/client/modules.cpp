// Fat binaries, kernels, launches, symbols: what the host stubs of nvcc call, and what programs do.

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/exec/client/connection.hpp"
#include "emulator/exec/client/modules.hpp"

namespace ringfence::exec::client {
namespace {

struct Module {
  std::vector<std::string_view> images;
  std::string own;  // the image, where the program may free its own
  bool sent = false;
  Error error = kSuccess;
  std::uint64_t number = 0;
};

struct Variable {
  Module* module = nullptr;
  std::string name;
  std::size_t bytes = 0;
};

// A __managed__ one: the program goes through a pointer of its own.
struct Managed {
  Module* module = nullptr;
  std::string name;
  void** pointer = nullptr;
};

struct Registry {
  std::recursive_mutex mutex;
  std::deque<Module> modules;
  std::deque<Kernel> kernels;
  std::map<const void*, Kernel*> by_stub;
  std::map<const void*, Variable> variables;
  std::vector<Managed> managed;
};

// Host stubs register before main, in no order of files.
Registry& registry() {
  static Registry* const one = new Registry;
  return *one;
}

Error send(Module& module) {
  if (module.sent) return module.error;
  module.sent = true;
  Out out;
  out.put(static_cast<std::uint32_t>(module.images.size()));
  for (const std::string_view image : module.images) out.blob(image);
  const Answer answer = ask(Call::module_add, nullptr, out);
  module.error = answer.status;
  In in = answer.in();
  module.number = in.get<std::uint64_t>();
  return module.error;
}

thread_local struct {
  Dim3 grid, block;
  std::size_t shared = 0;
  Handle stream = nullptr;
} configuration;

}  // namespace

std::string_view fatbin_at(const void* data) {
  const auto* const bytes = static_cast<const char*>(data);
  std::uint16_t header = 0;
  std::uint64_t size = 0;
  std::memcpy(&header, bytes + 6, sizeof header);
  std::memcpy(&size, bytes + 8, sizeof size);
  return {bytes, header + size};
}

void* add_module(std::string image) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  Module& module = r.modules.emplace_back();
  module.own = std::move(image);
  module.images = {module.own};
  return &module;
}

Error send_module(void* module) {
  const std::lock_guard lock(registry().mutex);
  return send(*static_cast<Module*>(module));
}

Kernel& add_kernel(void* module, std::string name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  Kernel& k = r.kernels.emplace_back();
  k.module = module;
  k.name = std::move(name);
  return k;
}

Error variable_at(void* module, std::string_view name, std::uint64_t& address,
                  std::uint64_t& bytes) {
  const std::lock_guard lock(registry().mutex);
  auto& m = *static_cast<Module*>(module);
  if (const Error e = send(m); e != kSuccess) return e;
  const Answer answer = ask(Call::symbol, nullptr, Out().put(m.number).blob(name));
  In in = answer.in();
  address = in.get<std::uint64_t>();
  bytes = in.get<std::uint64_t>();
  return answer.status;
}

Kernel* kernel_of(const void* function) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.by_stub.find(function);
  if (at != r.by_stub.end()) return at->second;
  for (Kernel& k : r.kernels) {
    if (&k == function) return &k;
  }
  return nullptr;
}

Error look_up(Kernel& kernel) {
  const std::lock_guard lock(registry().mutex);
  if (kernel.known) return kernel.error;
  auto& module = *static_cast<Module*>(kernel.module);
  kernel.known = true;
  kernel.error = send(module);
  if (kernel.error != kSuccess) return kernel.error;
  const Answer answer = ask(Call::kernel, nullptr, Out().put(module.number).blob(kernel.name));
  kernel.error = answer.status;
  if (kernel.error != kSuccess) return kernel.error;
  In in = answer.in();
  kernel.number = module.number;
  kernel.facts = in.get<KernelFacts>();
  for (std::uint32_t i = 0; i < kernel.facts.parameters; ++i) {
    const auto offset = in.get<std::uint64_t>();
    kernel.parameters.push_back({offset, in.get<std::uint64_t>()});
  }
  return kSuccess;
}

Error launch(const void* function, LaunchRequest how, std::size_t shared, void** args,
             Handle stream) {
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return keep(kInvalidDeviceFunction);
  if (const Error e = look_up(*kernel); e != kSuccess) return keep(e);
  // Beyond 48 KiB a kernel asks first (cudaFuncSetAttribute).
  if (kernel->facts.static_shared + shared >
      std::max<std::size_t>(kUsualShared, kernel->most_shared)) {
    return keep(kInvalidValue);
  }
  how.module = kernel->number;
  how.dynamic_shared = static_cast<std::uint32_t>(shared);
  std::string parameters;
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
    const auto [offset, bytes] = kernel->parameters[i];
    parameters.resize(offset, '\0');
    parameters.append(static_cast<const char*>(args[i]), bytes);
  }
  return keep(ask(Call::launch, stream, Out().put(how).blob(kernel->name).blob(parameters)).status);
}

Error symbol_at(const void* symbol, std::uint64_t& address, std::uint64_t& bytes) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.variables.find(symbol);
  if (at == r.variables.end()) {
    // A managed variable goes by where it is.
    const Answer answer =
        ask(Call::pointer, nullptr, Out().put(reinterpret_cast<std::uintptr_t>(symbol)));
    In in = answer.in();
    if (answer.status != kSuccess || in.get<Place>() != Place::managed) return keep(kInvalidSymbol);
    in.get<std::uint32_t>();
    address = reinterpret_cast<std::uintptr_t>(symbol);
    bytes = in.get<std::uint64_t>();
    return kSuccess;
  }
  const Variable& v = at->second;
  return keep(variable_at(v.module, v.name, address, bytes));
}

namespace {

LaunchRequest sizes(const Dim3& grid, const Dim3& block) {
  LaunchRequest r;
  const unsigned g[] = {grid.x, grid.y, grid.z}, b[] = {block.x, block.y, block.z};
  std::copy(g, g + 3, r.grid);
  std::copy(b, b + 3, r.block);
  return r;
}

Error launch_config(const LaunchConfig* config, const void* function, void** args, Handle stream) {
  LaunchRequest how = sizes(config->grid, config->block);
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& a = config->attributes[i];
    switch (a.id) {
      case 2:
        how.cooperative = a.number != 0;
        break;
      case 4:
        std::copy(a.dim, a.dim + 3, how.cluster);
        break;
      case 6:
        how.dependent = a.number != 0;
        break;
      case 7:
        return refuse("cudaLaunchAttributeProgrammaticEvent");
      case 12:
        return refuse("cudaLaunchAttributeLaunchCompletionEvent");
      case 13:
        return refuse("cudaLaunchAttributeDeviceUpdatableKernelNode");
      default:
        break;  // what may be faster, and changes nothing
    }
  }
  return launch(function, how, config->dynamic_shared, args, stream);
}

Error cooperative(const void* function, Dim3 grid, Dim3 block, void** args, std::size_t shared,
                  Handle stream) {
  LaunchRequest how = sizes(grid, block);
  how.cooperative = 1;
  return launch(function, how, shared, args, stream);
}

}  // namespace

// -- what host stubs call -------------------------------------------------------------------------

RF_API void** __cudaRegisterFatBinary(void* wrapper) {
  const auto& w = *static_cast<const FatbinWrapper*>(wrapper);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  Module& module = r.modules.emplace_back();
  if (w.magic == kWrapperMagic) {
    if (w.version == 2 && w.list != nullptr) {
      for (const void* const* one = w.list; *one != nullptr; ++one) {
        module.images.push_back(fatbin_at(*one));
      }
    } else if (w.data != nullptr) {
      module.images.push_back(fatbin_at(w.data));
    }
  }
  return reinterpret_cast<void**>(&module);
}
RF_API void __cudaRegisterFatBinaryEnd(void**) {}
RF_API void __cudaUnregisterFatBinary(void**) {}
// Before the program's first look at a managed variable.
RF_API char __cudaInitModule(void** module) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (const Managed& m : r.managed) {
    if (m.module != reinterpret_cast<Module*>(module)) continue;
    if (const Error e = send(*m.module); e != kSuccess)
      return static_cast<char>(keep(e) == kSuccess);
    const Answer answer = ask(Call::managed, nullptr, Out().put(m.module->number).blob(m.name));
    In in = answer.in();
    const auto address = in.get<std::uint64_t>();
    const auto bytes = in.get<std::uint64_t>();
    if (answer.status != kSuccess || !map_shared(address, bytes, std::string(in.blob()), true)) {
      return static_cast<char>(keep(kInvalidSymbol) == kSuccess);
    }
    *m.pointer = reinterpret_cast<void*>(address);
  }
  return 1;
}
RF_API void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
RF_API Error __cudaRegisterUnifiedTable(void**, void*, unsigned) { return kSuccess; }

RF_API void __cudaRegisterFunction(void** module, const char* stub, char*, const char* name, int,
                                   void*, void*, void*, void*, int*) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.by_stub[stub] = &add_kernel(module, name);
}

RF_API void __cudaRegisterVar(void** module, char* host, char*, const char* name, int,
                              std::size_t bytes, int, int) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.variables[host] = {reinterpret_cast<Module*>(module), name, bytes};
}

RF_API void __cudaRegisterManagedVar(void** module, void** host, char*, const char* name, int,
                                     std::size_t, int, int) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.managed.push_back({reinterpret_cast<Module*>(module), name, host});
}

RF_API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared,
                                            Handle stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
RF_API Error __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared,
                                        void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<Handle*>(stream) = configuration.stream;
  return kSuccess;
}

RF_API Error __cudaGetKernel(Handle* out, const void* function) {
  *out = kernel_of(function);
  return *out != nullptr ? kSuccess : keep(kInvalidDeviceFunction);
}
RF_API Error cudaGetKernel(Handle* out, const void* function) {
  return __cudaGetKernel(out, function);
}
RF_API Error cudaGetFuncBySymbol(Handle* out, const void* function) {
  return __cudaGetKernel(out, function);
}

// -- launches -------------------------------------------------------------------------------------

RF_API Error cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** args,
                              std::size_t shared, Handle stream) {
  return launch(function, sizes(grid, block), shared, args, stream);
}
RF_API Error cudaLaunchKernel_ptsz(const void* function, Dim3 grid, Dim3 block, void** args,
                                   std::size_t shared, Handle stream) {
  return launch(function, sizes(grid, block), shared, args, own(stream));
}
RF_API Error __cudaLaunchKernel(Handle kernel, Dim3 grid, Dim3 block, void** args,
                                std::size_t shared, Handle stream) {
  return launch(kernel, sizes(grid, block), shared, args, stream);
}
RF_API Error __cudaLaunchKernel_ptsz(Handle kernel, Dim3 grid, Dim3 block, void** args,
                                     std::size_t shared, Handle stream) {
  return launch(kernel, sizes(grid, block), shared, args, own(stream));
}
RF_API Error cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** args) {
  return launch_config(config, function, args, config->stream);
}
RF_API Error cudaLaunchKernelExC_ptsz(const LaunchConfig* config, const void* function,
                                      void** args) {
  return launch_config(config, function, args, own(config->stream));
}
RF_API Error cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** args,
                                         std::size_t shared, Handle stream) {
  return cooperative(function, grid, block, args, shared, stream);
}
RF_API Error cudaLaunchCooperativeKernel_ptsz(const void* function, Dim3 grid, Dim3 block,
                                              void** args, std::size_t shared, Handle stream) {
  return cooperative(function, grid, block, args, shared, own(stream));
}

// -- what is known of kernels ---------------------------------------------------------------------

RF_API Error cudaFuncGetAttributes(FuncAttributes* out, const void* function) {
  Kernel* const k = kernel_of(function);
  if (k == nullptr) return keep(kInvalidDeviceFunction);
  if (const Error e = look_up(*k); e != kSuccess) return keep(e);
  *out = {};
  out->sharedSizeBytes = k->facts.static_shared;
  out->localSizeBytes = k->facts.local_bytes;
  out->maxThreadsPerBlock = static_cast<int>(k->facts.max_threads);
  out->numRegs = static_cast<int>(k->facts.registers);
  out->ptxVersion = out->binaryVersion = 90;
  out->maxDynamicSharedSizeBytes = static_cast<int>(std::max<std::size_t>(
      kUsualShared - std::min<std::size_t>(kUsualShared, k->facts.static_shared), k->most_shared));
  out->requiredClusterWidth = static_cast<int>(k->facts.cluster[0]);
  out->requiredClusterHeight = static_cast<int>(k->facts.cluster[1]);
  out->requiredClusterDepth = static_cast<int>(k->facts.cluster[2]);
  return kSuccess;
}

RF_API Error cudaFuncSetAttribute(const void* function, int attribute, int value) {
  constexpr int kDynamicShared = 8;
  Kernel* const k = kernel_of(function);
  if (k == nullptr) return keep(kInvalidDeviceFunction);
  if (attribute != kDynamicShared) return kSuccess;
  if (const Error e = look_up(*k); e != kSuccess) return keep(e);
  if (value < 0 || static_cast<std::size_t>(value) + k->facts.static_shared > kMostShared) {
    return keep(kInvalidValue);
  }
  k->most_shared = static_cast<std::size_t>(value) + k->facts.static_shared;
  return kSuccess;
}
RF_API Error cudaKernelSetAttributeForDevice(Handle kernel, int attribute, int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
RF_API Error cudaFuncSetCacheConfig(const void*, int) { return kSuccess; }
RF_API Error cudaFuncSetSharedMemConfig(const void*, int) { return kSuccess; }
RF_API Error cudaFuncGetName(const char** name, const void* function) {
  Kernel* const k = kernel_of(function);
  if (k == nullptr) return keep(kInvalidDeviceFunction);
  *name = k->name.c_str();
  return kSuccess;
}
RF_API Error cudaFuncGetParamInfo(const void* function, std::size_t index, std::size_t* offset,
                                  std::size_t* bytes) {
  Kernel* const k = kernel_of(function);
  if (k == nullptr) return keep(kInvalidDeviceFunction);
  if (const Error e = look_up(*k); e != kSuccess) return keep(e);
  if (index >= k->parameters.size()) return keep(kInvalidValue);
  if (offset != nullptr) *offset = k->parameters[index].first;
  if (bytes != nullptr) *bytes = k->parameters[index].second;
  return kSuccess;
}

RF_API Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                    const void* function,
                                                                    int threads, std::size_t shared,
                                                                    unsigned) {
  Kernel* const k = kernel_of(function);
  if (k == nullptr) return keep(kInvalidDeviceFunction);
  if (const Error e = look_up(*k); e != kSuccess) return keep(e);
  LaunchRequest how = sizes({1, 1, 1}, {static_cast<unsigned>(threads), 1, 1});
  how.module = k->number;
  how.dynamic_shared = static_cast<std::uint32_t>(shared);
  const Answer answer = ask(Call::occupancy, nullptr, Out().put(how).blob(k->name));
  In in = answer.in();
  *blocks = static_cast<int>(in.get<std::uint32_t>());
  return keep(answer.status);
}
RF_API Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                           int threads, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}

// -- symbols --------------------------------------------------------------------------------------

RF_API Error cudaGetSymbolAddress(void** out, const void* symbol) {
  std::uint64_t address = 0, bytes = 0;
  const Error e = symbol_at(symbol, address, bytes);
  if (e == kSuccess) *out = reinterpret_cast<void*>(address);
  return e;
}
RF_API Error cudaGetSymbolSize(std::size_t* out, const void* symbol) {
  std::uint64_t address = 0, bytes = 0;
  const Error e = symbol_at(symbol, address, bytes);
  if (e == kSuccess) *out = bytes;
  return e;
}

}  // namespace ringfence::exec::client
