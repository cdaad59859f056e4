// Generated kernels with nested branches and loops, executed by warps, against a plain interpreter
// that runs one thread at a time. Seeds are fixed; a failure prints seed and text.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

constexpr int kRegisters = 10;
constexpr int kPredicates = 4;
constexpr std::uint32_t kThreads = 80;  // the last warp is half empty

enum class Code {
  add,
  sub,
  mul,
  mad,
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr,
  sar,
  selp,
  setp,
  min,
  exchange_local,
  branch,
  exit
};

struct Step {
  Code code;
  int d = 0, a = 0, b = 0, c = 0;
  bool immediate = false;
  std::uint32_t value = 0;
  int guard = -1;
  bool negated = false;
  std::size_t target = 0;  // branch
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed * 2654435769U + 1) {}

  std::vector<Step> make() {
    steps_.clear();
    counters_ = 0;
    block(3);
    steps_.push_back({Code::exit});
    return steps_;
  }

 private:
  std::uint32_t draw(std::uint32_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>((state_ >> 33) % n);
  }
  int reg() { return static_cast<int>(draw(kRegisters)); }
  int pred() { return static_cast<int>(draw(kPredicates)); }

  void simple() {
    Step s{static_cast<Code>(draw(14))};
    s.d = s.code == Code::setp ? pred() : reg();
    s.a = reg();
    s.b = reg();
    s.c = s.code == Code::selp ? pred() : reg();
    s.immediate = draw(3) == 0;
    s.value = draw(2) == 0 ? draw(40) : draw(0xFFFFFFFF);
    if (draw(4) == 0) {
      s.guard = pred();
      s.negated = draw(2) == 0;
    }
    steps_.push_back(s);
  }

  void block(int depth) {
    const std::uint32_t count = 2 + draw(5);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t kind = depth > 0 ? draw(6) : 0;
      if (kind == 4) {
        branch(depth);
      } else if (kind == 5 && counters_ < 3) {
        loop(depth);
      } else {
        simple();
      }
      if (draw(40) == 0) {  // some threads leave early
        Step s{Code::exit};
        s.guard = pred();
        steps_.push_back(s);
      }
    }
  }

  // @p skip the first part; at its end jump over the second.
  void branch(int depth) {
    Step test{Code::branch};
    test.guard = pred();
    test.negated = draw(2) == 0;
    const std::size_t at = steps_.size();
    steps_.push_back(test);
    block(depth - 1);
    const std::size_t over = steps_.size();
    steps_.push_back({Code::branch});
    steps_[at].target = steps_.size();
    block(depth - 1);
    steps_[over].target = steps_.size();
  }

  // A counter of its own runs from (register & 3) down; the predicates 4, 5, 6 are the loops'.
  void loop(int depth) {
    const int counter = kRegisters + counters_;
    const int again = kPredicates + counters_;
    ++counters_;
    Step start{Code::bit_and};
    start.d = counter;
    start.a = reg();
    start.immediate = true;
    start.value = 3;
    steps_.push_back(start);
    const std::size_t top = steps_.size();
    block(depth - 1);
    Step test{Code::setp};
    test.d = again;
    test.a = counter;
    test.immediate = true;
    test.value = 0x100;  // counter != 0, see execute()
    steps_.push_back(test);
    Step down{Code::sub};
    down.d = counter;
    down.a = counter;
    down.immediate = true;
    down.value = 1;
    steps_.push_back(down);
    Step back{Code::branch};
    back.guard = again;
    back.target = top;
    steps_.push_back(back);
  }

  std::uint64_t state_;
  std::vector<Step> steps_;
  int counters_ = 0;
};

// setp: the loops' test is counter != 0, all others a < b; told apart by the predicate written.
bool is_loop_test(const Step& s) { return s.code == Code::setp && s.d >= kPredicates; }

std::string text_of(const std::vector<Step>& steps) {
  std::string out =
      ".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry random(.param .u64 out)\n{\n"
      ".local .align 4 .b8 cell[4];\n.reg .b32 %r<13>, %t, %old;\n.reg .pred %p<7>;\n.reg .b64 "
      "%rd<4>;\n"
      "mov.u32 %t, %tid.x;\nst.local.u32 [cell], %t;\n";
  for (int r = 0; r < kRegisters; ++r) {
    out += "mad.lo.u32 %r" + std::to_string(r) + ", %t, " +
           std::to_string(2654435761U + 97U * static_cast<unsigned>(r)) + ", " +
           std::to_string(r * r) + ";\n";
  }
  for (int r = 0; r < 3; ++r) out += "mov.u32 %r" + std::to_string(kRegisters + r) + ", 0;\n";
  for (int p = 0; p < 7; ++p) {
    out += "and.b32 %old, %t, " + std::to_string(1 << (p % 5)) + ";\nsetp.ne.u32 %p" +
           std::to_string(p) + ", %old, 0;\n";
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    const auto r = [](int n) { return "%r" + std::to_string(n); };
    const std::string b = s.immediate ? std::to_string(s.value) : r(s.b);
    out += "L" + std::to_string(i) + ": ";
    const std::string guard =
        s.guard < 0 ? ""
                    : std::string(s.negated ? "@!" : "@") + "%p" + std::to_string(s.guard) + " ";
    const char* names[] = {"add.u32", "sub.u32", "mul.lo.u32", "mad.lo.u32", "and.b32",
                           "or.b32",  "xor.b32", "shl.b32",    "shr.u32",    "shr.s32"};
    switch (s.code) {
      case Code::mad:
        out += guard + "mad.lo.u32 " + r(s.d) + ", " + r(s.a) + ", " + b + ", " + r(s.c) + ";\n";
        break;
      case Code::selp:
        out += guard + "selp.b32 " + r(s.d) + ", " + r(s.a) + ", " + b + ", %p" +
               std::to_string(s.c) + ";\n";
        break;
      case Code::setp:
        out += guard +
               (is_loop_test(s)
                    ? "setp.ne.u32 %p" + std::to_string(s.d) + ", " + r(s.a) + ", 0;\n"
                    : "setp.lt.s32 %p" + std::to_string(s.d) + ", " + r(s.a) + ", " + b + ";\n");
        break;
      case Code::min:
        out += guard + "min.s32 " + r(s.d) + ", " + r(s.a) + ", " + b + ";\n";
        break;
      case Code::exchange_local:
        out += guard + "ld.local.u32 %old, [cell];\n" + guard + "st.local.u32 [cell], " + r(s.a) +
               ";\n" + guard + "mov.u32 " + r(s.d) + ", %old;\n";
        break;
      case Code::branch:
        out += guard + "bra L" + std::to_string(s.target) + ";\n";
        break;
      case Code::exit:
        out += guard + "bra END;\n";
        break;
      default:
        out += guard + names[static_cast<int>(s.code)] + " " + r(s.d) + ", " + r(s.a) + ", " + b +
               ";\n";
        break;
    }
  }
  out += "END:\nld.param.u64 %rd0, [out];\nmul.wide.u32 %rd1, %t, 40;\nadd.u64 %rd2, %rd0, %rd1;\n";
  for (int r = 0; r < kRegisters; ++r)
    out += "st.global.u32 [%rd2+" + std::to_string(4 * r) + "], %r" + std::to_string(r) + ";\n";
  return out + "ret;\n}\n";
}

// One thread, one step after the other.
void execute(const std::vector<Step>& steps, std::uint32_t thread, std::uint32_t* result) {
  std::uint32_t r[13] = {};
  bool p[7];
  std::uint32_t cell = thread;
  for (int i = 0; i < kRegisters; ++i)
    r[i] = thread * (2654435761U + 97U * static_cast<unsigned>(i)) + static_cast<unsigned>(i * i);
  for (int i = 0; i < 7; ++i) p[i] = (thread & (1U << (i % 5))) != 0;
  std::size_t pc = 0;
  while (true) {
    const Step& s = steps[pc++];
    if (s.guard >= 0 && p[s.guard] == s.negated) continue;
    const std::uint32_t a = r[s.a];
    const std::uint32_t b = s.immediate ? s.value : r[s.b];
    const auto sa = static_cast<std::int32_t>(a);
    const auto sb = static_cast<std::int32_t>(b);
    if (s.code == Code::exit) break;
    switch (s.code) {
      case Code::add:
        r[s.d] = a + b;
        break;
      case Code::sub:
        r[s.d] = a - b;
        break;
      case Code::mul:
        r[s.d] = a * b;
        break;
      case Code::mad:
        r[s.d] = a * b + r[s.c];
        break;
      case Code::bit_and:
        r[s.d] = a & b;
        break;
      case Code::bit_or:
        r[s.d] = a | b;
        break;
      case Code::bit_xor:
        r[s.d] = a ^ b;
        break;
      case Code::shl:
        r[s.d] = b > 31 ? 0 : a << b;
        break;
      case Code::shr:
        r[s.d] = b > 31 ? 0 : a >> b;
        break;
      case Code::sar:
        r[s.d] = static_cast<std::uint32_t>(sa >> (b > 31 ? 31 : b));
        break;
      case Code::selp:
        r[s.d] = p[s.c] ? a : b;
        break;
      case Code::setp:
        p[s.d] = is_loop_test(s) ? a != 0 : sa < sb;
        break;
      case Code::min:
        r[s.d] = sa < sb ? a : b;
        break;
      case Code::exchange_local: {
        const std::uint32_t old = cell;
        cell = a;
        r[s.d] = old;
        break;
      }
      case Code::branch:
        pc = s.target;
        break;
      case Code::exit:
        break;
    }
  }
  for (int i = 0; i < kRegisters; ++i) result[i] = r[i];
}

}  // namespace

TEST_CASE("generated kernels end as a plain interpreter of single threads says") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const std::vector<Step> steps = Generator(seed).make();
    const std::string text = text_of(steps);
    Single run(parse(text, "random.ptx"), "random");
    const std::uint64_t out = run.buffer(kThreads * 40);
    LaunchConfig config = launch(1, kThreads, Parameters().add(out));
    config.instruction_budget = 2'000'000;
    run.run(config, seed % 4);
    const std::uint32_t* got = view<std::uint32_t>(run.memory, out, kThreads * kRegisters);
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      std::uint32_t expect[kRegisters];
      execute(steps, t, expect);
      for (int r = 0; r < kRegisters; ++r) {
        REQUIRE_MESSAGE(got[t * kRegisters + static_cast<unsigned>(r)] == expect[r],
                        "seed " << seed << ", thread " << t << ", register " << r << "\n"
                                << text);
      }
    }
  }
}

}  // namespace ringfence::ptx::test
