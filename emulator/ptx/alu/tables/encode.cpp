// encode FUNCTION DIFFERENCES OUT: makes a table of alu/table.hpp from what a GPU computed.
// DIFFERENCES has one signed byte for each argument in the order of its bits: the hardware's result
// minus the correctly rounded one, in units in the last place; from 1.0 on, 2^24 arguments for
// rsqrt and sqrt, 2^23 for rcp and ex2.

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "emulator/ptx/alu/table.hpp"

namespace {

using namespace ringfence::ptx;

struct Function {
  std::uint32_t arguments;
  std::uint32_t segment;
  double scale;
  double (*exact)(double);
};

Function function_of(const std::string& name) {
  if (name == "rsqrt")
    return {1U << 24, 1U << 17, 0x1p24, [](double x) { return 1 / std::sqrt(x); }};
  if (name == "sqrt") return {1U << 24, 1U << 17, 0x1p23, [](double x) { return std::sqrt(x); }};
  if (name == "rcp") return {1U << 23, 1U << 16, 0x1p24, [](double x) { return 1 / x; }};
  return {1U << 23, 1U << 17, 0x1p22, [](double x) { return std::exp2(x); }};
}

class Encoder {
 public:
  void bit(std::uint16_t& probability, unsigned value) {
    const std::uint32_t bound = (range_ >> 16) * probability;
    if (value == 0) {
      range_ = bound;
    } else {
      low_ += bound;
      range_ -= bound;
    }
    table_coding::Model::adapt(probability, value);
    while (range_ < (1U << 24)) {
      shift();
      range_ <<= 8;
    }
  }
  std::vector<std::uint8_t> finish() {
    for (int i = 0; i < 5; ++i) shift();
    out_.erase(out_.begin());  // the first byte only exists to take a carry
    return out_;
  }

 private:
  void shift() {
    if (low_ < 0xFF000000ULL || low_ > 0xFFFFFFFFULL) {
      const auto carry = static_cast<std::uint8_t>(low_ >> 32);
      for (; pending_ > 0; --pending_) {
        out_.push_back(static_cast<std::uint8_t>(cache_ + carry));
        cache_ = 0xFF;
      }
      cache_ = static_cast<std::uint8_t>(low_ >> 24);
    }
    ++pending_;
    low_ = (low_ & 0x00FFFFFFULL) << 8;
  }
  std::vector<std::uint8_t> out_;
  std::uint64_t low_ = 0;
  std::uint32_t range_ = 0xFFFFFFFF;
  std::uint8_t cache_ = 0;
  std::uint64_t pending_ = 1;
};

// Least squares for g over t in (-1, 1).
void fit(const std::vector<double>& g, double* c) {
  long double s[5] = {}, r[3] = {}, m[3][4];
  const auto n = static_cast<long double>(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    const long double t = (2.0L * static_cast<long double>(i) + 1 - n) / n;
    long double power = 1;
    for (int k = 0; k < 5; ++k, power *= t) {
      s[k] += power;
      if (k < 3) r[k] += power * g[i];
    }
  }
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) m[i][j] = s[i + j];
    m[i][3] = r[i];
  }
  for (int k = 0; k < 3; ++k) {
    for (int i = k + 1; i < 3; ++i) {
      const long double f = m[i][k] / m[k][k];
      for (int j = k; j < 4; ++j) m[i][j] -= f * m[k][j];
    }
  }
  long double x[3];
  for (int i = 2; i >= 0; --i) {
    x[i] = m[i][3];
    for (int j = i + 1; j < 3; ++j) x[i] -= m[i][j] * x[j];
    x[i] /= m[i][i];
    c[i] = static_cast<double>(x[i]);
  }
}

template <class T>
void put(std::ofstream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "encode rsqrt|sqrt|rcp|ex2 DIFFERENCES OUT\n");
    return 2;
  }
  const Function f = function_of(argv[1]);
  std::ifstream in(argv[2], std::ios::binary);
  const std::vector<char> differences{std::istreambuf_iterator<char>(in), {}};
  if (differences.size() != f.arguments) {
    std::fprintf(stderr, "%s: needs %u bytes\n", argv[2], f.arguments);
    return 2;
  }
  std::ofstream out(argv[3], std::ios::binary);
  put(out, table_coding::kMagic);
  put(out, f.arguments);
  put(out, f.segment);
  put(out, f.scale);
  std::vector<double> coefficients;
  std::vector<std::vector<double>> results;
  for (std::uint32_t first = 0; first < f.arguments; first += f.segment) {
    std::vector<double> g(f.segment);
    for (std::uint32_t i = 0; i < f.segment; ++i) {
      const float x = std::bit_cast<float>(0x3F800000U + first + i);
      const auto rounded = std::bit_cast<std::uint32_t>(static_cast<float>(f.exact(x)));
      const int difference = static_cast<signed char>(differences[first + i]);
      g[i] = static_cast<double>(
                 std::bit_cast<float>(rounded + static_cast<std::uint32_t>(difference))) *
             f.scale;
    }
    double c[3];
    fit(g, c);
    for (const double value : c) put(out, value);
    coefficients.insert(coefficients.end(), c, c + 3);
    results.push_back(std::move(g));
  }
  Encoder encoder;
  table_coding::Model model;
  for (std::size_t s = 0; s < results.size(); ++s) {
    int last = 0;
    int before = 0;
    for (std::uint32_t i = 0; i < f.segment; ++i) {
      const double predicted = table_coding::predict(&coefficients[3 * s], i, f.segment);
      const double whole = std::floor(predicted);
      const auto difference = static_cast<int>(results[s][i] - whole);
      if (difference < -1 || difference > 1) {
        std::fprintf(stderr, "argument %u differs by %d from its quadratic\n", i, difference);
        return 1;
      }
      const unsigned c = table_coding::context(table_coding::bin(predicted - whole), last, before);
      encoder.bit(model.differs[c], difference != 0 ? 1 : 0);
      if (difference != 0) encoder.bit(model.sign[c], difference < 0 ? 1 : 0);
      before = last;
      last = difference;
    }
  }
  const std::vector<std::uint8_t> coded = encoder.finish();
  out.write(reinterpret_cast<const char*>(coded.data()),
            static_cast<std::streamsize>(coded.size()));
  return out ? 0 : 1;
}
