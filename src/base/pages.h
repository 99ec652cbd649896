// base/pages.h
//
// Memory for blocks of megabytes: in huge pages where the system has them. The first touch of small pages can
// cost more than copying into them (30 ms for 12 MiB on a virtual machine, 1 ms in huge pages).
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace gezel {

// At least `size` bytes, never null; occupies no more than `size` rounded up to small pages once touched.
void* allocate_pages(std::size_t size);
void free_pages(void* block);

// An allocator for vectors of plain values: large blocks as above, and elements begin uninitialized.
template <class T>
struct PageAllocator {
  using value_type = T;
  static constexpr std::size_t kLarge = std::size_t{4} << 20;

  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}  // NOLINT: implicit as allocators are
  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    const std::size_t size = count * sizeof(T);
    return static_cast<T*>(size >= kLarge ? allocate_pages(size) : ::operator new(size));
  }
  void deallocate(T* block, std::size_t count) {
    if (count * sizeof(T) >= kLarge) {
      free_pages(block);
    } else {
      ::operator delete(block);
    }
  }
  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }
};

// Bytes in such memory; resize() leaves new ones as they are.
using Buffer = std::vector<std::byte, PageAllocator<std::byte>>;

}  // namespace gezel
