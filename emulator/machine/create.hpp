#pragma once
// Internal to the machine: objects in a memory resource.

#include <memory_resource>
#include <new>
#include <utility>

namespace ringfence::machine {

template <class T, class... Args>
T* create(std::pmr::memory_resource* memory, Args&&... args) {
  return ::new (memory->allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
}

template <class T>
void destroy(std::pmr::memory_resource* memory, T* object) {
  object->~T();
  memory->deallocate(object, sizeof(T), alignof(T));
}

}  // namespace ringfence::machine
