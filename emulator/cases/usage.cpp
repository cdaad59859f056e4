#include "emulator/cases/usage.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ringfence::cases {

void Usage::follow(const std::vector<std::uint32_t>& regions, std::uint64_t bytes, bool by_byte) {
  for (const std::uint32_t region : regions) {
    regions_.resize(std::max<std::size_t>(regions_.size(), region + std::size_t{1}));
    if (!by_byte || bytes > kMostBytes) continue;
    regions_[region] = {bytes, lines_};
    lines_ += (bytes + kLine - 1) / kLine;
  }
}

void Usage::share(std::byte* shared) {
  line_ = reinterpret_cast<Line*>(shared);
  data_ = reinterpret_cast<std::uint8_t*>(shared) + sizeof(Line) * lines_;
}

void Usage::mark(const Region& r, std::uint64_t offset, std::uint64_t bytes,
                 std::uint16_t Line::*what) {
  const std::uint64_t end = std::min(offset + bytes, r.bytes);
  while (offset < end) {
    const std::uint64_t in_line = offset % kLine;
    const std::uint64_t count = std::min(kLine - in_line, end - offset);
    const auto mask = static_cast<std::uint16_t>(((1U << count) - 1) << in_line);
    std::uint16_t& bits = line_[r.first + offset / kLine].*what;
    const std::atomic_ref<std::uint16_t> shared(bits);
    if ((shared.load(std::memory_order_relaxed) & mask) != mask) {
      shared.fetch_or(mask, std::memory_order_relaxed);
    }
    offset += count;
  }
}

void Usage::wrote(std::uint32_t region, std::uint64_t offset, std::uint64_t bytes, bool data) {
  if (region >= regions_.size()) return;
  if (data) {
    const std::atomic_ref<std::uint8_t> shared(data_[region]);
    if (shared.load(std::memory_order_relaxed) == 0) shared.store(1, std::memory_order_relaxed);
  }
  mark(regions_[region], offset, bytes, &Line::written);
}

void Usage::peer_read(std::uint32_t region, std::uint64_t offset, std::uint64_t bytes) {
  if (region < regions_.size()) mark(regions_[region], offset, bytes, &Line::read);
}

std::vector<Usage::Gap> Usage::never_written(std::uint32_t region, std::uint64_t begin,
                                             std::uint64_t end) const {
  std::vector<Gap> out;
  if (region >= regions_.size() || line_ == nullptr) return out;
  const Region& r = regions_[region];
  for (std::uint64_t i = 0; i < r.bytes; ++i) {
    const Line& line = line_[r.first + i / kLine];
    const bool by_peer = (line.read >> i % kLine & 1U) != 0;
    const bool missing =
        (line.written >> i % kLine & 1U) == 0 && (by_peer || (i >= begin && i < end));
    if (!missing) continue;
    if (!out.empty() && out.back().last + 1 == i && out.back().by_peer == by_peer) {
      out.back().last = i;
    } else {
      out.push_back({i, i, by_peer});
    }
  }
  return out;
}

}  // namespace ringfence::cases
