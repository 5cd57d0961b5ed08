/* Forks while other threads are anywhere inside the heaps: every child can do everything. */
#define _GNU_SOURCE
#include "check.h"
#include <polyheap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, FORKS = 60, CHILD_SECONDS = 20 };

static atomic_int is_over;
static polyheap_t *shared;

static void use_all_tiers(polyheap_t *heap, unsigned id) {
    for (size_t tier = 0; tier < TIER_COUNT; tier++) {
        void *block = polyheap_heap_malloc(heap, TIERS[tier]);
        CHECK(block != NULL);
        fill(block, TIERS[tier], id);
        block = polyheap_realloc(block, 2 * TIERS[tier]);
        CHECK(block != NULL && is_filled(block, TIERS[tier] < 4096 ? TIERS[tier] : 4096, id));
        polyheap_free(block);
        polyheap_free(polyheap_heap_calloc(heap, TIERS[tier], 1));
    }
}

static void *churn(void *argument) {
    while (!atomic_load(&is_over)) {
        polyheap_t *own = polyheap_new();
        use_all_tiers(own, (unsigned)(uintptr_t)argument);
        use_all_tiers(shared, 1);
        use_all_tiers(polyheap_default(), 2);
        CHECK(polyheap_destroy(own) == 0);
        polyheap_trim_all();
    }
    return NULL;
}

static void *use_once(void *argument) {
    use_all_tiers(argument, 3);
    return NULL;
}

static int see(void *block, size_t usable_bytes, void *argument) {
    return block == NULL || usable_bytes == 0 || argument != NULL;
}

static void act_as_child(int round, void *from_parent) {
    alarm(CHILD_SECONDS);
    CHECK(is_filled(from_parent, 100, 9));
    polyheap_free(from_parent);
    use_all_tiers(polyheap_default(), 4);
    use_all_tiers(shared, 5);
    polyheap_t *own = polyheap_new();
    use_all_tiers(own, 6);
    CHECK(polyheap_verify(own, NULL, 0) == 0);
    CHECK((round % 2 == 0 ? polyheap_destroy : polyheap_delete)(own) == 0);
    CHECK(setenv("POLYHEAP_TEST", "a value longer than the one before", 1) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_once, shared) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    /* Both wait for whoever is in the heap. What a thread had in hand is lost, so a verification may miss
     * some chunks. */
    CHECK(polyheap_visit_blocks(shared, see, NULL) == 0);
    CHECK(polyheap_destroy(shared) == 0);
    if (round % 3 == 0) {
        exit(7);
    }
    _exit(7);
}

int main(void) {
    shared = polyheap_new();
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) {
        CHECK(pthread_create(&threads[at], NULL, churn, (void *)(uintptr_t)(at + 1)) == 0);
    }
    for (int round = 0; round < FORKS; round++) {
        void *block = polyheap_malloc(100);
        fill(block, 100, 9);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            act_as_child(round, block);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        polyheap_free(block);
        use_all_tiers(shared, 8);
    }
    atomic_store(&is_over, 1);
    for (int at = 0; at < THREADS; at++) {
        CHECK(pthread_join(threads[at], NULL) == 0);
    }
    CHECK(polyheap_destroy(shared) == 0);
    puts("well");
    return 0;
}
