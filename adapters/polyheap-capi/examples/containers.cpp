// Containers of the standard library in a heap: std::pmr ones by a resource, others by an allocator.
// For when a data structure is to have its memory for itself, and to be thrown away whole.
#include <iostream>
#include <map>
#include <polyheap.hpp>
#include <string>
#include <vector>

int main() {
    polyheap::heap heap;
    polyheap::memory_resource resource(heap);

    std::pmr::map<std::pmr::string, int> words(&resource);
    for (const char *word : {"one", "word", "and", "one", "word", "more"}) {
        words[std::pmr::string(word, &resource)]++;
    }
    for (const auto &[word, count] : words) {
        std::cout << word << ' ' << count << '\n';
    }

    std::vector<int, polyheap::allocator<int>> numbers{polyheap::allocator<int>(heap)};
    numbers.assign(1000, 7);
    std::cout << heap.stats().live_blocks << " blocks live\n";

    // The budget of the heap is the containers' budget.
    heap.set_limit(1 << 20);
    try {
        numbers.resize(1 << 20);
    } catch (const std::bad_alloc &) {
        std::cout << "limit reached, " << numbers.size() << " numbers kept\n";
    }
}
