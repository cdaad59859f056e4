#include "emulator/ptx/memory.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/ptx/fault.hpp"

namespace ringfence::ptx {
namespace {

Access piece_access(Operation operation, unsigned bytes) {
  Access out;
  out.operation = operation;
  out.space = Space::global;
  out.type = bytes >= 4 ? Type::b32 : bytes == 2 ? Type::b16 : Type::b8;
  out.elements = static_cast<std::uint8_t>(bytes >= 4 ? bytes / 4 : 1);
  out.proxy = Proxy::async;
  return out;
}

}  // namespace

void GlobalMemory::bulk(const Agents& agents, Operation operation, std::uint64_t address,
                        std::span<std::byte> data, std::uint32_t instruction, std::uint32_t line) {
  std::uint32_t lane = 0;
  while ((agents.mask >> lane & 1U) == 0) ++lane;
  for (std::size_t done = 0; done < data.size();) {
    unsigned bytes = 16;
    while ((address + done) % bytes != 0 || data.size() - done < bytes) bytes /= 2;
    const Access access = piece_access(operation, bytes);
    alignas(64) std::uint32_t lanes[4][kLanes] = {};
    Request request;
    request.access = &access;
    request.agents = agents;
    request.address[lane] = address + done;
    request.instruction = instruction;
    request.line = line;
    const std::size_t size = size_of(access.type);
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      request.elements[e] = reinterpret_cast<std::byte*>(lanes[e]);
      if (operation == Operation::store) {
        std::memcpy(&lanes[e][lane], data.data() + done + e * size, size);
      }
    }
    this->access(request);
    if (request.completed == 0) {
      throw Fault(FaultKind::undefined, "the memory holds back a bulk copy", lane);
    }
    if (operation == Operation::load) {
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(data.data() + done + e * size, &lanes[e][lane], size);
      }
    }
    done += bytes;
  }
}

}  // namespace ringfence::ptx
