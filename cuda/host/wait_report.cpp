#include "cuda/host/wait_report.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "cuda/host/check.hpp"

namespace ringfence::cuda {

WaitReport::WaitReport() {
  void* page = nullptr;
  check(cudaHostAlloc(&page, sizeof(SpinReport), cudaHostAllocPortable | cudaHostAllocMapped),
        "cudaHostAlloc");
  page_ = static_cast<SpinReport*>(page);
  std::memset(page_, 0, sizeof *page_);
}

WaitReport::~WaitReport() { (void)cudaFreeHost(page_); }

std::vector<SpinTimeout> WaitReport::entries() const {
  const uint32_t count = std::min(page_->count, SpinReport::kCapacity);
  return {page_->entry, page_->entry + count};
}

const char* signal_kind_name(SignalKind kind) {
  switch (kind) {
    case SignalKind::start_put:
      return "start put";
    case SignalKind::start_wait:
      return "start wait";
    case SignalKind::end_put:
      return "end put";
    case SignalKind::end_wait:
      return "end wait";
    case SignalKind::tile_barrier:
      return "tile barrier";
    case SignalKind::data_wait:
      return "data";
    case SignalKind::tile_signal:
      return "tile signal";
  }
  return "unknown";
}

std::string timeout_text(const SpinTimeout& t) {
  const std::string peer =
      t.peer == SpinTimeout::kAnyPeer ? "all ranks" : fmt::format("rank {}", t.peer);
  return fmt::format("rank {} block {} gave up waiting for {} at slot {} ({}, value {})", t.rank,
                     t.block, peer, t.slot, signal_kind_name(t.kind), t.value);
}

std::string wait_table(const std::vector<SpinTimeout>& timeouts, int world) {
  // (waiter, awaited) -> blocks, by kind
  std::map<std::pair<uint32_t, uint32_t>, std::map<SignalKind, std::set<uint32_t>>> edges;
  std::set<uint32_t> heard;
  for (const SpinTimeout& t : timeouts) {
    edges[{t.rank, t.peer}][t.kind].insert(t.block);
    heard.insert(t.rank);
  }
  std::string text =
      fmt::format("{:>6}  {:>10}  {:<12}  {}\n", "rank", "waits for", "at", "blocks");
  std::set<uint32_t> missing;
  for (const auto& [edge, kinds] : edges) {
    const std::string peer =
        edge.second == SpinTimeout::kAnyPeer ? "all" : fmt::format("{}", edge.second);
    for (const auto& [kind, blocks] : kinds) {
      text += fmt::format("{:>6}  {:>10}  {:<12}  {}\n", edge.first, peer, signal_kind_name(kind),
                          blocks.size());
    }
    if (edge.second != SpinTimeout::kAnyPeer && heard.count(edge.second) == 0) {
      missing.insert(edge.second);
    }
  }
  for (int r = 0; r < world; ++r) {
    const bool silent = heard.count(static_cast<uint32_t>(r)) == 0;
    if (silent && edges.size() > 0 && timeouts.front().peer == SpinTimeout::kAnyPeer) {
      missing.insert(static_cast<uint32_t>(r));
    }
  }
  for (uint32_t r : missing) text += fmt::format("rank {} is missing: it waits for nobody\n", r);
  return text;
}

std::string pad_dump(const std::vector<std::vector<uint32_t>>& pads, int world) {
  std::string text;
  for (size_t r = 0; r < pads.size(); ++r) {
    for (size_t slot = 0; slot < pads[r].size(); ++slot) {
      if (pads[r][slot] != 0) {
        text += fmt::format("pad of rank {}: slot {} (block {}, rank {}) is {}\n", r, slot,
                            slot / static_cast<size_t>(world), slot % static_cast<size_t>(world),
                            pads[r][slot]);
      }
    }
  }
  return text;
}

}  // namespace ringfence::cuda
