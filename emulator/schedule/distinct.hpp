#pragma once
// A set of fingerprints, only to count them.

#include <cstdint>
#include <vector>

namespace ringfence::schedule {

class Distinct {
 public:
  // Whether it is new. Beyond kMost no new ones are taken.
  bool add(std::uint64_t fingerprint) {
    if (size_ >= kMost) return false;
    if (2 * (size_ + 1) > table_.size()) grow();
    if (fingerprint == 0) fingerprint = 1;
    std::uint64_t& slot = find(fingerprint);
    if (slot != 0) return false;
    slot = fingerprint;
    ++size_;
    return true;
  }
  std::uint64_t size() const { return size_; }
  static constexpr std::uint64_t kMost = 1u << 22;  // 64 MiB

 private:
  std::uint64_t& find(std::uint64_t fingerprint) {
    const std::size_t mask = table_.size() - 1;
    std::size_t i = (fingerprint ^ fingerprint >> 32) & mask;
    while (table_[i] != 0 && table_[i] != fingerprint) i = (i + 1) & mask;
    return table_[i];
  }
  void grow() {
    std::vector<std::uint64_t> old(table_.empty() ? 1024 : 2 * table_.size());
    old.swap(table_);
    for (const std::uint64_t f : old) {
      if (f != 0) find(f) = f;
    }
  }
  std::vector<std::uint64_t> table_;
  std::uint64_t size_ = 0;
};

}  // namespace ringfence::schedule
