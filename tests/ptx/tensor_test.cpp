// Tensor copies against plain scalar code, and what is wrong around bulk copies.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/tensor_map.hpp"
#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

constexpr std::uint32_t kTile = 16384;  // bytes of shared memory that are read back
constexpr std::uint32_t kBarrier = kTile;

struct Copy {
  TensorMap map;
  std::vector<std::int32_t> corner;
};

std::string head() {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sh[];\n";
}
std::string corner_text(const std::vector<std::int32_t>& corner) {
  std::string out;
  for (const std::int32_t c : corner) out += (out.empty() ? "" : ", ") + std::to_string(c);
  return "{" + out + "}";
}

// 64 threads: the first has the box copied to shared memory, all wait for it and give it out.
std::string load_text(const Copy& c, std::uint32_t bytes) {
  return head() +
         ".visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out)\n{\n"
         "  .reg .pred %p<4>;\n  .reg .b32 %r<12>;\n  .reg .b64 %rd<8>;\n"
         "  mov.b64 %rd0, map;\n  cvta.param.u64 %rd1, %rd0;\n  ld.param.u64 %rd2, [out];\n"
         "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, sh;\n  add.u32 %r2, %r1, " +
         std::to_string(kBarrier) +
         ";\n  setp.eq.u32 %p0, %r0, 0;\n  @!%p0 bra READY;\n"
         "  mbarrier.init.shared::cta.b64 [%r2], 1;\n"
         "  fence.mbarrier_init.release.cluster;\n"
         "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], " +
         std::to_string(bytes) + ";\n  cp.async.bulk.tensor." + std::to_string(c.corner.size()) +
         "d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, " +
         corner_text(c.corner) +
         "], [%r2];\nREADY:\n  bar.sync 0;\n"
         "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra WAIT;\n"
         "  shl.b32 %r3, %r0, 2;\n"
         "GIVE:\n  add.u32 %r4, %r1, %r3;\n  ld.shared.u32 %r5, [%r4];\n"
         "  cvt.u64.u32 %rd3, %r3;\n  add.s64 %rd3, %rd2, %rd3;\n  st.global.u32 [%rd3], %r5;\n"
         "  add.u32 %r3, %r3, 256;\n  setp.lt.u32 %p2, %r3, " +
         std::to_string(bytes) + ";\n  @%p2 bra GIVE;\n  ret;\n}\n";
}

// The way back: threads fill shared memory from `in`, the first has the box stored.
std::string store_text(const Copy& c, std::uint32_t bytes) {
  return head() +
         ".visible .entry copy(.param .align 64 .b8 map[128], .param .u64 in)\n{\n"
         "  .reg .pred %p<4>;\n  .reg .b32 %r<12>;\n  .reg .b64 %rd<8>;\n"
         "  mov.b64 %rd0, map;\n  cvta.param.u64 %rd1, %rd0;\n  ld.param.u64 %rd2, [in];\n"
         "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, sh;\n  shl.b32 %r3, %r0, 2;\n"
         "TAKE:\n  cvt.u64.u32 %rd3, %r3;\n  add.s64 %rd3, %rd2, %rd3;\n"
         "  ld.global.u32 %r5, [%rd3];\n  add.u32 %r4, %r1, %r3;\n  st.shared.u32 [%r4], %r5;\n"
         "  add.u32 %r3, %r3, 256;\n  setp.lt.u32 %p2, %r3, " +
         std::to_string(bytes) +
         ";\n  @%p2 bra TAKE;\n  fence.proxy.async.shared::cta;\n  bar.sync 0;\n"
         "  setp.eq.u32 %p0, %r0, 0;\n  @!%p0 ret;\n"
         "  cp.async.bulk.tensor." +
         std::to_string(c.corner.size()) + "d.global.shared::cta.bulk_group [%rd1, " +
         corner_text(c.corner) +
         "], [%r1];\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group.read 0;\n"
         "  st.shared.u32 [%r1], %r0;\n  ret;\n}\n";
}

// The place in shared memory of a byte of the box that is the `index`th, row after row.
std::uint32_t place(const TensorMap& map, std::uint32_t index) {
  if (map.swizzle == Swizzle::none) return index;
  const std::uint32_t line = index / 128;  // a line of all 32 banks
  const std::uint32_t turns = map.swizzle == Swizzle::bytes128  ? line % 8
                              : map.swizzle == Swizzle::bytes64 ? line % 4
                                                                : line % 2;
  const std::uint32_t piece = index / 16 % 8;
  return line * 128 + (piece ^ turns) * 16 + index % 16;
}

// Calls f(byte of the box, byte of the tensor or -1) for all bytes of a box.
template <class F>
void each_byte(const Copy& c, F f) {
  const TensorMap& m = c.map;
  std::uint32_t total = 1;
  for (unsigned i = 0; i < m.dimensions; ++i) total *= m.box[i];
  for (std::uint32_t e = 0; e < total; ++e) {
    std::uint32_t rest = e;
    std::int64_t at = 0;
    bool inside = true;
    for (unsigned i = 0; i < m.dimensions; ++i) {
      const std::int64_t x = c.corner[i] + static_cast<std::int64_t>(rest % m.box[i]);
      rest /= m.box[i];
      inside = inside && x >= 0 && x < static_cast<std::int64_t>(m.size[i]);
      at += x * static_cast<std::int64_t>(m.stride[i]);
    }
    for (std::uint32_t b = 0; b < m.element_bytes; ++b) {
      f(e * m.element_bytes + b, inside ? at + b : -1);
    }
  }
}

TensorMap map_of(std::uint8_t element, std::vector<std::uint64_t> size,
                 std::vector<std::uint32_t> box, Swizzle swizzle) {
  TensorMap map;
  map.element_bytes = element;
  map.dimensions = static_cast<std::uint8_t>(size.size());
  map.swizzle = swizzle;
  std::uint64_t stride = element;
  for (std::size_t i = 0; i < size.size(); ++i) {
    map.size[i] = size[i];
    map.box[i] = box[i];
    map.stride[i] = stride;
    stride = (stride * size[i] + 15) / 16 * 16 + (i == 0 ? 0 : 32);  // with gaps
  }
  return map;
}

std::vector<Copy> copies() {
  return {
      {map_of(2, {64, 8}, {64, 8}, Swizzle::bytes128), {0, 0}},
      {map_of(2, {100, 37}, {64, 32}, Swizzle::bytes128), {64, 16}},
      {map_of(2, {100, 37}, {64, 20}, Swizzle::bytes128), {-8, -3}},
      {map_of(2, {96, 50}, {32, 40}, Swizzle::bytes64), {32, 7}},
      {map_of(2, {96, 50}, {16, 64}, Swizzle::bytes32), {88, -20}},
      {map_of(4, {256}, {256}, Swizzle::none), {-16}},
      {map_of(1, {300, 5, 4}, {48, 3, 4}, Swizzle::none), {272, 3, 1}},
      {map_of(8, {9, 3, 4, 5}, {2, 2, 3, 2}, Swizzle::none), {8, 2, -1, 4}},
      {map_of(4, {20, 3, 3, 3, 3}, {8, 2, 2, 2, 2}, Swizzle::none), {4, 1, 2, 0, 2}},
      {map_of(4, {20, 3, 3}, {32, 2, 2}, Swizzle::bytes128), {0, 1, 1}},
  };
}

// Those that may be stores: not at negative coordinates.
std::vector<Copy> stores() {
  std::vector<Copy> out = copies();
  std::erase_if(out, [](const Copy& c) {
    return std::any_of(c.corner.begin(), c.corner.end(), [](std::int32_t x) { return x < 0; });
  });
  return out;
}
// A row ends where its last 16 bytes do.
Copy whole_pieces(Copy c) {
  const std::uint64_t bytes = c.map.size[0] * c.map.element_bytes;
  c.map.size[0] = (bytes + 15) / 16 * 16 / c.map.element_bytes;
  return c;
}

// The bytes that lie between the tensor's rows are there, too.
std::vector<std::uint8_t> tensor_bytes(const TensorMap& map) {
  std::vector<std::uint8_t> out(map.stride[map.dimensions - 1] * map.size[map.dimensions - 1] + 64);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::uint8_t>(i * 2654435761U >> 16 | 1);
  }
  return out;
}

struct Run {
  Single single;
  Copy copy;
  std::vector<std::uint8_t> tensor;
  std::uint64_t at = 0;
  std::uint64_t other = 0;
  std::uint32_t bytes;

  Run(const Copy& c, const std::string& text)
      : single(parse(text, "copy.ptx"), "copy"),
        copy(c),
        tensor(tensor_bytes(c.map)),
        bytes(static_cast<std::uint32_t>(c.map.box_bytes())) {
    at = single.buffer(tensor.size());
    other = single.buffer(kTile);
    std::memcpy(single.memory.at(at, tensor.size()), tensor.data(), tensor.size());
    copy.map.address = at;
  }
  std::uint8_t* tensor_now() { return view<std::uint8_t>(single.memory, at, tensor.size()); }
  std::uint8_t* tile() { return view<std::uint8_t>(single.memory, other, kTile); }
  void go(std::uint64_t seed = 0) {
    LaunchConfig config;
    config.block = {64, 1, 1};
    const auto encoded = copy.map.encode();
    config.parameters.assign(encoded.begin(), encoded.end());
    for (unsigned b = 0; b < 8; ++b) {
      config.parameters.push_back(static_cast<std::uint8_t>(other >> (8 * b)));
    }
    config.dynamic_shared = kTile + 16;
    config.instruction_budget = 200'000;
    single.run(config, seed);
  }
};

std::string fault(const std::string& text, FaultKind kind, const Copy& copy = copies()[0]) {
  Run run(copy, text);
  try {
    run.go();
  } catch (const KernelFault& found) {
    CAPTURE(found.what());
    CHECK(found.kind() == kind);
    return found.what();
  }
  FAIL("no fault");
  return {};
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a tensor copy brings its box, swizzled, with zeros for what lies outside") {
  for (const Copy& c : copies()) {
    REQUIRE(c.map.fault().empty());
    Run run(c, load_text(c, static_cast<std::uint32_t>(c.map.box_bytes())));
    CAPTURE(run.single.module.source->c_str());
    run.go();
    each_byte(c, [&](std::uint32_t i, std::int64_t from) {
      const std::uint8_t expected = from < 0 ? 0 : run.tensor[static_cast<std::size_t>(from)];
      REQUIRE(run.tile()[place(c.map, i)] == expected);
    });
  }
}

TEST_CASE("a tensor copy stores what lies inside the tensor, in whole pieces of 16 bytes") {
  for (const Copy& c : stores()) {
    Run run(c, store_text(c, static_cast<std::uint32_t>(c.map.box_bytes())));
    CAPTURE(run.single.module.source->c_str());
    std::vector<std::uint8_t> expected = run.tensor;
    for (std::uint32_t i = 0; i < run.bytes; ++i) {
      run.tile()[i] = static_cast<std::uint8_t>(i * 40503U >> 8 & 254);
    }
    each_byte(whole_pieces(c), [&](std::uint32_t i, std::int64_t to) {
      if (to >= 0) expected[static_cast<std::size_t>(to)] = run.tile()[place(c.map, i)];
    });
    run.go();
    CHECK(std::vector<std::uint8_t>(run.tensor_now(), run.tensor_now() + expected.size()) ==
          expected);
  }
}

TEST_CASE("a tile is not to be read before its mbarrier's phase has completed") {
  const Copy c = copies()[0];
  const std::string text = load_text(c, 1024);
  const std::string wait =
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra WAIT;";
  CHECK(has(fault(replaced(text, wait, ""), FaultKind::shared_race), "bulk copy"));
  // Not even by the thread that asked for it.
  CHECK(has(
      fault(replaced(text, "READY:", "ld.shared.u32 %r5, [%r1];\nREADY:"), FaultKind::shared_race),
      "write by the bulk copy of line"));
}

TEST_CASE("a stage is not to be filled while it may still be read") {
  const Copy c = copies()[0];
  // A second copy into the tile, after some threads have read it and without a barrier.
  const std::string again =
      "  @!%p0 ret;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;\n"
      "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, "
      "{0, 0}], [%r2];\n  ret;\n}\n";
  const std::string end = "  @%p2 bra GIVE;\n";
  CHECK(has(
      fault(replaced(load_text(c, 1024), end + "  ret;\n}\n", end + again), FaultKind::shared_race),
      "asynchronous write of shared byte"));
  Run run(c, replaced(load_text(c, 1024), end + "  ret;\n}\n", end + "  bar.sync 0;\n" + again));
  run.go();
}

TEST_CASE("what threads stored is not there for a bulk store without a proxy fence") {
  const Copy c = copies()[0];
  const std::string text = store_text(c, 1024);
  CHECK(has(fault(replaced(text, "fence.proxy.async.shared::cta;", ""), FaultKind::shared_race),
            "no fence.proxy.async between them"));
  // Its source is free once it was read.
  CHECK(has(fault(replaced(text, "cp.async.bulk.wait_group.read 0;", ""), FaultKind::shared_race),
            "read by the bulk copy of line"));
}

TEST_CASE("bytes that were announced and do not come, or the reverse, keep the phase open") {
  const Copy c = copies()[0];
  fault(replaced(load_text(c, 1024), "[%r2], 1024;", "[%r2], 1040;"), FaultKind::budget);
  fault(replaced(load_text(c, 1024), "[%r2], 1024;", "[%r2], 1008;"), FaultKind::budget);
}

TEST_CASE("tensor copies check their map, its dimensions and where they write") {
  const Copy c = copies()[0];
  const std::string text = load_text(c, 1024);
  CHECK(has(fault(replaced(text, "mov.b64 %rd0, map;\n  cvta.param.u64 %rd1, %rd0;",
                           "ld.param.u64 %rd1, [out];"),
                  FaultKind::undefined),
            "no tensor map"));
  CHECK(has(fault(replaced(text, "tensor.2d", "tensor.1d")
                      .replace(replaced(text, "tensor.2d", "tensor.1d").find("{0, 0}"), 6, "{0}"),
                  FaultKind::undefined),
            "1 coordinates by a tensor map of 2"));
  CHECK(has(fault(replaced(text, "bytes [%r1]", "bytes [%r1+64]"), FaultKind::misaligned), "128"));
  CHECK(has(fault(replaced(text, "{0, 0}", "{4, 0}"), FaultKind::misaligned), "multiple of 16"));
  CHECK(has(fault(replaced(store_text(c, 1024), "{0, 0}", "{0, -1}"), FaultKind::undefined),
            "negative coordinate"));
  const Module module = parse(replaced(text, "{0, 0}", "{0, 0, 0}"), "copy.ptx");
  CHECK_THROWS_WITH_AS(decode(module, module.kernel("copy")),
                       doctest::Contains("another number of coordinates"), Error);
}

TEST_CASE("tensor maps are what the driver would encode") {
  TensorMap map = map_of(2, {64, 8}, {64, 8}, Swizzle::bytes128);
  CHECK(map.fault().empty());
  const auto bytes = map.encode();
  CHECK(TensorMap::decode(std::as_bytes(std::span(bytes)))->box[1] == 8);
  const auto refused = [](TensorMap m, auto change) {
    change(m);
    return m.fault();
  };
  CHECK(has(refused(map, [](TensorMap& m) { m.address = 8; }), "multiple of 16"));
  CHECK(has(refused(map, [](TensorMap& m) { m.box[1] = 257; }), "256"));
  CHECK(has(refused(map, [](TensorMap& m) { m.box[0] = 65; }), "multiple of 16"));
  CHECK(has(refused(map, [](TensorMap& m) { m.box[0] = 72; }), "swizzle"));
  CHECK(has(refused(map, [](TensorMap& m) { m.stride[1] = 40; }), "strides"));
  CHECK(has(refused(map, [](TensorMap& m) { m.size[1] = 0; }), "sizes"));
  CHECK(has(refused(map, [](TensorMap& m) { m.dimensions = 6; }), "dimensions"));
}

TEST_CASE("a tensor reduction combines the elements of the box with those that are there") {
  // 20 columns of 4 bytes in rows of 80 bytes; the box ends 2 columns behind the tensor.
  for (const bool floats : {false, true}) {
    for (const char* const word : {"add", "max", "xor"}) {
      const bool bitwise = std::string(word) == "xor";
      if (floats && std::string(word) != "add") continue;
      CAPTURE(word);
      Copy copy{map_of(4, {18, 5}, {8, 4}, Swizzle::none), {12, 2}};
      copy.map.type = floats ? Type::f32 : Type::u32;
      const std::string text =
          replaced(replaced(store_text(copy, 8 * 4 * 4), "cp.async.bulk.tensor",
                            "cp.reduce.async.bulk.tensor"),
                   ".bulk_group [", std::string(".") + word + ".tile.bulk_group [");
      Run run(copy, text);
      std::vector<std::uint32_t> there(run.tensor.size() / 4), tile(32);
      for (std::uint32_t i = 0; i < there.size(); ++i) {
        there[i] = floats ? std::bit_cast<std::uint32_t>(static_cast<float>(i)) : i * 2654435761U;
      }
      for (std::uint32_t i = 0; i < tile.size(); ++i) {
        tile[i] = floats ? std::bit_cast<std::uint32_t>(0.5F + static_cast<float>(i))
                         : (i + 1) * 0x9E3779B9U;
      }
      std::memcpy(run.tensor_now(), there.data(), 4 * there.size());
      std::memcpy(run.tile(), tile.data(), 4 * tile.size());
      run.go();
      for (std::uint32_t y = 2; y < 5; ++y) {
        for (std::uint32_t x = 12; x < 18; ++x) {
          std::uint32_t& old = there[y * 20 + x];
          const std::uint32_t by = tile[(y - 2) * 8 + (x - 12)];
          old = floats    ? std::bit_cast<std::uint32_t>(std::bit_cast<float>(old) +
                                                      std::bit_cast<float>(by))
                : bitwise ? old ^ by
                : std::string(word) == "max" ? std::max(old, by)
                                             : old + by;
        }
      }
      CHECK(std::memcmp(run.tensor_now(), there.data(), 4 * there.size()) == 0);
    }
  }
  // What the map's elements do not have, and a map without a type.
  Copy copy{map_of(4, {18, 5}, {8, 4}, Swizzle::none), {12, 2}};
  const std::string text = replaced(
      replaced(store_text(copy, 8 * 4 * 4), "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor"),
      ".bulk_group [", ".xor.tile.bulk_group [");
  fault(text, FaultKind::undefined, copy);
  copy.map.type = Type::f32;
  CHECK(has(fault(text, FaultKind::undefined, copy), "elements of .f32"));
}

TEST_CASE("a multicast copy reaches the blocks named, and tells each one's mbarrier") {
  const std::string text =
      head() +
      ".visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out)\n"
      ".reqnctapercluster 2\n{\n"
      "  .reg .pred %p<6>;\n  .reg .b32 %r<12>;\n  .reg .b64 %rd<8>;\n  .reg .b16 %rs<2>;\n"
      "  mov.b64 %rd0, map;\n  cvta.param.u64 %rd1, %rd0;\n  ld.param.u64 %rd2, [out];\n"
      "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, sh;\n  add.u32 %r2, %r1, " +
      std::to_string(kBarrier) +
      ";\n  mov.u32 %r8, %cluster_ctarank;\n  setp.eq.u32 %p0, %r0, 0;\n  @!%p0 bra READY;\n"
      "  mbarrier.init.shared::cta.b64 [%r2], 1;\n  fence.mbarrier_init.release.cluster;\n"
      "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;\nREADY:\n"
      "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
      "  setp.eq.and.u32 %p3, %r8, 1, %p0;\n  @!%p3 bra WAIT;\n  mov.u16 %rs0, 3;\n"
      "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%r1], [%rd1, {0, 0}], [%r2], %rs0;\n"
      "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra WAIT;\n"
      "  shl.b32 %r3, %r0, 2;\n  mad.lo.u32 %r9, %r8, 1024, 0;\n"
      "GIVE:\n  add.u32 %r4, %r1, %r3;\n  ld.shared.u32 %r5, [%r4];\n  add.u32 %r10, %r3, %r9;\n"
      "  cvt.u64.u32 %rd3, %r10;\n  add.s64 %rd3, %rd2, %rd3;\n  st.global.u32 [%rd3], %r5;\n"
      "  add.u32 %r3, %r3, 256;\n  setp.lt.u32 %p2, %r3, 1024;\n  @%p2 bra GIVE;\n  ret;\n}\n";
  const auto go = [](Run& run) {
    LaunchConfig config;
    config.grid = {2, 1, 1};
    config.block = {64, 1, 1};
    const auto encoded = run.copy.map.encode();
    config.parameters.assign(encoded.begin(), encoded.end());
    for (unsigned b = 0; b < 8; ++b) {
      config.parameters.push_back(static_cast<std::uint8_t>(run.other >> (8 * b)));
    }
    config.dynamic_shared = kTile + 16;
    config.instruction_budget = 200'000;
    run.single.run(config);
  };
  const Copy c = copies()[0];
  Run run(c, text);
  go(run);
  each_byte(c, [&](std::uint32_t i, std::int64_t from) {
    for (const std::uint32_t block : {0U, 1U}) {
      REQUIRE(run.tile()[1024 * block + place(c.map, i)] ==
              run.tensor[static_cast<std::size_t>(from)]);
    }
  });
  // The block that did not ask for it has to wait as well.
  Run hasty(c, replaced(text, "@!%p1 bra WAIT;", ""));
  CHECK_THROWS_WITH_AS(go(hasty), doctest::Contains("bulk copy"), KernelFault);
  Run beyond(c, replaced(text, "mov.u16 %rs0, 3;", "mov.u16 %rs0, 5;"));
  CHECK_THROWS_WITH_AS(go(beyond), doctest::Contains("does not have"), KernelFault);
}

}  // namespace ringfence::ptx::test
