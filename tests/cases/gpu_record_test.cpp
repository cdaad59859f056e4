// What an H200 wrote (traces/gpu, made by cuda/bench/record_outputs.sh), against the emulator fed
// with the same partial sums: the kernels' PTX, the same number of threads a row, the same bits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/cases/harness.hpp"
#include "verify/safetensors.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

constexpr const char* kFolder = "traces/gpu";

struct Record {
  std::string file;  // in the folder
  verify::Safetensors tensors;
  const verify::Tensor& at(const std::string& name) const {
    const verify::Tensor* t = tensors.find(name);
    REQUIRE_MESSAGE(t != nullptr, file, " has no ", name);
    return *t;
  }
  std::string meta(const std::string& key) const {
    const auto found = tensors.metadata.find(key);
    return found == tensors.metadata.end() ? "" : found->second;
  }
  int ranks() const { return std::stoi(meta("ranks")); }
  std::int64_t tokens() const { return at("residual").shape[0]; }
  std::int64_t hidden() const { return at("residual").shape[1]; }
};

std::vector<Record> records(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::vector<Record> out;
  for (const std::string& name : names) {
    out.push_back({name, verify::read_safetensors(std::string(kFolder) + "/" + name)});
  }
  return out;
}

// The launch that the GPU made, as a case file beside the record.
std::string case_text(const Record& r) {
  const bool push = r.meta("transport") == "push";
  const bool half = r.meta("dtype") == "fp16";
  const std::int64_t row = r.hidden() * 2;
  const std::int64_t whole = r.tokens() * row;
  const auto memory = [&](const char* name, const char* kind, std::int64_t bytes,
                          const std::string& init) {
    return fmt::format("[memory.{}]\nkind = \"{}\"\nbytes = {}\ninit = {}\n", name, kind, bytes,
                       init);
  };
  const auto from = [&](const char* tensor) {
    return fmt::format("{{ file = \"{}\", tensor = \"{}\" }}", r.file, tensor);
  };
  std::string text = fmt::format("version = 1\nranks = {}\n", r.ranks());
  text += memory("data", "symmetric", whole, from("partial.{rank}"));
  text += memory("residual", "local", whole, from("residual"));
  text += memory("residual_out", "local", whole, "\"zero\"");
  text += memory("gamma", "local", row, from("gamma"));
  text += memory("pad", "symmetric", std::max(16, 4 * std::stoi(r.meta("blocks")) * r.ranks()),
                 "\"zero\"");
  const std::int64_t each = (r.tokens() + r.ranks() - 1) / r.ranks();
  if (push) {
    text +=
        memory("mailbox", "symmetric", 2 * (each * r.ranks() + r.tokens()) * row, "{ fill = 255 }");
    text += memory("state", "symmetric", 8, "\"zero\"");
  }
  // TokenweaveArgs (cuda/kernels/tokenweave.hpp), field by field; PushArgs begins with it.
  const std::string common = fmt::format(
      "{{struct = [ {{replicas = \"data\", count = 8}}, {{u64 = 0}}, {{replicas = \"pad\", count = "
      "8}}, {{u64 = 0}}, {{count = 8, struct = [ {{memory = \"residual\"}}, {{memory = "
      "\"residual_out\"}}, {{memory = \"gamma\"}}, {{u64 = 0}} ]}}, {{s64 = {}}}, {{s32 = {}}}, "
      "\"world\", {{f32 = {}}}, {{f32 = {}}}, \"rank\", {{s32 = {}}}, {{s32 = 0}}, {{struct = [ "
      "{{u64 = 0}}, {{u64 = 0}}, {{u64 = 0}}, {{u32 = 0}}, {{u32 = 0}}, {{u32 = 0}}, {{u32 = 0}} "
      "]}} ]}}",
      r.tokens(), r.hidden(), r.meta("eps"), 1.0 / static_cast<double>(r.hidden()),
      r.meta("blocks"));
  const std::string args =
      push ? fmt::format(
                 "{{struct = [ {}, {{replicas = \"mailbox\", count = 8}}, {{replicas = \"state\", "
                 "count = 8}}, {{s64 = {}}} ]}}",
                 common, r.tokens())
           : common;
  const std::string kernel =
      push ? fmt::format("pushI{}Li{}ELi1E", half ? "6__half" : "13__nv_bfloat16", r.ranks())
           : fmt::format("tokenweave_peerILi{}ELi1E", r.ranks());
  // A thread plays two of the row's, except in the kernel that pushes (tokenweave_layout); the sums
  // are those of a thread each.
  const std::int64_t warps = std::min<std::int64_t>(32, (r.hidden() / 8 + 31) / 32);
  const std::int64_t threads = 32 * (push ? warps : (warps + 1) / 2);
  text += fmt::format(
      "[[launch]]\nptx = \"../ptx/{}.ptx\"\nkernel = \"{}\"\ngrid = [{}]\nblock = [{}]\nargs = [ "
      "{} ]\n",
      push             ? "made/push"
      : half           ? "made/tokenweave-fp16"
      : r.ranks() == 2 ? "tokenweave"
                       : "made/tokenweave-more",
      kernel, r.meta("blocks"), threads, args);
  text += fmt::format(
      "[check]\nmodes = [\"coherent\"]\nequal = [\"data\"]\n{}[check.reference]\nprotocol = "
      "\"tokenweave\"\ntensor = \"data\"\nresidual = \"residual\"\nresidual_out = "
      "\"residual_out\"\ngamma = \"gamma\"\ntokens = {}\nhidden = {}\ndtype = \"{}\"\neps = {}\n",
      push ? "" : "restored = [\"pad\"]\n", r.tokens(), r.hidden(), r.meta("dtype"), r.meta("eps"));
  return text;
}

// Rows of a tensor that a rank's memory differs in, from `first` on.
int rows_that_differ(std::span<const std::byte> memory, const verify::Tensor& tensor,
                     verify::RowRange rows) {
  const auto row = static_cast<std::size_t>(tensor.shape[1]) * 2;
  int count = 0;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * row;
    count += std::memcmp(memory.data() + at, tensor.bytes.data() + at, row) != 0 ? 1 : 0;
  }
  return count;
}

verify::Problem problem_of(const Record& r) {
  verify::Problem p;
  p.flavour = verify::parse_flavour(r.meta("protocol"));
  p.ranks = r.ranks();
  p.tokens = r.tokens();
  p.hidden = r.hidden();
  p.dtype = verify::parse_dtype(r.meta("dtype"));
  p.eps = std::stof(r.meta("eps"));
  return p;
}

// What residual_out may be where the parts arrive in some order: the tile begins as +0.
std::set<std::uint16_t> possible_sums(verify::Dtype dtype, const std::vector<std::uint16_t>& parts,
                                      std::uint16_t residual) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::set<std::uint16_t> out;
  do {
    std::uint16_t tile = 0;
    for (const std::size_t r : order) verify::atomic_add(dtype, &parts[r], 1, &tile);
    out.insert(
        verify::round_to(dtype, verify::to_float(dtype, tile) + verify::to_float(dtype, residual)));
  } while (std::next_permutation(order.begin(), order.end()));
  return out;
}

}  // namespace

TEST_CASE("tokenweave's kernels give what an H200 wrote, bit for bit, from the same partials") {
  if (!made("tokenweave-fp16") || !made("push") || !made("tokenweave-more")) return;
  const std::vector<Record> all = records("tokenweave-");
  CHECK(all.size() == 9);
  for (const Record& r : all) {
    CAPTURE(r.file);
    cases::CaseProgram program(
        cases::parse_case(case_text(r), std::string(kFolder) + "/record.toml"), {});
    const auto executor = ranks::make_inline(program);
    schedule::RunSpec spec;
    spec.policy.boundary = machine::Boundary::coherent;
    spec.strategy.kind = schedule::StrategySpec::Kind::first;
    const schedule::Outcome outcome = executor->run(spec);
    CAPTURE(program.last_mismatch());
    REQUIRE(outcome.end == schedule::RunEnd::complete);
    CHECK(outcome.findings.empty());
    const verify::Problem p = problem_of(r);
    for (int rank = 0; rank < p.ranks; ++rank) {
      CAPTURE(rank);
      const auto of = static_cast<std::uint32_t>(rank);
      const std::span<const std::byte> out = program.consumed(0, of, "data");
      CHECK(rows_that_differ(out, r.at("out"), {0, p.tokens}) == 0);
      CHECK(rows_that_differ(program.consumed(0, of, "residual_out"), r.at("residual_out"),
                             p.rows_of(rank)) == 0);
      // The comparison sees a bit.
      verify::Tensor other = r.at("out");
      other.bytes.back() ^= std::byte{1};
      CHECK(rows_that_differ(out, other, {0, p.tokens}) == 1);
    }
  }
}

// Every block reads the count of launches and then adds to the arrivals, relaxed; the last to
// arrive stores the next count. Nothing releases or acquires between the two, so weak accesses
// would race.
TEST_CASE("push's count of launches races by weak accesses where a rank has several blocks") {
  if (!made("push")) return;
  const std::filesystem::path weak = std::filesystem::temp_directory_path() /
                                     ("ringfence-push-" + std::to_string(::getpid()) + ".ptx");
  std::ifstream in("traces/ptx/made/push.ptx", std::ios::binary);
  REQUIRE(in.is_open());
  std::string ptx((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string strong = "st.relaxed.sys.global.u32";
  REQUIRE(ptx.find(strong) != std::string::npos);
  for (std::size_t at = 0; (at = ptx.find(strong, at)) != std::string::npos;) {
    ptx.replace(at, strong.size(), "st.global.u32");
  }
  std::ofstream(weak, std::ios::binary) << ptx;
  for (const Record& r : records("tokenweave-push-")) {
    CAPTURE(r.file);
    std::string text = case_text(r);
    const std::string kept = "../ptx/made/push.ptx";
    REQUIRE(text.find(kept) != std::string::npos);
    text.replace(text.find(kept), kept.size(), weak.string());
    cases::CaseProgram program(cases::parse_case(text, std::string(kFolder) + "/record.toml"), {});
    const auto executor = ranks::make_inline(program);
    schedule::RunSpec spec;
    spec.policy.boundary = machine::Boundary::coherent;
    spec.strategy.kind = schedule::StrategySpec::Kind::first;
    const schedule::Outcome outcome = executor->run(spec);
    CHECK(outcome.findings.size() == (r.meta("blocks") == "1" ? 0 : 1));
    for (const machine::Finding& f : outcome.findings) {
      CHECK(f.kind == machine::FindingKind::data_race);
      CHECK(program.region_name(f.second.region).rfind("state of rank", 0) == 0);
    }
  }
  std::filesystem::remove(weak);
}

TEST_CASE("push's kernel launched dependent, behind itself, passes; without its wait it races") {
  if (!made("push")) return;
  const std::vector<Record> all = records("tokenweave-push-bf16-r2");
  REQUIRE(all.size() == 1);
  std::string text = case_text(all[0]);
  const std::size_t from = text.find("[[launch]]"), to = text.find("[check]");
  REQUIRE(to != std::string::npos);
  const std::string second = text.substr(from, to - from) + "dependent = true\n";
  // What the second one works on is the first one's result.
  text = text.substr(0, text.find("[check.reference]"));
  text.insert(to, second);
  const auto run = [](const std::string& toml) {
    cases::CaseProgram program(cases::parse_case(toml, std::string(kFolder) + "/record.toml"), {});
    return found(fuzz(program, machine::Boundary::coherent, 30));
  };
  CHECK(run(text) == "clean");
  std::ifstream in("traces/ptx/made/push.ptx", std::ios::binary);
  REQUIRE(in.is_open());
  std::string ptx((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string wait = "griddepcontrol.wait;";
  REQUIRE(ptx.find(wait) != std::string::npos);
  for (std::size_t at = 0; (at = ptx.find(wait, at)) != std::string::npos;) {
    ptx.replace(at, wait.size(), "");
  }
  const std::filesystem::path hasty = std::filesystem::temp_directory_path() /
                                      ("ringfence-hasty-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(hasty, std::ios::binary) << ptx;
  const std::string kept = "../ptx/made/push.ptx";
  for (std::size_t at = 0; (at = text.find(kept, at)) != std::string::npos;) {
    text.replace(at, kept.size(), hasty.string());
  }
  CHECK(run(text) == "data-race");
  std::filesystem::remove(hasty);
}

TEST_CASE("pypto's sums on an H200 are, each by itself, one of the R! orders of their adds") {
  const std::vector<Record> all = records("pypto-");
  CHECK(all.size() == 3);
  for (const Record& r : all) {
    CAPTURE(r.file);
    const verify::Problem p = problem_of(r);
    const std::uint16_t* residual = r.at("residual").bits();
    const std::size_t elements = r.at("residual").elements();
    std::vector<const std::uint16_t*> parts, results;
    for (int rank = 0; rank < p.ranks; ++rank) {
      parts.push_back(r.at(fmt::format("partial.{}", rank)).bits());
      results.push_back(r.at(fmt::format("residual_out.{}", rank)).bits());
    }
    int outside = 0, several = 0, without_one = 0, off_by_one = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      std::vector<std::uint16_t> own;
      for (const std::uint16_t* part : parts) own.push_back(part[i]);
      const std::set<std::uint16_t> possible = possible_sums(p.dtype, own, residual[i]);
      own.pop_back();
      const std::set<std::uint16_t> lost = possible_sums(p.dtype, own, residual[i]);
      several += possible.size() > 1 ? 1 : 0;
      for (const std::uint16_t* result : results) {
        outside += possible.count(result[i]) == 0 ? 1 : 0;
        without_one += lost.count(result[i]) == 0 ? 1 : 0;
        off_by_one += possible.count(static_cast<std::uint16_t>(result[i] ^ 1U)) == 0 ? 1 : 0;
      }
    }
    CHECK(outside == 0);
    // Two ranks have one sum; more have several often enough for the order to show. A part that is
    // missing, or a bit that is wrong, is no order.
    CHECK((p.ranks == 2 ? several == 0 : several > static_cast<int>(elements / 20)));
    const int checked = static_cast<int>(elements) * p.ranks;
    CHECK(without_one > checked * 8 / 10);
    CHECK(off_by_one > checked * 5 / 10);
  }
}

TEST_CASE("the PTX that is compared with a GPU's results was made of the sources here") {
  for (const char* name : {"tokenweave-fp16", "push"}) {
    if (!made(name)) continue;
    CAPTURE(name);
    check_recorded_sources(made_path(name));
  }
}
