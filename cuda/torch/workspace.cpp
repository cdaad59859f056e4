#include "cuda/torch/workspace.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"
#include "cuda/kernels/unfused.hpp"

namespace ringfence::cuda {
namespace {

/// First word of what Python gets, which decides there what to do about it.
const char* error_word(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid";
    case ErrorCode::not_supported:
      return "not-supported";
    case ErrorCode::no_device:
      return "no-device";
    case ErrorCode::peer_lost:
      return "peer-lost";
    case ErrorCode::communication:
      return "communication";
    default:
      return "driver";
  }
}

template <class F>
auto worded(F&& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw std::runtime_error(fmt::format("{}: {}", error_word(e.code()), e.what()));
  }
}

int narrow(int64_t value, const char* what) {
  if (value < -1 || value > 0x7fffffff) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} {} is out of range", what, value));
  }
  return static_cast<int>(value);
}

DataType data_type(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return DataType::bf16;
  if (dtype == at::kHalf) return DataType::fp16;
  throw Error(ErrorCode::invalid_argument, "dtype: use bfloat16 or float16");
}

}  // namespace

World TorchWorkspace::make_world(int64_t rank, int64_t size, int64_t device,
                                 const std::string& job) {
  const int ordinal = narrow(device, "device");
  if (rank < 0) return World::virtual_ranks(narrow(size, "ranks"), ordinal);
  Place place;
  place.rank = narrow(rank, "rank");
  place.size = narrow(size, "ranks");
  place.local_rank = ordinal;
  place.launcher = "torch";
  place.job = job;
  return World::process(std::make_unique<Bootstrap>(place, std::chrono::seconds(60)), ordinal);
}

TorchWorkspace::TorchWorkspace(int64_t rank, int64_t size, int64_t device, const std::string& job,
                               at::ScalarType dtype, bool fp32_weight, int64_t max_tokens,
                               int64_t hidden, const std::string& transport, int64_t blocks,
                               bool strict_start, bool dependent_launch, double timeout)
    : world_(worded([&] { return make_world(rank, size, device, job); })),
      dtype_(dtype),
      fp32_weight_(fp32_weight) {
  worded([&] {
    TokenweaveOptions options;
    options.dtype = data_type(dtype);
    if (transport == "push") {
      options.transport = Transport::push;
    } else if (transport == "peer") {
      options.push_tokens = 0;
    } else if (transport != "auto") {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("transport '{}': use auto, peer or push", transport));
    }
    options.start = strict_start ? StartOrder::strict : StartOrder::relaxed;
    options.launch = dependent_launch ? Launch::dependent : Launch::cooperative;
    options.max_tokens = max_tokens;
    options.hidden = narrow(hidden, "hidden");
    options.blocks = narrow(blocks, "blocks");
    options.fp32_rows = fp32_weight;
    options.timeout_ns = static_cast<uint64_t>(timeout * 1e9);
    tokenweave_ = std::make_unique<Tokenweave>(world_, options);
    world_.barrier();  // every rank has what it needs: none launches alone
  });
}

TorchWorkspace::~TorchWorkspace() = default;

std::vector<at::Tensor> TorchWorkspace::buffers() {
  std::vector<at::Tensor> all;
  const TokenweaveOptions& options = tokenweave_->options();
  for (size_t i = 0; i < world_.members().size(); ++i) {
    auto alive = c10::intrusive_ptr<TorchWorkspace>::reclaim_copy(this);
    all.push_back(at::from_blob(
        tokenweave_->buffer(i), {options.max_tokens, options.hidden}, [alive](void*) {},
        at::TensorOptions().dtype(dtype_).device(
            at::kCUDA, static_cast<c10::DeviceIndex>(world_.members()[i].device))));
  }
  return all;
}

void TorchWorkspace::require_usable() {
  if (failure_.empty()) {
    try {
      tokenweave_->require_no_timeout();
      return;
    } catch (const Error& e) {
      failure_ = e.what();
    }
  }
  throw Error(ErrorCode::peer_lost, failure_);
}

void TorchWorkspace::check() {
  const std::lock_guard lock(mutex_);
  worded([&] { require_usable(); });
}

void TorchWorkspace::enqueue(const at::Tensor& residual, const at::Tensor& residual_out,
                             const at::Tensor& weight, int64_t tokens, double eps) {
  const std::lock_guard lock(mutex_);
  worded([&] {
    require_usable();
    const TokenweaveOptions& options = tokenweave_->options();
    const int64_t members = static_cast<int64_t>(world_.members().size());
    // Python says which tensor is wrong and how; this is what memory safety needs.
    for (const at::Tensor* t : {&residual, &residual_out}) {
      if (!t->is_cuda() || t->get_device() != world_.members().front().device ||
          t->scalar_type() != dtype_ || !t->is_contiguous() ||
          t->numel() != members * tokens * options.hidden) {
        throw Error(ErrorCode::invalid_argument, "residual does not fit the workspace");
      }
    }
    if (!weight.is_cuda() || weight.get_device() != world_.members().front().device ||
        weight.scalar_type() != (fp32_weight_ ? at::kFloat : dtype_) || !weight.is_contiguous() ||
        weight.numel() != options.hidden) {
      throw Error(ErrorCode::invalid_argument, "weight does not fit the workspace");
    }
    if (tokens == 0) return;
    tokenweave_->set_eps(static_cast<float>(eps));
    std::vector<size_t> all;
    for (size_t i = 0; i < world_.members().size(); ++i) {
      const int64_t offset = static_cast<int64_t>(i) * tokens * options.hidden * 2;
      tokenweave_->set_tensors(i, {static_cast<const char*>(residual.const_data_ptr()) + offset,
                                   static_cast<char*>(residual_out.mutable_data_ptr()) + offset,
                                   weight.const_data_ptr(), nullptr});
      all.push_back(i);
    }
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(residual.device().index()).stream();
    // A block without a row would only meet the others at the barriers.
    const int64_t rows = owned_rows(tokens, world_.size(), 0).count;
    tokenweave_->enqueue_members(all, std::vector<cudaStream_t>(all.size(), stream), tokens, 0,
                                 static_cast<int>(std::min<int64_t>(rows, options.blocks)));
  });
}

namespace {

/// The norm after a library's all-reduce, in the roundings of tokenweave: out and residual_out from
/// the sum over the ranks, for the rows first .. first + rows of [tokens, hidden] tensors.
void add_rms_norm(const at::Tensor& sum, const at::Tensor& residual, const at::Tensor& weight,
                  const at::Tensor& out, const at::Tensor& residual_out, double eps) {
  worded([&] {
    AddRmsNormArgs args{};
    args.input = sum.const_data_ptr();
    args.residual = residual.const_data_ptr();
    args.gamma = weight.const_data_ptr();
    args.out = out.mutable_data_ptr();
    args.residual_out = residual_out.mutable_data_ptr();
    args.hidden = narrow(sum.size(-1), "hidden");
    args.rows = sum.numel() / sum.size(-1);
    args.eps = static_cast<float>(eps);
    for (const at::Tensor* t : {&residual, &out, &residual_out}) {
      if (t->numel() != sum.numel() || t->scalar_type() != sum.scalar_type()) {
        throw Error(ErrorCode::invalid_argument,
                    "the tensors of the norm differ in shape or dtype");
      }
    }
    const DeviceScope scope(sum.get_device());
    check(launch_add_rmsnorm(args, data_type(sum.scalar_type()),
                             c10::cuda::getCurrentCUDAStream(sum.device().index()).stream()),
          "launch of add + RMSNorm");
  });
}

bool can_access_peer(int64_t device, int64_t peer) {
  return worded([&] {
    int can = 1;
    if (device != peer) {
      check(cudaDeviceCanAccessPeer(&can, narrow(device, "device"), narrow(peer, "device")),
            "cudaDeviceCanAccessPeer");
    }
    return can != 0;
  });
}

}  // namespace

// The class and functions that python/src/ringfence/torch calls; the operators themselves are
// defined there, so that they have the same checks where this library is not built.
TORCH_LIBRARY(ringfence_native, m) {
  m.class_<TorchWorkspace>("Workspace")
      .def(torch::init<int64_t, int64_t, int64_t, const std::string&, at::ScalarType, bool, int64_t,
                       int64_t, const std::string&, int64_t, bool, bool, double>())
      .def("buffers", &TorchWorkspace::buffers)
      .def("blocks", &TorchWorkspace::blocks)
      .def("enqueue", &TorchWorkspace::enqueue)
      .def("check", &TorchWorkspace::check);
  m.def(
      "add_rms_norm(Tensor sum, Tensor residual, Tensor weight, Tensor(a!) out, Tensor(b!) "
      "residual_out, float eps) -> ()",
      add_rms_norm);
  m.def("can_access_peer(int device, int peer) -> bool", can_access_peer);
}

}  // namespace ringfence::cuda
