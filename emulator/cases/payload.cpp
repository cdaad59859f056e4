#include "emulator/cases/payload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "emulator/ptx/alu/approx.hpp"
#include "verify/product.hpp"
#include "verify/random.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cases {
namespace {

// Inner elements that a rank multiplies: what the partial sums are made of does not matter here.
constexpr std::int64_t kInnerOfRank = 16;
// exact_rows needs an eps that a mean of 256 absorbs (verify/inputs.hpp).
constexpr double kMostAbsorbedEps = 1e-5;

float rsqrt_of_hardware(float x, const void*) { return ptx::rsqrt_approx(x); }

// Integers whose sums over all ranks stay exact in the dtype.
std::int32_t integer_at(const verify::CounterRandom& random, std::uint64_t i, std::uint32_t ranks,
                        verify::Dtype dtype) {
  const std::uint32_t room = verify::dtype_bytes(dtype) == 1
                                 ? 1U << static_cast<unsigned>(verify::significand_bits(dtype))
                                 : 128;
  const std::uint32_t most = std::clamp<std::uint32_t>(room / ranks, 1, 16);
  return static_cast<std::int32_t>(verify::CounterRandom::below(
             static_cast<std::uint32_t>(random.bits(i) >> 32), 2 * most + 1)) -
         static_cast<std::int32_t>(most);
}

// Of other integer types: as wide as sums and products over the ranks leave them room. Never 0,
// which is "not there" to kernels whose data is its own flag.
std::uint64_t whole_at(const verify::CounterRandom& random, std::uint64_t i, verify::Dtype dtype,
                       std::uint32_t ranks) {
  using verify::Dtype;
  const unsigned bits = 8 * static_cast<unsigned>(verify::dtype_bytes(dtype));
  if (dtype == Dtype::u32) return (random.bits(i) >> 48) + 1;
  const std::uint64_t most =
      std::max<std::uint64_t>(1, (std::uint64_t{1} << std::min(bits - 1, 24U)) / ranks - 1);
  const std::uint64_t magnitude = random.bits(i) % most + 1;
  const bool negative = verify::is_signed_integer(dtype) && random.bits(i) >> 63 != 0;
  return negative ? 0 - magnitude : magnitude;
}

// Ends of the range, neighbours of 0, and anything.
std::uint64_t adversarial_whole(const verify::CounterRandom& random, std::uint64_t i,
                                verify::Dtype dtype) {
  const unsigned bits = 8 * static_cast<unsigned>(verify::dtype_bytes(dtype));
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - bits);
  const std::uint64_t ends[] = {0, 1, all, all >> 1, (all >> 1) + 1};
  const std::uint64_t drawn = random.bits(i);
  return drawn % 8 < 5 ? ends[drawn % 8] : drawn >> 8;
}

struct Row {
  std::uint64_t index;
  std::uint64_t columns;
};

// Rows that break kernels, in turn: a mean square near eps; terms of the ranks that cancel; numbers
// below the smallest normal one; one huge element; and a normal one.
double adversarial_at(const verify::CounterRandom& random, const verify::CounterRandom& of_all,
                      std::uint64_t i, const Row& row, verify::Dtype dtype, std::uint32_t rank,
                      std::uint32_t ranks) {
  const double normal = random.normal(i);
  switch (row.index % 5) {
    case 0:
      // The sum over the ranks and a residual has a variance of 1e-6, which most eps are near.
      return normal * std::sqrt(1e-6 / (ranks + 1));
    case 1: {
      // Ranks 2n and 2n + 1 have opposite terms; what is left is small.
      const bool paired = (rank | 1) < ranks;
      const double sign = rank % 2 == 0 ? 1 : -1;
      return paired ? sign * 64 * of_all.normal(i) : normal;
    }
    case 2:
      return normal * std::ldexp(1.0, verify::minimum_exponent(dtype) - 2);
    case 3: {
      const bool huge = i % row.columns == row.index * 7 % row.columns;
      return huge ? std::ldexp(1.0, verify::dtype_bytes(dtype) == 1 ? 7
                                    : dtype == verify::Dtype::f16   ? 13
                                                                    : 40)
                  : normal;
    }
    default:
      return normal;
  }
}

// Elements of a row of an adversarial payload.
std::uint64_t columns_of(const CaseFile& file, const Memory& memory) {
  constexpr std::uint64_t kColumns = 64;
  if (memory.initial.columns != 0) return memory.initial.columns;
  if (file.check.reference) return file.check.reference->hidden;
  for (const ExpectedValue& e : file.check.expected) {
    if (e.columns != 0) return e.columns;
  }
  return kColumns;
}

std::vector<std::byte> generate(const CaseFile& file, std::size_t index, std::uint32_t rank,
                                std::uint64_t seed, std::uint64_t call) {
  const Memory& memory = file.memories[index];
  std::vector<std::byte> out(memory.bytes);
  if (memory.initial.same) rank = 0;
  const verify::CounterRandom random(seed, call, index * 1024 + rank);
  const verify::CounterRandom of_all(seed, call, index * 1024 + 1023);
  const verify::Dtype dtype = verify::parse_dtype(memory.initial.dtype);
  const std::size_t size = verify::dtype_bytes(dtype);
  const bool whole = verify::is_integer(dtype);
  const std::uint64_t columns = columns_of(file, memory);
  for (std::size_t i = 0; (i + 1) * size <= out.size(); ++i) {
    std::uint64_t bits = 0;
    switch (memory.initial.kind) {
      case Initial::Kind::integers:
        bits = whole ? whole_at(random, i, dtype, file.ranks)
                     : verify::encode(dtype, integer_at(random, i, file.ranks, dtype));
        break;
      case Initial::Kind::adversarial:
        bits = whole
                   ? adversarial_whole(random, i, dtype)
                   : verify::encode(dtype, adversarial_at(random, of_all, i, {i / columns, columns},
                                                          dtype, rank, file.ranks));
        break;
      default:
        bits = verify::encode(dtype, random.normal(i));
    }
    verify::store_pattern(dtype, bits, out.data() + i * size);
  }
  return out;
}

void put_number(std::string& text, std::string_view place, std::uint32_t number) {
  if (const auto at = text.find(place); at != std::string::npos) {
    text.replace(at, place.size(), std::to_string(number));
  }
}

// Files by their paths: one has the tensors of several memories, ranks and calls.
using Files = std::map<std::string, verify::Safetensors>;

const verify::Safetensors& opened(const CaseFile& file, const std::string& path, Files& files) {
  auto there = files.find(path);
  if (there == files.end()) there = files.emplace(path, file.tensors(path)).first;
  return there->second;
}

// What lies between the pieces that a tensor of u64 says are not initialised; one that is not
// there says none.
std::vector<std::pair<std::uint64_t, std::uint64_t>> between_unset(const CaseFile& file,
                                                                   const Memory& memory,
                                                                   std::uint32_t rank,
                                                                   Files& files) {
  const std::string path = file.beside(memory.initial.file);
  std::string name = memory.initial.unset;
  put_number(name, "{rank}", rank);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  std::uint64_t at = 0;
  const verify::Tensor* const t = opened(file, path, files).find(name);
  const std::size_t numbers = t == nullptr ? 0 : t->bytes.size() / 8;
  for (std::size_t i = 0; i + 1 < numbers; i += 2) {
    std::uint64_t piece[2];
    std::memcpy(piece, t->bytes.data() + i * 8, sizeof piece);
    if (t->dtype != verify::Dtype::u64 || piece[0] < at || piece[1] <= piece[0] ||
        piece[1] > memory.bytes) {
      throw CaseError(
          fmt::format("{}: memory '{}': the tensor '{}' in {} has u64 in pairs, each piece of the "
                      "memory [first "
                      "byte, end) behind the one before",
                      file.path, memory.name, name, path));
    }
    if (at < piece[0]) out.emplace_back(at, piece[0]);
    at = piece[1];
  }
  if (at < memory.bytes) out.emplace_back(at, memory.bytes);
  return out;
}

verify::Tensor from_file(const CaseFile& file, const Memory& memory, std::uint32_t rank,
                         std::uint32_t call, Files& files) {
  const std::string path = file.beside(memory.initial.file);
  const verify::Safetensors& tensors = opened(file, path, files);
  std::string name = memory.initial.tensor;
  put_number(name, "{rank}", rank);
  put_number(name, "{call}", memory.initial.once ? 0 : call);
  const verify::Tensor* t = tensors.find(name);
  if (t == nullptr) {
    throw CaseError(fmt::format("{}: memory '{}' needs the tensor '{}', which {} does not have",
                                file.path, memory.name, name, path));
  }
  if (t->bytes.size() > memory.bytes) {
    throw CaseError(fmt::format("{}: memory '{}' has {} bytes, its tensor '{}' in {} has {}",
                                file.path, memory.name, memory.bytes, name, path, t->bytes.size()));
  }
  return *t;
}

// Rank `rank`'s columns of a tensor whose rows are of the inner size.
void put_columns(const verify::Tensor& from, const verify::Problem& p, std::uint32_t rank,
                 std::vector<std::byte>& to) {
  const auto row = static_cast<std::size_t>(p.inner) * verify::dtype_bytes(p.dtype);
  const std::size_t own = row / static_cast<std::size_t>(p.ranks);
  const std::size_t rows = from.bytes.size() / row;
  for (std::size_t i = 0; i < rows; ++i) {
    std::memcpy(to.data() + i * own, from.bytes.data() + i * row + rank * own, own);
  }
}

}  // namespace

Payload::Payload(const CaseFile& file, std::uint32_t calls, std::uint64_t seed,
                 verify::Summation summation)
    : ranks_(file.ranks) {
  for (const Memory& m : file.memories) {
    renewed_.push_back(m.initial.kind >= Initial::Kind::integers && !m.initial.once);
    dtype_.push_back(verify::parse_dtype(m.initial.dtype.empty() ? "u8" : m.initial.dtype));
    filled_.push_back(m.bytes);
  }
  content_.resize(std::size_t{calls} * ranks_ * renewed_.size());
  expected_.resize(calls);
  Files files;
  for (std::uint32_t call = 0; call < calls; ++call) {
    for (std::size_t m = 0; m < renewed_.size(); ++m) {
      const Memory& memory = file.memories[m];
      if (memory.initial.kind < Initial::Kind::integers) continue;
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        if (memory.initial.kind == Initial::Kind::file) {
          verify::Tensor t = from_file(file, memory, rank, call, files);
          dtype_[m] = t.dtype;
          filled_[m] = t.bytes.size();
          at(call, rank, m) = std::move(t.bytes);
          at(call, rank, m).resize(memory.bytes);
          if (!memory.initial.unset.empty()) {
            given_[{m, rank}] = between_unset(file, memory, rank, files);
          }
        } else {
          at(call, rank, m) = generate(file, m, rank, seed, memory.initial.once ? 0 : call);
        }
      }
    }
    if (file.check.reference) fill_operator(file, call, seed, summation);
  }
}

bool Payload::any_renewed() const {
  return std::find(renewed_.begin(), renewed_.end(), true) != renewed_.end();
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Payload::given(std::uint32_t rank,
                                                                    std::size_t memory) const {
  const auto known = given_.find({memory, rank});
  if (known != given_.end()) return known->second;
  return {{0, content(0, rank, memory).size()}};
}

std::span<const std::byte> Payload::content(std::uint32_t call, std::uint32_t rank,
                                            std::size_t memory) const {
  return content_[(std::size_t{call} * ranks_ + rank) * renewed_.size() + memory];
}

namespace {

// Where a tensor of the case is, of one rank.
using ContentOf =
    std::function<std::vector<std::byte>&(std::uint32_t rank, const std::string& name)>;

verify::Problem problem_of(const CaseFile& file) {
  const Reference& f = *file.check.reference;
  verify::Problem p;
  p.flavour = verify::parse_flavour(f.protocol);
  p.ranks = static_cast<int>(file.ranks);
  p.tokens = static_cast<std::int64_t>(f.tokens);
  p.hidden = static_cast<std::int64_t>(f.hidden);
  const bool whole = !f.x.empty();  // the kernel multiplies
  p.inner = whole ? static_cast<std::int64_t>(f.inner) : kInnerOfRank * p.ranks;
  p.dtype = verify::parse_dtype(f.dtype);
  p.eps = static_cast<float>(f.eps);
  p.has_beta = !f.beta.empty();
  verify::validate(p, {.ranks_divide_tokens = false, .halves = false});
  return p;
}

// What the operator is fed with.
struct Fed {
  verify::Inputs inputs;  // x and weight only if they were generated
  std::vector<verify::Tensor> parts;
};

// A payload whose result is exact, so that any difference is a fault of the protocol; or normal
// numbers, if the case asks for them.
Fed generated(const CaseFile& file, const verify::Problem& p, std::uint32_t call,
              std::uint64_t seed, const ContentOf& content) {
  const Reference& f = *file.check.reference;
  const bool whole = !f.x.empty();
  const bool normal = file.find(whole ? f.x : f.tensor)->initial.kind == Initial::Kind::normal;
  const verify::Fill fill = normal                      ? verify::Fill::normal
                            : f.eps <= kMostAbsorbedEps ? verify::Fill::exact_rows
                                                        : verify::Fill::integers;
  Fed fed;
  fed.inputs = verify::generate(p, fill, seed, call);
  const verify::Inputs& in = fed.inputs;
  for (int r = 0; r < p.ranks; ++r) fed.parts.push_back(verify::product(p, in, r));
  const auto put = [&](std::uint32_t rank, const std::string& name, const std::byte* from,
                       std::size_t bytes) { std::memcpy(content(rank, name).data(), from, bytes); };
  const auto row = static_cast<std::size_t>(p.hidden) * verify::dtype_bytes(p.dtype);
  for (std::uint32_t r = 0; r < file.ranks; ++r) {
    if (whole) {
      put_columns(in.x, p, r, content(r, f.x));
      put_columns(in.weight, p, r, content(r, f.weight));
    } else {
      put(r, f.tensor, fed.parts[r].bytes.data(), fed.parts[r].bytes.size());
    }
    put(r, f.gamma, in.gamma.bytes.data(), in.gamma.bytes.size());
    if (p.has_beta) put(r, f.beta, in.beta.bytes.data(), in.beta.bytes.size());
    if (file.find(f.residual)->bytes >= f.tokens * row) {
      put(r, f.residual, in.residual.bytes.data(), in.residual.bytes.size());
    } else {
      const verify::RowRange own = p.rows_of(static_cast<int>(r));
      put(r, f.residual, in.residual.bytes.data() + static_cast<std::size_t>(own.begin) * row,
          static_cast<std::size_t>(own.count()) * row);
    }
  }
  return fed;
}

// What the memories hold from files, or that is generated memory by memory.
Fed recorded(const CaseFile& file, const verify::Problem& p, const ContentOf& content) {
  const Reference& f = *file.check.reference;
  const auto take = [&](std::uint32_t rank, const std::string& name, verify::Shape shape) {
    verify::Tensor t(p.dtype, std::move(shape));
    const std::vector<std::byte>& bytes = content(rank, name);
    std::copy_n(bytes.begin(), std::min(bytes.size(), t.bytes.size()), t.bytes.begin());
    return t;
  };
  const verify::Shape whole{p.tokens, p.hidden};
  Fed fed;
  for (std::uint32_t r = 0; r < file.ranks; ++r) fed.parts.push_back(take(r, f.tensor, whole));
  fed.inputs.gamma = take(0, f.gamma, {p.hidden});
  if (p.has_beta) fed.inputs.beta = take(0, f.beta, {p.hidden});
  fed.inputs.residual = take(0, f.residual, whole);
  const auto row = static_cast<std::size_t>(p.hidden) * verify::dtype_bytes(p.dtype);
  if (file.find(f.residual)->bytes >= f.tokens * row) return fed;
  for (std::uint32_t r = 0; r < file.ranks; ++r) {
    const verify::RowRange own = p.rows_of(static_cast<int>(r));
    std::copy_n(content(r, f.residual).begin(), static_cast<std::size_t>(own.count()) * row,
                fed.inputs.residual.bytes.begin() +
                    static_cast<std::ptrdiff_t>(static_cast<std::size_t>(own.begin) * row));
  }
  return fed;
}

}  // namespace

void Payload::fill_operator(const CaseFile& file, std::uint32_t call, std::uint64_t seed,
                            verify::Summation summation) {
  const Reference& f = *file.check.reference;
  const ContentOf content = [&](std::uint32_t rank,
                                const std::string& name) -> std::vector<std::byte>& {
    return at(call, rank, static_cast<std::size_t>(file.find(name) - file.memories.data()));
  };
  Expected e;
  e.problem = problem_of(file);
  const verify::Problem& p = e.problem;
  const bool whole = !f.x.empty();
  const Initial::Kind kind = file.find(whole ? f.x : f.tensor)->initial.kind;
  const bool as_it_is = kind == Initial::Kind::file || kind == Initial::Kind::adversarial;
  const Fed fed = as_it_is ? recorded(file, p, content) : generated(file, p, call, seed, content);
  const bool normal = kind != Initial::Kind::integers;
  const verify::Inputs& in = fed.inputs;
  verify::Partials partials;
  for (const verify::Tensor& t : fed.parts) partials.push_back(t.bytes.data());
  // Under these policies every rank and schedule has the one sum; a payload that is exact has it
  // under all of them.
  e.exact = !normal || summation == verify::Summation::fp32_rank_order ||
            summation == verify::Summation::exact_once;
  e.exact = e.exact && (p.flavour == verify::Flavour::tokenweave || !normal);
  if (e.exact) {
    const verify::Rsqrt rsqrt{&rsqrt_of_hardware, nullptr};
    verify::Outputs out = verify::exact_fused(p, in, partials, summation, {}, rsqrt);
    e.out = std::move(out.out);
    e.residual_out = std::move(out.residual_out);
  } else {
    e.reference = whole ? verify::operator_reference(p, in, summation, {0, p.tokens})
                        : verify::fused_reference(p, in, partials, summation, {0, p.tokens});
  }
  expected_[call] = std::move(e);
}

}  // namespace ringfence::cases
