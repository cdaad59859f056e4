// `ringfence gpu` where there is nothing to run it: a build without the CUDA part, or a machine
// without a GPU. Both are status 77 and one line, so that a script can tell a skip from a failure.
#include <doctest/doctest.h>

#include <filesystem>

#include "emulator/cli/gpu.hpp"
#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

TEST_CASE("gpu without the CUDA part or without a GPU is skipped: status 77 and one line") {
  if (has_cuda() && std::filesystem::exists("/dev/nvidiactl")) {
    MESSAGE("not run: this machine has a GPU");
    return;
  }
  const Folder f;
  for (const char* arguments :
       {"gpu info", "gpu run --virtual-ranks 4", "gpu bench --virtual-ranks 2 --tokens 8"}) {
    CAPTURE(arguments);
    const Result r = ringfence(f, arguments);
    CHECK(r.status == 77);
    CHECK(lines(r.err) == 1);
    CHECK(r.err.rfind("ringfence", 0) == 0);
    CHECK(r.out.empty());
    CHECK(f.files().empty());
  }
}

TEST_CASE("gpu explains itself with and without the CUDA part") {
  const Folder f;
  const Result r = ringfence(f, "gpu --help");
  CHECK(r.status == 0);
  CHECK(r.out.find("info") != std::string::npos);
  CHECK(r.out.find("bench") != std::string::npos);
  CHECK(ringfence(f, "--help").out.find("gpu") != std::string::npos);
}

TEST_CASE("gpu with wrong words is bad usage where the CUDA part is there to know") {
  if (!has_cuda()) {
    MESSAGE("not run: this build has no CUDA part");
    return;
  }
  const Folder f;
  const Result r = ringfence(f, "gpu run --blokcs 4");
  CHECK(r.status == 2);
  CHECK(r.err.find("--blokcs") != std::string::npos);
}

}  // namespace
}  // namespace ringfence::cli
