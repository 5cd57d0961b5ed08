/* Threads: blocks made by one and freed by another, heaps shared, threads that end, work done in the
 * destructor of a key. */
#include "check.h"
#include <polyheap.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 400, MAILBOXES = 64 };

static polyheap_t *heaps[2];
static _Atomic(void *) mailboxes[MAILBOXES];

static unsigned next(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A block begins with its size and is filled behind it. */
static void *make(unsigned *state) {
    const size_t size = 16 + TIERS[next(state) % (TIER_COUNT - 1)];
    void *block;
    switch (next(state) % 4) {
    case 0: block = polyheap_malloc(size); break;
    case 1: block = polyheap_calloc(1, size); break;
    case 2: block = polyheap_heap_malloc(heaps[0], size); break;
    default: block = polyheap_heap_aligned_alloc(heaps[1], 64, size); break;
    }
    CHECK(block != NULL);
    memcpy(block, &size, sizeof size);
    fill((char *)block + 16, size - 16, (unsigned)size);
    return block;
}

static void end(void *block) {
    size_t size;
    memcpy(&size, block, sizeof size);
    CHECK(is_filled((char *)block + 16, size - 16, (unsigned)size));
    polyheap_free(block);
}

static void *work(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        void *mine = atomic_exchange(&mailboxes[next(&state) % MAILBOXES], make(&state));
        if (mine != NULL) {
            end(mine);
        }
    }
    return NULL;
}

static pthread_key_t key;

static void leave(void *block) {
    /* The thread's last acts: a free, and blocks it never had before. */
    end(block);
    unsigned state = 99;
    for (int round = 0; round < 20; round++) {
        end(make(&state));
    }
}

static void *short_life(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    CHECK(pthread_setspecific(key, make(&state)) == 0);
    return NULL;
}

static void run(int count, void *(*body)(void *)) {
    pthread_t threads[64];
    for (int at = 0; at < count; at++) {
        CHECK(pthread_create(&threads[at], NULL, body, (void *)(uintptr_t)(at + 1)) == 0);
    }
    for (int at = 0; at < count; at++) {
        CHECK(pthread_join(threads[at], NULL) == 0);
    }
}

int main(void) {
    heaps[0] = polyheap_new();
    heaps[1] = polyheap_new();
    CHECK(pthread_key_create(&key, leave) == 0);
    run(THREADS, work);
    for (int round = 0; round < 50; round++) {
        run(1, short_life);
    }
    run(64, short_life);
    for (int at = 0; at < MAILBOXES; at++) {
        void *block = atomic_exchange(&mailboxes[at], NULL);
        if (block != NULL) {
            end(block);
        }
    }
    for (int at = 0; at < 2; at++) {
        polyheap_stats_t stats;
        stats.size = sizeof stats;
        CHECK(polyheap_stats(heaps[at], &stats) == 0);
        CHECK(stats.live_blocks == 0 && polyheap_verify(heaps[at], NULL, 0) == 0);
        CHECK(polyheap_destroy(heaps[at]) == 0);
    }
    /* Heaps made by one thread, used and ended by others. */
    for (int round = 0; round < 20; round++) {
        heaps[0] = polyheap_new();
        heaps[1] = polyheap_new();
        run(4, short_life);
        CHECK(polyheap_destroy(heaps[round % 2]) == 0);
        CHECK(polyheap_delete(heaps[(round + 1) % 2]) == 0);
    }
    CHECK(polyheap_verify(polyheap_default(), NULL, 0) == 0);
    puts("well");
    return 0;
}
