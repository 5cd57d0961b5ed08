/* Prints where the members of the structs lie, and the values of the constants. */
#include <polyheap.h>
#include <stdio.h>

#define OPTION(member) printf("options.%s %zu\n", #member, offsetof(polyheap_options_t, member))
#define STAT(member) printf("stats.%s %zu\n", #member, offsetof(polyheap_stats_t, member))
#define VALUE(name) printf("%s %d\n", #name, (int)name)

int main(void) {
    printf("options %zu\n", sizeof(polyheap_options_t));
    OPTION(size);
    OPTION(name);
    OPTION(max_bytes);
    OPTION(soft_max_bytes);
    OPTION(thread_cache_bytes);
    OPTION(thread_large_bytes);
    OPTION(heap_large_bytes);
    OPTION(decay);
    OPTION(decay_ms);
    OPTION(huge_pages);
    OPTION(flags);
    printf("stats %zu\n", sizeof(polyheap_stats_t));
    STAT(size);
    STAT(live_bytes);
    STAT(live_blocks);
    STAT(peak_live_bytes);
    STAT(held_bytes);
    STAT(cached_bytes);
    STAT(kept_large_bytes);
    STAT(dirty_bytes);
    STAT(regions);
    STAT(mappings);
    STAT(threads);
    STAT(denied_by_limit);
    STAT(denied_by_system);
    VALUE(POLYHEAP_NO_THREAD_CACHE);
    VALUE(POLYHEAP_ISOLATED);
    VALUE(POLYHEAP_FOREIGN_FAULT);
    VALUE(POLYHEAP_FOREIGN_LIBC);
    return 0;
}
