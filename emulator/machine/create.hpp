#pragma once
// Internal to the machine: objects in a memory resource.

#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>
#include <vector>

namespace ringfence::machine {

template <class T, class... Args>
T* create(std::pmr::memory_resource* memory, Args&&... args) {
  return ::new (memory->allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
}

// The next of `used` objects kept in `all`, made if none is left over from an earlier run.
template <class T, class... Args>
T* reuse(std::pmr::vector<T*>& all, std::size_t& used, std::pmr::memory_resource* memory,
         Args&&... args) {
  if (used == all.size()) all.push_back(create<T>(memory, std::forward<Args>(args)...));
  return all[used++];
}

template <class T>
void destroy(std::pmr::memory_resource* memory, T* object) {
  object->~T();
  memory->deallocate(object, sizeof(T), alignof(T));
}

}  // namespace ringfence::machine
