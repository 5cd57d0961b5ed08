/* Heaps that come and go under threads that stay: workers allocate and free nothing, the main thread ends
 * the heap and makes the next one, which is soon at the same address. */
#define _GNU_SOURCE
#include "check.h"
#include <polyheap.h>
#include <pthread.h>
#include <sys/resource.h>

enum { WORKERS = 16, ROUNDS = 600, BLOCKS = 100, WARM_ROUNDS = 100, GROWTH_KIB_MAX = 8192 };

static polyheap_t *heap;
static pthread_barrier_t begun, done;

static void *work(void *argument) {
    const unsigned number = (unsigned)(uintptr_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        void *blocks[BLOCKS];
        pthread_barrier_wait(&begun);
        for (unsigned at = 0; at < BLOCKS; at++) {
            blocks[at] = polyheap_heap_malloc(heap, 24 + at);
            CHECK(blocks[at] != NULL);
            fill(blocks[at], 24 + at, number + at);
        }
        /* Some frees, so that the thread keeps blocks of a heap that ends. */
        for (unsigned at = 0; at < BLOCKS; at++) {
            CHECK(is_filled(blocks[at], 24 + at, number + at));
            if (at % 3 == round % 3) {
                polyheap_free(blocks[at]);
            }
        }
        pthread_barrier_wait(&done);
    }
    return NULL;
}

static long most_resident_kib(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

int main(void) {
    CHECK(pthread_barrier_init(&begun, NULL, WORKERS + 1) == 0);
    CHECK(pthread_barrier_init(&done, NULL, WORKERS + 1) == 0);
    pthread_t workers[WORKERS];
    for (int at = 0; at < WORKERS; at++) {
        CHECK(pthread_create(&workers[at], NULL, work, (void *)(uintptr_t)at) == 0);
    }
    long early_kib = 0;
    for (int round = 0; round < ROUNDS; round++) {
        heap = polyheap_new();
        CHECK(heap != NULL);
        pthread_barrier_wait(&begun);
        pthread_barrier_wait(&done);
        polyheap_stats_t stats = {.size = sizeof stats};
        CHECK(polyheap_stats(heap, &stats) == 0);
        /* After the last round they may have left already. */
        CHECK((stats.threads >= 1 || round + 1 == ROUNDS) && stats.threads <= WORKERS);
        CHECK(stats.live_blocks > WORKERS * BLOCKS / 2);
        CHECK(polyheap_destroy(heap) == 0);
        if (round == WARM_ROUNDS) {
            early_kib = most_resident_kib();
        }
    }
    for (int at = 0; at < WORKERS; at++) {
        CHECK(pthread_join(workers[at], NULL) == 0);
    }
    const long late_kib = most_resident_kib();
    printf("%ld KiB, then %ld KiB\n", early_kib, late_kib);
    CHECK(late_kib - early_kib < GROWTH_KIB_MAX);
    puts("well");
    return 0;
}
