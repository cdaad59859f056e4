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

void GlobalMemory::bulk(const BulkPart& part) {
  std::uint32_t lane = 0;
  while ((part.agents.mask >> lane & 1U) == 0) ++lane;
  for (std::size_t done = 0; done < part.data.size();) {
    unsigned bytes = 16;
    while ((part.address + done) % bytes != 0 || part.data.size() - done < bytes) bytes /= 2;
    Access access = piece_access(part.operation, bytes);
    if (part.operation == Operation::reduce) {
      access.type = part.type;
      access.elements = 1;
      access.combine = part.combine;
      access.order = Order::relaxed;
      access.scope = part.scope;
      bytes = size_of(part.type);
    }
    alignas(64) std::uint32_t lanes[4][2 * kLanes] = {};
    Request request;
    request.access = &access;
    request.agents = part.agents;
    request.address[lane] = part.address + done;
    request.instruction = part.instruction;
    request.line = part.line;
    request.shared = part.shared;
    const std::size_t size = size_of(access.type);
    request.lane_bytes = size == 8 ? 8 : 4;
    const std::size_t at = std::size_t{lane} * request.lane_bytes;
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      auto* const place = reinterpret_cast<std::byte*>(lanes[e]);
      request.elements[e] = place;
      if (part.operation != Operation::load) {
        std::memcpy(place + at, part.data.data() + done + e * size, size);
      }
    }
    this->access(request);
    if (request.completed == 0) {
      throw Fault(FaultKind::undefined, "the memory holds back a bulk copy", lane);
    }
    if (part.operation == Operation::load) {
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(part.data.data() + done + e * size, request.elements[e] + at, size);
      }
    }
    done += bytes;
  }
}

}  // namespace ringfence::ptx
