// CUDA programs of one process, as users write them, on emulated GPUs. Each judges itself; of each
// there is one that is nearly right, which has to be found.
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"
#include "tests/exec/opened.hpp"
#include "tests/exec/programs.hpp"
#include "tests/support/says.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {

TEST_CASE("an all-reduce of four devices whose kernels wait for each other") {
  if (!made("all_reduce")) return;
  const Folder folder;
  right(folder, "all_reduce 1", "4 devices, 1 epochs: 0 wrong");
  right(folder, "all_reduce 1", "3 devices, 1 epochs: 0 wrong", "--gpus 3");
  found(folder, "all_reduce 1 relaxed", "data-race");
  const Result r = exec(folder, "all_reduce 1 alone");
  CHECK(r.status == 1);
  CHECK(says(r.err, "cannot access 'm"));
  CHECK(says(r.out, "an illegal memory access was encountered"));
}

TEST_CASE("memory that the host and the devices see, and waiting for each other through it") {
  if (!made("mapped")) return;
  const Folder folder;
  right(folder, "mapped", "mapped: right");
  right(folder, "mapped told", "mapped: right");
  right(folder, "mapped released", "mapped: right");
  right(folder, "mapped turns", "mapped: right");
  right(folder, "mapped handed", "mapped: right");
}

TEST_CASE("a race of the host with a kernel, over memory that both see, is a finding") {
  if (!made("mapped")) return;
#ifndef __x86_64__
  MESSAGE("not run: the host's accesses are watched on x86-64 only");
  return;
#endif
  const Folder folder;
  right(folder, "mapped beside", "mapped: right");
  found(folder, "mapped peek", "data-race");
  found(folder, "mapped scribble", "data-race", "--capture run");
  // The capture has the access as a step: fuzz finds it there as well.
  CHECK(says(content(folder / "run/001-host.toml"), "write = { to = { memory = \"host"));
  const Result r = ringfence(folder, "fuzz --case run/001-host.toml --schedules 50");
  CHECK(r.status == 1);
  CHECK(says(r.out, "data-race"));
  CHECK(says(r.out, "host: write of a value"));
  found(folder, "mapped told-early", "data-race");
  found(folder, "mapped handed-early", "data-race", "--capture early");
  CHECK(ringfence(folder, "fuzz --case early/001-host.toml --schedules 50").status == 1);
  found(folder, "mapped handed-plain", "data-race");
}

TEST_CASE("what the host does behind an answer, or before a launch, is not taken to be beside it") {
  if (!made("mapped")) return;
  const Folder folder;
  right(folder, "mapped asked", "mapped: right");
  right(folder, "mapped handed-launch", "mapped: right");
  right(folder, "mapped handed-twice", "mapped: right");
}

TEST_CASE("the devices are as --device-profile says, and in processes of their own on demand") {
  if (!made("forms") || !made("all_reduce") || !made("grid_barrier")) return;
  const Folder folder;
  std::ofstream(folder / "small.toml") << "name = \"small\"\nmultiprocessors = 3\n";
  // As many blocks as fit are launched, and one more is refused: of another number of them.
  right(folder, "grid_barrier", "grid barrier: right", "--device-profile small.toml --capture run");
  CHECK(says(content(folder / "run/001.toml"), "multiprocessors = 3\n"));
  right(folder, "all_reduce 2", "0 wrong", "--executor processes");
  found(folder, "all_reduce 1 relaxed", "data-race", "--executor processes");
  const Result r = exec(folder, "forms", "--executor processes");
  CHECK(r.status == 0);
  CHECK(says(r.out, "said 42 by a kernel\nsaid 43 by a kernel\n"));
  CHECK(exec(folder, "forms", "--device-profile none.toml").status == 2);
}

TEST_CASE("epochs: a hundred launches on four devices, none of them waited for by the host") {
  if (!made("all_reduce")) return;
  const Folder folder;
  right(folder, "all_reduce 25", "4 devices, 25 epochs: 0 wrong");
  // Without the second meeting one epoch alone is right.
  right(folder, "all_reduce 1 early", "0 wrong");
  found(folder, "all_reduce 2 early", "data-race");
}

TEST_CASE("a barrier over the grid of a cooperative launch") {
  if (!made("grid_barrier")) return;
  const Folder folder;
  right(folder, "grid_barrier", "grid barrier: right");
  found(folder, "grid_barrier relaxed", "data-race");
}

TEST_CASE("a pipeline over two streams, with events and asynchronous copies") {
  if (!made("pipeline")) return;
  const Folder folder;
  right(folder, "pipeline", "pipeline: right");
  found(folder, "pipeline no-event", "uninitialised-read");
  // What the host reads too early is not there yet: its own check sees it.
  const Result r = exec(folder, "pipeline no-wait");
  CHECK(r.status == 4);
  CHECK(says(r.out, "not so: host_out[i] == 2 * i + 1"));
  CHECK(says(r.err, "operations that nothing waited for did not run"));
}

TEST_CASE("a trap, an assertion and a wild address are sticky until the device is reset") {
  if (!made("sticky")) return;
  const Folder folder;
  for (const auto& [how, kind] :
       {std::pair("", "rank-lost"), {"assert", "rank-lost"}, {"beyond", "out-of-bounds"}}) {
    const Result r = exec(folder, std::string("sticky ") + how);
    CAPTURE(r.out);
    CHECK(r.status == 1);
    CHECK(says(r.out, "sticky: right"));
    CHECK(says(r.err, std::string("FINDING: ") + kind));
    CHECK(says(r.err, "sticky.cu:"));
  }
}

TEST_CASE("variables of a module are each device's own") {
  if (!made("symbols")) return;
  const Folder folder;
  right(folder, "symbols", "symbols: right");
  right(folder, "symbols_lz4", "symbols: right");  // its PTX compressed another way
  found(folder, "symbols race", "data-race");
}

TEST_CASE("managed variables are the host's and every device's") {
  if (!made("managed")) return;
  const Folder folder;
  right(folder, "managed", "managed: right", "--capture run");
  const Result r = ringfence(folder, "run --case run/001.toml --executor inline");
  CAPTURE(r.out);
  CHECK(r.status == 0);
#ifdef __x86_64__
  found(folder, "managed beside", "data-race");
#endif
}

TEST_CASE("waiting: legacy streams, callbacks, queries, and launches that only come later") {
  if (!made("waits")) return;
  const Folder folder;
  right(folder, "waits", "waits: right");
  right(folder, "waits query", "waits: right");
  right(folder, "waits query-copy", "waits: right");
  found(folder, "waits query-stray", "data-race");
  right(folder, "waits query-idle", "waits: right");
  right(folder, "waits later", "waits: right");
  const Result r = exec(folder, "waits never");
  CHECK(r.status == 1);
  CHECK(says(r.out, "the launch timed out"));
  CHECK(says(r.err, "FINDING: deadlock"));
  found(folder, "waits legacy", "data-race");
}

TEST_CASE(
    "objects that -rdc linked are one module: what another one defines is called, and judged") {
  if (!made("rdc")) return;
  const Folder folder;
  right(folder, "rdc", "rdc: right", "--capture run");
  CHECK(says(content(folder / "run/001.toml"), "link = ["));
  found(folder, "rdc relaxed", "data-race");
}

TEST_CASE("forms of launches, properties, printf; what is not there is named once and at the end") {
  if (!made("forms")) return;
  const Folder folder;
  const Result r = exec(folder, "forms");
  CAPTURE(r.out);
  CAPTURE(r.err);
  CHECK(r.status == 0);
  CHECK(says(r.out, "said 42 by a kernel\nsaid 43 by a kernel\n"));
  CHECK(says(r.out, "forms: right"));
  const std::string once = "cudaGraphCreate is not supported; it returned cudaErrorNotSupported";
  CHECK(says(r.err, once));
  CHECK(r.err.find(once) == r.err.rfind(once));
  CHECK(says(r.err, "called but not supported: cudaGraphCreate, cudaMallocArray"));
}

TEST_CASE(
    "a capture is what ran: the case files run alike, and fuzz finds what is wrong with one") {
  if (!made("all_reduce") || !made("pipeline")) return;
  const Folder folder;
  right(folder, "all_reduce 2", "0 wrong", "--capture good");
  Result r =
      ringfence(folder, "run --case good/001.toml --executor inline --output out.safetensors");
  CAPTURE(r.out);
  CHECK(r.status == 0);
  r = ringfence(folder, "fuzz --case good/001.toml --schedules 50 --boundary stream");
  CAPTURE(r.out);
  CHECK(r.status == 0);
  found(folder, "all_reduce 2 early", "data-race", "--capture bad");
  r = ringfence(folder, "fuzz --case bad/001.toml --schedules 50 --boundary stream");
  CHECK(r.status == 1);
  CHECK(says(r.out, "data-race"));
  // Copies and events of streams are steps of the case.
  right(folder, "pipeline", "pipeline: right", "--capture pipeline");
  const std::string text = content(folder / "pipeline/001.toml");
  CHECK(says(text, "wait_event"));
  CHECK(says(text, "copy = { from = { memory = \"host"));
  r = ringfence(folder, "fuzz --case pipeline/001.toml --schedules 50 --boundary stream");
  CAPTURE(r.out);
  CHECK(r.status == 0);
}

TEST_CASE("what a capture's memories become under run --case is what they became under exec") {
  if (!made("symbols") || !made("waits")) return;
  const Folder folder;
  const auto compare = [&](const std::string& command) {
    right(folder, command, "right", "--gpus 2 --capture run");
    // The second stretch begins with what the first one left: the host wrote none of the first
    // device's since.
    const Result r =
        ringfence(folder, "run --case run/001.toml --executor inline --output out.safetensors");
    CAPTURE(r.out);
    CHECK(r.status == 0);
    const verify::Safetensors after = verify::read_safetensors(folder / "out.safetensors");
    const verify::Safetensors before = verify::read_safetensors(folder / "run/001.safetensors");
    const verify::Safetensors next = verify::read_safetensors(folder / "run/002.safetensors");
    std::size_t same = 0, changed = 0;
    for (const auto& [name, tensor] : next.tensors) {
      const verify::Tensor* const then = after.find(name);
      if (then == nullptr || tensor.bytes.empty() || !name.ends_with(".0")) continue;
      CAPTURE(name);
      CHECK(then->bytes == tensor.bytes);
      ++same;
      const verify::Tensor* const first = before.find(name);
      changed += first == nullptr || first->bytes != tensor.bytes ? 1 : 0;
    }
    CHECK(same >= 2);
    CHECK(changed >= 1);
  };
  compare("symbols");
  compare("waits");
}

TEST_CASE("no driver is opened, by exec or by the program: neither a library nor a device file") {
  if (!made("driver") || !made("forms")) return;
  const Folder folder;
  const std::string own = std::filesystem::path(RINGFENCE_LIBCUDA).parent_path().string() + "/";
  // The names under which a driver would be found, but for the stand-ins.
  const auto drivers = [&](const std::string& command) {
    std::vector<std::string> words{RINGFENCE_BINARY, "exec", "--gpus", "4", "--"};
    words.push_back(command.substr(0, command.find(' ')));
    if (command.find(' ') != std::string::npos)
      words.push_back(command.substr(command.find(' ') + 1));
    const tests::Opened opened = tests::opened_by(words);
    if (!opened.traced) MESSAGE("not run: this system lets no process be traced");
    CHECK(WEXITSTATUS(opened.status) == (command.starts_with("/bin/cat") ? 1 : 0));
    std::vector<std::string> out;
    bool any = false, stand_in = false;
    for (const std::string& path : opened.paths) {
      const std::string name = std::filesystem::path(path).filename().string();
      any = any || says(path, "libc.so.6");
      stand_in = stand_in || path == own + "libcudart.so.13";
      const bool driver = path.starts_with("/dev/nvidia") ||
                          path.starts_with("/proc/driver/nvidia") ||
                          name.starts_with("libcuda.so") || name.starts_with("libnvidia");
      if (driver && !path.starts_with(own)) out.push_back(path);
    }
    if (opened.traced) CHECK(any);
    if (opened.traced) CHECK(stand_in == !command.starts_with("/bin/cat"));
    return out;
  };
  CHECK(drivers(program("forms")).empty());
  CHECK(drivers(program("driver")).empty());
  // It would be seen.
  if (tests::opened_by({"/bin/true"}).traced) {
    CHECK(drivers("/bin/cat /dev/nvidiactl") == std::vector<std::string>{"/dev/nvidiactl"});
  }
}

TEST_CASE("what programs call of the driver: tensor maps, modules that they load, launches") {
  if (!made("driver")) return;
  const Folder folder;
  right(folder, "driver", "driver: right", "--gpus 2");
  const Result r = exec(folder, "driver", "--gpus 2");
  CHECK(says(r.err, "called but not supported: cuMemCreate\n"));
  found(folder, "driver early", "data-race", "--gpus 2");
}

TEST_CASE("a host thread for each device, whose kernels wait for each other") {
  if (!made("threads")) return;
  const Folder folder;
  right(folder, "threads", "threads: right");
  // The first schedule has the devices start in turn: another one shows what is missing.
  found(folder, "threads relaxed", "data-race", "--explore 30");
}

TEST_CASE("a program with another runtime inside, or none to run, is one line") {
  const Folder folder;
  Result r = ringfence(folder, "exec -- ./not-there");
  CHECK(r.status == 2);
  CHECK(r.err == "ringfence: exec: ./not-there: no program of that name\n");
  CHECK(ringfence(folder, "exec").status == 2);
#ifdef RINGFENCE_NVCC
  std::ofstream(folder / "k.cu") << "__global__ void k() {} int main() { k<<<1, 1>>>(); }";
  REQUIRE(std::system(("cd " + folder.path().string() + " && " + RINGFENCE_NVCC +
                       " -cudart static -arch=sm_90 k.cu -o k > log 2>&1")
                          .c_str()) == 0);
  r = ringfence(folder, "exec -- ./k");
  CHECK(r.status == 2);
  CHECK(says(r.err,
             "./k: holds kernels, and no libcudart.so is asked for: link with -cudart shared"));
  // One with code for a GPU alone is told at its first launch.
  REQUIRE(std::system(("cd " + folder.path().string() + " && " + RINGFENCE_NVCC +
                       " -cudart shared -gencode arch=compute_90,code=sm_90 k.cu -o k > log 2>&1")
                          .c_str()) == 0);
  r = ringfence(folder, "exec -- ./k");
  CHECK(says(r.err, "hold no PTX: compile with ringfence nvcc"));
#endif
}

TEST_CASE("a program of CUDA 12 finds its own runtime, with its layouts") {
#ifndef RINGFENCE_CUDA12_PROGRAM
  MESSAGE("not run: the stand-ins are no part of a static build");
#else
  const Folder folder;
  const Result r = ringfence(folder, "exec --gpus 1 -- " RINGFENCE_CUDA12_PROGRAM);
  CAPTURE(r.out);
  CAPTURE(r.err);
  CHECK(r.status == 0);
  CHECK(says(r.out, "cuda12: right"));
  CHECK(says(r.err, "called but not supported: cudaGraphAddNode_v2"));
#endif
}

TEST_CASE("a program without CUDA runs as it is, with its own exit status") {
  const Folder folder;
  const Result r = ringfence(folder, "exec -- ls not-there");
  CHECK(r.status == 2);  // of ls
  CHECK(says(r.err, "ringfence exec: 0 launches in 0 stretches"));
}

}  // namespace ringfence::cli
