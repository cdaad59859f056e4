#include "emulator/exec/devices.hpp"

#include <algorithm>
#include <cstring>

namespace ringfence::exec {
namespace {

// Most of a memory is as it was: that costs a comparison of many bytes at once.
template <class F>
void for_each_difference(const std::uint8_t* a, const std::uint8_t* b, std::uint64_t bytes, F f) {
  constexpr std::uint64_t kAtOnce = 256;
  for (std::uint64_t begin = 0; begin < bytes; begin += kAtOnce) {
    const std::uint64_t end = std::min(bytes, begin + kAtOnce);
    if (std::memcmp(a + begin, b + begin, end - begin) == 0) continue;
    for (std::uint64_t i = begin; i < end; ++i) {
      if (a[i] != b[i]) f(i);
    }
  }
}

}  // namespace

void cut(Pieces& pieces, std::uint64_t begin, std::uint64_t end) {
  Pieces out;
  for (const auto& [first, last] : pieces) {
    if (first < std::min(last, begin)) out.emplace_back(first, std::min(last, begin));
    if (std::max(first, end) < last) out.emplace_back(std::max(first, end), last);
  }
  pieces = std::move(out);
}

std::uint8_t* Allocation::data() {
  if (host != nullptr) return host.get();
  content.resize(bytes);
  return content.data();
}

// What the host wrote since it was shown something; the rest is as before that.
void Allocation::begin() {
  begun.assign(host.get(), host.get() + bytes);
  content = begun;
  for (std::uint64_t i = 0; i < shown.size(); ++i) {
    if (begun[i] == shown[i]) content[i] = ground[i];
  }
}

// Bytes that the host has written meanwhile stay the host's.
void Allocation::show(const std::uint8_t* then) {
  shown = begun;
  for_each_difference(begun.data(), then, bytes, [&](std::uint64_t i) {
    if (host.get()[i] == begun[i]) host.get()[i] = shown[i] = then[i];
  });
  ground = std::move(content);
  content.clear();
}

void Allocation::end(const std::uint8_t* then, bool over) {
  for_each_difference(begun.data(), then, bytes, [&](std::uint64_t i) {
    if (host.get()[i] == begun[i]) host.get()[i] = then[i];
    if (over && !base.empty()) base[i] = then[i];
  });
  shown.clear();
  ground.clear();
  content.clear();
}

bool Allocation::changed_by_host() const {
  return !shown.empty() && std::memcmp(host.get(), shown.data(), bytes) != 0;
}

void Allocation::put(std::uint64_t at, const void* from, std::uint64_t count) {
  std::memcpy(data() + at, from, count);
  cut(unset, at, at + count);
}

const Allocation* Devices::at(std::uint64_t address) const {
  auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  --after;
  return address - after->first < after->second.bytes ? &after->second : nullptr;
}

Allocation* Devices::at(std::uint64_t address) {
  return const_cast<Allocation*>(std::as_const(*this).at(address));
}

Allocation* Devices::holding(std::uint64_t address, std::uint64_t bytes) {
  Allocation* const there = at(address);
  return there != nullptr && bytes <= there->bytes - (address - there->address) ? there : nullptr;
}

std::map<std::uint64_t, std::vector<std::uint64_t>> order(const Devices& devices) {
  std::map<std::uint64_t, std::vector<std::uint64_t>> out;
  std::map<std::uint64_t, std::uint64_t> last;    // by stream
  std::map<std::uint32_t, std::uint64_t> legacy;  // by device: the last of the legacy stream
  std::uint64_t touched = 0;                      // the host's last access
  for (const Operation& o : devices.pending) {
    std::vector<std::uint64_t>& before = out[o.number];
    const Stream& stream = devices.streams.at(o.stream);
    if (const auto at = last.find(o.stream); at != last.end()) before.push_back(at->second);
    if (stream.legacy) {
      for (const auto& [other, number] : last) {
        const Stream& s = devices.streams.at(other);
        if (other != o.stream && s.blocking && s.device == o.device) before.push_back(number);
      }
      legacy[o.device] = o.number;
    } else if (stream.blocking) {
      if (const auto at = legacy.find(o.device); at != legacy.end()) before.push_back(at->second);
    }
    if (o.kind == Operation::Kind::wait && o.record != 0) before.push_back(o.record);
    if (o.kind == Operation::Kind::touch) {
      touched = o.number;
    } else if (touched != 0) {
      before.push_back(touched);
    }
    last[o.stream] = o.number;
  }
  return out;
}

}  // namespace ringfence::exec
