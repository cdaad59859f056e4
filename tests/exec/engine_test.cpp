// What the engine answers to what no program of ours asks: it is another process's bytes.
#include <doctest/doctest.h>

#include <string>

#include "emulator/exec/engine.hpp"

using namespace ringfence::exec;

namespace {

Out request(Call call, std::uint32_t device = 0) {
  Request r;
  r.call = call;
  r.device = device;
  return Out().put(r);
}

std::int32_t status(Engine& engine, const Out& frame) {
  const std::string bytes = engine.answer(frame.bytes());
  In in(bytes);
  return in.get<Reply>().status;
}

}  // namespace

TEST_CASE("a frame that ends too early, and a device that is not there, are invalid") {
  EngineOptions o;
  o.devices = 2;
  Engine engine(o);
  CHECK(status(engine, Out()) != kSuccess);
  CHECK(status(engine, request(Call::hello).put(kWireVersion)) == kSuccess);
  CHECK(status(engine, request(Call::hello).put(kWireVersion + 1)) == kInvalidValue);
  CHECK(status(engine, request(Call::allocate)) == kInvalidValue);
  CHECK(status(engine, request(Call::device_sync, 2)) == kInvalidValue);
  CHECK(status(engine, request(Call::kernel).put(std::uint64_t{7}).blob("k")) == kInvalidValue);
  CHECK(status(engine, request(Call::release).put(std::uint64_t{64}).put(std::uint32_t{0})) ==
        kInvalidValue);
}

TEST_CASE("memory is what was allocated, and never the same address twice") {
  Engine engine({});
  const auto allocate = [&](std::uint64_t bytes) {
    const std::string reply =
        engine.answer(request(Call::allocate).put(bytes).put(std::uint32_t{0}).bytes());
    In in(reply);
    CHECK(in.get<Reply>().status == kSuccess);
    In out(in.blob());
    return out.get<std::uint64_t>();
  };
  const std::uint64_t first = allocate(100);
  CHECK(status(engine, request(Call::release).put(first).put(std::uint32_t{0})) == kSuccess);
  CHECK(status(engine, request(Call::release).put(first).put(std::uint32_t{0})) == kInvalidValue);
  const std::uint64_t second = allocate(100);
  CHECK(second > first + 100);
  FillRequest fill;
  fill.to = second + 1;
  fill.width = 100;
  CHECK(status(engine, request(Call::fill).put(fill)) == kInvalidValue);
  fill.to = second;
  CHECK(status(engine, request(Call::fill).put(fill)) == kSuccess);
  CHECK(status(engine, request(Call::allocate).put(std::uint64_t{1} << 40).put(std::uint32_t{0})) ==
        kOutOfMemory);
}
