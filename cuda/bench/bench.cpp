#include "cuda/bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cuda/bench/bandwidth.hpp"
#include "cuda/bench/methods.hpp"
#include "cuda/bench/timer.hpp"
#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

/// GB/s of a copy on the first device, bytes read plus bytes written.
double copy_bandwidth(const World& world) {
  const World::Member& m = world.members().front();
  const DeviceScope scope(m.device);
  constexpr size_t kBytes = size_t{1} << 30;
  const DeviceBuffer from(m.device, kBytes);
  const DeviceBuffer to(m.device, kBytes);
  check(launch_fill(from.get(), kBytes / 2, true, 3, m.stream), "fill");
  const Timing t = time_calls(world, {m.stream}, 4, 7, true, [&] {
    check(launch_copy(from.get(), to.get(), kBytes, m.stream), "copy");
  });
  return 2.0 * kBytes / t.median_us * 1e-3;
}

/// GB/s that a GPU reads from the next one while all do.
double link_bandwidth(const World& world) {
  constexpr size_t kBytes = size_t{256} << 20;
  const auto memory = world.allocate(kBytes);
  std::vector<cudaStream_t> streams;
  for (const World::Member& m : world.members()) streams.push_back(m.stream);
  const Timing t = time_calls(world, streams, 4, 7, true, [&] {
    for (const World::Member& m : world.members()) {
      const DeviceScope scope(m.device);
      check(launch_read(memory->replica((m.rank + 1) % world.size()), kBytes, m.stream), "read");
    }
  });
  return kBytes / t.median_us * 1e-3;
}

/// Elements that are wrong in one judged call with exact rows, or -1 where the case is too large to
/// judge in passing.
int64_t count_wrong(const World& world, RunOptions o, int64_t tokens, int blocks, bool pypto) {
  if (tokens * o.hidden > (int64_t{1} << 23) || o.hidden % 8 != 0) return -1;
  o.protocol = pypto ? verify::Flavour::pypto : verify::Flavour::tokenweave;
  o.inner = int64_t{16} * world.size();
  o.blocks = blocks;
  o.tile_rows = tokens <= 8 ? 8 : tokens <= 64 ? 64 : 128;
  Session session(world, o, tokens);
  session.prepare(tokens);
  const verify::Inputs inputs =
      make_inputs(session.problem(tokens), verify::Fill::exact_rows, o.seed, 0);
  session.upload(inputs, tokens);
  world.barrier();
  session.enqueue_product(tokens);
  world.barrier();
  CallResult result;
  if (world.is_root()) result.partial = session.fetch_partials(tokens);
  world.barrier();
  session.enqueue_protocol(tokens);
  world.synchronize();
  session.require_no_timeout();
  world.barrier();
  int64_t wrong = 0;
  if (world.is_root()) {
    session.fetch_outputs(result);
    const CallVerdict verdict =
        judge(session.problem(tokens), verify::Fill::exact_rows, inputs, result);
    for (const verify::Comparison& c : verdict.comparisons) {
      wrong += static_cast<int64_t>(c.mismatches);
    }
    wrong += static_cast<int64_t>(verdict.faults.size());
  }
  world.barrier();
  return wrong;
}

std::string now() {
  char text[32];
  const std::time_t t = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&t));
  return text;
}

struct Row {
  int64_t tokens;
  int blocks;
  std::string method;
  Timing timing;
  double bytes = 0;        // 0 where the bound says nothing
  double to_baseline = 0;  // baseline's time over this one's
  double to_bound = 0;     // this time over the bound's
  int64_t wrong = -1;
};

void print_row(const RunOptions& o, const Row& r) {
  const auto number = [](double v) { return v > 0 ? fmt::format("{:.2f}", v) : std::string("-"); };
  fmt::print(
      "{:>8}  {:>12}  {:>6}  {:>5}  {:<18}  {:>9.2f}  {:>8}  {:>9}  {:>8}  {:>6}\n", r.tokens,
      r.tokens * o.hidden * 2, r.blocks, verify::dtype_name(o.dtype), r.method, r.timing.median_us,
      r.bytes > 0 ? fmt::format("{:.0f}", r.bytes / r.timing.median_us * 1e-3) : std::string("-"),
      number(r.to_baseline), number(r.to_bound),
      r.wrong < 0 ? std::string("N/A") : std::to_string(r.wrong));
  std::fflush(stdout);
}

int iterations_for(const BenchOptions& b, int64_t tokens) {
  if (b.iterations > 0) return b.iterations;
  return tokens <= 256 ? 20 : tokens <= 2048 ? 10 : 4;
}

double baseline_of(const std::string& names, const std::map<std::string, double>& times) {
  size_t begin = 0;
  while (begin <= names.size()) {
    const size_t end = std::min(names.find('|', begin), names.size());
    const auto found = times.find(names.substr(begin, end - begin));
    if (found != times.end()) return found->second;
    begin = end + 1;
  }
  return 0;
}

}  // namespace

const char* bench_methods_help() {
  return "what to time: unfused, unfused-replicated, nccl, nccl-rs-ag, fused, fused-strict, "
         "fused-push, product, "
         "product+unfused, product+nccl, product+fused, waves2, waves4, waves8, pypto (default: "
         "what the "
         "ranks allow)";
}

int run_bench(const RunOptions& options, const BenchOptions& bench,
              const std::optional<Place>& place) {
  const World world = make_world(options, place);
  const bool real = world.kind() != World::Kind::virtual_ranks;
  std::unique_ptr<Nccl> nccl;
  std::string nccl_text = "none";
  if (real || world.size() == 1) {
    try {
      nccl = std::make_unique<Nccl>(world, bench.nccl_id_file);
      nccl_text = nccl->version();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::not_supported) throw;
      nccl_text = e.what();
    }
  }
  const double copy = copy_bandwidth(world);
  const double link = real && world.size() > 1 ? link_bandwidth(world) : 0;
  const double ceiling = link > 0 ? link : copy;
  const Device device = require_device(world.members().front().device);
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  if (world.is_root()) {
    fmt::print("# ringfence gpu bench, {}\n", now());
    fmt::print("# {} x {} ({}), driver {}, runtime {}, NCCL {}\n", real ? world.size() : 1,
               device.name, real ? "a rank each" : fmt::format("{} virtual ranks", world.size()),
               driver_version(), runtime_version(), nccl_text);
    fmt::print("# copy {:.0f} GB/s (read + written){}\n", copy,
               link > 0 ? fmt::format(", link {:.0f} GB/s one way", link) : std::string());
    fmt::print("# bytes: of one tensor. GB/s and bound: {}\n",
               link > 0 ? "bytes into one GPU over the link bandwidth"
                        : "bytes moved in memory over the copy bandwidth");
    fmt::print("# {:>6}  {:>12}  {:>6}  {:>5}  {:<18}  {:>9}  {:>8}  {:>9}  {:>8}  {:>6}\n",
               "tokens", "bytes", "blocks", "dtype", "method", "time(us)", "GB/s", "x baseline",
               "x bound", "#wrong");
    std::fflush(stdout);
  }
  const std::vector<std::string> names =
      bench.methods.empty() ? default_methods(world, nccl != nullptr) : bench.methods;
  const std::vector<int> block_list =
      bench.blocks.empty() ? std::vector<int>{options.blocks} : bench.blocks;
  int64_t total_wrong = 0;
  for (int64_t tokens : options.tokens) {
    std::map<std::string, double> times;
    for (int asked : block_list) {
      for (const std::string& name : names) {
        const bool by_blocks = name.find("fused") == 0 || name == "product+fused" ||
                               name.find("waves") == 0 || name == "pypto";
        if (!by_blocks && times.count(name) != 0) continue;
        if (name == "pypto" && options.dtype != verify::Dtype::bf16) continue;
        if (name == "nccl-rs-ag" && tokens % world.size() != 0) continue;
        RunOptions of_method = options;
        if (name == "pypto") of_method.protocol = verify::Flavour::pypto;
        const int blocks = asked > 0 ? asked : chosen_blocks(of_method, world, tokens);
        Row row{tokens, by_blocks ? blocks : 0, name, {}};
        {
          const Bench context{world, options, tokens, blocks, nccl.get()};
          const Method method = make_method(name, context);
          row.timing = time_calls(world, method.streams, iterations_for(bench, tokens),
                                  bench.samples, method.captured, method.enqueue);
          row.to_baseline = baseline_of(method.baseline, times) / row.timing.median_us;
          if (!method.whole) {
            row.bytes = fused_bytes(world, tokens, options.hidden);
            row.to_bound = row.timing.median_us / (row.bytes / ceiling * 1e-3);
          }
        }
        times[name] = row.timing.median_us;
        if (name == "fused" || name == "pypto" || name == "fused-push") {
          RunOptions judged = options;
          if (name == "fused-push") judged.transport = "push";
          row.wrong = count_wrong(world, judged, tokens, blocks, name == "pypto");
          total_wrong += std::max<int64_t>(row.wrong, 0);
        }
        if (!world.is_root()) continue;
        print_row(options, row);
        table.push_back({{"tokens", row.tokens},
                         {"hidden", options.hidden},
                         {"blocks", row.blocks},
                         {"method", row.method},
                         {"median_us", row.timing.median_us},
                         {"least_us", row.timing.least_us},
                         {"largest_us", row.timing.largest_us},
                         {"bytes", row.bytes},
                         {"times_faster_than_baseline", row.to_baseline},
                         {"times_the_bound", row.to_bound},
                         {"wrong", row.wrong}});
      }
    }
  }
  if (!world.is_root()) return 0;
  fmt::print("# Out of bounds values : {} {}\n", total_wrong, total_wrong == 0 ? "OK" : "FAILED");
  if (!bench.json.empty()) {
    nlohmann::ordered_json j;
    j["version"] = 1;
    j["command"] = "gpu bench";
    j["verdict"] = total_wrong == 0 ? "pass" : "finding";
    j["seed"] = options.seed;
    j["date"] = now();
    j["configuration"] = {{"ranks", world.size()},
                          {"virtual", !real},
                          {"device", device.name},
                          {"driver", driver_version()},
                          {"runtime", runtime_version()},
                          {"nccl", nccl_text},
                          {"hidden", options.hidden},
                          {"inner", options.inner},
                          {"dtype", verify::dtype_name(options.dtype)},
                          {"copy_gb_s", copy},
                          {"link_gb_s", link}};
    j["rows"] = table;
    std::ofstream(bench.json) << j.dump(2) << "\n";
  }
  return total_wrong == 0 ? 0 : 1;
}

}  // namespace ringfence::cuda
