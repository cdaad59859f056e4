#include "tests/oracle/kernel.hpp"

namespace ringfence::oracle {

bool is_loop(Step::Kind kind) {
  using Kind = Step::Kind;
  return kind == Kind::poll || kind == Kind::poll_ne || kind == Kind::poll_ge ||
         kind == Kind::poll_add || kind == Kind::poll_cas || kind == Kind::poll_ahead ||
         kind == Kind::poll_told || kind == Kind::poll_twice || kind == Kind::bounded_poll ||
         kind == Kind::vote_poll;
}

bool has_result(Step::Kind kind) {
  using Kind = Step::Kind;
  switch (kind) {
    case Kind::load:
    case Kind::add:
    case Kind::exch:
    case Kind::cas:
    case Kind::poll_told:
    case Kind::poll_twice:
    case Kind::bounded_poll:
    case Kind::vote:
    case Kind::bar_red:
    case Kind::mbar_test:
      return true;
    default:
      return false;
  }
}

int Kernel::events() const {
  int n = 0;
  for (const auto& code : threads) n += static_cast<int>(code.size());
  return n;
}

}  // namespace ringfence::oracle
