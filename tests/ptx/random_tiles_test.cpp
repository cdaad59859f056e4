// Generated kernels of a warpgroup that moves tiles by tensor copies, multiplies them by wgmma and
// computes with the sums, against a plain interpreter that keeps matrices as arrays: no swizzle, no
// descriptor, no fragment of more than one formula. Seeds are fixed; a failure prints seed and
// text.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "emulator/ptx/tensor_map.hpp"
#include "tests/ptx/harness.hpp"
#include "tests/ptx/product_case.hpp"
#include "tests/ptx/reference.hpp"

namespace ringfence::ptx::test {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::int32_t kRows = 80;     // of the tensor
constexpr std::int32_t kColumns = 96;  // 192 bytes
constexpr std::uint32_t kTileRows = 64;
constexpr std::uint32_t kSlots = 3;
constexpr std::uint32_t kSlotBytes = 8192;
constexpr std::uint32_t kSums = 2;  // accumulators of so many products

enum class Code {
  load,      // tensor -> tile
  store,     // tile -> tensor
  poke,      // each thread stores a word into a tile
  take,      // each thread adds an element of a tile to one of its sums
  multiply,  // wgmma
  wait,      // wgmma.wait_group
  add,       // sums among themselves
  halve,
  loop,
};

struct Step {
  Code code;
  std::uint32_t slot = 0;
  std::int32_t column = 0, row = 0;      // load, store; poke, take: where in the tile's row
  std::uint32_t factor = 0, offset = 0;  // poke, and A in registers
  std::uint32_t sums = 0, i = 0, j = 0;  // which sums, which of them
  std::uint32_t a = 0, b = 0;            // multiply: slots
  std::uint32_t a_step = 0, b_step = 0;  // 16 of k; transposed: rows of the tile, 8 at a time
  bool a_registers = false, a_transposed = false, b_transposed = false;
  bool negate_a = false, negate_b = false;
  std::uint32_t scale = 0;  // 0: clear, 1: accumulate, 2: only in odd rounds
  std::uint32_t times = 0;  // loop; multiply: products in a row; wait: left open
  std::vector<Step> body = {};
};

struct Kernel {
  bool bf16 = true;
  std::uint32_t width = 128;  // bytes of a tile's row, which is swizzled as a whole
  std::array<std::uint32_t, kSums> n{};
  std::vector<Step> steps;
  std::uint32_t columns() const { return width / 2; }
};

// Small positive numbers in both formats.
std::uint16_t word_of(std::uint32_t thread, std::uint32_t factor, std::uint32_t offset) {
  return static_cast<std::uint16_t>(0x3C00U | ((thread * factor + offset) & 0x7FU));
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed * 2654435769U + 77) {}

  Kernel make() {
    Kernel k;
    k.bf16 = draw(2) == 0;
    k.width = 32U << draw(3);
    k_ = &k;
    for (std::uint32_t& n : k.n) n = 8 * (1 + draw(8));
    for (std::uint32_t s = 0; s < kSlots; ++s) k.steps.push_back(load(s));
    block(k.steps, 6 + draw(6), true);
    return k;
  }
  std::uint32_t draw(std::uint32_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>((state_ >> 33) % n);
  }

 private:
  Step load(std::uint32_t slot) {
    Step s{Code::load};
    s.slot = slot;
    s.column = 8 * (static_cast<std::int32_t>(draw(18)) - 4);
    s.row = static_cast<std::int32_t>(draw(110)) - 20;
    return s;
  }
  Step multiply() {
    Step s{Code::multiply};
    s.sums = draw(kSums);
    s.a = draw(kSlots);
    s.b = draw(kSlots);
    s.a_registers = draw(3) == 0;
    s.factor = 1 + draw(60);
    s.offset = draw(128);
    // M = 64 needs as many columns.
    s.a_transposed = !s.a_registers && k_->width == 128 && draw(2) == 0;
    s.b_transposed = k_->n[s.sums] <= k_->columns() && draw(2) == 0;
    const std::uint32_t steps = k_->columns() / 16;
    s.a_step = s.a_transposed ? draw(7) : draw(steps);
    s.b_step = s.b_transposed ? draw(7) : draw(steps);
    s.negate_a = draw(3) == 0;
    s.negate_b = draw(3) == 0;
    s.scale = draw(3);
    s.times = 1 + draw(2);
    return s;
  }
  void block(std::vector<Step>& out, std::uint32_t count, bool loops) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t kind = draw(loops ? 12 : 11);
      Step s{Code::wait};
      if (kind < 2) {
        s = load(draw(kSlots));
      } else if (kind == 2) {
        s = load(draw(kSlots));
        s.code = Code::store;
        s.column = std::abs(s.column);
        s.row = std::abs(s.row);
      } else if (kind < 7) {
        s = multiply();
      } else if (kind == 7) {
        s.times = draw(2);
      } else if (kind == 11) {
        s = Step{Code::loop};
        s.times = 1 + draw(3);
        block(s.body, 2 + draw(4), false);
      } else {
        s.code = std::array{Code::poke, Code::take, Code::add, Code::halve}[draw(4)];
        s.slot = draw(kSlots);
        s.sums = draw(kSums);
        s.i = draw(k_->n[s.sums] / 2);
        s.j = draw(k_->n[s.sums] / 2);
        s.column = static_cast<std::int32_t>(draw(k_->columns() / 2 - 1));
        s.factor = 1 + draw(60);
        s.offset = draw(128);
      }
      out.push_back(std::move(s));
    }
  }

  std::uint64_t state_;
  const Kernel* k_ = nullptr;
};

// -- as PTX ---------------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(const Kernel& k) : k_(k) {}

  std::string text() {
    for (const Step& s : k_.steps) write(s);
    settle();
    std::string out =
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".extern .shared .align 1024 .b8 sh[];\n"
        ".visible .entry tiles(.param .align 64 .b8 map[128], .param .u64 out)\n{\n"
        "  .reg .pred %p<6>;\n  .reg .b16 %h<2>;\n  .reg .b32 %r<24>;\n  .reg .b64 %rd<10>;\n"
        "  .reg .f32 %f<2>, %s<32>, %t<32>;\n"
        "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, sh;\n  mov.u32 %r2, 0;\n  mov.u32 %r3, 0;\n"
        "  add.u32 %r4, %r1, " +
        number(kSlots * kSlotBytes) +
        ";\n  mov.b64 %rd0, map;\n  cvta.param.u64 %rd1, %rd0;\n  ld.param.u64 %rd2, [out];\n"
        "  setp.eq.u32 %p0, %r0, 0;\n  @!%p0 bra READY;\n"
        "  mbarrier.init.shared::cta.b64 [%r4], 1;\n  fence.mbarrier_init.release.cluster;\n"
        "READY:\n  bar.sync 0;\n";
    for (std::uint32_t s = 0; s < kSums; ++s) {
      for (std::uint32_t i = 0; i < k_.n[s] / 2; ++i) {
        out += "  mov.f32 " + sum(s, i) + ", 0f00000000;\n";
      }
    }
    out += body_ + "  mul.wide.u32 %rd3, %r0, 256;\n  add.s64 %rd3, %rd2, %rd3;\n";
    for (std::uint32_t s = 0; s < kSums; ++s) {
      for (std::uint32_t i = 0; i < k_.n[s] / 2; ++i) {
        out += "  st.global.f32 [%rd3+" + number(s * 128 + i * 4) + "], " + sum(s, i) + ";\n";
      }
    }
    return out + "  ret;\n}\n";
  }

 private:
  static std::string number(std::uint64_t x) { return std::to_string(x); }
  static std::string sum(std::uint32_t s, std::uint32_t i) {
    return (s == 0 ? "%s" : "%t") + number(i);
  }
  std::string slot(std::uint32_t s) const { return "%r1+" + number(s * kSlotBytes); }
  void say(const std::string& line) { body_ += "  " + line + ";\n"; }
  void label(const std::string& name) { body_ += name + ":\n"; }

  // Whatever may be under way has ended, for all threads.
  void settle() {
    if (!open_) return;
    say("wgmma.wait_group.sync.aligned 0");
    open_ = false;
  }
  void meet() {
    settle();
    say("bar.sync 0");
  }
  // %r10 = the place of 4 bytes, `word` of the row %r11, in a swizzled tile.
  void place(std::uint32_t of, std::int32_t word) {
    say("shr.u32 %r12, %r0, 6");  // threads 64 to 127 take the next word
    say("and.b32 %r11, %r0, 63");
    say("mul.lo.u32 %r10, %r11, " + number(k_.width));
    say("shl.b32 %r12, %r12, 2");
    say("add.u32 %r10, %r10, %r12");
    say("add.u32 %r10, %r10, " + std::to_string(word * 4));
    say("shr.u32 %r12, %r10, 7");
    say("and.b32 %r12, %r12, " + number(k_.width / 16 - 1));
    say("shl.b32 %r12, %r12, 4");
    say("xor.b32 %r10, %r10, %r12");
    say("add.u32 %r10, %r10, %r1");
    say("add.u32 %r10, %r10, " + number(of * kSlotBytes));
  }
  // %r13 = word_of(thread + more) twice.
  void words(const Step& s, std::uint32_t more, const std::string& to) {
    say("add.u32 %r13, %r0, " + number(more));
    say("mad.lo.u32 %r13, %r13, " + number(s.factor) + ", " + number(s.offset));
    say("and.b32 %r13, %r13, 127");
    say("or.b32 %r13, %r13, 15360");
    say("mul.lo.u32 " + to + ", %r13, 65537");
  }
  std::uint64_t descriptor(std::uint32_t of, bool transposed, std::uint32_t step) const {
    const std::uint64_t mode = k_.width == 128 ? 1 : k_.width == 64 ? 2 : 3;
    const std::uint64_t start =
        std::uint64_t{of} * kSlotBytes + step * (transposed ? 8 * k_.width : 32);
    return start / 16 | std::uint64_t{1} << 16 | std::uint64_t{8 * k_.width / 16} << 32 |
           mode << 62;
  }
  void descriptor_of(const std::string& to, std::uint64_t bits) {
    say("and.b32 %r14, %r1, 262143");
    say("shr.u32 %r14, %r14, 4");
    say("cvt.u64.u32 " + to + ", %r14");
    say("add.s64 " + to + ", " + to + ", " + std::to_string(static_cast<std::int64_t>(bits)));
  }
  void multiply(const Step& s) {
    if (s.a_registers) {
      settle();  // a product may still have the registers
      for (std::uint32_t r = 0; r < 4; ++r) words(s, r, "%r" + number(16 + r));
    } else {
      descriptor_of("%rd4", descriptor(s.a, s.a_transposed, s.a_step));
    }
    descriptor_of("%rd5", descriptor(s.b, s.b_transposed, s.b_step));
    if (s.scale == 2) say("and.b32 %r15, %r3, 1");
    if (s.scale != 2) say("mov.u32 %r15, " + number(s.scale));
    say("setp.ne.u32 %p1, %r15, 0");
    const std::uint32_t n = k_.n[s.sums];
    std::string d;
    for (std::uint32_t i = 0; i < n / 2; ++i) d += (i == 0 ? "" : ", ") + sum(s.sums, i);
    say("wgmma.fence.sync.aligned");
    for (std::uint32_t t = 0; t < s.times; ++t) {
      say("wgmma.mma_async.sync.aligned.m64n" + number(n) + "k16.f32." +
          (k_.bf16 ? "bf16.bf16" : "f16.f16") + " {" + d + "}, " +
          (s.a_registers ? "{%r16, %r17, %r18, %r19}" : "%rd4") + ", %rd5, %p1, " +
          (s.negate_a ? "-1, " : "1, ") + (s.negate_b ? "-1" : "1") +
          (s.a_registers    ? ""
           : s.a_transposed ? ", 1"
                            : ", 0") +
          (s.b_transposed ? ", 1" : ", 0"));
    }
    say("wgmma.commit_group.sync.aligned");
    open_ = true;
  }
  void write(const Step& s) {
    const std::string end = "S" + number(++labels_);
    const std::string corner = "{" + std::to_string(s.column) + ", " + std::to_string(s.row) + "}";
    switch (s.code) {
      case Code::load:
        meet();
        say("@!%p0 bra " + end);
        say("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], " + number(kTileRows * k_.width));
        say("add.u32 %r5, " + slot_operands(s.slot));
        say("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], "
            "[%rd1, " +
            corner + "], [%r4]");
        label(end);
        label(end + "W");
        say("mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], %r2");
        say("@!%p2 bra " + end + "W");
        say("xor.b32 %r2, %r2, 1");
        break;
      case Code::store:
        meet();
        say("@!%p0 bra " + end);
        say("add.u32 %r5, " + slot_operands(s.slot));
        say("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, " + corner + "], [%r5]");
        say("cp.async.bulk.commit_group");
        say("cp.async.bulk.wait_group 0");
        label(end);
        say("bar.sync 0");
        break;
      case Code::poke:
        meet();
        place(s.slot, s.column);
        words(s, 0, "%r13");
        say("st.shared.u32 [%r10], %r13");
        say("fence.proxy.async");
        say("bar.sync 0");
        break;
      case Code::take:
        settle();
        place(s.slot, s.column);
        say("ld.shared.u16 %h0, [%r10]");
        if (k_.bf16) {
          say("cvt.u32.u16 %r13, %h0");
          say("shl.b32 %r13, %r13, 16");
          say("mov.b32 %f0, %r13");
        } else {
          say("cvt.f32.f16 %f0, %h0");
        }
        say("add.f32 " + sum(s.sums, s.i) + ", " + sum(s.sums, s.i) + ", %f0");
        break;
      case Code::multiply:
        multiply(s);
        break;
      case Code::wait:
        say("wgmma.wait_group.sync.aligned " + number(s.times));
        if (s.times == 0) open_ = false;
        break;
      case Code::add:
        settle();
        say("add.f32 " + sum(s.sums, s.i) + ", " + sum(s.sums, s.i) + ", " + sum(s.sums, s.j));
        break;
      case Code::halve:
        settle();
        say("mul.f32 " + sum(s.sums, s.i) + ", " + sum(s.sums, s.j) + ", 0f3F000000");
        break;
      case Code::loop:
        say("mov.u32 %r3, 0");
        label(end);
        open_ = true;  // of the round before, perhaps
        for (const Step& inner : s.body) write(inner);
        say("add.u32 %r3, %r3, 1");
        say("setp.lt.u32 %p3, %r3, " + number(s.times));
        say("@%p3 bra " + end);
        say("mov.u32 %r3, 0");
        open_ = true;
        break;
    }
  }
  std::string slot_operands(std::uint32_t s) const { return "%r1, " + number(s * kSlotBytes); }

  const Kernel& k_;
  std::string body_;
  bool open_ = false;  // a product may be under way
  std::uint32_t labels_ = 0;
};

// -- in plain words -------------------------------------------------------------------------------

struct Machine {
  const Kernel& k;
  std::vector<std::uint16_t> tensor;                     // [row][column]
  std::array<std::vector<std::uint16_t>, kSlots> tiles;  // [row][column]
  std::array<std::vector<float>, kSums> sums;            // [row][column]
  std::uint32_t round = 0;

  Machine(const Kernel& kernel, std::vector<std::uint16_t> content)
      : k(kernel), tensor(std::move(content)) {
    for (auto& tile : tiles) tile.assign(kTileRows * k.columns(), 0);
    for (std::uint32_t s = 0; s < kSums; ++s) sums[s].assign(64 * k.n[s], 0);
  }
  float value(std::uint16_t bits) const {
    return static_cast<float>((k.bf16 ? kBf16 : kF16).decode(bits));
  }
  float& of_thread(std::uint32_t s, std::uint32_t thread, std::uint32_t i) {
    return sums[s][ProductCase::row_of(thread, i) * k.n[s] + ProductCase::column_of(thread, i)];
  }
  template <class F>
  void each_of_box(const Step& s, F f) {
    for (std::uint32_t r = 0; r < kTileRows; ++r) {
      for (std::uint32_t c = 0; c < k.columns(); ++c) {
        const std::int32_t row = s.row + static_cast<std::int32_t>(r);
        const std::int32_t column = s.column + static_cast<std::int32_t>(c);
        const bool inside = row >= 0 && row < kRows && column >= 0 && column < kColumns;
        f(tiles[s.slot][r * k.columns() + c],
          inside ? &tensor[static_cast<std::size_t>(row * kColumns + column)] : nullptr);
      }
    }
  }
  float a_of(const Step& s, std::uint32_t row, std::uint32_t inner) const {
    if (s.a_registers) {
      // Which thread has it, in which of its registers.
      const std::uint32_t thread = row / 16 * 32 + row % 8 * 4 + inner % 8 / 2;
      return value(word_of(thread + row / 8 % 2 + inner / 8 * 2, s.factor, s.offset));
    }
    return s.a_transposed ? value(tiles[s.a][(s.a_step * 8 + inner) * k.columns() + row])
                          : value(tiles[s.a][row * k.columns() + s.a_step * 16 + inner]);
  }
  float b_of(const Step& s, std::uint32_t column, std::uint32_t inner) const {
    return s.b_transposed ? value(tiles[s.b][(s.b_step * 8 + inner) * k.columns() + column])
                          : value(tiles[s.b][column * k.columns() + s.b_step * 16 + inner]);
  }
  void execute(const Step& s) {
    const std::uint32_t at = static_cast<std::uint32_t>(s.column) * 2;  // poke and take
    switch (s.code) {
      case Code::load:
        each_of_box(s, [](std::uint16_t& tile, const std::uint16_t* from) {
          tile = from == nullptr ? 0 : *from;
        });
        break;
      case Code::store:
        each_of_box(s, [](const std::uint16_t& tile, std::uint16_t* to) {
          if (to != nullptr) *to = tile;
        });
        break;
      case Code::poke:
        for (std::uint32_t t = 0; t < kThreads; ++t) {
          std::uint16_t* to = &tiles[s.slot][t % 64 * k.columns() + at + t / 64 * 2];
          to[0] = to[1] = word_of(t, s.factor, s.offset);
        }
        break;
      case Code::take:
        for (std::uint32_t t = 0; t < kThreads; ++t) {
          of_thread(s.sums, t, s.i) += value(tiles[s.slot][t % 64 * k.columns() + at + t / 64 * 2]);
        }
        break;
      case Code::multiply:
        for (std::uint32_t t = 0; t < s.times; ++t) {
          const bool keeps = s.scale == 1 || (s.scale == 2 && round % 2 == 1);
          const float sign = s.negate_a != s.negate_b ? -1.0F : 1.0F;
          for (std::uint32_t row = 0; row < 64; ++row) {
            for (std::uint32_t column = 0; column < k.n[s.sums]; ++column) {
              float& d = sums[s.sums][row * k.n[s.sums] + column];
              float total = keeps ? d : 0.0F;
              for (std::uint32_t inner = 0; inner < 16; ++inner) {
                total = std::fma(sign * a_of(s, row, inner), b_of(s, column, inner), total);
              }
              d = total;
            }
          }
        }
        break;
      case Code::wait:
        break;
      case Code::add:
        for (std::uint32_t t = 0; t < kThreads; ++t) {
          of_thread(s.sums, t, s.i) += of_thread(s.sums, t, s.j);
        }
        break;
      case Code::halve:
        for (std::uint32_t t = 0; t < kThreads; ++t) {
          of_thread(s.sums, t, s.i) = of_thread(s.sums, t, s.j) * 0.5F;
        }
        break;
      case Code::loop:
        for (round = 0; round < s.times; ++round) {
          for (const Step& inner : s.body) execute(inner);
        }
        round = 0;
        break;
    }
  }
};

std::vector<std::uint16_t> content(const Kernel& k, Generator& random) {
  std::vector<std::uint16_t> out(kRows * kColumns);
  for (std::uint16_t& x : out) {
    const double eighths = (static_cast<int>(random.draw(255)) - 127) / 8.0;
    x = static_cast<std::uint16_t>((k.bf16 ? kBf16 : kF16).encode(eighths));
  }
  return out;
}

}  // namespace

TEST_CASE("generated tensor copies and products end as an interpreter of plain matrices says") {
  std::array<unsigned, 9> seen{};
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    Generator random(seed);
    const Kernel k = random.make();
    const std::string text = Writer(k).text();
    CAPTURE(seed);
    CAPTURE(text);
    Machine machine(k, content(k, random));
    Single run(parse(text, "tiles.ptx"), "tiles");
    const std::size_t bytes = machine.tensor.size() * 2;
    const std::uint64_t at = run.buffer(bytes);
    const std::uint64_t out = run.buffer(kThreads * 256);
    std::memcpy(run.memory.at(at, bytes), machine.tensor.data(), bytes);
    TensorMap map;
    map.address = at;
    map.dimensions = 2;
    map.swizzle = k.width == 128  ? Swizzle::bytes128
                  : k.width == 64 ? Swizzle::bytes64
                                  : Swizzle::bytes32;
    map.size = {kColumns, kRows};
    map.stride = {2, kColumns * 2};
    map.box = {k.columns(), kTileRows};
    REQUIRE(map.fault().empty());
    LaunchConfig config;
    config.block = {kThreads, 1, 1};
    const auto encoded = map.encode();
    config.parameters.assign(encoded.begin(), encoded.end());
    for (unsigned b = 0; b < 8; ++b) {
      config.parameters.push_back(static_cast<std::uint8_t>(out >> (8 * b)));
    }
    config.dynamic_shared = kSlots * kSlotBytes + 16;
    config.instruction_budget = 2'000'000;
    run.run(std::move(config), seed % 3);
    for (const Step& s : k.steps) {
      machine.execute(s);
      ++seen[static_cast<std::size_t>(s.code)];
    }
    const float* got = view<float>(run.memory, out, kThreads * 64);
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      for (std::uint32_t s = 0; s < kSums; ++s) {
        for (std::uint32_t i = 0; i < k.n[s] / 2; ++i) {
          REQUIRE_MESSAGE(got[t * 64 + s * 32 + i] == machine.of_thread(s, t, i),
                          "thread " << t << ", product " << s << ", sum " << i);
        }
      }
    }
    const std::uint16_t* tensor = view<std::uint16_t>(run.memory, at, machine.tensor.size());
    REQUIRE(std::vector<std::uint16_t>(tensor, tensor + machine.tensor.size()) == machine.tensor);
  }
  for (const unsigned count : seen) CHECK(count > 10);
}

}  // namespace ringfence::ptx::test
