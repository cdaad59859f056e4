// What the compiler made of the kernels: the forms, orders, scopes and widths that the protocols
// stand on. Reads PTX and ptxas' log, so it needs no GPU.
#include <doctest/doctest.h>

#include <iterator>
#include <set>

#include "cuda/kernels/tokenweave.hpp"
#include "tests/cuda/ptx_text.hpp"

using namespace ringfence::tests;
using ringfence::cuda::kMeasuredLayouts;

namespace {

const std::string kFolder = RINGFENCE_PTX_DIR;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Kernels whose mangled name has all the parts.
std::vector<std::pair<std::string, std::vector<std::string>>> kernels_named(
    const std::string& file, const std::string& part) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (auto& [name, lines] : read_ptx(kFolder + "/" + file)) {
    if (contains(name, part)) found.emplace_back(name, lines);
  }
  return found;
}

/// The CAS orders in the order of the text, without repeats next to one another.
std::vector<std::string> barrier_orders(const std::vector<std::string>& lines) {
  std::vector<std::string> orders;
  for (const std::string& code : opcodes(lines, "^atom\\..*cas")) {
    CHECK(contains(code, ".sys."));  // the peers are other GPUs
    const std::string order = contains(code, "relaxed")   ? "relaxed"
                              : contains(code, "release") ? "release"
                              : contains(code, "acquire") ? "acquire"
                                                          : code;
    orders.push_back(order);
  }
  return orders;
}

// Order in mangled names: E0E relaxed, E1E release, E2E acquire.
const char* kRelaxed = "5OrderE0ELS";
const char* kStrict = "5OrderE1ELS";

}  // namespace

TEST_CASE("ptx: the end barrier is release and acquire at system scope, the start as asked") {
  for (const char* file : {"tokenweave_bf16.ptx", "tokenweave_fp16.ptx"}) {
    int seen = 0;
    for (const char* start : {kRelaxed, kStrict}) {
      for (const auto& [name, lines] : kernels_named(file, "tokenweave_")) {
        if (!contains(name, start)) continue;
        ++seen;
        CAPTURE(name);
        const std::vector<std::string> orders = barrier_orders(lines);
        const bool relaxed = start == kRelaxed;
        const std::set<std::string> all(orders.begin(), orders.end());
        CHECK(all == (relaxed ? std::set<std::string>{"relaxed", "release", "acquire"}
                              : std::set<std::string>{"release", "acquire"}));
        REQUIRE(!orders.empty());
        CHECK(orders.back() == "acquire");
        if (relaxed) {
          // The relaxed operations are the start's: all of them come before the first release.
          bool released = false;
          for (const std::string& order : orders) {
            if (order != "relaxed") released = true;
            CHECK((order != "relaxed" || !released));
          }
        }
        // The block barriers before the put of the end and after the wait of the start.
        CHECK(opcodes(lines, "^(bar|barrier)\\.").size() >= 2);
      }
    }
    // worlds x vectors, the scalar one, multimem, and all these by rows in fp32; the layouts for
    // few and near rows
    CHECK(seen == 2 * (2 * (2 * 8 + 1 + 2) + std::ssize(kMeasuredLayouts)));
  }
}

TEST_CASE("ptx: the peer transport moves 16 bytes, relaxed at system scope, and no other way") {
  for (const auto& [name, lines] : kernels_named("tokenweave_bf16.ptx", "tokenweave_peerI")) {
    CAPTURE(name);
    CHECK(!opcodes(lines, "^ld\\.relaxed\\.sys\\.global\\.v4\\.u32$").empty());
    CHECK(!opcodes(lines, "^st\\.relaxed\\.sys\\.global\\.v4\\.u32$").empty());
    CHECK(opcodes(lines, "^ld\\..*\\.u16$").empty());
    CHECK(opcodes(lines, "^multimem").empty());
    CHECK(opcodes(lines, "^(ld|st)\\.local").empty());
    // A world of R: R loads for each residual load, R stores for each store of residual_out.
    std::smatch match;
    REQUIRE(std::regex_search(name, match, std::regex("tokenweave_peerILi(\\d)ELi(\\d)")));
    const size_t world = std::stoul(match[1]);
    const size_t stores = opcodes(lines, "^st\\.relaxed\\.sys\\.global\\.v4").size();
    CHECK(stores % world == 0);
  }
}

TEST_CASE("ptx: a kernel touches no global memory before the launch before it has ended") {
  for (const char* file : {"tokenweave_bf16.ptx", "tokenweave_fp16.ptx", "push.ptx"}) {
    for (const auto& [name, lines] : kernels_named(file, "")) {
      CAPTURE(name);
      bool waited = false;
      int waits = 0;
      for (const std::string& code :
           opcodes(lines, "^griddepcontrol\\.wait$|^(ld|st|red|atom|multimem)\\b")) {
        if (code == "griddepcontrol.wait") {
          waited = true;
          ++waits;
        } else if (!contains(code, ".param") && !contains(code, ".shared")) {
          CHECK(waited);
        }
      }
      CHECK(waits == 1);
    }
  }
}

TEST_CASE("ptx: the pads' addresses are read by the parameters' name, not through a pointer") {
  for (const char* file : {"tokenweave_bf16.ptx", "tokenweave_fp16.ptx"}) {
    for (const auto& [name, lines] : kernels_named(file, "tokenweave_")) {
      CAPTURE(name);
      CHECK(opcodes(lines, "^cvta\\.param").empty());
    }
  }
}

TEST_CASE(
    "ptx: near layouts issue the next batch's loads behind the reduction, all others before it") {
  const auto kernels = kernels_named("tokenweave_bf16.ptx", "tokenweave_peerI");
  int behind = 0;
  for (const auto& [name, lines] : kernels) {
    CAPTURE(name);
    int barriers = 0;  // of the start, of the reduction, of the end
    int loads = 0;     // between the last two
    for (const std::string& code : opcodes(lines, "^bar\\.sync|^ld\\.relaxed\\.sys.*v4")) {
      if (contains(code, "bar.sync")) {
        ++barriers;
      } else if (barriers == 2) {
        ++loads;
      }
    }
    CHECK(barriers == 3);
    const bool near = contains(name, "RowsABlockE2E");
    CHECK((loads > 0) == near);
    behind += near ? 1 : 0;
  }
  CHECK(behind == 2 * 2);  // worlds of 2 and 4, both orders of the start
}

TEST_CASE("ptx: the multimem transport uses the forms of NVLink SHARP, accumulating in fp32") {
  const struct {
    const char* file;
    const char* type;
  } cases[] = {{"tokenweave_bf16.ptx", "bf16x2"}, {"tokenweave_fp16.ptx", "f16x2"}};
  for (const auto& c : cases) {
    const auto kernels = kernels_named(c.file, "tokenweave_multimem");
    CHECK(kernels.size() == 2 * 4);  // by gamma in fp32 too
    for (const auto& [name, lines] : kernels) {
      CAPTURE(name);
      const std::string load =
          std::string("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.") + c.type;
      const std::string store = std::string("multimem.st.relaxed.sys.global.v4.") + c.type;
      const std::vector<std::string> used = opcodes(lines, "^multimem");
      CHECK(!used.empty());
      for (const std::string& code : used) CHECK((code == load || code == store));
      CHECK(std::set<std::string>(used.begin(), used.end()).size() == 2);
      // Data goes through the multicast address only.
      CHECK(opcodes(lines, "^(ld|st)\\.relaxed\\.sys\\.global\\.v4").empty());
    }
  }
}

TEST_CASE("ptx: push moves 16 bytes, relaxed at system scope, and has neither signals nor fences") {
  const auto kernels = kernels_named("push.ptx", "push");
  CHECK(kernels.size() == 2 * 2 * 7);  // types, vectors a thread, worlds of 2 to 8
  for (const auto& [name, lines] : kernels) {
    CAPTURE(name);
    CHECK(!opcodes(lines, "^ld\\.relaxed\\.sys\\.global\\.v4\\.u32$").empty());
    CHECK(!opcodes(lines, "^st\\.relaxed\\.sys\\.global\\.v4\\.u32$").empty());
    CHECK(opcodes(lines, "cas|acquire|release|^fence|^membar|^multimem").empty());
  }
}

TEST_CASE(
    "ptx: pypto adds 16 bytes of bf16 at system scope, releases its signals, acquires its waits") {
  const auto kernels = kernels_named("pypto.ptx", "pypto");
  // tile rows 8, 64 and 128 with whole and half chunks, by gamma in the data's dtype and in fp32
  CHECK(kernels.size() == 3 * 2 * 2);
  for (const auto& [name, lines] : kernels) {
    CAPTURE(name);
    CHECK(!opcodes(lines, "^red\\.relaxed\\.sys\\.global\\.add\\.noftz\\.v4\\.bf16x2$").empty());
    CHECK(!opcodes(lines, "^red\\.release\\.sys\\.global\\.add\\.u32$").empty());
    CHECK(!opcodes(lines, "^ld\\.acquire\\.sys\\.global\\.u32$").empty());
    CHECK(!opcodes(lines, "^atom\\.acq_rel\\.sys\\.global\\.add\\.u32$").empty());
    CHECK(!opcodes(lines, "^wgmma\\.mma_async").empty());
    for (const std::string& code : opcodes(lines, "^red\\.")) CHECK(contains(code, ".sys."));
  }
}

TEST_CASE("ptxas: no kernel spills to local memory") {
  for (const char* file : {"tokenweave_bf16.log", "tokenweave_fp16.log", "push.log", "pypto.log"}) {
    std::ifstream log(kFolder + "/" + file);
    const std::string text((std::istreambuf_iterator<char>(log)), {});
    const std::regex wanted(
        "Compiling entry function '([^']*)'[^]*?(\\d+) bytes stack frame, (\\d+) bytes spill "
        "stores");
    int kernels = 0;
    for (auto i = std::sregex_iterator(text.begin(), text.end(), wanted);
         i != std::sregex_iterator(); ++i, ++kernels) {
      const std::string name = (*i)[1];
      CAPTURE(name);
      CHECK((*i)[3] == "0");
    }
    CHECK(kernels >= 3);
    CHECK(!contains(text, "C7510"));  // wgmma serialised
    CHECK(!contains(text, "C7520"));
  }
}
