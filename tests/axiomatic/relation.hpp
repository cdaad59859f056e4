// Binary relations over at most 64 events, a bit set a row.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ringfence::axiomatic {

using Set = std::uint64_t;
inline constexpr int kMaxEvents = 64;

constexpr Set bit(int event) { return Set{1} << event; }

// Calls f(i) for each member, smallest first.
template <class F>
constexpr void for_each(Set set, F f) {
  for (; set != 0; set &= set - 1) f(std::countr_zero(set));
}

class Relation {
 public:
  explicit Relation(int events = 0) : n_(events) { rows_.fill(0); }

  int size() const { return n_; }
  bool operator()(int a, int b) const { return (rows_[static_cast<std::size_t>(a)] >> b & 1) != 0; }
  Set row(int a) const { return rows_[static_cast<std::size_t>(a)]; }
  void add(int a, int b) { rows_[static_cast<std::size_t>(a)] |= bit(b); }
  void add(int a, Set b) { rows_[static_cast<std::size_t>(a)] |= b; }

  Relation& operator|=(const Relation& other) {
    for (int i = 0; i < n_; ++i) add(i, other.row(i));
    return *this;
  }

  // Warshall; in place.
  void close() {
    for (int k = 0; k < n_; ++k) {
      const Set from_k = row(k);
      for (int i = 0; i < n_; ++i) {
        if ((*this)(i, k)) add(i, from_k);
      }
    }
  }

  // A closed relation stays closed.
  void add_closed(int a, int b) {
    const Set after = row(b) | bit(b);
    for (int i = 0; i < n_; ++i) {
      if (i == a || (*this)(i, a)) add(i, after);
    }
  }

  // Of a closed relation: no member of events is on a cycle.
  bool irreflexive(Set events = ~Set{0}) const {
    for (int i = 0; i < n_; ++i) {
      if ((events >> i & 1) != 0 && (*this)(i, i)) return false;
    }
    return true;
  }

 private:
  int n_;
  std::array<Set, kMaxEvents> rows_;
};

}  // namespace ringfence::axiomatic
