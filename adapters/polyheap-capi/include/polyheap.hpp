// polyheap: memory heap instances for C++17. SPDX-License-Identifier: MIT OR Apache-2.0
//
//   polyheap::heap              owns a heap; moves, does not copy
//   polyheap::memory_resource   std::pmr over a heap, for std::pmr containers
//   polyheap::allocator<T>      an allocator over a heap, for all other containers
//
// All of them work from any thread. A resource and an allocator name a heap and do not own it: the
// heap must outlive them and what they allocated.
#ifndef POLYHEAP_HPP
#define POLYHEAP_HPP

#include "polyheap.h"

#include <cerrno>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace polyheap {

/// A heap, destroyed with all its blocks at the end of its scope.
class heap {
  public:
    /// Makes a heap with default options.
    /// @throws std::bad_alloc when there is no memory.
    heap() : heap(polyheap_options_t{sizeof(polyheap_options_t), nullptr, 0, 0, 0, 0, 0, 0, 0, 0, 0}) {}

    /// Makes a heap with options.
    /// @throws std::bad_alloc when there is no memory.
    /// @throws std::system_error for options the library does not know.
    explicit heap(const polyheap_options_t &options) : handle_(polyheap_new_with(&options)) {
        if (handle_ == nullptr) {
            if (errno == ENOMEM) {
                throw std::bad_alloc();
            }
            throw std::system_error(errno, std::generic_category(), "polyheap::heap");
        }
    }

    heap(heap &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

    heap &operator=(heap &&other) noexcept {
        if (this != &other) {
            polyheap_destroy(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }

    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;

    ~heap() { polyheap_destroy(handle_); }

    /// Returns the handle, for the functions of polyheap.h; null after a move.
    polyheap_t *get() const noexcept { return handle_; }

    /// Gives up the handle, and the duty to end the heap with it.
    [[nodiscard]] polyheap_t *release() noexcept { return std::exchange(handle_, nullptr); }

    /// Ends the heap now; its live blocks belong to the default heap afterwards.
    void move_blocks_to_default() noexcept { polyheap_delete(release()); }

    /// Returns whether a pointer points into the heap's memory.
    bool contains(const void *pointer) const noexcept { return polyheap_contains(handle_, pointer); }

    /// Returns what the heap holds at this moment.
    polyheap_stats_t stats() const noexcept {
        polyheap_stats_t result{};
        result.size = sizeof result;
        polyheap_stats(handle_, &result);
        return result;
    }

    /// Returns the same as a JSON object.
    std::string stats_json() const {
        std::string text(polyheap_stats_json(handle_, nullptr, 0), '\0');
        // The numbers may have grown meanwhile.
        for (;;) {
            const std::size_t length = polyheap_stats_json(handle_, text.data(), text.size() + 1);
            const bool is_whole = length <= text.size();
            text.resize(length);
            if (is_whole) {
                return text;
            }
        }
    }

    /// Sets the bytes the heap may hold, 0 for no limit.
    /// @throws std::bad_alloc when there is no memory.
    void set_limit(std::size_t max_bytes) {
        if (polyheap_set_limit(handle_, max_bytes) != 0) {
            throw std::bad_alloc();
        }
    }

    /// Gives memory without a live owner back to the system; returns the bytes.
    std::size_t trim() noexcept { return polyheap_trim(handle_); }

  private:
    polyheap_t *handle_;
};

/// A std::pmr resource over a heap. Two resources are equal when they name the same heap.
class memory_resource : public std::pmr::memory_resource {
  public:
    /// Names the default heap.
    memory_resource() noexcept : handle_(polyheap_default()) {}
    /// Names a heap.
    explicit memory_resource(polyheap_t *handle) noexcept : handle_(handle) {}
    /// Names a heap.
    explicit memory_resource(const heap &heap) noexcept : handle_(heap.get()) {}

    /// Returns the heap's handle.
    polyheap_t *get() const noexcept { return handle_; }

  protected:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        void *block = polyheap_heap_aligned_alloc(handle_, align, bytes);
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override {
        polyheap_heap_free(handle_, block);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        const auto *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && same->handle_ == handle_;
    }

  private:
    polyheap_t *handle_;
};

/// An allocator over a heap; of the default heap when it is made without one. Containers that are moved,
/// assigned or swapped take it along.
template <typename T> class allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    allocator() noexcept : handle_(polyheap_default()) {}
    explicit allocator(polyheap_t *handle) noexcept : handle_(handle) {}
    explicit allocator(const heap &heap) noexcept : handle_(heap.get()) {}
    template <typename U> allocator(const allocator<U> &other) noexcept : handle_(other.get()) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
            throw std::bad_array_new_length();
        }
        void *block = polyheap_heap_aligned_alloc(handle_, alignof(T), count * sizeof(T));
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return static_cast<T *>(block);
    }

    void deallocate(T *block, std::size_t) noexcept { polyheap_heap_free(handle_, block); }

    /// Returns the heap's handle.
    polyheap_t *get() const noexcept { return handle_; }

    template <typename U> friend bool operator==(const allocator &one, const allocator<U> &other) noexcept {
        return one.get() == other.get();
    }
    template <typename U> friend bool operator!=(const allocator &one, const allocator<U> &other) noexcept {
        return one.get() != other.get();
    }

  private:
    polyheap_t *handle_;
};

} // namespace polyheap

#endif
