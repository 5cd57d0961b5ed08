// The C++ header: heaps as values, std::pmr resources, allocators, and what they throw.
#include "check.h"
#include <deque>
#include <list>
#include <map>
#include <memory_resource>
#include <polyheap.hpp>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct alignas(256) Wide {
    unsigned char bytes[256];
};

void pmr_containers_live_in_a_heap() {
    polyheap::heap heap;
    polyheap::memory_resource resource(heap);
    {
        std::pmr::vector<std::pmr::string> words(&resource);
        std::pmr::map<int, std::pmr::vector<double>> table(&resource);
        std::pmr::unordered_map<std::pmr::string, int> counts(&resource);
        std::pmr::list<Wide> wide(&resource);
        std::pmr::deque<long> queue(&resource);
        for (int at = 0; at < 2000; at++) {
            words.emplace_back("a word that is too long to lie in the string itself " + std::to_string(at));
            table[at % 100].push_back(at);
            counts[words.back()] += at;
            queue.push_front(at);
            if (at % 50 == 0) {
                wide.emplace_back();
                CHECK(is_aligned(&wide.back(), 256));
            }
        }
        CHECK(heap.contains(words.data()) && heap.contains(words[17].data()));
        CHECK(heap.contains(&table[3]) && heap.contains(&queue.front()));
        CHECK(words[1999].compare(52, 4, "1999") == 0 && counts[words[77]] == 77 && table[5][1] == 105);
        CHECK(heap.stats().live_blocks > 4000);

        std::pmr::monotonic_buffer_resource buffer(&resource);
        std::pmr::unsynchronized_pool_resource pool(&resource);
        std::pmr::set<int> of_buffer(&buffer), of_pool(&pool);
        for (int at = 0; at < 5000; at++) {
            of_buffer.insert(at);
            of_pool.insert(-at);
        }
        CHECK(*of_buffer.rbegin() == 4999 && *of_pool.begin() == -4999);
    }
    CHECK(heap.stats().live_blocks == 0);
}

void resources_are_equal_when_their_heap_is() {
    polyheap::heap one, two;
    polyheap::memory_resource first(one), again(one.get()), second(two), plain;
    CHECK(first == again && first != second && first != plain && first.is_equal(first));
    CHECK(!first.is_equal(*std::pmr::new_delete_resource()));
    CHECK(plain.get() == polyheap_default());
    std::pmr::vector<int> source({1, 2, 3}, &first);
    std::pmr::vector<int> moved(std::move(source), &again), copied(moved, &second);
    CHECK(one.contains(moved.data()) && two.contains(copied.data()) && moved == copied);
}

void allocators_serve_all_containers() {
    polyheap::heap heap, other;
    {
        using Text = std::basic_string<char, std::char_traits<char>, polyheap::allocator<char>>;
        using Pair = std::pair<const int, int>;
        std::vector<int, polyheap::allocator<int>> numbers{polyheap::allocator<int>(heap)};
        std::map<int, int, std::less<int>, polyheap::allocator<Pair>> map{polyheap::allocator<Pair>(heap)};
        std::list<Wide, polyheap::allocator<Wide>> wide{polyheap::allocator<Wide>(heap)};
        Text text("a text that is too long to lie in the string itself", polyheap::allocator<char>(heap));
        for (int at = 0; at < 3000; at++) {
            numbers.push_back(at);
            map[at] = -at;
        }
        wide.emplace_back();
        CHECK(is_aligned(&wide.front(), 256) && map[2999] == -2999 && numbers[1234] == 1234);
        CHECK(heap.contains(numbers.data()) && heap.contains(text.data()));

        std::vector<int, polyheap::allocator<int>> target{polyheap::allocator<int>(other)};
        target.push_back(1);
        target = numbers;
        CHECK(heap.contains(target.data()) && target == numbers);
        std::vector<int, polyheap::allocator<int>> plain(10, 3);
        CHECK(polyheap_heap_of(plain.data()) == polyheap_default());
        std::swap(plain, target);
        CHECK(plain.size() == 3000 && target.size() == 10);
        plain = std::move(numbers);
        CHECK(plain.size() == 3000 && heap.contains(plain.data()));
        CHECK(polyheap::allocator<int>(heap) == polyheap::allocator<char>(heap.get()));
        CHECK(polyheap::allocator<int>(heap) != polyheap::allocator<int>(other));
    }
    CHECK(heap.stats().live_blocks == 0 && other.stats().live_blocks == 0);
}

void heaps_move_and_end() {
    polyheap::heap source;
    polyheap_t *handle = source.get();
    void *block = polyheap_heap_malloc(handle, 100);
    fill(block, 100, 3);
    polyheap::heap target(std::move(source));
    CHECK(source.get() == nullptr && target.get() == handle && target.contains(block));
    polyheap::heap assigned;
    assigned = std::move(target);
    CHECK(assigned.contains(block));
    assigned.move_blocks_to_default();
    CHECK(assigned.get() == nullptr && polyheap_heap_of(block) == polyheap_default());
    CHECK(is_filled(block, 100, 3));
    polyheap_free(block);

    polyheap_options_t options{};
    options.size = sizeof options;
    options.name = "named";
    polyheap::heap named(options);
    CHECK(named.stats_json().find("\"name\":\"named\"") == 1);
    CHECK(polyheap_destroy(named.release()) == 0);
}

template <typename Error, typename Act> bool throws(Act act) {
    try {
        act();
    } catch (const Error &) {
        return true;
    }
    return false;
}

void refusals_are_thrown() {
    polyheap::heap heap;
    heap.set_limit(1 << 20);
    polyheap::memory_resource resource(heap);
    std::pmr::vector<char> bytes(&resource);
    CHECK(throws<std::bad_alloc>([&] { bytes.resize(2 << 20); }));
    bytes.resize(100000);
    heap.set_limit(0);
    bytes.resize(2 << 20);
    CHECK(heap.contains(bytes.data()) && heap.trim() < 64 << 20);

    polyheap::allocator<Wide> allocator(heap);
    CHECK(throws<std::bad_array_new_length>([&] { (void)allocator.allocate(hidden(SIZE_MAX / 8)); }));
    polyheap_options_t options{};
    options.size = sizeof options;
    options.flags = 1u << 20;
    CHECK(throws<std::system_error>([&] { polyheap::heap refused(options); }));
    options.flags = 0;
    options.max_bytes = 10;
    CHECK(throws<std::bad_alloc>([&] { polyheap::heap refused(options); }));
}

void threads_share_a_resource() {
    polyheap::heap heap;
    polyheap::memory_resource resource(heap);
    {
        using Part = std::pmr::vector<std::pmr::string>;
        std::vector<Part> parts;
        std::vector<std::thread> threads;
        for (int number = 0; number < 4; number++) {
            parts.emplace_back(&resource);
        }
        for (Part &part : parts) {
            threads.emplace_back([&part, letter = static_cast<char>('a' + threads.size())] {
                for (std::size_t at = 0; at < 3000; at++) {
                    part.emplace_back(std::string(40 + at % 100, letter));
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        for (std::size_t number = 0; number < 4; number++) {
            CHECK(parts[number].size() == 3000 && parts[number][99].front() == static_cast<char>('a' + number));
            CHECK(heap.contains(parts[number][2999].data()));
        }
    }
    CHECK(heap.stats().live_blocks == 0);
}

} // namespace

int main() {
    pmr_containers_live_in_a_heap();
    resources_are_equal_when_their_heap_is();
    allocators_serve_all_containers();
    heaps_move_and_end();
    refusals_are_thrown();
    threads_share_a_resource();
    std::puts("well");
    return 0;
}
