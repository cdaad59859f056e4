#include "cuda/host/trace_file.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"
#include "cuda/host/multicast_gate.hpp"
#include "cuda/host/session.hpp"
#include "cuda/host/trace_check.hpp"
#include "cuda/host/wait_report.hpp"

namespace ringfence::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

bool tokenweave(const RunOptions& o) { return o.protocol == verify::Flavour::tokenweave; }

Json header_json(const RunOptions& o, int world, bool one_clock) {
  Json config{{"protocol", verify::flavour_name(o.protocol)},
              {"ranks", world},
              {"tokens", o.tokens},
              {"hidden", o.hidden},
              {"inner", o.inner},
              {"blocks", o.blocks},
              {"calls", o.calls},
              {"dtype", verify::dtype_name(o.dtype)},
              {"eps", o.eps}};
  std::vector<std::string> rules{"pairing", "program-order"};
  if (tokenweave(o)) {
    config["start"] = o.start == StartOrder::strict ? "strict" : "relaxed";
    if (one_clock) rules.insert(rules.end(), {"reads-from", "alternation"});
  } else {
    config["tile_rows"] = o.tile_rows;
    config["pipeline"] = o.pipelined;
    rules = one_clock ? std::vector<std::string>{"pairing", "barrier"}
                      : std::vector<std::string>{"pairing"};
  }
  return Json{{"ringfence-gpu-trace", 1},
              {"ringfence", "0.1.0"},
              {"config", config},
              {"boundary", tokenweave(o) && o.start == StartOrder::relaxed ? "coherent" : "all"},
              {"seed", o.seed},
              {"executor", "gpu"},
              {"clock", one_clock ? "one" : "a device each"},
              {"rules", rules}};
}

const char* order_of(const RunOptions& o, SignalKind kind) {
  const bool relaxed = o.start == StartOrder::relaxed;
  switch (kind) {
    case SignalKind::start_put:
      return relaxed ? "relaxed" : "release";
    case SignalKind::start_wait:
      return relaxed ? "relaxed" : "acquire";
    case SignalKind::end_put:
      return "release";
    case SignalKind::end_wait:
    case SignalKind::tile_barrier:
    case SignalKind::tile_signal:
      return "acquire";
    case SignalKind::data_wait:
      return "relaxed";
  }
  return "";
}

Json event_json(const RunOptions& o, int world, const SignalEvent& e, int64_t from, uint64_t zero) {
  const bool tile = e.kind == SignalKind::tile_barrier || e.kind == SignalKind::tile_signal;
  const bool put = e.kind == SignalKind::start_put || e.kind == SignalKind::end_put;
  Json line;
  line["agent"] = fmt::format("r{}.c{}.b{}.t{}", e.rank, e.call, e.block, tile ? 0 : e.peer);
  line["op"] = signal_kind_name(e.kind);
  line["pad"] = put ? e.peer : e.rank;
  line["slot"] = e.slot;
  line["order"] = order_of(o, e.kind);
  line["value"] = tile ? Json{world, 0} : put ? Json{0, 1} : Json{1, 0};
  if (from >= 0) line["from"] = from;
  line["begin_ns"] = e.begin_ns - zero;
  line["end_ns"] = e.end_ns - zero;
  return line;
}

/// All processes' events, on every rank.
std::vector<SignalEvent> gathered(const World& world, const std::vector<SignalEvent>& mine) {
  if (world.bootstrap() == nullptr) return mine;
  std::vector<std::byte> bytes(mine.size() * sizeof(SignalEvent));
  if (!bytes.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
  std::vector<SignalEvent> all;
  for (const std::vector<std::byte>& part : world.bootstrap()->all_gather(bytes)) {
    const size_t before = all.size();
    all.resize(before + part.size() / sizeof(SignalEvent));
    if (!part.empty()) std::memcpy(all.data() + before, part.data(), part.size());
  }
  return all;
}

}  // namespace

std::string trace_text(const RunOptions& options, int world, bool one_clock,
                       const std::vector<SignalEvent>& given,
                       const std::vector<std::string>& faults) {
  std::vector<SignalEvent> events = given;
  std::sort(events.begin(), events.end(), [](const SignalEvent& a, const SignalEvent& b) {
    return std::tie(a.begin_ns, a.rank, a.block, a.peer, a.kind) <
           std::tie(b.begin_ns, b.rank, b.block, b.peer, b.kind);
  });
  const std::vector<int64_t> from = reads_from(events);
  const uint64_t zero = events.empty() ? 0 : events.front().begin_ns;
  std::string text = header_json(options, world, one_clock).dump() + "\n";
  for (size_t i = 0; i < events.size(); ++i) {
    text += event_json(options, world, events[i], from[i], zero).dump() + "\n";
  }
  const Json verdict{{"verdict", faults.empty() ? "pass" : "finding"},
                     {"events", events.size()},
                     {"faults", faults}};
  return text + verdict.dump() + "\n";
}

void TraceRecorder::FreePinned::operator()(SignalEvent* events) const {
  (void)cudaFreeHost(events);
}

TraceRecorder::TraceRecorder(Session& session, const RunOptions& options) : options_(options) {
  const World& world = session.world();
  if (tokenweave(options) && parse_transport(options.transport) == Transport::push) {
    throw Error(ErrorCode::invalid_argument,
                "--trace logs signals, and --transport push has none: use --transport peer");
  }
  const uint64_t calls = static_cast<uint64_t>(options.calls) + (options.graph ? 3 : 0);
  // Room for all ranks, also where a process logs only its own.
  const uint64_t blocks =
      static_cast<uint64_t>(world.size()) * static_cast<uint64_t>(options.blocks);
  uint64_t each = static_cast<uint64_t>(world.size()) * 4;
  if (session.pypto() != nullptr) {
    each =
        static_cast<uint64_t>((session.max_tokens() + options.tile_rows - 1) / options.tile_rows) *
        2;
  }
  const uint64_t stride = blocks * each;
  const uint64_t capacity = calls * stride;
  if (capacity * sizeof(SignalEvent) > kMostBytes) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--trace: {} calls log up to {} events, more than 1 GiB: use --calls {} "
                    "or fewer",
                    calls, capacity, kMostBytes / sizeof(SignalEvent) / stride));
  }
  capacity_ = static_cast<uint32_t>(capacity);
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, capacity * sizeof(SignalEvent), cudaHostAllocPortable),
        "memory of the trace");
  events_.reset(static_cast<SignalEvent*>(pinned));
  std::fill_n(events_.get(), capacity, SignalEvent{});
  if (session.tokenweave() != nullptr) {
    session.tokenweave()->set_trace(events_.get(), capacity_, static_cast<uint32_t>(stride));
  } else {
    session.pypto()->set_trace(events_.get(), capacity_, static_cast<uint32_t>(stride));
  }
}

std::vector<std::string> TraceRecorder::write_and_check(Session& session) {
  const World& world = session.world();
  std::vector<SignalEvent> mine;
  for (uint32_t i = 0; i < capacity_; ++i) {
    if (events_.get()[i].end_ns != 0) mine.push_back(events_.get()[i]);
  }
  const std::vector<SignalEvent> events = gathered(world, mine);
  if (!world.is_root()) return {};
  const bool one_clock = world.kind() == World::Kind::virtual_ranks;
  std::vector<std::string> faults;
  if (events.empty()) {
    faults.push_back("trace: no event was logged");
  } else if (tokenweave(options_)) {
    faults = check_signal_events(events, world.size(), one_clock);
  } else if (one_clock) {
    faults = check_tile_events(events, session.pypto()->lead());
  }
  std::ofstream file(options_.trace, std::ios::binary);
  if (!(file << trace_text(options_, world.size(), one_clock, events, faults)).flush()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--trace {}: cannot be written: name a file in a folder that is there",
                            options_.trace));
  }
  return faults;
}

}  // namespace ringfence::cuda
