#pragma once
// The end of a lane's wait where looks in vain are left out: a look that does more than to lead to
// the next one.

#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/ptx/atomic.hpp"

namespace ringfence::cases {

class KernelRun::LookEnds final : public machine::Condition {
 public:
  // `takes`: also time-outs that can only trap.
  LookEnds(const ptx::Request& request, std::uint32_t lane, bool takes,
           std::vector<ptx::Still> stills)
      : trial_(request.lookahead->trial(lane, std::move(stills))),
        access_(*request.access),
        takes_(takes) {
    by_rmw_ = access_.operation == ptx::Operation::atomic;
    if (!by_rmw_) return;
    const std::size_t at = std::size_t{lane} * request.lane_bytes;
    std::memcpy(&operand_, request.elements[0] + at, size_of(access_.type));
    if (access_.combine == machine::Combine::cas) {
      compare_.emplace(0);
      std::memcpy(&*compare_, request.compare + at, size_of(access_.type));
    }
  }

  bool holds(std::uint64_t value) const override {
    if (by_rmw_ && applied(value) != value) return true;
    const End end = trial_->end(std::span(&value, 1));
    return end == End::moves_on || times_out(end);
  }
  bool writes(std::uint64_t value) const override { return !compare_ || value == *compare_; }
  bool alike(std::uint64_t a, std::uint64_t b) const override {
    return !by_rmw_ && trial_->alike(a, b);
  }
  bool gives_up(std::uint64_t value) const {
    return (!by_rmw_ || applied(value) == value) && times_out(trial_->end(std::span(&value, 1)));
  }

  // In a time-out that is not taken.
  bool traps(std::uint64_t value) const {
    return !takes_ && !holds(value) && trial_->end(std::span(&value, 1)) == End::traps;
  }

  machine::Wanted wanted() const {
    machine::Wanted w;
    w.condition = this;
    return w;
  }
  bool by_rmw() const { return by_rmw_; }
  const std::uint64_t* compare() const { return compare_ ? &*compare_ : nullptr; }
  std::uint64_t operand() const { return operand_; }

 private:
  using End = ptx::Trial::End;
  bool times_out(End end) const { return end == End::gives_up || (end == End::traps && takes_); }
  std::uint64_t applied(std::uint64_t value) const {
    return ptx::apply_atomic(access_.combine, access_.type, access_.flush, value, operand_,
                             compare_.value_or(0));
  }

  std::shared_ptr<const ptx::Trial> trial_;
  ptx::Access access_;
  bool takes_ = false;
  bool by_rmw_ = false;
  std::uint64_t operand_ = 0;
  std::optional<std::uint64_t> compare_;
};

}  // namespace ringfence::cases
