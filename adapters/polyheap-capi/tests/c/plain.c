/* The default heap: every function, the rules of errno, sizes that overflow. */
#include "check.h"
#include <errno.h>
#include <polyheap.h>

static void blocks_of_every_tier(void) {
    for (size_t tier = 0; tier < TIER_COUNT; tier++) {
        const size_t size = TIERS[tier];
        void *blocks[8];
        for (unsigned id = 0; id < 8; id++) {
            blocks[id] = polyheap_malloc(size);
            CHECK(blocks[id] != NULL && is_aligned(blocks[id], 16));
            CHECK(polyheap_usable_size(blocks[id]) >= size);
            CHECK(polyheap_owns(blocks[id]));
            fill(blocks[id], polyheap_usable_size(blocks[id]), id);
        }
        for (unsigned id = 0; id < 8; id++) {
            CHECK(is_filled(blocks[id], polyheap_usable_size(blocks[id]), id));
            switch (id % 3) {
            case 0: polyheap_free(blocks[id]); break;
            case 1: polyheap_free_sized(blocks[id], size); break;
            case 2: polyheap_free_aligned_sized(blocks[id], 1, size); break;
            }
        }
    }
}

/* Every byte of the first page, then one here and there. */
static size_t step(size_t at) {
    return at < 4096 ? 1 : 61;
}

static void zeroed_blocks_are_zero(void) {
    for (size_t tier = 0; tier < TIER_COUNT; tier++) {
        for (int round = 0; round < 3; round++) {
            unsigned char *block = polyheap_calloc(TIERS[tier], 2);
            CHECK(block != NULL);
            for (size_t at = 0; at < 2 * TIERS[tier]; at += step(at)) {
                CHECK(block[at] == 0);
            }
            memset(block, 0xff, polyheap_usable_size(block));
            polyheap_free(block);
        }
    }
}

static void blocks_of_zero_bytes_differ(void) {
    void *one = polyheap_malloc(0), *two = polyheap_malloc(0), *three = polyheap_calloc(0, 8);
    CHECK(one != NULL && two != NULL && three != NULL);
    CHECK(one != two && two != three && one != three);
    /* A resize to nothing is no free. */
    void *again = polyheap_realloc(one, 0);
    CHECK(again != NULL && polyheap_owns(again) && polyheap_usable_size(again) > 0);
    polyheap_free(again);
    polyheap_free_sized(two, 0);
    polyheap_free_sized(three, 0);
    polyheap_free(NULL);
    polyheap_free_sized(NULL, 7);
    polyheap_free_aligned_sized(NULL, 8, 7);
    CHECK(polyheap_usable_size(NULL) == 0);
}

static void resizing_keeps_contents(void) {
    for (size_t from = 0; from < TIER_COUNT; from++) {
        for (size_t to = 0; to < TIER_COUNT; to++) {
            unsigned char *block = polyheap_realloc(NULL, TIERS[from]);
            CHECK(block != NULL);
            memset(block, 0x5a, TIERS[from]);
            block = polyheap_realloc(block, TIERS[to]);
            CHECK(block != NULL);
            const size_t kept = TIERS[from] < TIERS[to] ? TIERS[from] : TIERS[to];
            for (size_t at = 0; at < kept; at += step(at)) {
                CHECK(block[at] == 0x5a);
            }
            block = polyheap_reallocarray(block, TIERS[to], 2);
            CHECK(block != NULL && block[kept - 1] == 0x5a);
            CHECK(polyheap_usable_size(block) >= 2 * TIERS[to]);
            polyheap_free(block);
        }
    }
}

static void growing_by_small_steps_is_quick(void) {
    uint64_t *numbers = NULL;
    for (size_t count = 1; count <= 400000; count++) {
        numbers = polyheap_realloc(numbers, count * sizeof *numbers);
        CHECK(numbers != NULL);
        numbers[count - 1] = count;
    }
    for (size_t count = 1; count <= 400000; count++) {
        CHECK(numbers[count - 1] == count);
    }
    polyheap_free(numbers);
}

static void alignments_are_kept_or_refused(void) {
    for (size_t align = 0; align <= 4097; align++) {
        const int is_power = align != 0 && (align & (align - 1)) == 0;
        errno = 0;
        void *block = polyheap_aligned_alloc(hidden(align), 100);
        CHECK((block != NULL) == is_power);
        CHECK(is_power ? is_aligned(block, align) : errno == EINVAL);
        polyheap_free(block);
    }
    for (size_t align = 1; align <= (size_t)1 << 21; align *= 2) {
        const size_t sizes[] = {0, 1, align - 1, align, align + 1, 3 * align};
        for (int which = 0; which < 6; which++) {
            void *block = polyheap_aligned_alloc(align, sizes[which]);
            CHECK(block != NULL && is_aligned(block, align));
            CHECK(polyheap_usable_size(block) >= sizes[which]);
            polyheap_free_aligned_sized(block, align, sizes[which]);
        }
    }
    errno = 0;
    CHECK(polyheap_aligned_alloc(hidden((size_t)1 << 40), 100) == NULL && errno == ENOMEM);
}

static void posix_memalign_leaves_what_it_must(void) {
    int sentinel;
    void *place = &sentinel;
    errno = 99;
    CHECK(polyheap_posix_memalign(&place, hidden(24), 64) == EINVAL && place == &sentinel);
    CHECK(polyheap_posix_memalign(&place, hidden(4), 64) == EINVAL && place == &sentinel);
    CHECK(polyheap_posix_memalign(&place, hidden(0), 64) == EINVAL && place == &sentinel);
    CHECK(polyheap_posix_memalign(&place, 64, hidden(SIZE_MAX - 63)) == ENOMEM);
    CHECK(polyheap_posix_memalign(&place, 64, hidden(PTRDIFF_MAX - 200)) == ENOMEM);
    CHECK(place == &sentinel && errno == 99);
    for (size_t align = sizeof(void *); align <= 65536; align *= 2) {
        CHECK(polyheap_posix_memalign(&place, align, 100) == 0);
        CHECK(place != &sentinel && is_aligned(place, align) && errno == 99);
        polyheap_free(place);
        place = &sentinel;
    }
}

static void is_refused(void *block) {
    CHECK(block == NULL);
    CHECK(errno == ENOMEM);
    errno = 0;
}

static void sizes_that_wrap_are_refused(void) {
    unsigned char *kept = polyheap_malloc(100);
    memset(kept, 7, 100);
    const size_t ends[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 4096, PTRDIFF_MAX};
    errno = 0;
    for (int end = 0; end < 3; end++) {
        for (size_t back = 0; back <= 4096; back++) {
            const size_t size = hidden(ends[end] - back);
            is_refused(polyheap_malloc(size));
            is_refused(polyheap_calloc(1, size));
            is_refused(polyheap_realloc(kept, size));
            is_refused(polyheap_aligned_alloc(16, size));
            is_refused(polyheap_aligned_alloc(1 << 20, size));
        }
    }
    is_refused(polyheap_calloc(hidden(SIZE_MAX / 2), 3));
    is_refused(polyheap_calloc(hidden((size_t)1 << 33), (size_t)1 << 33));
    is_refused(polyheap_reallocarray(kept, hidden(SIZE_MAX / 8), 16));
    is_refused(polyheap_reallocarray(NULL, hidden((size_t)1 << 63), 2));
    for (int at = 0; at < 100; at++) {
        CHECK(kept[at] == 7);
    }
    polyheap_free(kept);
}

static void frees_leave_errno(void) {
    for (size_t tier = 0; tier < TIER_COUNT; tier++) {
        for (int round = 0; round < 40; round++) {
            void *blocks[4];
            for (int at = 0; at < 4; at++) {
                blocks[at] = polyheap_malloc(30 * TIERS[tier]);
            }
            errno = 77;
            for (int at = 0; at < 4; at++) {
                polyheap_free(blocks[at]);
            }
            polyheap_trim_all();
            CHECK(errno == 77);
        }
    }
}

/* Blocks of zero bytes with an alignment, then blocks that would overlap if they were filed wrongly. */
static void aligned_blocks_of_zero_bytes_are_filed_rightly(void) {
    for (size_t align = 1; align <= 65536; align *= 2) {
        enum { COUNT = 200 };
        void *blocks[2 * COUNT];
        void *empty = polyheap_aligned_alloc(align, 0);
        CHECK(empty != NULL && is_aligned(empty, align));
        polyheap_free_aligned_sized(empty, align, 0);
        for (unsigned id = 0; id < 2 * COUNT; id++) {
            const size_t size = id < COUNT ? align : 1;
            blocks[id] = polyheap_malloc(size);
            fill(blocks[id], size, id);
        }
        for (unsigned id = 0; id < 2 * COUNT; id++) {
            CHECK(is_filled(blocks[id], id < COUNT ? align : 1, id));
            polyheap_free(blocks[id]);
        }
    }
}

static void foreign_addresses_are_in_no_heap(void) {
    static int fixed;
    int local;
    const void *places[] = {&fixed, &local, (void *)1, (void *)UINTPTR_MAX, "text"};
    for (int at = 0; at < 5; at++) {
        CHECK(!polyheap_owns(places[at]));
        CHECK(polyheap_heap_of(places[at]) == NULL);
        CHECK(polyheap_usable_size(places[at]) == 0);
    }
    CHECK(!polyheap_owns(NULL));
}

static void foreign_pointers_are_passed_on_when_wished(void) {
    CHECK(polyheap_set_foreign_policy(17) == EINVAL);
    CHECK(polyheap_set_foreign_policy(POLYHEAP_FOREIGN_LIBC) == 0);
    char *text = malloc(40);
    strcpy(text, "made by the C library");
    CHECK(polyheap_usable_size(text) >= 40);
    text = polyheap_realloc(text, 100000);
    CHECK(text != NULL && !polyheap_owns(text) && strcmp(text, "made by the C library") == 0);
    polyheap_free(text);
    polyheap_free_sized(malloc(10), 10);
    CHECK(polyheap_set_foreign_policy(POLYHEAP_FOREIGN_FAULT) == 0);
}

int main(void) {
    CHECK(strcmp(polyheap_version(), POLYHEAP_VERSION) == 0);
    polyheap_set_size_checks(true);
    blocks_of_every_tier();
    zeroed_blocks_are_zero();
    blocks_of_zero_bytes_differ();
    resizing_keeps_contents();
    growing_by_small_steps_is_quick();
    alignments_are_kept_or_refused();
    posix_memalign_leaves_what_it_must();
    sizes_that_wrap_are_refused();
    frees_leave_errno();
    aligned_blocks_of_zero_bytes_are_filed_rightly();
    foreign_addresses_are_in_no_heap();
    foreign_pointers_are_passed_on_when_wished();
    polyheap_stats_t stats = {.size = sizeof stats};
    CHECK(polyheap_stats(polyheap_default(), &stats) == 0);
    CHECK(stats.live_blocks == 0 && stats.live_bytes == 0);
    CHECK(polyheap_verify(polyheap_default(), NULL, 0) == 0);
    puts("well");
    return 0;
}
