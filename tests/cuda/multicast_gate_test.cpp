#include "cuda/host/multicast_gate.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "cuda/host/error.hpp"

using namespace ringfence::cuda;

namespace {

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string refusal(Transport transport, std::map<std::string, std::string> variables,
                    bool supported, int& asked) {
  asked = 0;
  try {
    require_multicast(transport, environment_of(std::move(variables)), [&] {
      ++asked;
      return supported;
    });
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::not_supported);
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("multicast gate: each switch alone refuses multimem before the driver is asked") {
  const std::pair<const char*, const char*> switches[] = {{"NCCL_NVLS_ENABLE", "0"},
                                                          {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"},
                                                          {"NVSHMEM_DISABLE_NVLS", "1"}};
  for (const auto& [name, value] : switches) {
    CAPTURE(name);
    int asked = 0;
    const std::string why = refusal(Transport::multimem, {{name, value}}, true, asked);
    CHECK(why.find(std::string(name) + "=" + value) != std::string::npos);
    CHECK(why.find("--transport peer") != std::string::npos);
    CHECK(asked == 0);
  }
}

TEST_CASE("multicast gate: a switch that is set to 'on' does not refuse") {
  int asked = 0;
  CHECK(refusal(Transport::multimem,
                {{"NCCL_NVLS_ENABLE", "1"},
                 {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "0"},
                 {"NVSHMEM_DISABLE_NVLS", "0"}},
                true, asked) == "");
  CHECK(asked == 1);
}

TEST_CASE("multicast gate: a device without multicast refuses and says so") {
  int asked = 0;
  const std::string why = refusal(Transport::multimem, {}, false, asked);
  CHECK(why.find("CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED") != std::string::npos);
  CHECK(asked == 1);
}

TEST_CASE("multicast gate: the peer transport never gets a multicast object") {
  int asked = 0;
  CHECK(refusal(Transport::peer, {}, true, asked) != "");
  CHECK(asked == 0);
}

TEST_CASE("multicast gate: auto is peer, multimem only by its name") {
  CHECK(parse_transport("auto") == Transport::peer);
  CHECK(parse_transport("peer") == Transport::peer);
  CHECK(parse_transport("push") == Transport::push);
  CHECK(parse_transport("multimem") == Transport::multimem);
  CHECK_THROWS_AS(parse_transport("nvls"), Error);
}

TEST_CASE("multicast gate: the switches of this process, if set, refuse it") {
  // Where a site has switched multicast off, this is the case that shows that the real environment
  // reaches the gate.
  bool off = false;
  for (const char* name : {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"}) {
    off = off || process_environment()(name).value_or("0") == "1";
  }
  off = off || process_environment()("NCCL_NVLS_ENABLE").value_or("1") == "0";
  if (!off) {
    MESSAGE("not run: none of the switches is set here");
    return;
  }
  CHECK_THROWS_AS(
      require_multicast(Transport::multimem, process_environment(), [] { return true; }), Error);
}

TEST_CASE("multicast gate: nothing else in the tree makes a multicast object") {
  namespace fs = std::filesystem;
  int callers = 0;
  for (const char* folder : {"cuda", "verify", "emulator"}) {
    if (!fs::exists(fs::path(RINGFENCE_SOURCE_DIR) / folder)) continue;  // a copy of some parts
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(RINGFENCE_SOURCE_DIR) / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".cu" && extension != ".cuh" && extension != ".hpp") {
        continue;
      }
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      if (text.find("\"cuMulticastCreate\"") == std::string::npos &&
          text.find("cuMulticastCreate(") == std::string::npos) {
        continue;
      }
      ++callers;
      CHECK(entry.path().filename() == "multicast.cpp");
      // The gate is asked before the first driver call of the only function that does.
      CHECK(text.find("require_multicast(") < text.find("\"cuMulticastCreate\""));
      CHECK(text.find("require_multicast(") < text.find("cudaFree(nullptr)"));
    }
  }
  CHECK(callers == 1);
}
