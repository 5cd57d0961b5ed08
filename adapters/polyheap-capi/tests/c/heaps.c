/* Heaps: options, blocks, both ends, limits, statistics, walks. */
#include "check.h"
#include <errno.h>
#include <polyheap.h>

static polyheap_stats_t stats_of(polyheap_t *heap) {
    polyheap_stats_t stats;
    stats.size = sizeof stats;
    CHECK(polyheap_stats(heap, &stats) == 0);
    return stats;
}

static void every_function_of_a_heap(void) {
    polyheap_t *heap = polyheap_new(), *other = polyheap_new();
    CHECK(heap != NULL && other != NULL && heap != other);
    for (size_t tier = 0; tier < TIER_COUNT; tier++) {
        const size_t size = TIERS[tier];
        unsigned char *blocks[5];
        blocks[0] = polyheap_heap_malloc(heap, size);
        blocks[1] = polyheap_heap_calloc(heap, size, 3);
        blocks[2] = polyheap_heap_realloc(heap, NULL, size);
        blocks[3] = polyheap_heap_aligned_alloc(heap, 4096, size);
        void *placed = NULL;
        CHECK(polyheap_heap_posix_memalign(heap, &placed, 64, size) == 0);
        blocks[4] = placed;
        CHECK(is_aligned(blocks[3], 4096) && is_aligned(blocks[4], 64));
        for (size_t at = 0; at < 3 * size; at++) {
            CHECK(blocks[1][at] == 0);
        }
        for (unsigned id = 0; id < 5; id++) {
            CHECK(blocks[id] != NULL);
            CHECK(polyheap_heap_usable_size(heap, blocks[id]) >= size);
            CHECK(polyheap_heap_usable_size(other, blocks[id]) == 0);
            CHECK(polyheap_usable_size(blocks[id]) >= size);
            CHECK(polyheap_heap_of(blocks[id]) == heap && polyheap_owns(blocks[id]));
            CHECK(polyheap_contains(heap, blocks[id]) && !polyheap_contains(other, blocks[id]));
            fill(blocks[id], size, id);
            blocks[id] = polyheap_heap_reallocarray(heap, blocks[id], size, 2);
            CHECK(blocks[id] != NULL && is_filled(blocks[id], size < 4096 ? size : 4096, id));
            /* The plain function finds the heap by the address, and stays in it. */
            blocks[id] = polyheap_realloc(blocks[id], 5 * size);
            CHECK(blocks[id] != NULL && polyheap_heap_of(blocks[id]) == heap);
        }
        CHECK(stats_of(heap).live_blocks == 5 && stats_of(other).live_blocks == 0);
        for (unsigned id = 0; id < 5; id++) {
            if (id % 2 == 0) {
                polyheap_heap_free(heap, blocks[id]);
            } else {
                polyheap_free(blocks[id]);
            }
        }
        polyheap_heap_free(heap, NULL);
        CHECK(stats_of(heap).live_blocks == 0);
    }
    errno = 0;
    CHECK(polyheap_heap_malloc(heap, hidden(SIZE_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(polyheap_heap_aligned_alloc(heap, hidden(3), 8) == NULL && errno == EINVAL);
    void *kept = &errno;
    CHECK(polyheap_heap_posix_memalign(heap, &kept, hidden(2), 8) == EINVAL && kept == &errno);
    CHECK(polyheap_destroy(heap) == 0 && polyheap_destroy(other) == 0);
}

static void ends_of_heaps(void) {
    CHECK(polyheap_delete(NULL) == 0 && polyheap_destroy(NULL) == 0);
    CHECK(polyheap_delete(polyheap_default()) == EINVAL);
    CHECK(polyheap_destroy(polyheap_default()) == EINVAL);
    const size_t live_before = stats_of(polyheap_default()).live_blocks;
    void *moved[20][TIER_COUNT];
    for (unsigned round = 0; round < 20; round++) {
        polyheap_t *heap = polyheap_new();
        for (size_t tier = 0; tier < TIER_COUNT; tier++) {
            moved[round][tier] = polyheap_heap_malloc(heap, TIERS[tier]);
            fill(moved[round][tier], TIERS[tier], round);
            polyheap_heap_free(heap, polyheap_heap_malloc(heap, TIERS[tier]));
        }
        errno = 55;
        CHECK(polyheap_delete(heap) == 0 && errno == 55);
        for (size_t tier = 0; tier < TIER_COUNT; tier++) {
            CHECK(polyheap_heap_of(moved[round][tier]) == polyheap_default());
        }
    }
    CHECK(stats_of(polyheap_default()).live_blocks == live_before + 20 * TIER_COUNT);
    for (unsigned round = 0; round < 20; round++) {
        for (size_t tier = 0; tier < TIER_COUNT; tier++) {
            CHECK(is_filled(moved[round][tier], TIERS[tier], round));
            moved[round][tier] = polyheap_realloc(moved[round][tier], TIERS[tier] + 1);
            CHECK(is_filled(moved[round][tier], TIERS[tier] < 4096 ? TIERS[tier] : 4096, round));
            polyheap_free(moved[round][tier]);
        }
    }
    CHECK(stats_of(polyheap_default()).live_blocks == live_before);
    /* A handle is a block of the default heap, and comes back. */
    for (int round = 0; round < 2000; round++) {
        polyheap_t *heap = polyheap_new();
        void *block = polyheap_heap_malloc(heap, 100);
        CHECK(block != NULL && polyheap_heap_of(block) == heap);
        CHECK(polyheap_destroy(heap) == 0);
        CHECK(polyheap_heap_of(block) != heap);
    }
    CHECK(stats_of(polyheap_default()).live_blocks == live_before);
}

static void many_heaps_at_once(void) {
    enum { COUNT = 1000 };
    static polyheap_t *heaps[COUNT];
    static void *blocks[COUNT];
    for (int at = 0; at < COUNT; at++) {
        heaps[at] = polyheap_new();
        CHECK(heaps[at] != NULL);
        blocks[at] = polyheap_heap_malloc(heaps[at], 32);
    }
    for (int at = 0; at < COUNT; at++) {
        CHECK(polyheap_heap_of(blocks[at]) == heaps[at]);
        CHECK(polyheap_destroy(heaps[at]) == 0);
    }
}

static void options_are_heeded_or_refused(void) {
    polyheap_options_t options = {.size = sizeof options};
    options.name = "limited \"heap\"";
    options.max_bytes = 8 << 20;
    options.flags = POLYHEAP_NO_THREAD_CACHE | POLYHEAP_ISOLATED;
    options.decay = POLYHEAP_DECAY_AFTER;
    options.decay_ms = 100;
    options.huge_pages = POLYHEAP_HUGE_PAGES_NEVER;
    polyheap_t *heap = polyheap_new_with(&options);
    CHECK(heap != NULL);
    errno = 0;
    CHECK(polyheap_heap_malloc(heap, 9 << 20) == NULL && errno == ENOMEM);
    CHECK(stats_of(heap).denied_by_limit == 1);
    polyheap_heap_free(heap, polyheap_heap_malloc(heap, 100));
    CHECK(stats_of(heap).cached_bytes == 0);
    CHECK(polyheap_destroy(heap) == 0);

    polyheap_options_t odd = {.size = sizeof odd};
    odd.decay = 9;
    errno = 0;
    CHECK(polyheap_new_with(&odd) == NULL && errno == EINVAL);
    odd = (polyheap_options_t){.size = sizeof odd};
    odd.huge_pages = 3;
    CHECK(polyheap_new_with(&odd) == NULL && errno == EINVAL);
    odd = (polyheap_options_t){.size = sizeof odd};
    odd.flags = 1u << 30;
    CHECK(polyheap_new_with(&odd) == NULL && errno == EINVAL);
    odd = (polyheap_options_t){.size = sizeof odd};
    odd.name = "no \xff UTF-8";
    CHECK(polyheap_new_with(&odd) == NULL && errno == EINVAL);
    odd = (polyheap_options_t){.size = sizeof odd};
    odd.size = 3;
    CHECK(polyheap_new_with(&odd) == NULL && errno == EINVAL);
    odd = (polyheap_options_t){.size = sizeof odd};
    odd.max_bytes = 100;
    CHECK(polyheap_new_with(&odd) == NULL && errno == ENOMEM);

    /* A program that knows an older struct, and one that knows a newer one. */
    heap = polyheap_new_with(&(polyheap_options_t){.size = sizeof(size_t)});
    CHECK(heap != NULL && polyheap_destroy(heap) == 0);
    struct {
        polyheap_options_t known;
        size_t unknown;
    } newer = {{.size = sizeof newer}, 0};
    heap = polyheap_new_with(&newer.known);
    CHECK(heap != NULL && polyheap_destroy(heap) == 0);
    newer.unknown = 1;
    CHECK(polyheap_new_with(&newer.known) == NULL && errno == EINVAL);
}

static void a_limit_denies_and_recovers(void) {
    polyheap_t *heap = polyheap_new();
    CHECK(polyheap_set_limit(heap, 4 << 20) == 0 && polyheap_set_soft_limit(heap, 3 << 20) == 0);
    for (int round = 0; round < 3; round++) {
        void *blocks[4096];
        int count = 0;
        errno = 0;
        while (count < 4096 && (blocks[count] = polyheap_heap_malloc(heap, 2000)) != NULL) {
            fill(blocks[count], 2000, (unsigned)count);
            count++;
        }
        CHECK(errno == ENOMEM && count > 1000 && count < 4096);
        CHECK(stats_of(heap).held_bytes <= 4 << 20);
        /* What is there stays, also when it cannot grow. */
        CHECK(polyheap_heap_realloc(heap, blocks[0], 3 << 20) == NULL);
        for (int at = 0; at < count; at++) {
            CHECK(is_filled(blocks[at], 2000, (unsigned)at));
            polyheap_free(blocks[at]);
        }
        CHECK(polyheap_trim(heap) > 0);
    }
    CHECK(polyheap_set_limit(heap, 0) == 0);
    void *large = polyheap_heap_malloc(heap, 16 << 20);
    CHECK(large != NULL);
    CHECK(polyheap_destroy(heap) == 0);
}

static void statistics_are_told(void) {
    polyheap_options_t options = {.size = sizeof options};
    options.name = "a \"name\"";
    polyheap_t *heap = polyheap_new_with(&options);
    void *blocks[10];
    for (int at = 0; at < 10; at++) {
        blocks[at] = polyheap_heap_malloc(heap, 1000);
    }
    polyheap_stats_t stats = stats_of(heap);
    CHECK(stats.size == sizeof stats && stats.live_blocks == 10 && stats.live_bytes == 10240);
    CHECK(stats.held_bytes > stats.live_bytes && stats.threads == 1 && stats.regions == 1);

    /* A program that knows less, one that knows more, one that forgot the size. */
    size_t three[4] = {3 * sizeof(size_t), 9, 9, 9};
    CHECK(polyheap_stats(heap, (polyheap_stats_t *)(void *)three) == 0);
    CHECK(three[0] == 3 * sizeof(size_t) && three[1] == 10240 && three[2] == 10 && three[3] == 9);
    struct {
        polyheap_stats_t known;
        size_t unknown;
    } newer = {{.size = 0}, 7};
    newer.known.size = sizeof newer;
    CHECK(polyheap_stats(heap, &newer.known) == 0);
    CHECK(newer.known.live_blocks == 10 && newer.unknown == 0 && newer.known.size == sizeof newer);
    newer.known.size = 0;
    CHECK(polyheap_stats(heap, &newer.known) == EINVAL);

    char text[4096];
    const size_t length = polyheap_stats_json(heap, text, sizeof text);
    CHECK(length == strlen(text) && length < sizeof text);
    CHECK(strncmp(text, "{\"name\":\"a \\\"name\\\"\",\"number\":", 30) == 0);
    CHECK(strstr(text, "\"live_blocks\":10,") != NULL && text[length - 1] == '}');
    CHECK(strstr(text, "\"block_bytes\":1024,\"live_blocks\":10,") != NULL);
    CHECK(polyheap_stats_json(heap, NULL, 0) == length);
    char small[20];
    memset(small, '#', sizeof small);
    CHECK(polyheap_stats_json(heap, small, 10) == length);
    CHECK(memcmp(small, text, 9) == 0 && small[9] == 0 && small[10] == '#');
    puts(text);
    for (int at = 0; at < 10; at++) {
        polyheap_free(blocks[at]);
    }
    CHECK(polyheap_destroy(heap) == 0);
}

struct seen {
    size_t blocks, bytes, most;
    void *last;
};

static int see(void *block, size_t usable_bytes, void *argument) {
    struct seen *seen = argument;
    seen->blocks++;
    seen->bytes += usable_bytes;
    seen->last = block;
    return seen->blocks == seen->most ? 42 : 0;
}

static void walks_see_what_is_live(void) {
    polyheap_t *heap = polyheap_new();
    void *blocks[3][TIER_COUNT];
    for (int round = 0; round < 3; round++) {
        for (size_t tier = 0; tier < TIER_COUNT; tier++) {
            blocks[round][tier] = polyheap_heap_malloc(heap, TIERS[tier]);
        }
    }
    for (size_t tier = 0; tier < TIER_COUNT; tier++) {
        polyheap_free(blocks[1][tier]);
    }
    struct seen seen = {0, 0, 0, NULL};
    CHECK(polyheap_visit_blocks(heap, see, &seen) == 0);
    CHECK(seen.blocks == 2 * TIER_COUNT && seen.bytes == stats_of(heap).live_bytes);
    CHECK(polyheap_heap_usable_size(heap, seen.last) > 0);
    seen = (struct seen){0, 0, 5, NULL};
    CHECK(polyheap_visit_blocks(heap, see, &seen) == 42 && seen.blocks == 5);
    CHECK(polyheap_visit_blocks(heap, NULL, NULL) == 0);
    char text[100] = "untouched";
    CHECK(polyheap_verify(heap, text, sizeof text) == 0 && text[0] == 0);
    CHECK(polyheap_destroy(heap) == 0);
}

int main(void) {
    every_function_of_a_heap();
    ends_of_heaps();
    many_heaps_at_once();
    options_are_heeded_or_refused();
    a_limit_denies_and_recovers();
    statistics_are_told();
    walks_see_what_is_live();
    CHECK(polyheap_verify(polyheap_default(), NULL, 0) == 0);
    puts("well");
    return 0;
}
