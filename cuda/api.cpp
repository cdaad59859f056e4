// cuda/ringfence.hpp over the host side: exceptions end here.
#include "cuda/ringfence.hpp"

#include <chrono>
#include <optional>

#include "cuda/host/bootstrap.hpp"
#include "cuda/host/check.hpp"
#include "cuda/host/fused_operator.hpp"
#include "cuda/host/world.hpp"

namespace ringfence::cuda {
namespace {

template <class F>
Status guarded(F&& body) {
  try {
    body();
    return {};
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::exception& e) {
    return {ErrorCode::driver, e.what()};
  }
}

void require(bool condition, const char* what) {
  if (!condition) throw Error(ErrorCode::invalid_argument, what);
}

}  // namespace

struct Communicator::State {
  World world;
};

Communicator::Communicator() = default;
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Status Communicator::from_environment(Communicator* result) {
  return guarded([&] {
    const std::optional<Place> place = place_from_environment(process_environment());
    require(place.has_value(),
            "no launcher's variables are set: start with torchrun, mpirun, "
            "mpiexec or srun");
    check(cudaSetDevice(place->local_rank), "cudaSetDevice (the launcher's local rank)");
    result->state_ = std::make_shared<State>(State{World::process(
        std::make_unique<Bootstrap>(*place, std::chrono::seconds(60)), place->local_rank)});
  });
}

Status Communicator::one_process(const std::vector<int>& devices, Communicator* result) {
  return guarded(
      [&] { result->state_ = std::make_shared<State>(State{World::one_process(devices)}); });
}

Status Communicator::virtual_ranks(int ranks, int device, Communicator* result) {
  return guarded([&] {
    result->state_ = std::make_shared<State>(State{World::virtual_ranks(ranks, device)});
  });
}

int Communicator::size() const { return state_->world.size(); }
int Communicator::members() const { return static_cast<int>(state_->world.members().size()); }
int Communicator::rank(int member) const {
  return state_->world.members()[static_cast<size_t>(member)].rank;
}
int Communicator::device(int member) const {
  return state_->world.members()[static_cast<size_t>(member)].device;
}

struct SymmetricBuffer::State {
  std::shared_ptr<Communicator::State> communicator;
  std::unique_ptr<SymmetricMemory> memory;
};

SymmetricBuffer::SymmetricBuffer() = default;
SymmetricBuffer::~SymmetricBuffer() = default;
SymmetricBuffer::SymmetricBuffer(SymmetricBuffer&&) noexcept = default;
SymmetricBuffer& SymmetricBuffer::operator=(SymmetricBuffer&&) noexcept = default;

Status SymmetricBuffer::allocate(const Communicator& communicator, size_t bytes,
                                 SymmetricBuffer* result) {
  return guarded([&] {
    require(communicator.state_ != nullptr, "the communicator was not created");
    auto state = std::make_shared<State>();
    state->communicator = communicator.state_;
    state->memory = communicator.state_->world.allocate(bytes);
    result->state_ = std::move(state);
  });
}

void* SymmetricBuffer::replica(int rank) const { return state_->memory->replica(rank); }
size_t SymmetricBuffer::bytes() const { return state_->memory->bytes(); }

struct Operator::State {
  std::shared_ptr<Communicator::State> communicator;
  std::unique_ptr<FusedOperator> fused;
};

Operator::Operator() = default;
Operator::~Operator() = default;
Operator::Operator(Operator&&) noexcept = default;
Operator& Operator::operator=(Operator&&) noexcept = default;

Status Operator::create(const Communicator& communicator, const OperatorConfig& config,
                        Operator* result) {
  return guarded([&] {
    require(communicator.state_ != nullptr, "the communicator was not created");
    FusedOptions options;
    options.tokenweave.dtype = config.dtype;
    options.tokenweave.start = config.start;
    options.tokenweave.max_tokens = config.max_tokens;
    options.tokenweave.hidden = config.hidden;
    options.tokenweave.eps = config.eps;
    options.tokenweave.blocks = config.blocks;
    options.tokenweave.timeout_ns = static_cast<uint64_t>(config.timeout_seconds * 1e9);
    options.inner = config.inner;
    options.waves = config.waves;
    options.wave_blocks = config.wave_blocks;
    auto state = std::make_shared<State>();
    state->communicator = communicator.state_;
    state->fused = std::make_unique<FusedOperator>(communicator.state_->world, options);
    result->state_ = std::move(state);
  });
}

Status Operator::set_tensors(int member, const OperatorTensors& t) {
  return guarded([&] {
    require(state_ != nullptr, "the operator was not created");
    const size_t members = state_->communicator->world.members().size();
    require(member >= 0 && static_cast<size_t>(member) < members, "there is no such member");
    state_->fused->set_tensors(static_cast<size_t>(member),
                               {t.x, t.weight, {t.residual, t.residual, t.gamma, t.beta}});
  });
}

Status Operator::prepare(int64_t tokens) {
  return guarded([&] {
    require(state_ != nullptr, "the operator was not created");
    state_->fused->prepare(tokens);
  });
}

void* Operator::out(int member) const {
  return state_ == nullptr ? nullptr : state_->fused->out(static_cast<size_t>(member));
}

Status Operator::check() const {
  return guarded([&] {
    require(state_ != nullptr, "the operator was not created");
    state_->fused->tokenweave().require_no_timeout();
  });
}

Status matmul_allreduce_add_rmsnorm(Operator& op, int64_t tokens, cudaStream_t stream) {
  return guarded([&] {
    require(op.state_ != nullptr, "the operator was not created");
    if (stream == nullptr) {
      op.state_->fused->enqueue(tokens);
    } else {
      op.state_->fused->enqueue_on(tokens, stream);
    }
  });
}

}  // namespace ringfence::cuda
