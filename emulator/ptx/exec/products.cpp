// wgmma: matrix products of a warpgroup, four warps whose first one's number is a multiple of four.
// Each warp multiplies its 16 rows when it comes to the instruction; the product has ended, for all
// of them, when one waits for it, which it can only once all have issued it.
//
// D[row][column] takes its 16 or 32 products in the order of k, each exact, the sum rounded to fp32
// after each. The manual gives no order; hardware keeps fewer places of small products. Sums of
// integers are exact.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/ptx/alu/scalar.hpp"
#include "emulator/ptx/eight_bits.hpp"
#include "emulator/ptx/exec/state.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::uint32_t kMostInner = 32;
constexpr std::uint32_t kInnerBytes = 32;
constexpr std::uint32_t kPieceBytes = 16;
constexpr std::uint32_t kRowsOfWarp = 16;
constexpr std::uint32_t kWarps = 4;
constexpr std::uint32_t kMostColumns = 256;
constexpr std::uint64_t kSharedAddresses = 1ULL << 18;  // of a descriptor

void require_whole(std::uint32_t mask) {
  if (mask == 0xFFFFFFFFU) return;
  throw Fault(FaultKind::undefined, "a warpgroup's instruction is executed by part of a warp",
              static_cast<std::uint32_t>(std::countr_zero(~mask)));
}

std::uint64_t same_in_all(const std::uint64_t* lanes, const char* what) {
  for (std::uint32_t lane = 1; lane < kLanes; ++lane) {
    if (lanes[lane] != lanes[0]) {
      throw Fault(FaultKind::undefined, std::string(what) + " differs between lanes of the warp",
                  lane);
    }
  }
  return lanes[0];
}

// Where the pieces of 16 bytes of an operand lie (PTX: strides of matrix descriptors). K-major: a
// piece is 8 or 16 of k of one row, MN-major: 8 rows of one k.
struct Layout {
  std::uint64_t start = 0;
  std::uint64_t leading = 0;
  std::uint64_t stride = 0;
  Swizzle swizzle = Swizzle::none;

  explicit Layout(std::uint64_t descriptor)
      : start((descriptor & 0x3FFFU) << 4),
        leading((descriptor >> 16 & 0x3FFFU) << 4),
        stride((descriptor >> 32 & 0x3FFFU) << 4) {
    // 1 is the widest.
    constexpr Swizzle kModes[] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64,
                                  Swizzle::bytes32};
    swizzle = kModes[descriptor >> 62];
    if ((descriptor >> 49 & 7U) != 0) {
      throw Fault(FaultKind::undefined, "a matrix descriptor with a base offset is not supported");
    }
  }
  std::uint64_t k_major(std::uint32_t row, std::uint32_t piece) const {
    const std::uint64_t group = start + row / 8 * stride;
    if (swizzle == Swizzle::none) return at(group + row % 8 * 16 + piece * leading);
    return at(group + row % 8 * swizzle_span(swizzle) + piece * 16);
  }
  std::uint64_t mn_major(std::uint32_t piece, std::uint32_t k) const {
    if (swizzle == Swizzle::none) return at(start + piece * stride + k % 8 * 16 + k / 8 * leading);
    const std::uint32_t span = swizzle_span(swizzle);
    const std::uint32_t pieces = span / 16;
    return at(start + piece % pieces * 16 + piece / pieces * leading + k % 8 * span +
              k / 8 * stride);
  }
  std::uint64_t at(std::uint64_t address) const {
    return swizzled(address % kSharedAddresses, swizzle);
  }
};

float value_of(Type type, std::uint32_t bits) {
  if (size_of(type) == 1) return from_byte(type, bits);
  return type == Type::bf16 ? from_bf16(bits) : from_f16(bits);
}

}  // namespace

// Rows `first` .. `first + rows` of an operand as [k][row].
void Execution::State::load_tile(Warp& warp, std::uint64_t descriptor, std::uint32_t first,
                                 std::uint32_t rows, bool transposed, Type type, std::uint32_t pc,
                                 const AsyncMoment& moment, float* out) {
  const Layout layout(descriptor);
  std::uint8_t piece[kPieceBytes];
  const std::uint32_t size = size_of(type);
  const std::uint32_t inner = kInnerBytes / size, in_piece = kPieceBytes / size;
  const auto element = [&](std::uint32_t i) {
    return value_of(type, size == 1 ? piece[i] : piece[2 * i] | piece[2 * i + 1] << 8U);
  };
  const auto fetch = [&](std::uint64_t address) {
    const std::byte* const from = plain(warp, Space::shared, address, 16, 0);
    auto* const to = reinterpret_cast<std::byte*>(piece);
    if (check_shared_async(warp, address, 16, models_shared_ ? 0 : kLanes, pc, moment, false)) {
      return bulk_in_model(warp, address, {to, 16}, 0, pc, moment, false, true);
    }
    std::memcpy(to, from, 16);
  };
  if (!transposed) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t p = 0; p < inner / in_piece; ++p) {
        fetch(layout.k_major(first + row, p));
        for (std::uint32_t i = 0; i < in_piece; ++i) {
          out[(p * in_piece + i) * rows + row] = element(i);
        }
      }
    }
    return;
  }
  for (std::uint32_t k = 0; k < inner; ++k) {
    for (std::uint32_t p = 0; p < rows / 8; ++p) {
      fetch(layout.mn_major(first / 8 + p, k));
      for (std::uint32_t i = 0; i < 8; ++i) out[k * rows + p * 8 + i] = element(i);
    }
  }
}

// Notes that the warp issues the warpgroup's next product, which is the same of all four warps. The
// last one that all have issued.
std::uint32_t Execution::State::issue_product(Warp& warp, std::uint64_t signature) {
  Block& block = *warp.block;
  const std::uint32_t group = warp.index / kWarps;
  const std::uint32_t number = ++warp.products.issued;
  Warpgroup& all = block.groups[group];
  if (number - all.first == all.signatures.size()) {
    all.signatures.push_back(signature);
  } else if (all.signatures[number - all.first] != signature) {
    throw Fault(FaultKind::barrier_divergence,
                "the warps of a warpgroup execute different matrix products, or with different "
                "descriptors");
  }
  std::uint32_t least = number;
  for (std::uint32_t w = 0; w < kWarps; ++w) {
    least = std::min(least, block.warps[group * kWarps + w].products.issued);
  }
  while (all.first <= least) {
    all.signatures.pop_front();
    ++all.first;
  }
  return least;
}

// A's rows of the warp, where they lie in registers, as [k][row].
void Execution::State::fragment(Warp& warp, const Op& op, const GroupProduct& form, float* out) {
  const std::uint32_t size = size_of(form.type);
  const std::uint32_t inner = kInnerBytes / size, in_word = 4 / size;
  for (std::uint32_t r = 0; r < 4; ++r) {
    const std::uint32_t* from = words(warp, program_.extra[op.extra + form.n / 2 + r]);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      for (std::uint32_t i = 0; i < in_word; ++i) {
        const std::uint32_t row = lane / 4 + r % 2 * 8;
        const std::uint32_t k = lane % 4 * in_word + i + r / 2 * (inner / 2);
        const std::uint32_t bits = from[lane] >> (8 * size * i);
        out[k * kRowsOfWarp + row] = value_of(form.type, bits & (size == 1 ? 0xFFU : 0xFFFFU));
      }
    }
  }
}

// `adds`: to what the accumulators hold.
void Execution::State::accumulate(Warp& warp, const Op& op, const GroupProduct& form, bool adds,
                                  const float* left, const float* right) {
  const std::uint32_t n = form.n;
  const std::uint32_t inner = kInnerBytes / size_of(form.type);
  const auto slot = [&](std::uint32_t i) { return words(warp, program_.extra[op.extra + i]); };
  // Thread t holds rows t % 32 / 4 and + 8, of every 8 columns 2 (t % 4) and + 1.
  alignas(64) float sums[kMostColumns];
  for (std::uint32_t row = 0; row < kRowsOfWarp; ++row) {
    const auto place = [&](std::uint32_t column) {
      return slot(column / 8 * 4 + row / 8 * 2 + column % 2) + row % 8 * 4 + column % 8 / 2;
    };
    if (form.result == Type::s32) {
      for (std::uint32_t j = 0; j < n; ++j) {
        std::int64_t sum = adds ? static_cast<std::int32_t>(*place(j)) : 0;
        for (std::uint32_t k = 0; k < inner; ++k) {
          sum += static_cast<std::int64_t>(left[k * kRowsOfWarp + row] * right[k * n + j]);
        }
        *place(j) = to_s32(sum, form.saturate);
      }
      continue;
    }
    for (std::uint32_t j = 0; j < n; ++j) sums[j] = adds ? as_float(*place(j)) : 0.0F;
    for (std::uint32_t k = 0; k < inner; ++k) {
      const float x = left[k * kRowsOfWarp + row];
      const float* const y = right + k * n;
      for (std::uint32_t j = 0; j < n; ++j) sums[j] = std::fma(x, y[j], sums[j]);
    }
    for (std::uint32_t j = 0; j < n; ++j) *place(j) = bits_of(canonical(sums[j]));
  }
}

// Warps of the group that wait for no later product than `least` go on.
void Execution::State::free_group(Block& block, std::uint32_t group, std::uint32_t least) {
  for (std::uint32_t w = 0; w < kWarps; ++w) {
    Warp& other = block.warps[group * kWarps + w];
    bool freed = false;
    for (Split& split : other.splits) {
      if (split.state != SplitState::group || split.wait > least) continue;
      split.state = SplitState::ready;
      freed = true;
    }
    if (!freed) continue;
    ++events_;
    enqueue(other);
  }
}

void Execution::State::group_multiply(Warp& warp, const Op& op, std::uint32_t pc,
                                      std::uint32_t mask) {
  require_whole(mask);
  Block& block = *warp.block;
  const GroupProduct& form = program_.group_products[op.detail];
  const std::uint32_t group = warp.index / kWarps;
  if ((group + 1) * kWarps > warps_) {
    throw Fault(FaultKind::undefined, "a warpgroup has four warps, the block's last one has fewer");
  }
  const std::uint64_t a =
      form.a_in_registers ? 0 : same_in_all(longs(warp, op.a), "A's descriptor");
  const std::uint64_t b = same_in_all(longs(warp, op.b), "B's descriptor");
  const std::uint32_t scale = predicate(warp, op.c) ^ ((op.immediate & kNegateC) != 0 ? ~0U : 0U);
  if (scale != 0 && scale != 0xFFFFFFFFU) {
    throw Fault(FaultKind::undefined, "scale-d differs between lanes of the warp");
  }
  const std::uint32_t least = issue_product(
      warp, ((a * 0x9E3779B97F4A7C15ULL ^ b) * 0x9FB21C651E98DF25ULL ^ pc) * 2 + (scale & 1U));

  Products& products = warp.products;
  AsyncMoment moment{block.cluster_rank * groups_a_block() + group, products.issued};
  if (models_shared_) {
    moment = next_engine(warp, op, mask);
  } else if (!block.cluster->engines.empty()) {
    block.cluster->engines[moment.engine].line = op.line;
  }
  alignas(64) float left[kMostInner * kRowsOfWarp];
  alignas(64) float right[kMostInner * kMostColumns];
  if (form.a_in_registers) {
    fragment(warp, op, form, left);
  } else {
    load_tile(warp, a, warp.index % kWarps * kRowsOfWarp, kRowsOfWarp, form.transpose_a, form.type,
              pc, moment, left);
  }
  load_tile(warp, b, 0, form.n, form.transpose_b, form.type_b, pc, moment, right);
  if (models_shared_) {
    end_part(warp, 0, moment, true);
    products.moments.emplace_back(products.issued, moment);
  }
  if (form.negate_a != form.negate_b) {
    for (float& x : left) x = -x;
  }
  accumulate(warp, op, form, scale != 0, left, right);
  free_group(block, group, least);
}

void Execution::State::group_fence(Warp& warp, std::uint32_t mask) {
  require_whole(mask);
  warp.products.fenced = true;
  std::fill(warp.products.touched.begin(), warp.products.touched.end(), 0);
}

void Execution::State::group_commit(Warp& warp, std::uint32_t mask) {
  require_whole(mask);
  warp.products.commits.push_back(warp.products.issued);
}

bool Execution::State::group_wait(Warp& warp, std::size_t split, const Op& op, std::uint32_t mask) {
  require_whole(mask);
  Products& products = warp.products;
  if (products.commits.size() <= op.immediate) return true;
  const std::uint32_t wanted = products.commits[products.commits.size() - op.immediate - 1];
  const std::uint32_t group = warp.index / kWarps;
  for (std::uint32_t w = 0; wanted != 0 && w < kWarps; ++w) {
    if (warp.block->warps[group * kWarps + w].products.issued >= wanted) continue;
    warp.splits[split].state = SplitState::group;
    warp.splits[split].wait = wanted;
    return false;
  }
  while (products.commits.size() > op.immediate) products.commits.pop_front();
  products.ended = std::max(products.ended, wanted);
  if (models_shared_) {
    // The product of the whole group has ended, also for the parts of the other warps.
    for (std::uint32_t w = 0; w < kWarps; ++w) {
      auto& moments = warp.block->warps[group * kWarps + w].products.moments;
      for (const auto& [number, moment] : moments) {
        if (number > wanted || number <= products.observed) continue;
        memory_.observe(agents(warp, mask), moment.modelled, moment.ended);
      }
    }
    products.observed = std::max(products.observed, wanted);
    std::uint32_t least = wanted;
    for (std::uint32_t w = 0; w < kWarps; ++w) {
      least = std::min(least, warp.block->warps[group * kWarps + w].products.observed);
    }
    for (std::uint32_t w = 0; w < kWarps; ++w) {
      auto& moments = warp.block->warps[group * kWarps + w].products.moments;
      while (!moments.empty() && moments.front().first <= least) moments.pop_front();
    }
  } else if (warp.block->races != nullptr && wanted != 0) {
    const std::uint32_t engine = warp.block->cluster_rank * groups_a_block() + group;
    warp.block->races->wait_async(in_cluster(warp), {engine, wanted});
  }
  return true;
}

// Registers of a product that may be under way are neither read nor written, and what else wrote
// them comes before a wgmma.fence.
void Execution::State::watch(Warp& warp, std::uint32_t pc) {
  const std::uint32_t which = program_.watch_of[pc];
  Products& products = warp.products;
  if (products.touched.empty()) {
    products.writer.assign(program_.watched_names.size(), 0);
    products.reader.assign(program_.watched_names.size(), 0);
    products.touched.assign(program_.watched_names.size(), 0);
  }
  const Watch& watch = program_.watches[which];
  const auto name = [&](std::uint16_t r) { return program_.watched_names[r]; };
  const bool multiplies = program_.ops[pc].kind == Kind::group_multiply;
  if (multiplies) {
    if (!products.fenced) {
      throw Fault(FaultKind::undefined, "there is no wgmma.fence before the first wgmma.mma_async");
    }
    for (const auto* list : {&watch.written, &watch.operands}) {
      for (const std::uint16_t r : *list) {
        if (products.touched[r] == 0) continue;
        throw Fault(FaultKind::undefined, "register " + name(r) +
                                              " of the product was written after the last "
                                              "wgmma.fence");
      }
    }
    const std::uint32_t number = products.issued + 1;
    for (const std::uint16_t r : watch.operands) {
      if (products.writer[r] > products.ended) {
        throw Fault(FaultKind::undefined, "register " + name(r) +
                                              " is still being written by a wgmma.mma_async: no "
                                              "wgmma.wait_group before its use in A");
      }
      products.reader[r] = number;
    }
    for (const std::uint16_t r : watch.written) products.writer[r] = number;
    return;
  }
  if (watch.copies) {
    // Compilers copy accumulators around; what counts is who computes with the copy.
    const std::uint16_t to = watch.written[0];
    products.writer[to] = watch.read.empty() ? 0 : products.writer[watch.read[0]];
    return;
  }
  for (const std::uint16_t r : watch.read) {
    if (products.writer[r] <= products.ended) continue;
    throw Fault(FaultKind::undefined,
                "register " + name(r) +
                    " is read while the wgmma.mma_async that writes it may be under way: no "
                    "wgmma.wait_group before it");
  }
  for (const std::uint16_t r : watch.written) {
    if (products.writer[r] > products.ended || products.reader[r] > products.ended) {
      throw Fault(FaultKind::undefined,
                  "register " + name(r) +
                      " is written while a wgmma.mma_async that uses it may be under way: no "
                      "wgmma.wait_group before it");
    }
    products.touched[r] = 1;
  }
}

}  // namespace ringfence::ptx
