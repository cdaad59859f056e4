// Each arithmetic form against the scalar reference, over special and random operands, executed by
// whole warps and by every second lane.

#include <doctest/doctest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "emulator/ptx/alu/alu.hpp"
#include "tests/ptx/forms.hpp"
#include "tests/ptx/reference.hpp"

namespace ringfence::ptx::test {
namespace {

using U = std::uint64_t;
using Reference = std::function<U(U, U, U)>;

std::vector<Triple> operands() {
  const std::vector<U> special = {0,
                                  1,
                                  2,
                                  3,
                                  31,
                                  32,
                                  33,
                                  63,
                                  64,
                                  65,
                                  255,
                                  0x7F,
                                  0x80,
                                  0x7FFF,
                                  0x8000,
                                  0x8001,
                                  0xFFFF,
                                  0x7FFFFFFF,
                                  0x80000000,
                                  0xFFFFFFFF,
                                  0x7FFFFFFFFFFFFFFF,
                                  0x8000000000000000,
                                  0xFFFFFFFFFFFFFFFF,
                                  0x3F800000,
                                  0xBF800000,
                                  0x7F800000,
                                  0xFF800000,
                                  0x7FC00000,
                                  0x7F800001,
                                  0x00000001,
                                  0x007FFFFF,
                                  0x00800000,
                                  0x7F7FFFFF,
                                  0x3F803F80,
                                  0x80003F80,
                                  0x3C003C00,
                                  0x7C007BFF,
                                  0x477FF000,
                                  0x477FEFFF,
                                  0x33000000,
                                  0x33000001,
                                  0x38800000,
                                  0x387FFFFF,
                                  0x43E80000,
                                  0x43E00000,
                                  0x3FF0000000000000,
                                  0xC008000000000000,
                                  0x7FF0000000000000,
                                  0x000FFFFFFFFFFFFF};
  std::vector<Triple> out;
  for (std::size_t i = 0; i < special.size(); ++i) {
    for (std::size_t j = 0; j < special.size(); ++j) {
      out.push_back({special[i], special[j], special[(i * 7 + j * 3) % special.size()]});
    }
  }
  U state = 88172645463325252ULL;
  const auto draw = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  };
  for (int i = 0; i < 1500; ++i) {
    Triple t{draw(), draw(), draw()};
    if (i % 3 == 1) {  // near each other, so that floats meet
      t.b = t.a ^ (draw() & 0x80FF00FF80FF00FFULL);
      t.c = t.a ^ (draw() & 0x80FF00FF80FF00FFULL);
    }
    if (i % 3 == 2) {
      t.b &= 0x3F;
      t.c &= 0x3F;
    }
    out.push_back(t);
  }
  return out;
}

std::string hex(U value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void check(const std::string& statement, int result, std::vector<int> widths,
           const Reference& reference) {
  static const std::vector<Triple> values = operands();
  for (const bool guarded : {false, true}) {
    if (guarded && statement[0] == '{') continue;  // a block takes no guard
    const std::vector<U> got = run_statement(statement, result, widths, values, guarded);
    for (std::size_t i = 0; i < values.size(); ++i) {
      U expect = low(reference(values[i].a, values[i].b, values[i].c), result);
      if (guarded && i % 2 == 0) expect = result == 1 ? 0 : low(kUntouched, result);
      if (got[i] == expect) continue;
      // The payload of an f64 NaN is the CPU's affair.
      if (statement.find(".f64 %d") != std::string::npos && result == 64 &&
          std::isnan(f64(got[i])) && std::isnan(f64(expect))) {
        continue;
      }
      const std::string text = statement + (guarded ? " (guarded)" : "") + " of " +
                               hex(values[i].a) + ", " + hex(values[i].b) + ", " +
                               hex(values[i].c) + ": " + hex(got[i]) + ", expected " + hex(expect);
      FAIL_CHECK(text);
      return;
    }
  }
  CHECK(true);
}

__extension__ typedef __int128 I128;
__extension__ typedef unsigned __int128 U128;

}  // namespace

TEST_CASE("handlers: integer arithmetic equals its definition") {
  const std::string isa = std::string("instruction set: ") + handler_isa();
  MESSAGE(isa);
  for (const int n : {16, 32, 64}) {
    const std::string u = ".u" + std::to_string(n);
    const std::string s = ".s" + std::to_string(n);
    const std::string b = ".b" + std::to_string(n);
    check("add" + s + " %d, %a, %b;", n, {n, n}, [](U x, U y, U) { return x + y; });
    check("sub" + u + " %d, %a, %b;", n, {n, n}, [](U x, U y, U) { return x - y; });
    check("mul.lo" + s + " %d, %a, %b;", n, {n, n}, [](U x, U y, U) { return x * y; });
    check("mul.hi" + s + " %d, %a, %b;", n, {n, n}, [n](U x, U y, U) {
      return static_cast<U>((static_cast<I128>(sign(x, n)) * sign(y, n)) >> n);
    });
    check("mul.hi" + u + " %d, %a, %b;", n, {n, n}, [n](U x, U y, U) {
      return static_cast<U>((static_cast<U128>(low(x, n)) * low(y, n)) >> n);
    });
    check("mad.lo" + s + " %d, %a, %b, %c;", n, {n, n, n}, [](U x, U y, U z) { return x * y + z; });
    check("mad.hi" + u + " %d, %a, %b, %c;", n, {n, n, n}, [n](U x, U y, U z) {
      return static_cast<U>((static_cast<U128>(low(x, n)) * low(y, n)) >> n) + z;
    });
    check("min" + s + " %d, %a, %b;", n, {n, n},
          [n](U x, U y, U) { return sign(x, n) < sign(y, n) ? x : y; });
    check("max" + s + " %d, %a, %b;", n, {n, n},
          [n](U x, U y, U) { return sign(x, n) < sign(y, n) ? y : x; });
    check("min" + u + " %d, %a, %b;", n, {n, n},
          [n](U x, U y, U) { return low(x, n) < low(y, n) ? x : y; });
    check("max" + u + " %d, %a, %b;", n, {n, n},
          [n](U x, U y, U) { return low(x, n) < low(y, n) ? y : x; });
    check("neg" + s + " %d, %a;", n, {n}, [](U x, U, U) { return 0 - x; });
    check("abs" + s + " %d, %a;", n, {n}, [n](U x, U, U) { return sign(x, n) < 0 ? 0 - x : x; });
    check("div" + u + " %d, %a, %b;", n, {n, n},
          [n](U x, U y, U) { return low(y, n) == 0 ? ~0ULL : low(x, n) / low(y, n); });
    check("rem" + u + " %d, %a, %b;", n, {n, n},
          [n](U x, U y, U) { return low(y, n) == 0 ? x : low(x, n) % low(y, n); });
    check("div" + s + " %d, %a, %b;", n, {n, n}, [n](U x, U y, U) {
      return sign(y, n) == 0 ? ~0ULL : static_cast<U>(static_cast<I128>(sign(x, n)) / sign(y, n));
    });
    check("rem" + s + " %d, %a, %b;", n, {n, n}, [n](U x, U y, U) {
      return sign(y, n) == 0 ? x : static_cast<U>(static_cast<I128>(sign(x, n)) % sign(y, n));
    });
    check("sad" + s + " %d, %a, %b, %c;", n, {n, n, n},
          [n](U x, U y, U z) { return z + (sign(x, n) < sign(y, n) ? y - x : x - y); });
    check("and" + b + " %d, %a, %b;", n, {n, n}, [](U x, U y, U) { return x & y; });
    check("or" + b + " %d, %a, %b;", n, {n, n}, [](U x, U y, U) { return x | y; });
    check("xor" + b + " %d, %a, %b;", n, {n, n}, [](U x, U y, U) { return x ^ y; });
    check("not" + b + " %d, %a;", n, {n}, [](U x, U, U) { return ~x; });
    check("cnot" + b + " %d, %a;", n, {n}, [n](U x, U, U) { return low(x, n) == 0 ? 1ULL : 0ULL; });
    check("shl" + b + " %d, %a, %b;", n, {n, 32},
          [n](U x, U y, U) { return low(y, 32) >= static_cast<U>(n) ? 0 : x << low(y, 32); });
    check("shr" + u + " %d, %a, %b;", n, {n, 32}, [n](U x, U y, U) {
      return low(y, 32) >= static_cast<U>(n) ? 0 : low(x, n) >> low(y, 32);
    });
    check("shr" + s + " %d, %a, %b;", n, {n, 32}, [n](U x, U y, U) {
      const U by = low(y, 32) >= static_cast<U>(n) ? static_cast<U>(n) - 1 : low(y, 32);
      return static_cast<U>(sign(x, n) >> by);
    });
    check("selp" + b + " %d, %a, %b, %c;", n, {n, n, 1},
          [](U x, U y, U z) { return (z & 1) != 0 ? x : y; });
    check("mov" + b + " %d, %a;", n, {n}, [](U x, U, U) { return x; });
  }
  for (const int n : {16, 32}) {
    const std::string u = ".u" + std::to_string(n);
    const std::string s = ".s" + std::to_string(n);
    check("mul.wide" + u + " %d, %a, %b;", 2 * n, {n, n},
          [n](U x, U y, U) { return low(x, n) * low(y, n); });
    check("mul.wide" + s + " %d, %a, %b;", 2 * n, {n, n},
          [n](U x, U y, U) { return static_cast<U>(sign(x, n) * sign(y, n)); });
    check("mad.wide" + s + " %d, %a, %b, %c;", 2 * n, {n, n, 2 * n},
          [n](U x, U y, U z) { return static_cast<U>(sign(x, n) * sign(y, n)) + z; });
  }
  check("mul24.lo.u32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return low(x, 24) * low(y, 24); });
  check("mad24.lo.s32 %d, %a, %b, %c;", 32, {32, 32, 32},
        [](U x, U y, U z) { return static_cast<U>(sign(x, 24) * sign(y, 24)) + z; });
}

TEST_CASE("handlers: bit operations equal their definition") {
  for (const int n : {32, 64}) {
    const std::string b = ".b" + std::to_string(n);
    const std::string u = ".u" + std::to_string(n);
    const std::string s = ".s" + std::to_string(n);
    const auto leading = [n](U x, bool is_signed) -> U {
      if (is_signed && sign(x, n) < 0) x = ~x;
      for (int i = n - 1; i >= 0; --i)
        if ((x >> i & 1) != 0) return static_cast<U>(i);
      return ~0ULL;
    };
    check("popc" + b + " %d, %a;", 32, {n}, [n](U x, U, U) {
      U c = 0;
      for (int i = 0; i < n; ++i) c += x >> i & 1;
      return c;
    });
    check("clz" + b + " %d, %a;", 32, {n}, [n, leading](U x, U, U) {
      const U at = leading(x, false);
      return at == ~0ULL ? static_cast<U>(n) : static_cast<U>(n) - 1 - at;
    });
    check("brev" + b + " %d, %a;", n, {n}, [n](U x, U, U) {
      U r = 0;
      for (int i = 0; i < n; ++i) r |= (x >> i & 1) << (n - 1 - i);
      return r;
    });
    check("bfind" + u + " %d, %a;", 32, {n}, [leading](U x, U, U) { return leading(x, false); });
    check("bfind.shiftamt" + s + " %d, %a;", 32, {n}, [n, leading](U x, U, U) {
      const U at = leading(x, true);
      return at == ~0ULL ? at : static_cast<U>(n) - 1 - at;
    });
    check("bfe" + u + " %d, %a, %b, %c;", n, {n, 32, 32},
          [n](U x, U y, U z) { return extract(x, y, z, n, false); });
    check("bfe" + s + " %d, %a, %b, %c;", n, {n, 32, 32},
          [n](U x, U y, U z) { return extract(x, y, z, n, true); });
    check("bfi" + b + " %d, %a, %b, %c, 9;", n, {n, n, 32},
          [n](U x, U y, U z) { return insert(x, y, z, 9, n); });
    check("bfi" + b + " %d, %a, %b, 5, %c;", n, {n, n, 32},
          [n](U x, U y, U z) { return insert(x, y, 5, z, n); });
  }
  check("lop3.b32 %d, %a, %b, %c, 0x1D;", 32, {32, 32, 32}, [](U x, U y, U z) {
    U r = 0;
    for (int i = 0; i < 32; ++i)
      r |= (0x1DULL >> ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)) & 1) << i;
    return r;
  });
  check("shf.l.wrap.b32 %d, %a, %b, %c;", 32, {32, 32, 32},
        [](U x, U y, U z) { return (low(y, 32) << 32 | low(x, 32)) << (z & 31) >> 32; });
  check("shf.r.wrap.b32 %d, %a, %b, %c;", 32, {32, 32, 32},
        [](U x, U y, U z) { return (low(y, 32) << 32 | low(x, 32)) >> (z & 31); });
  check("shf.l.clamp.b32 %d, %a, %b, %c;", 32, {32, 32, 32}, [](U x, U y, U z) {
    const U k = std::min<U>(low(z, 32), 32);
    return (low(y, 32) << 32 | low(x, 32)) << k >> 32;
  });
  check("shf.r.clamp.b32 %d, %a, %b, %c;", 32, {32, 32, 32}, [](U x, U y, U z) {
    const U k = std::min<U>(low(z, 32), 32);
    return (low(y, 32) << 32 | low(x, 32)) >> k;
  });
  const auto permute = [](U x, U y, std::vector<U> select) {
    const U both = low(y, 32) << 32 | low(x, 32);
    U r = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      U byte = both >> (8 * (select[i] & 7)) & 255;
      if ((select[i] & 8) != 0) byte = byte >= 128 ? 255 : 0;
      r |= byte << (8 * i);
    }
    return r;
  };
  check("prmt.b32 %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    return permute(x, y, {z & 15, z >> 4 & 15, z >> 8 & 15, z >> 12 & 15});
  });
  check("prmt.b32.f4e %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    const U k = z & 3;
    return permute(x, y, {k, k + 1, k + 2, k + 3});
  });
  check("prmt.b32.b4e %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    const std::vector<std::vector<U>> rows = {
        {0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}};
    return permute(x, y, rows[z & 3]);
  });
  check("prmt.b32.rc8 %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    const U k = z & 3;
    return permute(x, y, {k, k, k, k});
  });
  check("prmt.b32.ecl %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    const std::vector<std::vector<U>> rows = {
        {0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}};
    return permute(x, y, rows[z & 3]);
  });
  check("prmt.b32.ecr %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    const std::vector<std::vector<U>> rows = {
        {0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}};
    return permute(x, y, rows[z & 3]);
  });
  check("prmt.b32.rc16 %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
    const U k = z & 1;
    return permute(x, y, {2 * k, 2 * k + 1, 2 * k, 2 * k + 1});
  });
  for (const bool sa : {false, true}) {
    for (const bool sb : {false, true}) {
      const std::string types = std::string(sa ? ".s32" : ".u32") + (sb ? ".s32" : ".u32");
      const auto part = [](U x, int at, int n, bool is_signed) {
        return is_signed ? sign(x >> at, n) : static_cast<std::int64_t>(low(x >> at, n));
      };
      check("dp4a" + types + " %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
        for (int i = 0; i < 32; i += 8) z += static_cast<U>(part(x, i, 8, sa) * part(y, i, 8, sb));
        return z;
      });
      check("dp2a.hi" + types + " %d, %a, %b, %c;", 32, {32, 32, 32}, [=](U x, U y, U z) {
        for (int i = 0; i < 2; ++i)
          z += static_cast<U>(part(x, 16 * i, 16, sa) * part(y, 16 + 8 * i, 8, sb));
        return z;
      });
    }
  }
  check("fns.b32 %d, %a, 4, %c;", 32, {32, 32, 32}, [](U x, U, U z) -> U {
    const std::int64_t offset = sign(z, 32);
    if (offset == 0) return (x >> 4 & 1) != 0 ? 4ULL : ~0ULL;
    std::int64_t count = std::abs(offset);
    for (std::int64_t at = 4; at >= 0 && at<32; at += offset> 0 ? 1 : -1) {
      if ((x >> at & 1) != 0 && --count == 0) return static_cast<U>(at);
    }
    return ~0ULL;
  });
  check("{ .reg .b32 t; .reg .b16 l, h; mov.b32 {l, h}, %a; mov.b32 %d, {h, l}; }", 32, {32},
        [](U x, U, U) { return low(x, 16) << 16 | low(x >> 16, 16); });
}

TEST_CASE("handlers: comparisons equal their definition") {
  struct Row {
    const char* name;
    std::function<bool(std::int64_t, std::int64_t)> test;
  };
  const std::vector<Row> rows = {
      {"eq", [](auto x, auto y) { return x == y; }}, {"ne", [](auto x, auto y) { return x != y; }},
      {"lt", [](auto x, auto y) { return x < y; }},  {"le", [](auto x, auto y) { return x <= y; }},
      {"gt", [](auto x, auto y) { return x > y; }},  {"ge", [](auto x, auto y) { return x >= y; }}};
  for (const Row& row : rows) {
    for (const int n : {16, 32, 64}) {
      check(std::string("setp.") + row.name + ".s" + std::to_string(n) + " %d, %a, %b;", 1, {n, n},
            [&](U x, U y, U) { return row.test(sign(x, n), sign(y, n)) ? 1ULL : 0ULL; });
      // Unsigned order is signed order with the top bit flipped.
      check(std::string("setp.") + row.name + ".u" + std::to_string(n) + " %d, %a, %b;", 1, {n, n},
            [&](U x, U y, U) {
              const U top = 1ULL << (n - 1);
              return row.test(sign(x ^ top, n), sign(y ^ top, n)) ? 1ULL : 0ULL;
            });
    }
    check(std::string("setp.") + row.name + ".and.s32 %d, %a, %b, !%c;", 1, {32, 32, 1},
          [&](U x, U y, U z) {
            return row.test(sign(x, 32), sign(y, 32)) && (z & 1) == 0 ? 1ULL : 0ULL;
          });
  }
  struct FloatRow {
    const char* name;
    bool lt, eq, gt, nan;
  };
  const std::vector<FloatRow> floats = {
      {"eq", false, true, false, false}, {"ne", true, false, true, false},
      {"lt", true, false, false, false}, {"le", true, true, false, false},
      {"gt", false, false, true, false}, {"ge", false, true, true, false},
      {"equ", false, true, false, true}, {"neu", true, false, true, true},
      {"ltu", true, false, false, true}, {"leu", true, true, false, true},
      {"gtu", false, false, true, true}, {"geu", false, true, true, true},
      {"num", true, true, true, false},  {"nan", false, false, false, true}};
  for (const FloatRow& row : floats) {
    const auto decide = [&](double x, double y) -> U {
      if (std::isnan(x) || std::isnan(y)) return row.nan;
      return x < y ? row.lt : (x > y ? row.gt : row.eq);
    };
    check(std::string("setp.") + row.name + ".f32 %d, %a, %b;", 1, {32, 32},
          [&](U x, U y, U) { return decide(f32(x), f32(y)); });
    check(std::string("setp.") + row.name + ".f64 %d, %a, %b;", 1, {64, 64},
          [&](U x, U y, U) { return decide(f64(x), f64(y)); });
    check(std::string("setp.") + row.name + ".bf16 %d, %a, %b;", 1, {16, 16}, [&](U x, U y, U) {
      return decide(kBf16.decode(static_cast<std::uint32_t>(low(x, 16))),
                    kBf16.decode(static_cast<std::uint32_t>(low(y, 16))));
    });
  }
  for (const char* name : {"and", "or", "xor"}) {
    const std::string op = name;
    check(op + ".pred %d, %a, %b;", 1, {1, 1}, [op](U x, U y, U) {
      return (op == "and" ? x & y : op == "or" ? x | y : x ^ y) & 1;
    });
  }
  check("not.pred %d, %a;", 1, {1}, [](U x, U, U) { return ~x & 1; });
  check("set.lt.u32.s32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return sign(x, 32) < sign(y, 32) ? ~0ULL : 0ULL; });
  check("set.lt.f32.s32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return sign(x, 32) < sign(y, 32) ? 0x3F800000ULL : 0ULL; });
  check("slct.b32.s32 %d, %a, %b, %c;", 32, {32, 32, 32},
        [](U x, U y, U z) { return sign(z, 32) >= 0 ? x : y; });
  check("testp.subnormal.f32 %d, %a;", 1, {32},
        [](U x, U, U) { return std::fpclassify(f32(x)) == FP_SUBNORMAL ? 1ULL : 0ULL; });
  check("testp.finite.f32 %d, %a;", 1, {32},
        [](U x, U, U) { return std::isfinite(f32(x)) ? 1ULL : 0ULL; });
}

TEST_CASE("handlers: f32 and f64 arithmetic rounds once") {
  // Through double: 53 bits are at least 2 * 24 + 2, so the second rounding is harmless.
  check("add.f32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return bits(static_cast<float>(static_cast<double>(f32(x)) + f32(y))); });
  check("sub.rn.f32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return bits(static_cast<float>(static_cast<double>(f32(x)) - f32(y))); });
  check("mul.f32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return bits(static_cast<float>(static_cast<double>(f32(x)) * f32(y))); });
  check("div.rn.f32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return bits(static_cast<float>(static_cast<double>(f32(x)) / f32(y))); });
  check("rcp.rn.f32 %d, %a;", 32, {32},
        [](U x, U, U) { return bits(static_cast<float>(1.0 / f32(x))); });
  check("sqrt.rn.f32 %d, %a;", 32, {32},
        [](U x, U, U) { return bits(static_cast<float>(std::sqrt(static_cast<double>(f32(x))))); });
  check("fma.rn.f32 %d, %a, %b, %c;", 32, {32, 32, 32},
        [](U x, U y, U z) { return bits(std::fma(f32(x), f32(y), f32(z))); });
  check("min.f32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return bits(static_cast<float>(min_of(f32(x), f32(y)))); });
  check("max.f32 %d, %a, %b;", 32, {32, 32},
        [](U x, U y, U) { return bits(static_cast<float>(max_of(f32(x), f32(y)))); });
  check("max.NaN.f32 %d, %a, %b;", 32, {32, 32}, [](U x, U y, U) {
    return std::isnan(f32(x)) || std::isnan(f32(y))
               ? 0x7FFFFFFFULL
               : bits(static_cast<float>(max_of(f32(x), f32(y))));
  });
  check("neg.f32 %d, %a;", 32, {32}, [](U x, U, U) { return x ^ 0x80000000ULL; });
  check("abs.f32 %d, %a;", 32, {32}, [](U x, U, U) { return x & 0x7FFFFFFFULL; });
  const auto flush = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
  };
  check("add.ftz.f32 %d, %a, %b;", 32, {32, 32}, [=](U x, U y, U) {
    return bits(flush(static_cast<float>(static_cast<double>(flush(f32(x))) + flush(f32(y)))));
  });
  check("mul.rn.ftz.f32 %d, %a, %b;", 32, {32, 32}, [=](U x, U y, U) {
    return bits(flush(static_cast<float>(static_cast<double>(flush(f32(x))) * flush(f32(y)))));
  });
  check("add.sat.f32 %d, %a, %b;", 32, {32, 32}, [](U x, U y, U) {
    const float s = static_cast<float>(static_cast<double>(f32(x)) + f32(y));
    return bits(s > 0 ? (s < 1 ? s : 1.0F) : 0.0F);
  });
  const auto toward_zero = [](double exact) {
    const float near = static_cast<float>(exact);
    if (std::isinf(near) && std::isfinite(exact))
      return std::copysign(std::numeric_limits<float>::max(), near);
    return std::fabs(static_cast<double>(near)) > std::fabs(exact) ? std::nextafter(near, 0.0F)
                                                                   : near;
  };
  check("mul.rz.f32 %d, %a, %b;", 32, {32, 32},
        [=](U x, U y, U) { return bits(toward_zero(static_cast<double>(f32(x)) * f32(y))); });
  check("add.f64 %d, %a, %b;", 64, {64, 64}, [](U x, U y, U) { return bits(f64(x) + f64(y)); });
  check("mul.f64 %d, %a, %b;", 64, {64, 64}, [](U x, U y, U) { return bits(f64(x) * f64(y)); });
  check("div.rn.f64 %d, %a, %b;", 64, {64, 64}, [](U x, U y, U) { return bits(f64(x) / f64(y)); });
  check("fma.rn.f64 %d, %a, %b, %c;", 64, {64, 64, 64},
        [](U x, U y, U z) { return bits(std::fma(f64(x), f64(y), f64(z))); });
  check("sqrt.rn.f64 %d, %a;", 64, {64}, [](U x, U, U) { return bits(std::sqrt(f64(x))); });
  check("neg.f64 %d, %a;", 64, {64}, [](U x, U, U) { return x ^ (1ULL << 63); });
}

TEST_CASE("handlers: 16-bit floating point rounds once") {
  const auto code = [](U x, int half) {
    return static_cast<std::uint32_t>(low(x >> (16 * half), 16));
  };
  for (const bool bf16 : {true, false}) {
    const Format f = bf16 ? kBf16 : kF16;
    const std::string one = bf16 ? ".bf16" : ".f16";
    const std::string two = one + "x2";
    const auto pair = [=](const std::function<std::uint32_t(int, U, U, U)>& part) {
      return [=](U x, U y, U z) {
        return static_cast<U>(part(0, x, y, z)) | static_cast<U>(part(1, x, y, z)) << 16;
      };
    };
    const auto binary = [=](auto op) {
      return [=](int h, U x, U y, U) {
        return f.encode(op(f.decode(code(x, h)), f.decode(code(y, h))));
      };
    };
    const auto add = binary([](double x, double y) { return x + y; });
    const auto sub = binary([](double x, double y) { return x - y; });
    const auto mul = binary([](double x, double y) { return x * y; });
    const auto least = binary([](double x, double y) { return min_of(x, y); });
    const auto most = binary([](double x, double y) { return max_of(x, y); });
    // add in double is exact enough: operands of 8 or 11 bits; a far smaller one only breaks a tie
    // that the larger one, being representable, cannot be in.
    check("add" + two + " %d, %a, %b;", 32, {32, 32}, pair(add));
    check("sub.rn" + two + " %d, %a, %b;", 32, {32, 32}, pair(sub));
    check("mul" + two + " %d, %a, %b;", 32, {32, 32}, pair(mul));
    check("min" + two + " %d, %a, %b;", 32, {32, 32}, pair(least));
    check("max" + two + " %d, %a, %b;", 32, {32, 32}, pair(most));
    check("add" + one + " %d, %a, %b;", 16, {16, 16},
          [=](U x, U y, U z) { return add(0, x, y, z); });
    check("mul" + one + " %d, %a, %b;", 16, {16, 16},
          [=](U x, U y, U z) { return mul(0, x, y, z); });
    check("max" + one + " %d, %a, %b;", 16, {16, 16},
          [=](U x, U y, U z) { return most(0, x, y, z); });
    check("neg" + two + " %d, %a;", 32, {32}, [](U x, U, U) { return x ^ 0x80008000ULL; });
    if (!bf16) {  // bf16 exponents reach beyond what long double adds exactly: see the next test
      check("fma.rn" + two + " %d, %a, %b, %c;", 32, {32, 32, 32}, pair([=](int h, U x, U y, U z) {
              return half_fma(f, code(x, h), code(y, h), code(z, h));
            }));
    }
  }
}

TEST_CASE("handlers: fma.rn.bf16 rounds once where rounding through f32 would not") {
  // Exponents within 40 binades of 1, so that the reference is exact.
  static std::vector<Triple> values;
  U state = 12345;
  for (int i = 0; i < 6000; ++i) {
    const auto draw = [&]() -> U {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 63) << 15 | (127 - 18 + (state >> 40) % 37) << 7 | (state >> 33 & 127);
    };
    values.push_back({draw(), draw(), draw()});
  }
  const std::vector<U> got =
      run_statement("fma.rn.bf16 %d, %a, %b, %c;", 16, {16, 16, 16}, values, false);
  unsigned twice_differs = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto a = static_cast<std::uint32_t>(values[i].a),
               b = static_cast<std::uint32_t>(values[i].b),
               c = static_cast<std::uint32_t>(values[i].c);
    REQUIRE(got[i] == half_fma(kBf16, a, b, c));
    const float naive = static_cast<float>(kBf16.decode(a) * kBf16.decode(b) + kBf16.decode(c));
    twice_differs += kBf16.encode(naive) != got[i];
  }
  CHECK(twice_differs > 0);
}

TEST_CASE("handlers: conversions equal their definition") {
  for (const int from : {8, 16, 32, 64}) {
    for (const int to : {8, 16, 32, 64}) {
      const int in = from == 8 ? 16 : from;
      const int out = to == 8 ? 16 : to;
      const std::string t = std::to_string(to), s = std::to_string(from);
      check("cvt.u" + t + ".u" + s + " %d, %a;", out, {in},
            [=](U x, U, U) { return low(low(x, from), to); });
      check("cvt.s" + t + ".s" + s + " %d, %a;", out, {in}, [=](U x, U, U) {
        return low(static_cast<U>(sign(static_cast<U>(sign(x, from)), to)), out);
      });
      check("cvt.u" + t + ".s" + s + " %d, %a;", out, {in},
            [=](U x, U, U) { return low(static_cast<U>(sign(x, from)), to); });
      check("cvt.sat.s" + t + ".s" + s + " %d, %a;", out, {in}, [=](U x, U, U) {
        const std::int64_t v = sign(x, from), most = to == 64 ? INT64_MAX : (1LL << (to - 1)) - 1;
        return low(static_cast<U>(v > most ? most : v < -most - 1 ? -most - 1 : v), out);
      });
    }
  }
  check("cvt.rn.f32.s32 %d, %a;", 32, {32},
        [](U x, U, U) { return bits(static_cast<float>(static_cast<double>(sign(x, 32)))); });
  check("cvt.rn.f32.u32 %d, %a;", 32, {32},
        [](U x, U, U) { return bits(static_cast<float>(static_cast<double>(low(x, 32)))); });
  check("cvt.rn.f32.u64 %d, %a;", 32, {64},
        [](U x, U, U) { return bits(static_cast<float>(static_cast<long double>(x))); });
  check("cvt.rn.f64.s64 %d, %a;", 64, {64},
        [](U x, U, U) { return bits(static_cast<double>(static_cast<long double>(sign(x, 64)))); });
  check("cvt.rn.bf16.s32 %d, %a;", 16, {32},
        [](U x, U, U) { return kBf16.encode(static_cast<double>(sign(x, 32))); });
  check("cvt.rn.f16.s32 %d, %a;", 16, {32},
        [](U x, U, U) { return kF16.encode(static_cast<double>(sign(x, 32))); });
  check("cvt.f32.bf16 %d, %a;", 32, {16}, [](U x, U, U) { return low(x, 16) << 16; });
  check("cvt.f32.f16 %d, %a;", 32, {16}, [](U x, U, U) {
    return bits(static_cast<float>(kF16.decode(static_cast<std::uint32_t>(low(x, 16)))));
  });
  check("cvt.rn.bf16.f32 %d, %a;", 16, {32}, [](U x, U, U) { return kBf16.encode(f32(x)); });
  check("cvt.rn.f16.f32 %d, %a;", 16, {32}, [](U x, U, U) { return kF16.encode(f32(x)); });
  check("cvt.rn.bf16x2.f32 %d, %a, %b;", 32, {32, 32}, [](U x, U y, U) {
    return static_cast<U>(kBf16.encode(f32(x))) << 16 | kBf16.encode(f32(y));
  });
  check("cvt.rn.f16x2.f32 %d, %a, %b;", 32, {32, 32}, [](U x, U y, U) {
    return static_cast<U>(kF16.encode(f32(x))) << 16 | kF16.encode(f32(y));
  });
  check("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", 16, {32, 32}, [](U x, U y, U) {
    return static_cast<U>(kE4m3.encode(f32(x), true)) << 8 | kE4m3.encode(f32(y), true);
  });
  check("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", 16, {32, 32}, [](U x, U y, U) {
    return static_cast<U>(kE5m2.encode(f32(x), true)) << 8 | kE5m2.encode(f32(y), true);
  });
  check("cvt.rn.f16x2.e4m3x2 %d, %a;", 32, {16}, [](U x, U, U) {
    return static_cast<U>(kF16.encode(kE4m3.decode(x >> 8 & 255))) << 16 |
           kF16.encode(kE4m3.decode(x & 255));
  });
  check("cvt.f64.f32 %d, %a;", 64, {32},
        [](U x, U, U) { return bits(static_cast<double>(f32(x))); });
  check("cvt.rn.f32.f64 %d, %a;", 32, {64},
        [](U x, U, U) { return bits(static_cast<float>(f64(x))); });
  // Of NaN, by the PTX ISA 9.0: zero, unless one of the types is of 64 bits.
  const auto clamp = [](double v, int n, bool wide = false) -> U {
    if (std::isnan(v)) return wide ? 1ULL << (n - 1) : 0;
    const double most = std::ldexp(1.0, n - 1);
    if (v >= most) return (1ULL << (n - 1)) - 1;
    if (v < -most) return 1ULL << (n - 1);
    return static_cast<U>(static_cast<std::int64_t>(v));
  };
  check("cvt.rzi.s32.f32 %d, %a;", 32, {32},
        [=](U x, U, U) { return clamp(std::trunc(static_cast<double>(f32(x))), 32); });
  check("cvt.rni.s32.f32 %d, %a;", 32, {32},
        [=](U x, U, U) { return clamp(std::nearbyint(static_cast<double>(f32(x))), 32); });
  check("cvt.rmi.s64.f64 %d, %a;", 64, {64},
        [=](U x, U, U) { return clamp(std::floor(f64(x)), 64, true); });
  check("cvt.rzi.s64.f32 %d, %a;", 64, {32},
        [=](U x, U, U) { return clamp(std::trunc(static_cast<double>(f32(x))), 64, true); });
  check("cvt.rzi.s32.f64 %d, %a;", 32, {64},
        [=](U x, U, U) { return clamp(std::trunc(f64(x)), 32, true); });
  check("cvt.rzi.u32.f64 %d, %a;", 32, {64}, [](U x, U, U) {
    const double v = std::trunc(f64(x));
    return std::isnan(v) ? 0x80000000ULL
           : v <= 0      ? 0ULL
           : v >= 0x1p32 ? 0xFFFFFFFFULL
                         : static_cast<U>(v);
  });
  // To a float, .sat limits to [0, 1], from integers too.
  check("cvt.rn.sat.f32.s32 %d, %a;", 32, {32},
        [](U x, U, U) { return bits(static_cast<std::int32_t>(x) > 0 ? 1.0F : 0.0F); });
  check("cvt.rz.sat.f32.u32 %d, %a;", 32, {32},
        [](U x, U, U) { return bits(low(x, 32) != 0 ? 1.0F : 0.0F); });
  check("cvt.rpi.f32.f32 %d, %a;", 32, {32}, [](U x, U, U) { return bits(std::ceil(f32(x))); });
  check("cvt.rzi.u32.f32 %d, %a;", 32, {32}, [](U x, U, U) {
    const double v = std::trunc(static_cast<double>(f32(x)));
    return std::isnan(v) || v <= 0 ? 0ULL : v >= 0x1p32 ? 0xFFFFFFFFULL : static_cast<U>(v);
  });
}

}  // namespace ringfence::ptx::test
