#include "emulator/ranks/segment.hpp"

#include <doctest/doctest.h>

#include <string>

#include "emulator/ranks/executors.hpp"
#include "tests/ranks/shared_counters.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::testing;

namespace {

class Huge final : public SmallProgram {
 public:
  explicit Huge(std::uint64_t bytes) : SmallProgram(2), bytes_(bytes) {}
  std::uint64_t shared_bytes() const override { return bytes_; }
  void set_up(machine::Machine&, std::pmr::memory_resource*) override { set_up_called = true; }
  void host(Agent&, std::uint16_t) override {}
  bool set_up_called = false;

 private:
  std::uint64_t bytes_;
};

}  // namespace

TEST_CASE("a segment that does not fit is refused with asked and available bytes, before mapping") {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 44, std::uint64_t{1} << 63}) {
    Huge program(bytes);
    try {
      ranks::make_processes(program);
      FAIL("a pool of " << bytes << " bytes was made");
    } catch (const ranks::SegmentError& e) {
      CAPTURE(std::string(e.what()));
      CHECK(std::string(e.what()).find("MiB") != std::string::npos);
    }
    CHECK_FALSE(program.set_up_called);
  }
  Huge program(4096);
  ranks::ProcessOptions options;
  options.segment_bytes = std::uint64_t{1} << 50;
  CHECK_THROWS_AS(ranks::make_processes(program, options), ranks::SegmentError);
}

TEST_CASE("available memory is at most what the machine has") {
  std::ifstream in("/proc/meminfo");
  std::string word;
  std::uint64_t kib = 0;
  in >> word >> kib;
  CHECK(word == "MemTotal:");
  CHECK(ranks::available_memory() > 0);
  CHECK(ranks::available_memory() <= kib * 1024);
}

TEST_CASE("the segment gives and takes back memory, aligned as asked, and says when it is full") {
  ranks::Segment segment(1 << 20, 1 << 20);
  std::pmr::memory_resource* memory = segment.memory();
  for (const std::size_t alignment : {8u, 16u, 64u, 4096u}) {
    void* at = memory->allocate(1000, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(at) % alignment == 0);
    memory->deallocate(at, 1000, alignment);
  }
  for (int i = 0; i < 100; ++i) {  // 50 MB in turn
    void* at = memory->allocate(500000);
    memory->deallocate(at, 500000);
  }
  CHECK_THROWS_AS(static_cast<void>(memory->allocate(2 << 20)), ranks::SegmentFull);
}

TEST_CASE("a run that fills the segment is an error that says so, and the pool is made anew") {
  SharedCounters shared;
  HostProgram program(2, [&shared](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, std::vector<Agent::Body>(shared[0] != 0 ? 60000 : 2, [](Agent&) {}));
  });
  ranks::ProcessOptions options;
  options.segment_bytes = 4 << 20;
  const auto executor = ranks::make_processes(program, options);
  shared[0] = 1;
  try {
    executor->run({});
    FAIL("60000 agents fit into 4 MiB");
  } catch (const schedule::ProgramError& e) {
    CAPTURE(std::string(e.what()));
    CHECK(std::string(e.what()).find("the shared segment of 4 MiB is full") != std::string::npos);
  }
  shared[0] = 0;
  CHECK(executor->run({}).end == schedule::RunEnd::complete);
}

TEST_CASE("a program that does not fit into its segment is refused when the pool is made") {
  MiniReduce program({.ranks = 4, .blocks = 64, .threads = 256});
  ranks::ProcessOptions options;
  options.segment_bytes = 1 << 20;
  CHECK_THROWS_AS(ranks::make_processes(program, options), ranks::SegmentError);
}
