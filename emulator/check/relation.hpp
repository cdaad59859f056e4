#pragma once
// Binary relations over the events of one execution, a row of bits each.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfence::check {

class Relation {
 public:
  explicit Relation(std::size_t events = 0)
      : n_(events), words_((events + 63) / 64), bits_(n_ * words_) {}

  std::size_t size() const { return n_; }
  bool operator()(std::size_t a, std::size_t b) const {
    return (bits_[a * words_ + b / 64] >> (b % 64) & 1) != 0;
  }
  void add(std::size_t a, std::size_t b) {
    bits_[a * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
  }
  // All that `from` has after its event b comes after a here.
  void add_row(std::size_t a, const Relation& from, std::size_t b) {
    for (std::size_t w = 0; w < words_; ++w) {
      bits_[a * words_ + w] |= from.bits_[b * words_ + w];
    }
  }
  void join(const Relation& o) {
    for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] |= o.bits_[i];
  }
  void close() {
    for (std::size_t k = 0; k < n_; ++k) {
      for (std::size_t i = 0; i < n_; ++i) {
        if ((*this)(i, k)) add_row(i, *this, k);
      }
    }
  }
  // A closed relation stays closed.
  void add_closed(std::size_t a, std::size_t b) {
    if ((*this)(a, b)) return;
    for (std::size_t i = 0; i < n_; ++i) {
      if (i != a && !(*this)(i, a)) continue;
      add(i, b);
      add_row(i, *this, b);
    }
  }

 private:
  std::size_t n_, words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace ringfence::check
