/* A library that uses polyheap, to be loaded and unloaded. */
#include "check.h"
#include <polyheap.h>

void *plugin_work(void *argument) {
    polyheap_t *heap = polyheap_new();
    CHECK(heap != NULL);
    for (unsigned round = 0; round < 50; round++) {
        for (size_t tier = 0; tier < TIER_COUNT; tier++) {
            void *blocks[2] = {polyheap_malloc(TIERS[tier]), polyheap_heap_malloc(heap, TIERS[tier])};
            for (int at = 0; at < 2; at++) {
                CHECK(blocks[at] != NULL);
                fill(blocks[at], TIERS[tier], round);
                CHECK(is_filled(blocks[at], TIERS[tier], round));
                polyheap_free(blocks[at]);
            }
        }
    }
    CHECK(polyheap_destroy(heap) == 0);
    return argument;
}

void *plugin_make(size_t size) {
    return polyheap_malloc(size);
}
