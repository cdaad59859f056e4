#include "tests/check/alike.hpp"

#include "tests/axiomatic/generator.hpp"

namespace ringfence::testing {

litmus::Test with_alike_ends(std::uint64_t seed) {
  axiomatic::GeneratorOptions options;
  options.unread_awaits = true;
  options.fences = seed % 3 == 0;
  options.atomics = options.barriers = seed % 5 == 0;
  litmus::Test test = axiomatic::generate(seed, options);
  if (seed % 5 == 0) return test;
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    for (litmus::Instruction& i : test.threads[t].instructions) {
      if (auto* store = std::get_if<litmus::Store>(&i.what)) {
        store->address.base = static_cast<litmus::LocationId>(t % test.locations.size());
        if (store->order != litmus::Order::weak) store->scope = litmus::Scope::sys;
      } else if (auto* load = std::get_if<litmus::Load>(&i.what)) {
        if (load->order != litmus::Order::weak) load->scope = litmus::Scope::sys;
      }
    }
  }
  return test;
}

litmus::Test with_several_flags(std::uint64_t seed) {
  axiomatic::GeneratorOptions options;
  options.unread_awaits = true;
  options.atomics = options.barriers = options.fences = false;
  options.max_threads = 3;
  options.min_events = 6;
  options.max_events = 10;
  options.max_locations = 6;
  litmus::Test test = axiomatic::generate(seed, options);
  const std::size_t threads = test.threads.size();
  for (std::size_t t = 0; t < threads; ++t) {
    for (litmus::Instruction& i : test.threads[t].instructions) {
      if (auto* store = std::get_if<litmus::Store>(&i.what)) {
        if (const auto* at = std::get_if<litmus::LocationId>(&store->address.base)) {
          const std::size_t own = static_cast<std::size_t>(*at) / threads * threads + t;
          store->address.base = static_cast<litmus::LocationId>(
              own < test.locations.size() ? own : t % test.locations.size());
        }
        if (store->order != litmus::Order::weak) store->scope = litmus::Scope::sys;
      } else if (auto* load = std::get_if<litmus::Load>(&i.what)) {
        if (load->order != litmus::Order::weak) load->scope = litmus::Scope::sys;
      }
    }
  }
  return test;
}

litmus::Test with_waits(std::uint64_t seed) {
  if (seed % 3 == 1) return with_alike_ends(seed / 3);
  if (seed % 3 == 2) return with_several_flags(seed / 3);
  axiomatic::GeneratorOptions options;
  options.atomic_awaits = true;
  options.barriers = options.clusters = false;
  return axiomatic::generate(seed, options);
}

}  // namespace ringfence::testing
