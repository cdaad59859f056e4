// What waits on streams, as a case.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "emulator/cases/case_file.hpp"
#include "emulator/exec/stretch.hpp"
#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/parser.hpp"

using namespace ringfence;
using namespace ringfence::exec;

namespace {

const std::string kPtx = R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry put(.param .u64 data, .param .u32 number)
{
  .reg .b32 %n;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.param.u32 %n, [number];
  st.global.u32 [%d], %n;
  ret;
}
)";

constexpr std::uint64_t kFirst = 0x1000200000;

// Two devices, each with 64 bytes of one name, and two streams.
struct World {
  Devices devices;
  World() {
    devices.count = 2;
    for (std::uint32_t d = 0; d < 2; ++d) {
      Allocation a;
      a.address = kFirst + d * 0x400000;
      a.bytes = 64;
      a.device = d;
      a.memory = "m0";
      a.unset = {{0, 64}};
      devices.memory[a.address] = a;
      devices.streams[10 + d] = {d, true, true};
      devices.streams[20 + d] = {d, true, false};
      devices.streams[30 + d] = {d, false, false};
    }
    Module& m = devices.modules.emplace_back();
    m.files = {{"program.0.ptx", kPtx}};
    m.parsed = ptx::parse(kPtx, "program.0.ptx");
    m.kernels["put"] =
        std::make_unique<ptx::Program>(ptx::decode(m.parsed, m.parsed.kernel("put")));
  }
  Operation& add(Operation::Kind kind, std::uint64_t stream) {
    Operation& o = devices.pending.emplace_back();
    o.kind = kind;
    o.number = devices.pending.size();
    o.stream = stream;
    o.device = devices.streams.at(stream).device;
    return o;
  }
  void launch(std::uint64_t stream, std::uint64_t address, std::uint32_t number) {
    Operation& o = add(Operation::Kind::launch, stream);
    o.kernel = "put";
    o.parameters.assign(16, '\0');
    std::memcpy(o.parameters.data(), &address, 8);
    std::memcpy(o.parameters.data() + 8, &number, 4);
  }
  cases::CaseFile file() const {
    std::vector<const Operation*> batch;
    for (const Operation& o : devices.pending) batch.push_back(&o);
    const Stretch s = make_stretch(devices, {{1}, {}}, batch, "001", "stream");
    CAPTURE(s.toml);
    return cases::parse_case(s.toml, "001.toml");
  }
};

}  // namespace

TEST_CASE("launches that are alike are one launch of the case, and addresses are memories") {
  World w;
  w.launch(10, kFirst + 8, 5);
  w.launch(11, kFirst + 0x400000 + 8, 6);
  const cases::CaseFile f = w.file();
  REQUIRE(f.launches.size() == 1);
  CHECK(f.host.empty());
  CHECK(f.launches[0].on(0));
  CHECK(f.launches[0].on(1));
  CHECK(f.launches[0].args[0].kind == cases::Argument::Kind::memory);
  CHECK(f.launches[0].args[0].name == "m0");
  CHECK(f.launches[0].args[0].offset == 8);
  CHECK(!f.launches[0].args[0].of_rank);
  REQUIRE(f.launches[0].args[1].numbers.size() == 2);
  CHECK(f.reach == std::vector<std::vector<std::uint32_t>>{{1}, {}});
  CHECK(f.memories[0].addresses == std::vector<std::uint64_t>{kFirst, kFirst + 0x400000});
}

TEST_CASE("a launch that follows another of its device is not drawn before it") {
  World w;
  w.launch(10, kFirst, 5);
  w.launch(10, kFirst, 6);
  w.launch(11, kFirst, 7);
  w.launch(11, kFirst, 8);
  const cases::CaseFile f = w.file();
  REQUIRE(f.launches.size() == 2);
  for (const cases::Launch& l : f.launches) {
    CHECK(l.on(0));
    CHECK(l.on(1));
    CHECK(l.args[0].of_rank == 0U);
  }
}

TEST_CASE("the legacy stream and those that block wait for each other, and no other does") {
  World w;
  w.launch(20, kFirst, 1);  // blocks
  w.launch(10, kFirst, 2);  // legacy: behind it
  w.launch(30, kFirst, 3);  // does not block: behind nothing
  w.launch(20, kFirst, 4);  // behind the legacy one
  const auto before = order(w.devices);
  using Numbers = std::vector<std::uint64_t>;
  CHECK(before.at(1) == Numbers{});
  CHECK(before.at(2) == Numbers{1});
  CHECK(before.at(3) == Numbers{});
  CHECK(before.at(4) == Numbers{1, 2});
  const cases::CaseFile f = w.file();
  // Two records and two waits: 1 -> 2, 2 -> 4.
  CHECK(f.host.size() == 4);
  CHECK(f.launches.size() == 4);
}

TEST_CASE("an event of one device holds up another's stream") {
  World w;
  w.launch(30, kFirst, 1);
  w.add(Operation::Kind::record, 30);
  w.add(Operation::Kind::wait, 31).record = 2;
  w.launch(31, kFirst, 2);
  const cases::CaseFile f = w.file();
  REQUIRE(f.host.size() == 2);
  CHECK(f.host[0].kind == cases::HostStep::Kind::record);
  CHECK(f.host[0].on(0));
  CHECK(!f.host[0].on(1));
  CHECK(f.host[1].kind == cases::HostStep::Kind::wait_event);
  CHECK(f.host[1].of_rank == 0U);
  CHECK(f.host[1].on(1));
}

TEST_CASE("the host's accesses are steps beside what was pending, and before what came later") {
  World w;
  Allocation& a = w.devices.memory.at(kFirst);
  w.devices.streams[kHostStream] = {0, false, false};
  w.launch(10, kFirst, 1);
  const auto touch = [&](std::uint32_t value, bool write, std::uint32_t before) {
    Operation& o = w.add(Operation::Kind::touch, kHostStream);
    o.access = {a.address + 8, value, write ? 1U : 0U};
    o.before = before;
  };
  touch(5, false, 5);
  touch(7, false, 5);
  touch(2, false, 7);
  touch(9, true, 2);
  w.launch(11, kFirst, 2);
  const cases::CaseFile f = w.file();
  using Kind = cases::HostStep::Kind;
  REQUIRE(f.host.size() == 6);  // the last one is recorded, and the second launch waits for it
  CHECK(f.host[0].kind == Kind::wait);
  CHECK(f.host[0].flush);
  CHECK(f.host[0].compare == machine::Compare::ge);
  CHECK(f.host[0].value.of({}) == 0);  // what was there all the time: no wait
  CHECK(f.host[1].value.of({}) == 7);
  CHECK(f.host[1].compare == machine::Compare::ge);
  CHECK(f.host[2].value.of({}) == 2);  // less than before: this very value
  CHECK(f.host[2].compare == machine::Compare::eq);
  CHECK(f.host[3].kind == Kind::write);
  CHECK(f.host[3].fence);
  CHECK(f.host[4].kind == Kind::record);
  CHECK(f.host[5].kind == Kind::wait_event);
  CHECK(f.host[5].on(1));
  CHECK(!f.host[5].on(0));
}

TEST_CASE("a launch that may overlap the one before it does so only where that is in the stretch") {
  World w;
  w.launch(30, kFirst, 1);
  w.devices.pending.back().how.dependent = 1;
  CHECK(!w.file().launches[0].dependent);
  w.launch(30, kFirst, 2);
  w.devices.pending.back().how.dependent = 1;
  CHECK(!w.file().launches[0].dependent);
  CHECK(w.file().launches[1].dependent);
}

TEST_CASE("a stretch that is longer than a case is refused in one line") {
  World w;
  for (int i = 0; i < 129; ++i) w.launch(10, kFirst, 1);
  CHECK_THROWS_WITH_AS(
      w.file(), "129 launches, copies and waits are pending; a stretch has at most 128", TooMuch);
}

TEST_CASE("pieces are cut") {
  Pieces p{{0, 10}, {20, 30}};
  cut(p, 5, 25);
  CHECK(p == Pieces{{0, 5}, {25, 30}});
  cut(p, 1, 2);
  CHECK(p == Pieces{{0, 1}, {2, 5}, {25, 30}});
  cut(p, 0, 100);
  CHECK(p.empty());
}
