#include "emulator/cases/expected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "verify/error.hpp"
#include "verify/expression.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cases {
namespace {

using Shared = std::shared_ptr<const verify::Expectation>;

bool lists(const std::vector<std::uint32_t>& list, std::uint32_t number) {
  return list.empty() || std::find(list.begin(), list.end(), number) != list.end();
}

void put_number(std::string& text, std::string_view place, std::uint32_t number) {
  for (auto at = text.find(place); at != std::string::npos; at = text.find(place)) {
    text.replace(at, place.size(), std::to_string(number));
  }
}

// One entry of check.expected.
class Entry {
 public:
  Entry(const CaseFile& file, const ExpectedValue& e, const Payload& payload,
        verify::Summation summation)
      : file_(file), e_(e), payload_(payload), summation_(summation) {
    if (!e.file.empty()) {
      tensors_ = file.tensors(file.beside(e.file));
      return;
    }
    value_ = verify::Expression::parse(e.value);
    for (const auto& [name, text] : file.check.let) {
      let_[name] = verify::Expression::parse(text);
    }
    const auto dtype = e.dtype.empty() ? first_dtype(value_) : verify::parse_dtype(e.dtype);
    if (!dtype) throw verify::InputError("the value names no memory: expected a dtype");
    dtype_ = *dtype;
  }

  // By rank; null where it is not judged.
  std::vector<Shared> after(std::uint32_t call) const {
    std::vector<Shared> out(file_.ranks);
    if (!lists(e_.calls, call)) return out;
    verify::Evaluator evaluator(context(call));
    Shared of_all;  // the same on all ranks
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      if (!lists(e_.ranks, r)) continue;
      if (!e_.file.empty()) {
        out[r] = finished(recorded(call, r));
      } else if (evaluator.depends_on_rank(value_)) {
        out[r] = finished(verify::expectation(evaluator.of(value_, r), dtype_));
      } else {
        if (of_all == nullptr) {
          of_all = finished(verify::expectation(evaluator.of(value_, r), dtype_));
        }
        out[r] = of_all;
      }
    }
    return out;
  }

 private:
  std::size_t index_of(const std::string& memory) const {
    return static_cast<std::size_t>(file_.find(memory) - file_.memories.data());
  }

  std::optional<verify::Dtype> first_dtype(const verify::Expression& of,
                                           std::size_t depth = 0) const {
    for (const std::string& name : of.names()) {
      const auto let = let_.find(name);
      if (let == let_.end()) return payload_.dtype(index_of(name));
      if (depth == let_.size()) {
        throw verify::InputError(fmt::format("'{}' is defined by itself", name));
      }
      if (const auto dtype = first_dtype(let->second, depth + 1)) return dtype;
    }
    return std::nullopt;
  }

  verify::ExpressionContext context(std::uint32_t call) const {
    verify::ExpressionContext c;
    c.ranks = file_.ranks;
    c.columns = static_cast<std::int64_t>(e_.columns);
    c.named = let_;
    for (const std::string& name : e_.round) c.rounded[name] = dtype_;
    c.accumulation = accumulation();
    c.input = [this, call](const std::string& name, std::uint32_t rank) {
      const std::size_t m = index_of(name);
      const verify::Dtype dtype = payload_.dtype(m);
      return verify::values_of(dtype, payload_.content(call, rank, m).data(),
                               payload_.filled(m) / verify::dtype_bytes(dtype));
    };
    return c;
  }

  // The policy of sums that hardware makes holds for those that a kernel makes, too.
  verify::Accumulation accumulation() const {
    verify::Accumulation how;
    how.target = dtype_;
    how.truncated = summation_ == verify::Summation::fp32_truncated && verify::is_half(dtype_);
    if (!e_.accumulate.empty()) {
      how.dtype = verify::parse_dtype(e_.accumulate);
    } else if (summation_ == verify::Summation::each_step && verify::is_half(dtype_)) {
      how.dtype = dtype_;
    }
    return how;
  }

  verify::Expectation recorded(std::uint32_t call, std::uint32_t rank) const {
    std::string name = e_.tensor;
    put_number(name, "{rank}", rank);
    put_number(name, "{call}", call);
    const verify::Tensor* const t = tensors_.find(name);
    if (t == nullptr) throw verify::InputError(fmt::format("{} has no tensor '{}'", e_.file, name));
    verify::Expectation e =
        verify::expectation(verify::values_of(t->dtype, t->bytes.data(), t->elements()),
                            e_.dtype.empty() ? t->dtype : verify::parse_dtype(e_.dtype));
    e.shape = t->shape;
    return e;
  }

  Shared finished(verify::Expectation e) const {
    const std::uint64_t size = verify::dtype_bytes(e.dtype);
    const std::uint64_t bytes = e.elements() * size;
    const std::uint64_t room = file_.find(e_.memory)->bytes;
    if (e.elements() == 0)
      throw verify::InputError("nothing is expected: the value has no elements");
    if (e_.offset % size != 0) {
      throw verify::InputError(
          fmt::format("offset {}: expected a multiple of {}", e_.offset, size));
    }
    if (e_.offset > room || bytes > room - e_.offset) {
      throw verify::InputError(
          fmt::format("{} elements of {} from byte {} on, and '{}' has {} bytes", e.elements(),
                      verify::dtype_name(e.dtype), e_.offset, e_.memory, room));
    }
    if (e_.rtol || e_.atol) {
      e.has_tolerance = true;
      e.rtol = e_.rtol.value_or(0);
      e.atol = e_.atol.value_or(0);
    }
    return std::make_shared<const verify::Expectation>(std::move(e));
  }

  const CaseFile& file_;
  const ExpectedValue& e_;
  const Payload& payload_;
  verify::Summation summation_;
  verify::Expression value_;
  std::map<std::string, verify::Expression> let_;
  verify::Dtype dtype_ = verify::Dtype::f32;
  verify::Safetensors tensors_;
};

}  // namespace

Expectations::Expectations(const CaseFile& file, std::uint32_t calls, const Payload& payload,
                           verify::Summation summation)
    : calls_(calls), ranks_(file.ranks) {
  for (const ExpectedValue& e : file.check.expected) {
    try {
      const Entry entry(file, e, payload, summation);
      for (std::uint32_t call = 0; call < calls; ++call) {
        for (Shared& s : entry.after(call)) all_.push_back(std::move(s));
      }
    } catch (const verify::InputError& error) {
      throw CaseError(
          fmt::format("{}:{}: [check.expected.{}]: {}", file.path, e.line, e.memory, error.what()));
    }
  }
}

}  // namespace ringfence::cases
